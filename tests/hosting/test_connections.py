"""Connections that ask for nothing or take nothing, against uvicorn with an app of one line."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvicorn

from hosting import connections
from tests.helpers.replicas import in_a_loop

LIMIT = 8
LARGE = 30_000_000  # more than the buffers of both sides
Opened = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def app(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x" * (LARGE if scope["path"] == "/large" else 1)})


def served(work: Callable[[int], Awaitable[None]]) -> None:
    """Run `work` with the port of a server."""

    async def around() -> None:
        with socket.create_server(("127.0.0.1", 0)) as opened:
            config = uvicorn.Config(
                app, http=connections.Connection, lifespan="off", limit_concurrency=LIMIT, log_level="error",
                timeout_graceful_shutdown=1,
            )  # fmt: skip
            server = uvicorn.Server(config)
            serving = asyncio.create_task(server.serve(sockets=[opened]))
            try:
                await asyncio.wait_for(work(opened.getsockname()[1]), 20)
            finally:
                server.should_exit = True
                await serving

    in_a_loop(around())


async def open_at(port: int, sent: bytes = b"") -> Opened:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    return reader, writer


async def status(opened: Opened) -> bytes:
    line = await opened[0].readline()
    return line.split()[1] if line else b"closed"


REQUEST = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: lo"])
def test_one_that_never_asks_is_closed_and_one_that_asked_is_not(monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    monkeypatch.setattr(connections, "FIRST_REQUEST_S", 0.2)

    async def work(port: int) -> None:
        silent, asks = await open_at(port, sent), await open_at(port, REQUEST)
        assert await status(asks) == b"200"
        assert await silent[0].read() == b""
        asks[1].write(REQUEST)
        await asks[0].readuntil(b"\r\n\r\n")
        assert not asks[0].at_eof()

    served(work)


def test_idle_ones_make_room_for_a_visitor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "LEAST_IDLE_S", 0.2)

    async def work(port: int) -> None:
        idle = [await open_at(port, REQUEST * (number % 2)) for number in range(2 * LIMIT)]
        await asyncio.sleep(0.3)
        statuses = []
        for _ in range(2 * LIMIT):
            visitor = await open_at(port, REQUEST)
            statuses.append(await status(visitor))
            visitor[1].close()
        assert b"200" in statuses[-LIMIT:], "room was made"
        assert statuses[-1] == b"200"
        assert idle[0][0].at_eof() or await idle[0][0].read() == b"", "the oldest went"

    served(work)


def test_those_that_have_just_come_do_not_make_room() -> None:
    async def work(port: int) -> None:
        opened = [await open_at(port) for _ in range(LIMIT - 1)]
        for each in opened:
            each[1].write(REQUEST)
            assert await status(each) == b"200"

    served(work)


def test_one_that_takes_nothing_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "LONGEST_PAUSE_S", 0.3)

    async def work(port: int) -> None:
        reader, writer = await open_at(port, REQUEST.replace(b"/ ", b"/large "))
        await asyncio.sleep(0.8)
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(LARGE)
        slow_reader, _ = await open_at(port, REQUEST.replace(b"/ ", b"/large "))
        taken = 0
        while taken < LARGE and (part := await slow_reader.read(1_000_000)):
            taken += len(part)
            await asyncio.sleep(0.03)
        assert taken >= LARGE, "slow, but it takes"
        writer.close()

    served(work)
