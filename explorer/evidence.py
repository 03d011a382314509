"""Filters, charts and tables of the Evidence page."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from explorer import prose, show
from kvmodel import evidence_points, evidence_tables
from kvmodel.case import Case
from kvmodel.charts import evidence as charts
from kvmodel.charts import theme
from kvmodel.evidence_points import Pair


def lead(case: Case) -> None:
    """The errors that matter, and what they mean for the reader's GPU."""
    numbers = evidence_tables.lead_figures(case)
    st.markdown(prose.text("evidence", "lead", numbers))
    st.markdown(prose.text("evidence", "here_measured" if evidence_tables.is_measured(case) else "here_other", numbers))


def filtered() -> tuple[tuple[Pair, ...], tuple[Pair, ...]]:
    """The filters, in the URL; gives the rows of all of them, and those of all but the kind."""
    left, right = st.columns(2)
    with left:
        kinds = picked("kind", evidence_tables.kinds(), evidence_points.FIRST_KINDS)
        models = picked("model", evidence_points.options("model"))
    with right:
        gpus = picked("gpu", evidence_points.options("gpu"))
        engines = picked("engine", evidence_points.options("family"))
    every = evidence_points.chosen((), gpus, models, engines)
    return evidence_points.chosen(kinds, gpus, models, engines), every


def picked(name: str, options: Sequence[str], first: Sequence[str] = ()) -> list[str]:
    return st.multiselect(
        prose.label("evidence", f"filter.{name}"),
        options,
        default=list(first),
        placeholder=prose.label("claims", "filter.all"),
        key=f"rows_{name}",
        bind="query-params",
    )


def show_charts(pairs: Sequence[Pair]) -> None:
    """Model against measurement, and their ratio by length."""
    if not pairs:
        st.info(prose.text("evidence", "none"))
        return
    palette = theme.STREAMLIT
    st.header(prose.label("evidence", "scatter"))
    figure, alt = charts.against_measured(pairs, palette=palette), charts.against_measured_alt(pairs)
    show.chart(figure, alt=alt, key="evidence", shown=(pairs,))
    counts = {"shown": str(len(pairs)), "total": str(len(evidence_points.pairs()))}
    st.caption(prose.text("evidence", "scatter_note", counts))
    st.header(prose.label("evidence", "by_length"))
    if not charts.with_length(pairs):
        st.info(prose.text("evidence", "no_length"))
        return
    figure, alt = charts.by_length(pairs, palette=palette), charts.by_length_alt(pairs)
    show.chart(figure, alt=alt, key="evidence-by-length", shown=(pairs,))
    st.caption(prose.text("evidence", "by_length_note"))


def show_errors(pairs: Sequence[Pair]) -> None:
    st.header(prose.label("evidence", "errors"))
    st.markdown(prose.text("evidence", "errors_lead"))
    columns = ("kind", "n", "median", "p90", "bias", "what")
    show.table("errors", _titles(columns), evidence_tables.error_rows(pairs))


def show_gaps() -> None:
    """What no row or few rows tell of, and what such cases get."""
    st.header(prose.label("evidence", "gaps"))
    numbers = evidence_tables.gap_figures()
    lines = [prose.text("evidence", f"gap_{name}", numbers) for name in ("llama", "chips", "gpus", "links", "mixed")]
    lines += [
        prose.text("evidence", f"gap.{name}", {"rows": str(rows) if rows else prose.label("evidence", "no")})
        for name, rows in evidence_tables.gaps()
    ]
    show.bullets(lines)


def show_sources() -> None:
    """Where the rows are from, and how to work everything out again."""
    st.header(prose.label("evidence", "sources"))
    rows = [
        [f"[{prose.plain(title)}]({url})", count, prose.plain(where), licence]
        for title, url, count, where, licence in evidence_tables.source_rows()
    ]
    show.table("measurements", _titles(("source", "rows", "where", "licence")), rows)
    st.caption(prose.text("evidence", "sources_note"))
    st.header(prose.label("evidence", "again"))
    st.markdown(prose.text("evidence", "again_how"))


def _titles(columns: Sequence[str]) -> list[str]:
    return [prose.label("evidence", f"column.{name}") for name in columns]
