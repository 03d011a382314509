"""Charts, tables and links on a page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import streamlit as st

from explorer.frame import PAGES

UNIT = re.compile(r"([\d.,]+) (?=\S)")
CONFIG = {"displayModeBar": False, "displaylogo": False, "scrollZoom": False}


def chart(figure: Any, *, alt: str, key: str) -> None:
    """One Plotly figure, in the app's colours; `alt` is what a screen reader says instead."""
    st.plotly_chart(figure, theme="streamlit", alt=alt, key=key, config=CONFIG, width="stretch")


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table that scrolls inside its own frame on a phone, no number torn from its unit."""
    kept = [[UNIT.sub("\\1\N{NO-BREAK SPACE}", cell) for cell in cells] for cells in rows]
    columns = {title: [cells[index] for cells in kept] for index, title in enumerate(header)}
    st.table(columns, hide_index=True, width="content")


def bullets(lines: Iterable[str]) -> None:
    st.markdown("\n".join(f"- {line}" for line in lines))


def go_to(page: str, label: str, query: dict[str, str] | None = None) -> None:
    """A link to another page, with inputs to open it with."""
    st.page_link(PAGES[page], label=label, query_params=query)
