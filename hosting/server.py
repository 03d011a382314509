"""Starts uvicorn on a socket of its own, and says in one sentence why where it cannot."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from pathlib import Path
from typing import Any

import uvicorn

from hosting import log
from hosting.settings import Settings

INTERNET = (socket.AF_INET, socket.AF_INET6)
BACKLOG = 2048
STOP_S = 10
KEEP_ALIVE_S = 75  # longer than nginx keeps its side: it never sends on a connection that is just being closed
PING_S = 30
LONGEST_MESSAGE_BYTES = 1_000_000  # widget states are a few KB


def listening(settings: Settings) -> socket.socket:
    """The socket that visitors come to. Raises OSError."""
    family = socket.AF_INET6 if ":" in settings.address else socket.AF_INET
    return socket.create_server((settings.address, settings.port), family=family, backlog=BACKLOG)


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
    try:
        opened = listening(settings)
    except OSError as error:
        sys.exit(f"{settings.address} port {settings.port} cannot be listened on: {os.strerror(error.errno or 0)}.")
    config = uvicorn.Config(
        app,
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
    log.requests.warning("serving on http://%s:%s%s/", settings.address, settings.port, settings.prefix)
    uvicorn.Server(config).run(sockets=[opened])
