"""The verdict of a comparison in sentences, shown the same way on every page."""

from __future__ import annotations

import streamlit as st

from explorer import prose, show
from kvmodel.recovery.comparison import Comparison
from kvmodel.recovery.verdict import Contest
from kvmodel.texts import tables
from kvmodel.texts.comparison import comparison_texts, flip_texts


def headline(result: Comparison) -> None:
    """What the chosen engine would do, and swap against recompute: first what it has."""
    numbers = comparison_texts(result)
    pair, has_swap = pair_text(result, numbers), "swap" in result.inputs.available
    best = prose.text("verdict", best_section(result.verdict.best), numbers)
    lines = [pair, best] if has_swap else [best, f"{prose.text('verdict', 'no_swap')} {pair}"]
    even = prose.text("verdict", "even" if result.even.copy_bytes_per_s else "even_none", numbers)
    for line in (*lines, even):
        st.markdown(line)


def of_engine(result: Comparison) -> None:
    """What the chosen engine would do, below a live sentence on swap and recompute, which tells of delays alone."""
    numbers = comparison_texts(result)
    if result.verdict.objective == "gpu-time":
        st.markdown(pair_text(result, numbers))
    st.markdown(prose.text("verdict", best_section(result.verdict.best), numbers))


def pair_text(result: Comparison, numbers: dict[str, str]) -> str:
    """Swap against recompute, by the objective."""
    pair = result.verdict.swap_or_recompute
    if result.verdict.objective == "gpu-time":
        return prose.text("verdict", "gpu-time_close" if pair.close else "gpu-time", numbers)
    return prose.text("verdict", "close" if pair.close or pair.winner is None else pair.winner, numbers)


def best_section(best: Contest) -> str:
    """Which sentence says who is cheapest of what the engine has."""
    if best.winner is None:
        return "best_unknown"
    if best.runner_up is None:
        return "best_only"
    if best.close:
        return "best_close"
    return "best" if best.factor is not None else "best_no_factor"


def flips(result: Comparison) -> None:
    """What would turn it, nearest first."""
    st.header(prose.label("verdict", "flips_title"))
    lines = [prose.text("verdict", f"flip.{flip.what}", flip_texts(flip)) for flip in result.verdict.flips]
    show.bullets(lines or [prose.text("verdict", "no_flips")])


def prices(result: Comparison) -> None:
    """The three prices of every strategy, those the engine lacks marked."""
    columns = ("strategy", "victim_delay", "range", "gpu", "link", "host", "recomputed")
    rows = [
        [name if available else prose.text("verdict", "absent", {"strategy": name}), *cells]
        for name, available, cells in tables.price_rows(result)
    ]
    show.table("prices", [prose.label("verdict", f"price.{column}") for column in columns], rows)


def sources(result: Comparison) -> None:
    """What the numbers rest on, behind a toggle: the table takes longer than it is looked at."""
    if st.toggle(prose.label("verdict", "sources"), key="sources", bind="query-params"):
        columns = ("figure", "value", "basis", "source")
        header = [prose.label("verdict", f"sources.{name}") for name in columns]
        show.table("sources", header, tables.source_rows(result))
