"""Whose a session is: its files, which its own page asked for, its end, and nobody else's way into it.

Streamlit takes any number of files for any id, and whoever knows the id of a session for its owner; and it keeps what
a visitor gave for two minutes after the last connection, files for longer.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime import get_instance

from hosting import memory, messages
from hosting.pace import Pace
from kvmodel.units import MB

STREAM = "/_stcore/stream"
UPLOAD = re.compile(r".*/_stcore/upload_file/(?P<session>[^/]+)/(?P<file>[^/]+)")
MOST_WIDGETS = 500
REJOIN_S = 30.0  # a connection that broke is opened again within it, or the session is forgotten
MOST_FILES = 8  # of a session: a page has two inputs for files, and asks for another id at each upload
MOST_SESSION_BYTES, MOST_ADDRESS_BYTES, MOST_BYTES = 20 * MB, 60 * MB, 200 * MB  # a scrape has 8 MiB at most
TOO_MUCH = "the files of this {holder} would have {size:.0f} MB; allowed: {most:.0f} MB\n"


@dataclass(eq=False)
class Session:
    """A session of Streamlit's: who opened it, from where, its page, and the bytes of each file, 0 before it came."""

    owner: bytes
    address: str
    page: str = ""
    connections: int = 0
    files: dict[str, int] = field(default_factory=dict)
    widgets: dict[str, str] = field(default_factory=dict)  # kind by id, of the page
    arriving_bytes: int = 0
    ending: asyncio.TimerHandle | None = None

    @property
    def bytes(self) -> int:
        return self.arriving_bytes + sum(self.files.values())


class Sessions:
    """ASGI middleware around Streamlit's own endpoints."""

    def __init__(self, app: ASGIApp, *, most_of_an_address: int, max_body_bytes: int) -> None:
        self._app = app
        self._most_of_an_address = most_of_an_address
        self._max_body_bytes = max_body_bytes
        self._sessions: dict[str, Session] = {}
        self._connections: Counter[str] = Counter()  # by address
        self._pace = Pace(at_once=messages.AT_ONCE_BYTES, per_s=messages.BYTES_PER_S)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        upload = UPLOAD.fullmatch(scope["path"]) if scope["type"] == "http" else None
        if scope["type"] == "websocket" and scope["path"].endswith(STREAM):
            await self._stream(scope, receive, send)
        elif upload and scope["method"] in ("PUT", "DELETE"):
            await self._upload(upload["session"], upload["file"], scope, receive, send)
        else:
            await self._app(scope, receive, send)

    # --- a connection ---

    async def _stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        address = address_of(scope)
        if self._connections[address] >= self._most_of_an_address:
            await receive()
            await send({"type": "websocket.close", "code": 1013})
            return
        self._connections[address] += 1
        owner = secret(scope)
        self._refuse_a_foreign_session(MutableHeaders(scope=scope), owner)
        joined: list[str] = []

        def widgets() -> Mapping[str, str]:
            return self._sessions[joined[-1]].widgets if joined else {}

        async def noted(message: Message) -> None:
            if message.get("bytes"):
                self._note(ForwardMsg.FromString(message["bytes"]), owner, address, joined)
            await send(message)

        try:
            await self._app(scope, messages.taken(receive, send, widgets, self._pace, address), noted)
        finally:
            self._connections[address] -= 1
            self._connections += Counter()  # without those that are at zero
            for session_id in joined:
                self._leave(session_id)

    def _refuse_a_foreign_session(self, headers: MutableHeaders, owner: bytes) -> None:
        """The browser asks for its session anew by the third of the subprotocols, where its connection broke."""
        named = [part.strip() for part in headers.get("sec-websocket-protocol", "").split(",")]
        session = self._sessions.get(named[2]) if len(named) > 2 else None
        if len(named) > 2 and (session is None or not owner or session.owner != owner):
            headers["sec-websocket-protocol"] = ", ".join(named[:2])

    def _note(self, message: ForwardMsg, owner: bytes, address: str, joined: list[str]) -> None:
        """What a message to the browser tells: the session's id, the page it is at, ids of files to come."""
        kind = message.WhichOneof("type")
        if kind == "new_session":
            session_id = message.new_session.initialize.session_id
            session = self._sessions.setdefault(session_id, Session(owner, address))
            if session_id not in joined:
                joined.append(session_id)
                session.connections += 1
                if session.ending is not None:
                    session.ending.cancel()
        elif kind == "navigation" and joined:
            session, page = self._sessions[joined[-1]], message.navigation.page_script_hash
            if session.page not in ("", page):
                free_files(joined[-1])
                session.files.clear()
                session.widgets.clear()
            session.page = page
        elif kind == "delta" and joined:
            element = message.delta.new_element
            widget = element.WhichOneof("type")
            if widget in messages.VALUES and len(self._sessions[joined[-1]].widgets) < MOST_WIDGETS:
                self._sessions[joined[-1]].widgets[getattr(element, widget).id] = widget
        elif kind == "file_urls_response" and joined:
            files = self._sessions[joined[-1]].files
            files |= {file.file_id: 0 for file in message.file_urls_response.file_urls}
            for unused in [file_id for file_id, size in files.items() if not size][:-MOST_FILES]:
                del files[unused]

    def _leave(self, session_id: str) -> None:
        session = self._sessions[session_id]
        session.connections -= 1
        if not session.connections:
            session.ending = asyncio.get_running_loop().call_later(REJOIN_S, self._end, session_id)

    def _end(self, session_id: str) -> None:
        """Nobody came back: all that the session holds goes."""
        held_bytes = self._sessions.pop(session_id).bytes
        get_instance().close_session(session_id)
        free_files(session_id)  # Streamlit's own store of broken sessions may have dropped it, without its files
        if held_bytes:
            memory.give_back()

    # --- files ---

    async def _upload(self, session_id: str, file_id: str, scope: Scope, receive: Receive, send: Send) -> None:
        session = self._sessions.get(session_id)
        if session is None or file_id not in session.files or session.owner != secret(scope):
            await PlainTextResponse("no page of yours asked for this file\n", status_code=403)(scope, receive, send)
            return
        if scope["method"] == "DELETE":
            del session.files[file_id]
            await self._app(scope, receive, send)
            return
        most = int(Headers(scope=scope).get("content-length", str(self._max_body_bytes)))
        refusal = self._refusal(session, most)
        if refusal:
            await PlainTextResponse(refusal, status_code=413)(scope, receive, send)
            return
        self._make_room(session_id, session, most)
        session.arriving_bytes += most
        try:
            await self._app(scope, receive, on_success(send, lambda: session.files.update({file_id: most})))
        finally:
            session.arriving_bytes -= most
            if session_id not in self._sessions:  # it ended meanwhile
                free_files(session_id)

    def _refusal(self, session: Session, size: int) -> str:
        """Why a file of `size` bytes is not taken; empty where it is."""
        held = {
            "page": (session.arriving_bytes, MOST_SESSION_BYTES),
            "address": (
                sum(each.bytes for each in self._sessions.values() if each.address == session.address),
                MOST_ADDRESS_BYTES,
            ),
            "server": (sum(each.bytes for each in self._sessions.values()), MOST_BYTES),
        }
        for holder, (now, most) in held.items():
            if now + size > most:
                return TOO_MUCH.format(holder=holder, size=(now + size) / MB, most=most / MB)
        return ""

    def _make_room(self, session_id: str, session: Session, size: int) -> None:
        """A session's oldest files go where a new one is too much: a page holds no more than its last ones."""
        came = [file_id for file_id, held in session.files.items() if held]
        while came and (len(came) >= MOST_FILES or session.bytes + size > MOST_SESSION_BYTES):
            oldest = came.pop(0)
            del session.files[oldest]
            files: Any = get_instance().uploaded_file_mgr
            files.remove_file(session_id=session_id, file_id=oldest)


def free_files(session_id: str) -> None:
    get_instance().uploaded_file_mgr.remove_session_files(session_id)


def on_success(send: Send, then: Callable[[], None]) -> Send:
    async def noted(message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] < 300:
            then()
        await send(message)

    return noted


def address_of(scope: Scope) -> str:
    """Where a request comes from; a proxy on this machine tells it (X-Forwarded-For)."""
    return str(scope["client"][0]) if scope.get("client") else ""


def secret(scope: Scope) -> bytes:
    """What one browser alone knows: the token in Streamlit's cookie against forged requests; empty without one.

    The cookie holds it under a mask that is another each time: version, mask, masked token, time.
    """
    cookie = cookie_parser(Headers(scope=scope).get("cookie", "")).get("_streamlit_xsrf", "")
    with contextlib.suppress(ValueError):
        _, mask, masked, _ = cookie.split("|")
        key = bytes.fromhex(mask)
        return bytes(byte ^ key[index % len(key)] for index, byte in enumerate(bytes.fromhex(masked)) if key)
    return b""
