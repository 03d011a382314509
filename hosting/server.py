"""Starts uvicorn on a socket of its own, and says in one sentence why where it cannot."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn

from hosting import log, replicas
from hosting.connections import Connection
from hosting.settings import Settings
from hosting.warm import before_the_first_visitor

INTERNET = (socket.AF_INET, socket.AF_INET6)
BACKLOG = 2048
STOP_S = 10
KEEP_ALIVE_S = 75  # longer than nginx keeps its side: it never sends on a connection that is just being closed
PING_S = 30
LONGEST_MESSAGE_BYTES = 1_000_000  # widget states are a few KB


def listening(settings: Settings, port: int) -> socket.socket:
    """A socket that visitors come to. Ends the process where there can be none."""
    family = socket.AF_INET6 if ":" in settings.address else socket.AF_INET
    try:
        return socket.create_server((settings.address, port), family=family, backlog=BACKLOG)
    except OSError as error:
        sys.exit(f"{settings.address} port {port} cannot be listened on: {os.strerror(error.errno or 0)}.")


def send_at_once() -> None:
    """Turn Nagle's delay off on the sockets that this process listens on; their connections inherit it (Linux).

    asyncio does so only where a socket was made with TCP as its protocol, which neither `streamlit run` nor
    Python's own create_server does: a small page then waits 40 ms for the client's acknowledgement.
    """
    folder = Path("/proc/self/fd")
    for name in os.listdir(folder) if folder.is_dir() else ():
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(int(name))) as opened:
            if opened.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) and opened.family in INTERNET:
                opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def run(app: Any, settings: Settings) -> None:
    """Serve until a signal ends it."""
    sockets = [listening(settings, port) for port in settings.ports]
    before_the_first_visitor()
    replicas.run(sockets, partial(serve, app, settings))


def serve(app: Any, settings: Settings, opened: socket.socket, beat: Callable[[], None]) -> None:
    """One replica, in this process; it beats as long as the event loop and the threads behind it work."""
    config = uvicorn.Config(
        app,
        http=Connection,
        ws="websockets-sansio",
        ws_max_size=LONGEST_MESSAGE_BYTES,
        ws_ping_interval=PING_S,
        ws_ping_timeout=PING_S,
        ws_per_message_deflate=False,
        limit_concurrency=settings.max_connections,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=STOP_S,
        access_log=False,  # it would write queries; hosting.log does not
        server_header=False,
        log_level=settings.log_level,
        lifespan="on",
    )
    url = f"http://{settings.address}:{opened.getsockname()[1]}{settings.prefix}/"
    log.requests.warning("serving on %s by process %s", url, os.getpid())
    with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        runner.run(beating(uvicorn.Server(config).serve(sockets=[opened]), beat))


async def beating(serving: Awaitable[None], beat: Callable[[], None]) -> None:
    """Serve, with a beat every BEAT_S."""

    async def beat_on() -> None:
        while True:
            await asyncio.to_thread(beat)
            await asyncio.sleep(replicas.BEAT_S)

    beats = asyncio.create_task(beat_on())
    await serving
    beats.cancel()
