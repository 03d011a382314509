"""Rows of the Scenarios page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from explorer import language, prose, show
from kvmodel.charts import scenarios as charts
from kvmodel.charts import theme
from kvmodel.claims.scenarios import Outcome, Row, condition_text, table
from kvmodel.inputs import addresses
from kvmodel.texts import tables
from kvmodel.words import say


@st.cache_resource(show_spinner=False)
def rows() -> tuple[Row, ...]:
    """The article's rows: they depend on nothing a reader chooses, so they are computed once."""
    return table()


def overview() -> tuple[Any, str]:
    """The chart of all rows, and its alternative text."""
    return overview_in(language.current())


@st.cache_resource(show_spinner=False)
def overview_in(language_code: str) -> tuple[Any, str]:
    """The same, for each language that is spoken."""
    return charts.outcomes(rows(), palette=theme.STREAMLIT), charts.outcomes_alt(rows())


def show_row(row: Row) -> None:
    """What the article says, whether it holds, and every outcome."""
    st.header(prose.label("scenarios", f"row.{row.id}"))
    turns = {"turns": condition_text(row.outcomes[0])}
    st.markdown(
        f"{prose.text('scenarios', f'says.{row.id}')} {prose.text('scenarios', f'verdict.{row.verdict}', turns)}"
    )
    show_outcomes(row.id, row.outcomes)


def show_outcomes(name: str, outcomes: Sequence[Outcome]) -> None:
    """A table line an outcome, and links that open each in Crossover."""
    columns = ("case", "model", "recompute", "copy", "turns")
    header = [prose.label("scenarios", f"column.{column}") for column in columns]
    show.table(f"scenarios-{name}", header, [_cells(each) for each in outcomes])
    with st.expander(prose.label("scenarios", "open")):
        for each in outcomes:
            show.go_to("crossover", _case_label(each), addresses.inputs(each.comparison.case))


def _cells(outcome: Outcome) -> list[str]:
    cells = tables.outcome_cells(outcome)
    section = "pick_only" if outcome.only else "pick_close" if outcome.contest.close else "pick"
    return [
        _case_label(outcome),
        prose.text("scenarios", section, cells),
        cells["recompute"],
        cells["copy"],
        condition_text(outcome),
    ]


def _case_label(outcome: Outcome) -> str:
    return f"{say(outcome.variant)}, {prose.label('scenarios', f'condition.{outcome.condition}')}"
