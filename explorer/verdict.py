"""The verdict of a comparison in sentences, shown the same way on every page."""

from __future__ import annotations

import streamlit as st

from explorer import prose, show
from kvmodel import tables
from kvmodel.comparison import Comparison
from kvmodel.figures import figures, flip_figures


def headline(result: Comparison) -> None:
    """Swap against recompute, then what the chosen engine would do."""
    numbers = figures(result)
    pair, best = result.verdict.swap_or_recompute, result.verdict.best
    st.markdown(prose.text("verdict", "close" if pair.close else pair.winner, numbers))
    st.markdown(prose.text("verdict", "even" if result.even.copy_bytes_per_s else "even_none", numbers))
    if result.verdict.objective == "gpu-time":
        st.markdown(prose.text("verdict", "gpu-time", numbers))
    section = "best_only" if best.runner_up is None else "best_close" if best.close else "best"
    st.markdown(prose.text("verdict", section, numbers))


def flips(result: Comparison) -> None:
    """What would turn it, nearest first."""
    st.subheader(prose.label("verdict", "flips_title"))
    lines = [prose.text("verdict", f"flip.{flip.what}", flip_figures(flip)) for flip in result.verdict.flips]
    show.bullets(lines or [prose.text("verdict", "no_flips")])


def prices(result: Comparison) -> None:
    """The three prices of every strategy, those the engine lacks marked."""
    columns = ("strategy", "victim_delay", "range", "gpu", "link", "host", "recomputed")
    rows = [
        [name if available else prose.text("verdict", "absent", {"strategy": name}), *cells]
        for name, available, cells in tables.price_rows(result)
    ]
    show.table([prose.label("verdict", f"price.{column}") for column in columns], rows)
