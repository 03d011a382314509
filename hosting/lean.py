"""What Streamlit does at every run of a page and need not, or not at the same time as others: for one version of it.

Streamlit gives every visitor a thread. Only one can hold the interpreter, and each that waits for it wakes every few
milliseconds to ask: with fifty visitors all of them are served late. Threads that wait for a lock sleep instead. And
every widget is handed a copy of all that its session holds, to look up one key in it;
and every element of a page wakes the event loop.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import streamlit
from streamlit import runtime
from streamlit.runtime.scriptrunner import get_script_run_ctx

from explorer import aside
from hosting import log
from hosting.turns import Turn

WRITTEN_FOR = "1.67.0"
FLUSH_S = 0.01


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


def address() -> str:
    """Of the visitor whose page runs in this thread; empty where there is none."""
    context = get_script_run_ctx(suppress_warning=True)
    if context is None or not runtime.exists():
        return ""
    client = runtime.get_instance().get_client(context.session_id)
    asked = client.client_context if client else None
    return (asked.remote_ip or "") if asked else ""


def one_script_at_a_time() -> None:
    """Have every run of a page's script wait for its turn."""
    from streamlit.runtime.scriptrunner.script_runner import ScriptRunner

    run, turn = ScriptRunner._run_script, Turn()

    @functools.wraps(run)
    def in_turn(self: Any, *args: Any, **named: Any) -> None:
        with turn.taken(address()):
            run(self, *args, **named)

    ScriptRunner._run_script = in_turn  # type: ignore[method-assign]
    aside.while_waiting(turn.lent)


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
