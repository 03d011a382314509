"""Work of some seconds on a page: begun by a button, with its progress, and stopped by a button or a changed input."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import streamlit as st

from explorer import prose


@dataclass
class Work:
    """What a session has under way for some inputs; a run of the page that is cut short goes on where it was."""

    inputs: Any
    steps: Iterator[Any]
    results: list[Any] = field(default_factory=list)
    over: bool = False


def results(name: str, inputs: Any, begin: Callable[[], Iterator[Any]], total: int) -> list[Any] | None:
    """All that `begin` yields, `total` things at most, once it is done for these inputs; None before.

    `name` is that of two sections of the page's texts, for the button and for the progress.
    """
    key = f"{name}_work"
    work: Work | None = st.session_state.get(key)
    if work is None or work.inputs != inputs:
        st.session_state.pop(key, None)
        if work is not None:
            st.caption(prose.text("pressure", "changed"))
        st.button(
            prose.label("pressure", f"begin.{name}"), key=f"{name}_begin", on_click=_start, args=(key, inputs, begin)
        )
        return None
    if not work.over:
        place = st.empty()
        with place.container():
            bar = st.progress(0.0)
            st.button(prose.label("pressure", "stop"), key=f"{name}_stop", on_click=_stop, args=(key,))
        for step in work.steps:
            work.results.append(step)
            numbers = {"done": str(len(work.results)), "total": str(total)}
            bar.progress(min(len(work.results) / total, 1.0), prose.text("pressure", f"under_way.{name}", numbers))
        work.over = True
        place.empty()
    return work.results


def _start(key: str, inputs: Any, begin: Callable[[], Iterator[Any]]) -> None:
    st.session_state[key] = Work(inputs, begin())


def _stop(key: str) -> None:
    st.session_state.pop(key, None)
