"""Several replicas of the server, forked from one process that has imported everything: they share its memory.

Each listens on a port of its own, since a session lives in one process and a proxy has to keep a visitor with it. One
that ends is started again on the same socket, within the time of a fork.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from hosting import log

HANDLED = (signal.SIGTERM, signal.SIGINT, signal.SIGALRM)
SHORT_LIFE_S = 10.0
PAUSE_S = 1.0  # before one that lived shortly is started again
LONGEST_END_S = 12  # what a replica may take to end, its visitors' requests with it


def run(sockets: Sequence[socket.socket], serve: Callable[[socket.socket], None]) -> None:
    """One process a socket, in which `serve` runs; returns when a signal has ended all of them.

    A second signal, or LONGEST_END_S after the first, kills those that are left.
    """
    children: dict[int, tuple[socket.socket, float]] = {}
    ending = False
    lifeline = os.pipe()

    def start(opened: socket.socket) -> None:
        with held_back():
            if ending:
                return
            pid = os.fork()
            if pid == 0:
                _live(opened, sockets, lifeline, serve)
            children[pid] = (opened, time.monotonic())

    def end(*_: Any) -> None:
        nonlocal ending
        for pid in children:
            with contextlib.suppress(ProcessLookupError):  # it has just ended by itself
                os.kill(pid, signal.SIGKILL if ending else signal.SIGTERM)
        ending = True
        signal.alarm(LONGEST_END_S)

    for number in HANDLED:
        signal.signal(number, end)
    gc.collect()
    gc.freeze()  # a collection would write to all that is shared
    for opened in sockets:
        start(opened)
    while children:
        pid, status = os.wait()
        with held_back():
            opened, since_s = children.pop(pid)
        if ending:
            continue
        code = os.waitstatus_to_exitcode(status)
        log.requests.error("the replica on port %s ended with %s: started again", opened.getsockname()[1], code)
        if time.monotonic() - since_s < SHORT_LIFE_S:
            time.sleep(PAUSE_S)
        start(opened)


@contextlib.contextmanager
def held_back() -> Iterator[None]:
    """Signals wait while a child is not yet, or no longer, in the list of those that a signal ends."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _live(
    mine: socket.socket,
    sockets: Sequence[socket.socket],
    lifeline: tuple[int, int],
    serve: Callable[[socket.socket], None],
) -> None:
    """In the child, which never comes back from here."""
    code = 1
    try:
        for number in HANDLED:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)
        os.close(lifeline[1])
        threading.Thread(target=_end_with_parent, args=(lifeline[0],), daemon=True).start()
        for opened in sockets:
            if opened is not mine:
                opened.close()
        serve(mine)
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except Exception:
        log.requests.exception("the replica on port %s failed", mine.getsockname()[1])
    finally:
        os._exit(code)


def _end_with_parent(lifeline: int) -> None:
    os.read(lifeline, 1)  # returns when nobody holds the other end any more
    os.kill(os.getpid(), signal.SIGTERM)
