"""Connections that ask for nothing: closed in time, and first where there is no room for a visitor."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from uvicorn.protocols.http.h11_impl import H11Protocol

FIRST_REQUEST_S = 10.0
LONGEST_PAUSE_S = 30.0  # of a client that takes nothing of what it asked for
CROWDED = 0.5  # of the connections that are allowed: from there on those that are idle make room
LEAST_IDLE_S = 1.0

_used_s: OrderedDict[Connection, float] = OrderedDict()  # the longest unused first


class Connection(H11Protocol):
    """uvicorn's connection, which waits for a first request as long as the client likes."""

    deadline: asyncio.TimerHandle | None = None
    pause: asyncio.TimerHandle | None = None

    @property
    def is_idle(self) -> bool:
        """Whether no request is under way; a session's connection (a websocket) is no longer one of these."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.deadline = self.loop.call_later(FIRST_REQUEST_S, self._end_without_request)
        _used_s[self] = self.loop.time()
        if self.limit_concurrency and len(self.connections) > CROWDED * self.limit_concurrency:
            make_room(self.loop.time())

    def data_received(self, data: bytes) -> None:
        if self in _used_s:
            _used_s[self] = self.loop.time()
            _used_s.move_to_end(self)
        super().data_received(data)
        if not isinstance(self.transport.get_protocol(), Connection):  # it has become a websocket
            self._forget()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._end_unless_it_takes(self.transport.get_write_buffer_size() + 1)

    def _end_unless_it_takes(self, left_bytes: int) -> None:
        """Look again in a while whether less is left to send than now."""
        now_bytes = self.transport.get_write_buffer_size()
        if now_bytes >= left_bytes:
            self.transport.abort()
        else:
            self.pause = self.loop.call_later(LONGEST_PAUSE_S, self._end_unless_it_takes, now_bytes)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.pause is not None:
            self.pause.cancel()

    def _end_without_request(self) -> None:
        if self.is_idle:
            self.transport.close()

    def _forget(self) -> None:
        _used_s.pop(self, None)
        for timer in (self.deadline, self.pause):
            if timer is not None:
                timer.cancel()


def make_room(now_s: float) -> None:
    """Close the connection that has been idle longest."""
    for each, used_s in _used_s.items():
        if now_s - used_s < LEAST_IDLE_S:
            return
        if each.is_idle and not each.transport.is_closing():
            each.transport.close()
            return
