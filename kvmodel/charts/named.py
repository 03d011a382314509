"""Every chart by its name, drawn for a Case: for the command line, files and addresses.

Pages call the draw functions of the files beside this one, with results they have.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from kvmodel.charts import (
    capacity,
    crossover,
    evidence,
    home,
    kv_size,
    labels,
    load_curve,
    pressure,
    roofline,
    scenarios,
)
from kvmodel.charts import copy_rates as rates
from kvmodel.charts.series import Row
from kvmodel.charts.theme import LIGHT, STREAMLIT, Palette
from kvmodel.claims import figure19
from kvmodel.claims import scenarios as scenario_table
from kvmodel.curves import copy_rate, curves, roofline_points
from kvmodel.errors import refused
from kvmodel.evidence import measured_points
from kvmodel.inputs.case import Case
from kvmodel.memory import kv_cache, pool_plan
from kvmodel.recovery import parts
from kvmodel.recovery.comparison import Comparison, compare_case
from kvmodel.simulation import servers

BESIDE = ("llama-2-7b", "llama-3-8b", "llama-3-70b", "gemma-3-27b", "deepseek-v3")


@dataclass(frozen=True)
class _Chart:
    """What a chart shows (the arguments of its functions), and its three functions."""

    shows: Callable[[Case], tuple[Any, ...]]
    figure: Callable[..., go.Figure]
    words: Callable[..., str]
    rows: Callable[..., list[Row]]


def _parts(case: Case) -> tuple[Any, ...]:
    return (parts.parts(compare_case(case).inputs),)


def _plan(case: Case) -> tuple[Any, ...]:
    return (pool_plan.plan(pool_plan.Startup(case=case)),)


def _first_evidence(case: Case) -> tuple[Any, ...]:
    return (measured_points.pairs_with(measured_points.FIRST_KINDS),)


def _pressure(case: Case) -> tuple[Any, ...]:
    """The Pressure page's first view of a Case."""
    pressure = servers.Pressure(case=case)
    runs = {scheduler: servers.run(pressure, scheduler) for scheduler in pressure.schedulers}
    return runs, servers.load_text(pressure, next(iter(runs.values())))


def _load_curve(case: Case) -> tuple[Any, ...]:
    return servers.curves(servers.Pressure(case=case))


def _of(compute: Callable[[Comparison], Any]) -> Callable[[Case], tuple[Any, ...]]:
    return lambda case: (compute(compare_case(case)),)


_CHARTS = {
    "timeline": _Chart(_parts, home.timeline, home.timeline_alt, home.timeline_points),
    "kv-size": _Chart(
        _of(lambda result: curves.kv_by_length(result, BESIDE)),
        kv_size.kv_by_length, kv_size.kv_by_length_alt, kv_size.kv_by_length_points,
    ),
    "capacity": _Chart(_plan, capacity.memory_bar, capacity.memory_bar_alt, capacity.memory_bar_points),
    "roofline": _Chart(
        _of(roofline_points.roofline_of), roofline.roofline, roofline.roofline_alt, roofline.roofline_points
    ),
    "step-time": _Chart(
        _of(roofline_points.step_curve), roofline.step_time, roofline.step_time_alt, roofline.step_time_points
    ),
    "crossover": _Chart(
        _of(curves.cost_by_length),
        crossover.cost_by_length, crossover.cost_by_length_alt, crossover.cost_by_length_points,
    ),
    "block-size": _Chart(
        _of(lambda result: curves.cost_by_block(result, kv_cache.LAYOUTS)),
        crossover.cost_by_block, crossover.cost_by_block_alt, crossover.cost_by_block_points,
    ),
    "copy-rate": _Chart(
        _of(copy_rate.copy_rates), rates.copy_rates, rates.copy_rates_alt, rates.copy_rates_points,
    ),
    "winner-map": _Chart(
        _of(curves.winner_map), crossover.winner_map, crossover.winner_map_alt, crossover.winner_map_points,
    ),
    "preemptions": _Chart(
        _of(curves.cost_by_preemptions),
        crossover.cost_by_preemptions, crossover.cost_by_preemptions_alt, crossover.cost_by_preemptions_points,
    ),
    "parts": _Chart(
        _parts, crossover.stacked_parts, crossover.stacked_parts_alt, crossover.stacked_parts_points
    ),
    "pressure": _Chart(_pressure, pressure.by_second, pressure.by_second_alt, pressure.by_second_points),
    "load-curve": _Chart(
        _load_curve, load_curve.load_curve, load_curve.load_curve_alt, load_curve.load_curve_points
    ),
    "figure19": _Chart(
        lambda case: (figure19.figure19(),), crossover.figure19, crossover.figure19_alt, crossover.figure19_points
    ),
    "scenarios": _Chart(
        lambda case: (scenario_table.table(),), scenarios.outcomes, scenarios.outcomes_alt, scenarios.outcomes_points
    ),
    "evidence": _Chart(
        _first_evidence, evidence.against_measured, evidence.against_measured_alt, evidence.evidence_points
    ),
    "evidence-by-length": _Chart(
        _first_evidence, evidence.by_length, evidence.by_length_alt, evidence.by_length_points
    ),
}  # fmt: skip
NAMES = tuple(_CHARTS)
WITHOUT_CASE = ("figure19", "scenarios", "evidence", "evidence-by-length")


def draw(name: str, case: Case, *, palette: Palette = LIGHT, data: tuple[Any, ...] | None = None) -> go.Figure:
    """A chart by name, computed for a Case, with a footer that says for which where no page does.

    `data` is what it draws in place of what the Case alone says: other models beside it, other measurements.
    Raises CaseError, one sentence, on an unknown name or a Case that does not fit.
    """
    chart = _chart(name)
    fig = chart.figure(*(data or chart.shows(case)), palette=palette)
    return fig if palette is STREAMLIT else labels.footer(fig, None if name in WITHOUT_CASE else case, palette)


def alt(name: str, case: Case, data: tuple[Any, ...] | None = None) -> str:
    """The chart's key numbers in words."""
    chart = _chart(name)
    return chart.words(*(data or chart.shows(case)))


def points(name: str, case: Case, data: tuple[Any, ...] | None = None) -> list[Row]:
    """The plotted numbers, base units in the column names, a row an x; None for what is unknown."""
    chart = _chart(name)
    return chart.rows(*(data or chart.shows(case)))


def _chart(name: str) -> _Chart:
    if name not in _CHARTS:
        raise refused("chart", repr(name), ", ".join(NAMES))
    return _CHARTS[name]
