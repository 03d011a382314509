"""Whose page runs next: one at a time, fair to addresses.

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

LONGEST_TURN_S = 0.25  # a page takes a fifth of that; a question to another server may take much longer
# Of an address, seconds of the processor: a reader who moves an input each second takes 0.06 a second.
AT_ONCE_S, PER_S = 0.5, 0.3
OTHERS_S = 2.0  # others are there that had a turn within so long
LONGEST_REST_S = 0.5  # then it looks again whether others are there


class Turn:
    """What one thread has at a time; who keeps it too long goes on beside the next one.

    Those of one address have it in the order of asking; of several addresses each has it once before one has it again.
    And while there are several, each rests after it has used its share: in the order of asking alone, the others would
    wait for the page under way each time, and share the interpreter with the sending of the one before.
    """

    def __init__(self, longest_s: float = LONGEST_TURN_S) -> None:
        self._share = Pace(at_once=AT_ONCE_S, per_s=PER_S)
        self._last_s: dict[str, float] = {}  # when each address had its last turn
        self._longest_s = longest_s
        self._lines: OrderedDict[str, deque[threading.Event]] = OrderedDict()  # by address, the next one first
        self._next: threading.Event | None = None
        self._lines_are_changed = threading.Lock()
        self._taken = threading.Lock()
        self._mine = threading.local()  # the lock that a thread has, and for which address

    @property
    def waiting(self) -> int:
        with self._lines_are_changed:
            return sum(map(len, self._lines.values())) + (self._next is not None)

    @contextmanager
    def taken(self, address: str = "") -> Iterator[None]:
        while rest_s := self._rest_s(address, time.monotonic()):
            time.sleep(min(rest_s, LONGEST_REST_S))
        self._take(address)
        begun_s = time.thread_time()
        try:
            yield
        finally:
            self._mine.lock.release()
            del self._mine.lock
            self._note(address, time.thread_time() - begun_s, time.monotonic())

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Let others have it while this thread, if it has it, waits for something else."""
        if not hasattr(self._mine, "lock"):
            yield
            return
        self._mine.lock.release()
        try:
            yield
        finally:
            self._take(self._mine.address)

    def _take(self, address: str) -> None:
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
        self._mine.lock, self._mine.address = mine, address

    def _rest_s(self, address: str, now_s: float) -> float:
        """For how long it used more than its share, while others are there."""
        others = any(now_s - last_s < OTHERS_S for other, last_s in self._last_s.copy().items() if other != address)
        return self._share.above_s(address, now_s) if others else 0.0

    def _note(self, address: str, used_s: float, now_s: float) -> None:
        with self._lines_are_changed:
            self._last_s = {name: last_s for name, last_s in self._last_s.items() if now_s - last_s < OTHERS_S}
            self._last_s[address] = now_s
            self._share.use(address, used_s, now_s)

    def _choose(self) -> None:
        """Who is next; that one's address goes behind all others."""
        self._next = None
        if self._lines:
            address, line = self._lines.popitem(last=False)
            self._next = line.popleft()
            self._next.set()
            if line:
                self._lines[address] = line
