"""Pages are worked out one after the other, in the order in which they were asked for.

Streamlit gives every visitor a thread. Only one can hold the interpreter, and each that waits for it wakes every few
milliseconds to ask: with fifty visitors all of them are served late, at twice the processor time. Threads that wait
for a lock sleep instead.
"""

from __future__ import annotations

import functools
import threading
from typing import Any

from streamlit.runtime.scriptrunner.script_runner import ScriptRunner

TURN = threading.Lock()


def one_script_at_a_time() -> None:
    """Have every run of a page's script wait for its turn."""
    run = ScriptRunner._run_script

    @functools.wraps(run)
    def in_turn(self: ScriptRunner, *args: Any, **named: Any) -> None:
        with TURN:
            run(self, *args, **named)

    ScriptRunner._run_script = in_turn  # type: ignore[method-assign]
