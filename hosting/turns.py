"""Whose page runs next: one at a time, fair to addresses, and beside them those who used much of late.

Streamlit gives every visitor a thread. Only one can hold the interpreter, and each that waits for it wakes every few
milliseconds to ask; threads that wait for a lock sleep instead.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Iterator
from contextlib import contextmanager

from hosting.pace import Pace

LONGEST_TURN_S = 0.1  # a page takes half of that; a simulation or a question to another server may take much longer
LONGEST_LONG_TURN_S = 10.0
# Seconds of the processor. A reader who moves an input each second takes 0.06 a second; ten of them share an address.
SESSION_S, ADDRESS_S = {"at_once": 0.5, "per_s": 0.15}, {"at_once": 2.0, "per_s": 0.5}


class Turn:
    """What one thread has at a time; who keeps it too long goes on beside the next one.

    Those of one address have it in the order of asking; of several addresses each has it once before one has it again.
    """

    def __init__(self, longest_s: float = LONGEST_TURN_S) -> None:
        self._longest_s = longest_s
        self._lines: OrderedDict[str, deque[threading.Event]] = OrderedDict()  # by address, the next one first
        self._next: threading.Event | None = None
        self._lines_are_changed = threading.Lock()
        self._taken = threading.Lock()

    @property
    def waiting(self) -> int:
        with self._lines_are_changed:
            return sum(map(len, self._lines.values())) + (self._next is not None)

    @contextmanager
    def taken(self, address: str = "") -> Iterator[None]:
        first = threading.Event()
        with self._lines_are_changed:
            self._lines.setdefault(address, deque()).append(first)
            if self._next is None:
                self._choose()
        first.wait()
        mine = self._taken
        if not mine.acquire(timeout=self._longest_s):
            mine = self._taken = threading.Lock()
            mine.acquire()
        with self._lines_are_changed:
            self._choose()
        try:
            yield
        finally:
            mine.release()

    def _choose(self) -> None:
        """Who is next; that one's address goes behind all others."""
        self._next = None
        if self._lines:
            address, line = self._lines.popitem(last=False)
            self._next = line.popleft()
            self._next.set()
            if line:
                self._lines[address] = line


class Turns:
    """One turn for pages, and one beside it for those who used much of the processor of late."""

    def __init__(self) -> None:
        self._short, self._long = Turn(), Turn(LONGEST_LONG_TURN_S)
        self._of_session, self._of_address = Pace(**SESSION_S), Pace(**ADDRESS_S)

    @contextmanager
    def taken(self, session_id: str, address: str) -> Iterator[None]:
        now_s = time.monotonic()
        is_slow = self._of_session.is_above(session_id, now_s) or self._of_address.is_above(address, now_s)
        with (self._long if is_slow else self._short).taken(address):
            begun_s = time.thread_time()
            try:
                yield
            finally:
                used_s, now_s = time.thread_time() - begun_s, time.monotonic()
                self._of_session.use(session_id, used_s, now_s)
                self._of_address.use(address, used_s, now_s)
