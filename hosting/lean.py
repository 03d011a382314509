"""What Streamlit does at every run of a page and need not, or not at the same time as others: for one version of it.

Streamlit gives every visitor a thread. Only one can hold the interpreter, and each that waits for it wakes every few
milliseconds to ask: with fifty visitors all of them are served late. Threads that wait for a lock sleep instead. And
every widget is handed a copy of all that its session holds, to look up one key in it;
and every element of a page wakes the event loop.
"""

from __future__ import annotations

import functools
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import streamlit
from streamlit import runtime
from streamlit.runtime.scriptrunner import get_script_run_ctx

from hosting import log

WRITTEN_FOR = "1.67.0"
FLUSH_S = 0.01
LONGEST_TURN_S = 0.25  # a page takes a fifth of that; a simulation or a question to another server may take much longer
LONGEST_LONG_TURN_S = 10.0
SLOW_FOR_S, MOST_SLOW = 10.0, 1000


def spare_work() -> None:
    """Replace three inner functions of Streamlit; another version than the one they were written for runs as it is."""
    if streamlit.__version__ != WRITTEN_FOR:
        log.requests.warning(
            "Streamlit %s runs as it is: what the hosted form spares it was written for %s",
            streamlit.__version__, WRITTEN_FOR,
        )  # fmt: skip
        return
    one_script_at_a_time()
    state_read_where_it_is_looked_at()
    messages_in_bundles()


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
    """One turn for pages, and one beside it for sessions whose pages took long of late: of these one runs at a time."""

    def __init__(self) -> None:
        self._short, self._long = Turn(), Turn(LONGEST_LONG_TURN_S)
        self._slow_until_s: OrderedDict[str, float] = OrderedDict()  # by session

    @contextmanager
    def taken(self, session_id: str, address: str) -> Iterator[None]:
        is_slow = time.monotonic() < self._slow_until_s.get(session_id, 0.0)
        with (self._long if is_slow else self._short).taken(address):
            begun_s = time.thread_time()
            try:
                yield
            finally:
                if time.thread_time() - begun_s > LONGEST_TURN_S:
                    self._slow_until_s[session_id] = time.monotonic() + SLOW_FOR_S
                    self._slow_until_s.move_to_end(session_id)
                    if len(self._slow_until_s) > MOST_SLOW:
                        self._slow_until_s.popitem(last=False)


def asked_by() -> tuple[str, str]:
    """Session and address of the visitor whose page runs in this thread; empty where there is none."""
    context = get_script_run_ctx(suppress_warning=True)
    if context is None or not runtime.exists():
        return "", ""
    client = runtime.get_instance().get_client(context.session_id)
    asked = client.client_context if client else None
    return context.session_id, (asked.remote_ip or "") if asked else ""


def one_script_at_a_time() -> None:
    """Have every run of a page's script wait for its turn."""
    from streamlit.runtime.scriptrunner.script_runner import ScriptRunner

    run, turns = ScriptRunner._run_script, Turns()

    @functools.wraps(run)
    def in_turn(self: Any, *args: Any, **named: Any) -> None:
        with turns.taken(*asked_by()):
            run(self, *args, **named)

    ScriptRunner._run_script = in_turn  # type: ignore[method-assign]


class Looked(Mapping[str, Any]):
    """A session's state that is read where it is looked at: every widget asks for its own key alone."""

    def __init__(
        self, state: Mapping[str, Any], whole: Callable[[], dict[str, Any]], hidden: Callable[[str], bool]
    ) -> None:
        self._state, self._whole, self._hidden = state, whole, hidden

    def __getitem__(self, key: str) -> Any:
        if self._hidden(key):
            raise KeyError(key)
        return self._state[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._whole())

    def __len__(self) -> int:
        return len(self._whole())


def state_read_where_it_is_looked_at() -> None:
    """Spare each widget a copy of all that the session holds."""
    from streamlit.runtime.state.common import is_element_id
    from streamlit.runtime.state.session_state import SessionState, _is_internal_key

    whole: Any = SessionState.__dict__["filtered_state"]

    def hidden(key: str) -> bool:
        return is_element_id(key) or _is_internal_key(key)

    def looked(self: Any) -> Looked:
        return Looked(self, functools.partial(whole.__get__, self), hidden)

    SessionState.filtered_state = property(looked)  # type: ignore[method-assign, assignment]


def messages_in_bundles() -> None:
    """Hand what a script sends to the event loop a few times a run, in order, not once an element.

    Each handing wakes the loop's thread, which then takes the interpreter from the script. What is held back waits
    for FLUSH_S at most, so that progress is shown all the same.
    """
    from streamlit.runtime.app_session import AppSession

    waiting: WeakKeyDictionary[AppSession, deque[Callable[[], None]]] = WeakKeyDictionary()
    awaited: WeakSet[AppSession] = WeakSet()
    unbundled = AppSession._call_soon_on_event_loop

    def drain(session: AppSession) -> None:
        awaited.discard(session)
        callbacks = waiting[session]
        while callbacks:
            session._event_loop.call_soon(callbacks.popleft())

    def later(session: AppSession) -> None:
        session._event_loop.call_later(FLUSH_S, drain, session)

    def bundled(self: AppSession, callback: Callable[[], None]) -> None:
        waiting.setdefault(self, deque()).append(callback)
        if self not in awaited:
            awaited.add(self)
            unbundled(self, functools.partial(later, self))

    AppSession._call_soon_on_event_loop = bundled  # type: ignore[method-assign]
