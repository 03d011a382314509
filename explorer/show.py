"""Charts, tables and links on a page."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow
import streamlit as st

from explorer import controls, export
from explorer.frame import PAGES
from kvmodel import charts
from kvmodel.case import DEFAULTS, case_from

UNIT = re.compile(r"([\d.,]+) (?=\S)")
UNTORN = "\\1\N{NO-BREAK SPACE}"
CONFIG = {"displayModeBar": False, "displaylogo": False, "scrollZoom": False}
# plotly's own camera, for a server that cannot draw pictures
CAMERA = CONFIG | {
    "displayModeBar": "hover",
    "modeBarButtons": [["toImage"]],
    "toImageButtonOptions": {"format": "svg", "filename": "chart"},
}


def chart(figure: Any, *, alt: str, key: str, name: str | None = None, shown: tuple[Any, ...] | None = None) -> None:
    """One Plotly figure, in the app's colours, and its export menu; `alt` is what a screen reader says instead.

    `name` is the chart's in kvmodel.charts, where that is not its key; `shown` what it draws, where the inputs
    alone do not say it.
    """
    config = CONFIG if export.has_pictures() else CAMERA
    st.plotly_chart(figure, theme="streamlit", alt=alt, key=key, config=config, width="stretch")
    if (name or key) in charts.NAMES:
        export.menu(name or key, case_from(st.session_state.get(controls.KEPT, DEFAULTS)), shown)


@functools.lru_cache(maxsize=4096)
def together(text: str) -> str:
    """Numbers that a line's end does not part from their units."""
    return UNIT.sub(UNTORN, text)


def untorn(texts: dict[str, str]) -> dict[str, str]:
    return {name: together(text) for name, text in texts.items()}


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table that scrolls inside its own frame on a phone, no number torn from its unit."""
    kept = [list(map(together, cells)) for cells in rows]
    columns = {title: [cells[index] for cells in kept] for index, title in enumerate(header)}
    # Streamlit would take the columns too, but by way of pandas: 9 ms in place of 0.3.
    st.table(pyarrow.table(columns), hide_index=True, width="content")


def bullets(lines: Iterable[str]) -> None:
    st.markdown("\n".join(f"- {line}" for line in lines))


def go_to(page: str, label: str, query: dict[str, str] | None = None) -> None:
    """A link to another page, with inputs to open it with."""
    st.page_link(PAGES[page], label=label, query_params=query)
