"""A replica of the hosted form, plain requests to it, and visitors that open links over the app's own websocket."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest
from streamlit.proto.WidgetStates_pb2 import WidgetStates
from websockets.sync.client import ClientConnection, connect

from benchmarks.pages import asked, received

T = TypeVar("T")
ROOT = Path(__file__).resolve().parents[2]
HOST = "kv.example.com"
START_S, STOP_S, ANSWER_S = 60, 10, 30


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


def ask(url: str, host: str | None = None, method: str = "GET", **headers: str) -> Answer:
    """One request, redirects not followed; header names with underscores for dashes."""
    named = {name.replace("_", "-"): value for name, value in headers.items()} | ({"Host": host} if host else {})
    request = urllib.request.Request(url, headers=named, method=method)
    opener = urllib.request.build_opener(NoRedirect)
    try:
        with opener.open(request, timeout=ANSWER_S) as answer:
            return Answer(answer.status, lower(answer.headers), answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, lower(error.headers), error.read())


def lower(headers: object) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}  # type: ignore[attr-defined]


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


@dataclass
class Replica:
    """A running server and what it wrote."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path
    prefix: str = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{self.prefix}"

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """At once, with the processes that it holds, so that none is started again."""
        pid = self.process.pid
        children: list[str] = []
        with suppress(OSError):  # not on Linux
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        self.process.kill()
        self.process.wait(STOP_S)
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(int(child), signal.SIGKILL)


def wait_until_ready(replica: Replica) -> None:
    deadline = time.monotonic() + START_S
    while True:
        with suppress(OSError):
            if ask(f"{replica.url}/readyz").status == 200:
                return
        if replica.process.poll() is not None or time.monotonic() > deadline:
            pytest.fail(f"the server did not start:\n{replica.log.read_text()[-2000:]}")
        time.sleep(0.1)


@dataclass
class Shown:
    """What a page sent: its charts as JSON, its texts, and whether an exception was shown."""

    charts: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    failed: bool = False


def in_a_loop(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine, in a thread of its own: a browser test before leaves its loop running in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


def visit(port: int, query: str = "", *, page: str = "", path: str = "", host: str = "", cookie: str = "") -> Shown:
    """Open a page as a browser does, with this query, and wait for the end of its script."""
    with visitor(port, path=path, host=host, cookie=cookie) as connection:
        return run_script(connection, query, page)


def visitor(port: int, *, path: str = "", host: str = "", cookie: str = "") -> ClientConnection:
    opened = socket.create_connection(("127.0.0.1", port), timeout=ANSWER_S)
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    headers = {"Cookie": cookie} if cookie else {}
    address = f"ws://{host or f'127.0.0.1:{port}'}{path}/_stcore/stream"
    return connect(address, sock=opened, additional_headers=headers, max_size=None, open_timeout=ANSWER_S)


def run_script(connection: ClientConnection, query: str, page: str) -> Shown:
    connection.send(asked(page, WidgetStates(), query=query))
    shown = Shown()
    for message in received(connection, ANSWER_S):
        element = message.delta.new_element
        kind = element.WhichOneof("type")
        if kind == "plotly_chart":
            shown.charts.append(element.plotly_chart.spec)
        elif kind in ("markdown", "alert"):
            shown.texts.append(element.markdown.body or element.alert.body)
        shown.failed = shown.failed or kind == "exception"
    return shown


def cookie_of(replica: Replica) -> str:
    """Streamlit's cookie against forged requests, as a new browser gets it."""
    return ask(f"{replica.url}/_stcore/health").headers["set-cookie"].split(";")[0]


def opened(replica: Replica, cookie: str, session_id: str = "") -> ClientConnection:
    token = cookie.partition("=")[2]
    protocols: Any = ["streamlit", token.replace("|", "%7C") and "x", *([session_id] if session_id else [])]
    return connect(
        f"ws://127.0.0.1:{replica.port}/_stcore/stream", additional_headers={"Cookie": cookie}, max_size=None,
        open_timeout=ANSWER_S, subprotocols=protocols,
    )  # fmt: skip


def session_of(connection: ClientConnection, page: str = "diagnose") -> str:
    """Open a page; the session's id."""
    connection.send(asked(page, WidgetStates()))
    first = next(m for m in received(connection, ANSWER_S) if m.WhichOneof("type") == "new_session")
    return first.new_session.initialize.session_id
