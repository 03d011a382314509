"""What a visitor may ask of a session: against the server, and each limit from both sides."""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.sync.client import ClientConnection

from hosting import sessions
from hosting.sessions import Session, Sessions
from tests.helpers.machine import wait_for
from tests.helpers.replicas import ANSWER_S, Replica, ask, cookie_of, in_a_loop, opened, run_script, session_of

BOUNDARY = "part"
Sent = list[dict[str, Any]]


def address_for_a_file(connection: ClientConnection, session_id: str, names: tuple[str, ...] = ("a.prom",)) -> str:
    """The path that the server gives for a file that the page wants to send."""
    message = BackMsg()
    message.file_urls_request.request_id = "1"
    message.file_urls_request.session_id = session_id
    message.file_urls_request.file_names.extend(names)
    connection.send(message.SerializeToString())
    while True:
        answer = ForwardMsg.FromString(connection.recv(timeout=ANSWER_S))
        if answer.WhichOneof("type") == "file_urls_response":
            return answer.file_urls_response.file_urls[0].upload_url


def put(replica: Replica, path: str, cookie: str, size: int = 10) -> int:
    """Send a file as the page does; the status."""
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="f"; filename="a.prom"\r\n\r\n'
    body = head.encode() + b"x" * size + f"\r\n--{BOUNDARY}--\r\n".encode()
    connection = http.client.HTTPConnection("127.0.0.1", replica.port, timeout=ANSWER_S)
    headers = {
        "Cookie": cookie, "X-Xsrftoken": cookie.partition("=")[2],
        "Content-Type": f"multipart/form-data; boundary={BOUNDARY}",
    }  # fmt: skip
    connection.request("PUT", path, body, headers)
    status = connection.getresponse().status
    connection.close()
    return status


def held_bytes(replica: Replica) -> int:
    """What Streamlit says it holds of uploaded files."""
    text = ask(f"{replica.url}/_stcore/metrics").text
    lines = [line for line in text.splitlines() if "UploadedFileManager" in line and not line.startswith("#")]
    return sum(int(float(line.split()[-1])) for line in lines)


def test_files_of_a_page_are_taken_bounded_and_gone_with_it(replica: Replica) -> None:
    cookie, other = cookie_of(replica), cookie_of(replica)
    before = held_bytes(replica)
    with opened(replica, cookie) as connection:
        session_id = session_of(connection)
        path = address_for_a_file(connection, session_id)
        assert put(replica, path, other) == 403, "another browser"
        assert put(replica, f"{path}x", cookie) == 403, "no page asked for it"
        assert put(replica, path, cookie) == 204
        for _ in range(6):
            path = address_for_a_file(connection, session_id)
            assert put(replica, path, cookie, 8_000_000) == 204
        wait_for(lambda: held_bytes(replica) == before + 16_000_000)  # the last two; the figure is of the last 5 s
        assert not run_script(connection, "", "roofline").failed
        wait_for(lambda: held_bytes(replica) == before)


def test_a_session_belongs_to_the_browser_that_opened_it(replica: Replica) -> None:
    cookie, other = cookie_of(replica), cookie_of(replica)
    with opened(replica, cookie) as connection:
        session_id = session_of(connection)
    for stranger in (other, "_streamlit_xsrf=none", "_streamlit_xsrf=2|00|00|1"):
        with opened(replica, stranger, session_id) as connection:
            assert session_of(connection) != session_id
    with opened(replica, cookie, session_id) as connection:
        assert session_of(connection) == session_id, "its own comes back"


@dataclass
class Runtime:
    """In place of Streamlit's."""

    closed: list[str] = field(default_factory=list)
    freed: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)

    @property
    def uploaded_file_mgr(self) -> Runtime:
        return self

    def close_session(self, session_id: str) -> None:
        self.closed.append(session_id)

    def remove_session_files(self, session_id: str) -> None:
        self.freed.append(session_id)

    def remove_file(self, *, session_id: str, file_id: str) -> None:
        self.removed.append(file_id)


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Runtime:
    made = Runtime()
    monkeypatch.setattr(sessions, "get_instance", lambda: made)
    return made


async def taking(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body"})


OWNER = "_streamlit_xsrf=2|00|6d696e65|1"  # the token of which is "mine"


async def status_of(limits: Sessions, session_id: str, file_id: str, size: int | None, method: str = "PUT") -> int:
    """The status of one request with a body announced, or not."""
    headers = [(b"cookie", OWNER.encode())] + ([(b"content-length", b"%d" % size)] if size is not None else [])
    scope = {
        "type": "http", "method": method, "path": f"/kv/_stcore/upload_file/{session_id}/{file_id}", "headers": headers,
    }  # fmt: skip
    sent: Sent = []

    async def keep(message: Any) -> None:
        sent.append(message)

    async def nothing() -> Any:
        return {"type": "http.request"}

    await limits(scope, nothing, keep)
    return int(sent[0]["status"])


def limits_with(holders: dict[str, Session]) -> Sessions:
    limits = Sessions(taking, most_of_an_address=2, max_body_bytes=9_000_000)
    limits._sessions = holders
    return limits


def session(address: str = "a", **files: int) -> Session:
    return Session(b"mine", address, files=files)


@pytest.mark.parametrize(
    ("others", "most"),
    [
        pytest.param({}, sessions.MOST_SESSION_BYTES, id="of a page"),
        pytest.param(
            {f"s{n}": session(f=sessions.MOST_ADDRESS_BYTES // 4) for n in range(3)},
            sessions.MOST_ADDRESS_BYTES // 4, id="of an address",
        ),
        pytest.param(
            {f"s{n}": session(str(n), f=sessions.MOST_BYTES // 16) for n in range(15)},
            sessions.MOST_BYTES // 16, id="of the server",
        ),
    ],
)  # fmt: skip
def test_bytes_of_files(runtime: Runtime, others: dict[str, Session], most: int) -> None:
    for size, status in ((most, 204), (most + 1, 413)):
        limits = limits_with({**others, "mine": session(new=0)})
        assert in_a_loop(status_of(limits, "mine", "new", size)) == status


def test_the_oldest_files_make_room(runtime: Runtime) -> None:
    full = {f"f{n}": 1 for n in range(sessions.MOST_FILES)}
    mine = session(**full, new=0)
    assert in_a_loop(status_of(limits_with({"mine": mine}), "mine", "new", 5)) == 204
    assert runtime.removed == ["f0"]
    assert (mine.files["new"], len(mine.files)) == (5, sessions.MOST_FILES)
    mine = session(old=sessions.MOST_SESSION_BYTES - 5, new=0)
    assert in_a_loop(status_of(limits_with({"mine": mine}), "mine", "new", 5)) == 204
    assert "old" in mine.files
    mine.files["newer"] = 0
    assert in_a_loop(status_of(limits_with({"mine": mine}), "mine", "newer", 1)) == 204
    assert "old" not in mine.files


def test_a_body_that_is_not_announced_counts_as_the_largest(runtime: Runtime) -> None:
    mine = session(new=0)
    assert in_a_loop(status_of(limits_with({"mine": mine}), "mine", "new", None)) == 204
    assert mine.files["new"] == 9_000_000


def test_a_file_is_taken_back(runtime: Runtime) -> None:
    mine = session(f=5)
    assert in_a_loop(status_of(limits_with({"mine": mine}), "mine", "f", None, "DELETE")) == 204
    assert mine.files == {}
    assert in_a_loop(status_of(limits_with({"mine": mine}), "mine", "f", None, "DELETE")) == 403


def new_session(session_id: str) -> dict[str, Any]:
    message = ForwardMsg()
    message.new_session.initialize.session_id = session_id
    return {"type": "websocket.send", "bytes": message.SerializeToString()}


def answering(session_id: str, until: Callable[[], Any]) -> Any:
    """An app that opens this session and stays until it is told to end."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(new_session(session_id))
        await until()

    return app


async def connected(limits: Sessions, address: str = "a") -> Sent:
    sent: Sent = []

    async def keep(message: Any) -> None:
        sent.append(message)

    async def nothing() -> Any:
        return {"type": "websocket.connect"}

    scope = {"type": "websocket", "path": "/kv/_stcore/stream", "client": (address, 1), "headers": []}
    await limits(scope, nothing, keep)
    return sent


def test_sessions_of_an_address() -> None:
    async def three() -> list[Sent]:
        go = asyncio.Event()
        limits = Sessions(answering("s", go.wait), most_of_an_address=2, max_body_bytes=1)
        tasks = [asyncio.create_task(connected(limits, address)) for address in "aaab"]
        await asyncio.sleep(0)
        go.set()
        return await asyncio.gather(*tasks)

    *taken, refused, other = in_a_loop(three())
    assert [len(sent) for sent in (*taken, other)] == [1, 1, 1]
    assert refused == [{"type": "websocket.close", "code": 1013}]


def test_a_session_ends_a_while_after_its_last_connection(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "REJOIN_S", 0.2)

    async def left() -> None:
        limits = Sessions(answering("s", lambda: asyncio.sleep(0)), most_of_an_address=2, max_body_bytes=1)
        await connected(limits)
        await asyncio.sleep(0.1)
        await connected(limits)  # it is back
        await asyncio.sleep(0.15)
        assert runtime.closed == []
        await asyncio.sleep(0.15)
        assert (runtime.closed, runtime.freed) == (["s"], ["s"])

    in_a_loop(left())


def test_the_cookies_token_is_the_same_under_every_mask(replica: Replica) -> None:
    def token(cookie: str) -> bytes:
        return sessions.secret({"type": "http", "headers": [(b"cookie", cookie.encode())]})

    cookie = cookie_of(replica)
    again = ask(f"{replica.url}/_stcore/health", Cookie=cookie).headers["set-cookie"].split(";")[0]
    assert cookie != again
    assert token(cookie) == token(again) != token(cookie_of(replica))
    assert token(OWNER) == b"mine"
    for junk in ("", "_streamlit_xsrf=", "_streamlit_xsrf=2|xx|yy|1", "_streamlit_xsrf=2||00|1", "a=b"):
        assert token(junk) == b""
