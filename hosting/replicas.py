"""Replicas of the server, forked from one process that has imported everything: they share its memory.

Each listens on a port of its own, since a session lives in one process and a proxy has to keep a visitor with it. One
that ends is started again on the same socket, within the time of a fork; one that no longer beats is ended.
"""

from __future__ import annotations

import contextlib
import gc
import mmap
import os
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hosting import log

HANDLED = (signal.SIGTERM, signal.SIGINT, signal.SIGALRM)
LOOK_S = 0.25
BEAT_S, HUNG_S = 0.5, 5.0  # a beat comes; none came
START_S = 30.0  # until the first
SHORT_LIFE_S = 10.0
PAUSE_S, LONGEST_PAUSE_S = 1.0, 30.0  # before one that lived shortly is started again, each time longer
MOST_SHORT_LIVES = 4  # in a row, of each: then none can live
LONGEST_END_S = 12  # what a replica may take to end, its visitors' requests with it
COUNT = struct.Struct("Q")
Serve = Callable[[socket.socket, Callable[[], None]], None]


@dataclass(eq=False)
class Replica:
    """One socket and the process that serves it; `pid` is None where it is to be started at `start_s`."""

    opened: socket.socket
    beats: mmap.mmap  # COUNT, written by the process
    pid: int | None = None
    start_s: float = 0.0
    seen_beats: int = 0
    seen_s: float = 0.0  # when the count was another last
    short_lives: int = 0

    @property
    def port(self) -> int:
        return int(self.opened.getsockname()[1])

    def beat(self) -> None:
        """Called in the process."""
        self.beats[: COUNT.size] = COUNT.pack(COUNT.unpack(self.beats[: COUNT.size])[0] + 1)

    def is_hung(self, now_s: float) -> bool:
        count = COUNT.unpack(self.beats[: COUNT.size])[0]
        if count != self.seen_beats:
            self.seen_beats, self.seen_s = count, now_s
        return self.pid is not None and now_s - self.seen_s > HUNG_S


def run(sockets: Sequence[socket.socket], serve: Serve) -> None:
    """One process a socket, in which `serve` runs and beats; returns when a signal has ended all of them.

    A second signal, or LONGEST_END_S after the first, kills those that are left. Ends with one sentence where no
    replica can live.
    """
    replicas = [Replica(opened, mmap.mmap(-1, COUNT.size)) for opened in sockets]
    ending = False
    lifeline = os.pipe()

    def start(replica: Replica) -> None:
        with held_back():
            if ending:
                return
            replica.start_s = time.monotonic()
            replica.seen_s = replica.start_s + START_S - HUNG_S
            replica.pid = os.fork()
            if replica.pid == 0:
                _live(replica, sockets, lifeline, serve)

    def end(*_: Any) -> None:
        nonlocal ending
        for replica in replicas:
            send(replica, signal.SIGKILL if ending else signal.SIGTERM)
        ending = True
        signal.alarm(LONGEST_END_S)

    for number in HANDLED:
        signal.signal(number, end)
    gc.collect()
    gc.freeze()  # a collection would write to all that is shared
    last_look_s = time.monotonic()
    while True:
        now_s = time.monotonic()
        for replica in replicas:
            if replica.pid is None and not ending and now_s >= replica.start_s:
                start(replica)
            elif replica.pid is not None:
                look_after(replica, now_s, was_away=now_s - last_look_s > HUNG_S / 2, ending=ending)
        living = [replica for replica in replicas if replica.pid is not None]
        if ending and not living:
            return
        if not ending and all(replica.short_lives >= MOST_SHORT_LIVES for replica in replicas):
            end()
            sys.exit(f"no replica lives for {SHORT_LIFE_S:.0f} s, {MOST_SHORT_LIVES} tries: its log lines say why.")
        last_look_s = now_s
        time.sleep(LOOK_S)


def look_after(replica: Replica, now_s: float, *, was_away: bool, ending: bool) -> None:
    """End the process that does not beat, and plan another for one that has ended.

    `was_away`: this process itself did not run for a while, as when the machine is paused; then nor did the replica.
    """
    if was_away:
        replica.seen_s = now_s
    if not ending and replica.is_hung(now_s):
        log.requests.error("the replica on port %s has not moved for %.0f s: ended", replica.port, HUNG_S)
        send(replica, signal.SIGKILL)
    with held_back():
        pid, status = os.waitpid(replica.pid or 0, os.WNOHANG)
        if pid == 0:
            return
        replica.pid = None
    if ending:
        return
    lived_shortly = now_s - replica.start_s < SHORT_LIFE_S
    replica.short_lives = replica.short_lives + 1 if lived_shortly else 0
    replica.start_s = now_s + min(PAUSE_S * replica.short_lives, LONGEST_PAUSE_S)
    code = os.waitstatus_to_exitcode(status)
    log.requests.error("the replica on port %s ended with %s: started again", replica.port, code)


def send(replica: Replica, number: signal.Signals) -> None:
    if replica.pid is not None:
        with contextlib.suppress(ProcessLookupError):  # it has just ended by itself
            os.kill(replica.pid, number)


@contextlib.contextmanager
def held_back() -> Iterator[None]:
    """Signals wait while a child is not yet, or no longer, known to those that a signal ends."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _live(mine: Replica, sockets: Sequence[socket.socket], lifeline: tuple[int, int], serve: Serve) -> None:
    """In the child, which never comes back from here."""
    code = 1
    try:
        for number in HANDLED:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)
        os.close(lifeline[1])
        threading.Thread(target=_end_with_parent, args=(lifeline[0],), daemon=True).start()
        for opened in sockets:
            if opened is not mine.opened:
                opened.close()
        serve(mine.opened, mine.beat)
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except Exception:
        log.requests.exception("the replica on port %s failed", mine.port)
    finally:
        os._exit(code)


def _end_with_parent(lifeline: int) -> None:
    os.read(lifeline, 1)  # returns when nobody holds the other end any more
    os.kill(os.getpid(), signal.SIGTERM)
