"""Logs that say what happened, and nothing of what a visitor gave: no query, no address, no message of an exception."""

from __future__ import annotations

import logging
import re
import time
import traceback
from types import TracebackType
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kvmodel.units import MS

requests = logging.getLogger("hosting.requests")
QUIET = ("/healthz", "/readyz", "/_stcore/health")  # probes come every few seconds
LONGEST_PATH = 80
OF_A_VISITOR = re.compile(r"(/(?:_stcore/upload_file|media)/).*", re.DOTALL)  # ids of sessions, and of what they made
Raised = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


def set_up(level: str) -> None:
    """One line an event on standard error; exceptions of all loggers without their messages."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    requests.handlers, requests.propagate = [handler], False
    requests.setLevel(level.upper())
    made = logging.getLogRecordFactory()
    if not getattr(made, "without_messages", False):
        logging.setLogRecordFactory(_without_messages(made))


def _without_messages(made: Any) -> Any:
    """A record factory whose records tell where an exception came from and of what type it is.

    Its message may hold what a visitor gave: every formatter takes the text that a record already has.
    """

    def factory(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record: logging.LogRecord = made(*args, **kwargs)
        if record.exc_info:
            record.exc_text = where(record.exc_info)
        return record

    factory.without_messages = True  # type: ignore[attr-defined]
    return factory


def where(raised: Raised) -> str:
    """The frames of an exception, then its type."""
    kind, _, trace = raised
    frames = "".join(traceback.format_tb(trace))
    return f"Traceback (most recent call last):\n{frames}{kind.__name__ if kind else 'no exception'}"


class RequestLog:
    """ASGI middleware: method, path, status and time of each request."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].endswith(QUIET):
            await self._app(scope, receive, send)
            return
        start = time.perf_counter()
        status = 500  # where the app raises before it answers

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noted)
        finally:
            taken_ms = (time.perf_counter() - start) / MS
            requests.info("%s %s %s %.0f ms", scope["method"], path_of(scope["path"]), status, taken_ms)


def path_of(path: str) -> str:
    """A path in one line, whatever it holds, without the ids that a visitor's pages were given."""
    return OF_A_VISITOR.sub(r"\1...", path)[:LONGEST_PATH].encode("unicode_escape").decode("ascii")
