"""Charts, tables and links on a page."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from typing import Any

import streamlit as st

from explorer import controls, page_tables, share
from explorer.frame import PAGES
from kvmodel import charts
from kvmodel.charts.series import Row
from kvmodel.inputs.case import DEFAULTS, Case, case_from

UNIT = re.compile(r"(\d) (?=\S)")
SHORT = 16  # letters
UNTORN = "\\1\N{NO-BREAK SPACE}"
CONFIG = {"displayModeBar": False, "displaylogo": False, "scrollZoom": False}
# plotly's own camera, for a server that cannot draw pictures
CAMERA = CONFIG | {
    "displayModeBar": "hover",
    "modeBarButtons": [["toImage"]],
    "toImageButtonOptions": {"format": "svg", "filename": "chart"},
}


def chart(
    figure: Any,
    *,
    alt: str,
    key: str,
    name: str | None = None,
    case: Case | None = None,
    chart_data: tuple[Any, ...] | None = None,
    points: list[Row] | None = None,
) -> None:
    """One Plotly figure, in the app's colours, and its export menu; `alt` is what a screen reader says instead.

    `name` is the chart's in kvmodel.charts, where that is not its key; `case` what it is drawn for, where that is not
    what the controls hold; `chart_data` what it draws, where the inputs alone do not say it. `points` are the plotted
    numbers of a chart that has no name there.
    """
    config = CONFIG if share.has_pictures() else CAMERA
    st.plotly_chart(figure, theme="streamlit", alt=alt, key=key, config=config, width="stretch")
    if (name or key) in charts.NAMES:
        chart_case = case or case_from(st.session_state.get(controls.LAST_INPUTS, DEFAULTS))
        share.menu(name or key, chart_case, chart_data, key)
    elif points is not None:
        share.points_menu(key, points)


@functools.lru_cache(maxsize=4096)
def together(text: str) -> str:
    """Numbers that a line's end does not part from their units, nor a short range or pair in two."""
    if len(text) > SHORT:
        return UNIT.sub(UNTORN, text)
    return text.replace(" – ", " –\N{WORD JOINER} ").replace(" ", "\N{NO-BREAK SPACE}")


def untorn(texts: dict[str, str]) -> dict[str, str]:
    return {name: together(text) for name, text in texts.items()}


def table(name: str, header: Sequence[str], rows: Iterable[Sequence[str]], *, foreign: bool = False) -> None:
    """A table to read, no number torn from its unit; `name` is the stem of its files, once on a page.

    `foreign` says that cells hold what a visitor gave.
    """
    untorn_rows = [list(map(together, cells)) for cells in rows]
    page_tables.show(page_tables.Table(name, header, untorn_rows, foreign))


def bullets(lines: Iterable[str]) -> None:
    st.markdown("\n".join(f"- {line}" for line in lines))


def go_to(page: str, label: str, query: dict[str, str] | None = None) -> None:
    """A link to another page, with inputs to open it with."""
    st.page_link(PAGES[page], label=label, query_params=query)
