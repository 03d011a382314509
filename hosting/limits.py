"""Requests that are refused before anything is done for them."""

from __future__ import annotations

import asyncio
import time

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hosting.pace import Pace

LONGEST_PATH = 2_000
LONGEST_BODY_S = 30.0  # the largest file at 2.4 Mbit/s
MESSAGES_AT_ONCE, MESSAGES_PER_S = 10, 4  # of one visitor; a control sends one when it is let go


class Limits:
    """ASGI middleware: no long path, no body above `max_body_bytes` or that comes slowly, and no flood of messages."""

    def __init__(self, app: ASGIApp, *, max_body_bytes: int) -> None:
        self._app = app
        self._max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, paced(receive) if scope["type"] == "websocket" else receive, send)
            return
        if len(scope["path"]) > LONGEST_PATH:
            await PlainTextResponse("path too long", status_code=414)(scope, receive, send)
            return
        announced = Headers(scope=scope).get("content-length", "0")
        if not announced.isdigit() or int(announced) > self._max_body_bytes:
            await PlainTextResponse("body too large", status_code=413)(scope, receive, send)
            return
        await self._app(scope, self._counted(receive), send)

    def _counted(self, receive: Receive) -> Receive:
        """A body ends, as if the client had gone, where it grows too large unannounced, or takes too long."""
        taken, end_s, is_whole = 0, time.monotonic() + LONGEST_BODY_S, False

        async def counted() -> Message:
            nonlocal taken, is_whole
            try:
                message = await asyncio.wait_for(receive(), None if is_whole else end_s - time.monotonic())
            except TimeoutError:
                return {"type": "http.disconnect"}
            is_whole = not message.get("more_body", False)
            taken += len(message.get("body", b""))
            return {"type": "http.disconnect"} if taken > self._max_body_bytes else message

        return counted


def paced(receive: Receive) -> Receive:
    """Messages of one visitor no faster than MESSAGES_PER_S after the first few.

    Each may ask for a run of a page, and a run takes the others' time: 200 at once kept all of them waiting for 15 s.
    """
    pace = Pace(at_once=MESSAGES_AT_ONCE, per_s=MESSAGES_PER_S)

    async def one() -> Message:
        message = await receive()
        await asyncio.sleep(pace.use("", 1, time.monotonic()))
        return message

    return one
