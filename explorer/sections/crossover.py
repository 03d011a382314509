"""Presets, views and break-even sentences of the Crossover page."""

from __future__ import annotations

from typing import Any

import streamlit as st

from explorer import choice, controls, prose
from kvmodel.charts import copy_rates, crossover, theme
from kvmodel.claims import figure19
from kvmodel.curves import copy_rate, curves
from kvmodel.memory import kv_cache
from kvmodel.recovery.comparison import Comparison

PRESETS = ("figure19", "article", "today")
VIEWS = ("length", "block-size", "copy-rate", "winner-map", "preemptions", "figure19")


@st.cache_resource(show_spinner=False)
def paper() -> figure19.Figure19:
    """The vLLM paper's figure: it depends on nothing a reader chooses."""
    return figure19.figure19()


def presets() -> None:
    """Buttons that put a known setting into the controls."""
    st.caption(prose.label("crossover", "presets"))
    with st.container(horizontal=True):
        for name in PRESETS:
            controls.preset(prose.label("crossover", f"preset.{name}"), name)


def view() -> str:
    """Which chart is shown; in the URL, so that a link shows the same one."""
    names = {name: prose.label("crossover", f"view_name.{name}") for name in VIEWS}
    return choice.one_of("view", prose.label("crossover", "view"), names)


def chart_name(view: str) -> str:
    """What kvmodel.charts calls the chart of a view."""
    return "crossover" if view == "length" else view


def draw(name: str, result: Comparison) -> tuple[Any, str]:
    """The figure of a view and its alternative text."""
    palette = theme.STREAMLIT
    if name == "block-size":
        blocks = curves.cost_by_block(result, kv_cache.LAYOUTS)
        return crossover.cost_by_block(blocks, palette=palette), crossover.cost_by_block_alt(blocks)
    if name == "copy-rate":
        rates = copy_rate.copy_rates(result)
        return copy_rates.copy_rates(rates, palette=palette), copy_rates.copy_rates_alt(rates)
    if name == "winner-map":
        winners = curves.winner_map(result)
        return crossover.winner_map(winners, palette=palette), crossover.winner_map_alt(winners)
    if name == "preemptions":
        repeated = curves.cost_by_preemptions(result)
        return crossover.cost_by_preemptions(repeated, palette=palette), crossover.cost_by_preemptions_alt(repeated)
    if name == "figure19":
        return crossover.figure19(paper(), palette=palette), crossover.figure19_alt(paper())
    lengths = curves.cost_by_length(result)
    return crossover.cost_by_length(lengths, palette=palette), crossover.cost_by_length_alt(lengths)


def break_evens(result: Comparison, numbers: dict[str, str]) -> list[str]:
    """One sentence a break-even; where there is none, that."""
    names = ("copy_bytes_per_s", "bytes_per_copy", "context_tokens", "survival", "preemptions")
    exists = {name: getattr(result.even, name) is not None for name in names}
    return [prose.text("crossover", f"even.{name}" + ("" if exists[name] else ".none"), numbers) for name in names]
