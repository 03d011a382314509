"""Filters, charts and tables of the Evidence page."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from explorer import prose, show
from kvmodel.charts import evidence as charts
from kvmodel.charts import theme
from kvmodel.evidence import measured_points
from kvmodel.evidence.measured_points import Pair
from kvmodel.inputs.case import Case
from kvmodel.texts import evidence


def lead(case: Case) -> None:
    """The errors that matter, and what they mean for the reader's GPU."""
    numbers = evidence.lead_texts(case)
    st.markdown(prose.text("evidence", "lead", numbers))
    st.markdown(prose.text("evidence", "here_measured" if evidence.is_measured(case) else "here_other", numbers))


def filters() -> tuple[tuple[Pair, ...], tuple[Pair, ...]]:
    """The filters, in the URL; gives the rows of all of them, and those of all but the kind."""
    left, right = st.columns(2)
    with left:
        kinds = filter_values("kind", evidence.kinds(), measured_points.FIRST_KINDS)
        models = filter_values("model", measured_points.options("model"))
    with right:
        gpus = filter_values("gpu", measured_points.options("gpu"))
        engines = filter_values("engine", measured_points.options("family"))
    every = measured_points.pairs_with((), gpus, models, engines)
    return measured_points.pairs_with(kinds, gpus, models, engines), every


def filter_values(name: str, options: Sequence[str], first: Sequence[str] = ()) -> list[str]:
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
    show.chart(figure, alt=alt, key="evidence", chart_data=(pairs,))
    counts = {"shown": str(len(pairs)), "total": str(len(measured_points.pairs()))}
    st.caption(prose.text("evidence", "scatter_note", counts))
    st.header(prose.label("evidence", "by_length"))
    if not charts.with_length(pairs):
        st.info(prose.text("evidence", "no_length"))
        return
    figure, alt = charts.by_length(pairs, palette=palette), charts.by_length_alt(pairs)
    show.chart(figure, alt=alt, key="evidence-by-length", chart_data=(pairs,))
    st.caption(prose.text("evidence", "by_length_note"))


def show_errors(pairs: Sequence[Pair]) -> None:
    st.header(prose.label("evidence", "errors"))
    st.markdown(prose.text("evidence", "errors_lead"))
    columns = ("kind", "n", "median", "p90", "bias", "what")
    show.table("errors", _titles(columns), evidence.error_rows(pairs))


def show_gaps() -> None:
    """What no row or few rows tell of, and what such cases get."""
    st.header(prose.label("evidence", "gaps"))
    numbers = evidence.gap_texts()
    lines = [prose.text("evidence", f"gap_{name}", numbers) for name in ("llama", "chips", "gpus", "links", "mixed")]
    lines += [
        prose.text("evidence", f"gap.{name}", {"rows": str(rows) if rows else prose.label("evidence", "no")})
        for name, rows in evidence.gaps()
    ]
    show.bullets(lines)


def show_sources() -> None:
    """Where the rows are from, and how to work everything out again."""
    st.header(prose.label("evidence", "sources"))
    rows = [
        [f"[{prose.escaped(title)}]({url})", count, prose.escaped(where), licence]
        for title, url, count, where, licence in evidence.source_rows()
    ]
    show.table("measurements", _titles(("source", "rows", "where", "licence")), rows)
    st.caption(prose.text("evidence", "sources_note"))
    st.header(prose.label("evidence", "again"))
    st.markdown(prose.text("evidence", "again_how"))


def _titles(columns: Sequence[str]) -> list[str]:
    return [prose.label("evidence", f"column.{name}") for name in columns]
