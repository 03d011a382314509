"""Swap or recompute: cost against length and preemptions, and the map of who wins where."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from kvmodel.charts import labels, series, theme
from kvmodel.charts.blocks import (
    cost_by_block,
    cost_by_block_alt,
    cost_by_block_points,
    figure19,
    figure19_alt,
    figure19_points,
)
from kvmodel.charts.breakdown import stacked_parts, stacked_parts_alt, stacked_parts_points
from kvmodel.charts.theme import LIGHT, Palette, Sketch
from kvmodel.charts.winners import winner_map, winner_map_alt, winner_map_points
from kvmodel.curves.curves import CostCurves
from kvmodel.recovery.strategies import STRATEGIES
from kvmodel.units import format_count, format_seconds
from kvmodel.words import say

__all__ = [
    "cost_by_block",
    "cost_by_block_alt",
    "cost_by_block_points",
    "cost_by_length",
    "cost_by_length_alt",
    "cost_by_length_points",
    "cost_by_preemptions",
    "cost_by_preemptions_alt",
    "cost_by_preemptions_points",
    "figure19",
    "figure19_alt",
    "figure19_points",
    "stacked_parts",
    "stacked_parts_alt",
    "stacked_parts_points",
    "winner_map",
    "winner_map_alt",
    "winner_map_points",
]


def cost_by_length(
    curves: CostCurves, strategies: Sequence[str] = STRATEGIES, *, palette: Palette = LIGHT
) -> go.Figure:
    """Victim delay of one preemption against context length, with bands; what is unknown (NaN) is left out."""
    fig = theme.sketch(palette, right=labels.room_px(list(map(say, strategies))))
    theme.length_axis(fig, curves.x, palette)
    _cost_lines(fig, curves, strategies, palette)
    labels.chosen_line(fig, curves.chosen_x, labels.tokens(curves.chosen_x), palette)
    _crossing(fig, curves, strategies, palette)
    return fig.figure()


def cost_by_preemptions(
    curves: CostCurves, strategies: Sequence[str] = STRATEGIES, *, palette: Palette = LIGHT
) -> go.Figure:
    """Victim delay summed over 1 to n preemptions, the context growing in between. Waiting is paid once."""
    fig = theme.sketch(palette, right=labels.room_px(list(map(say, strategies))))
    last = float(curves.x[-1])
    step = max(1, round(last / 5))
    ticks = [1.0, *np.arange(step, last + 1, step)] if step > 1 else list(curves.x)
    theme.axis(
        fig, "xaxis", palette, title=say("preemptions of the request [count]"), span=(0.7, last + 0.02), log=False,
        ticks=ticks, labels=[format_count(tick) for tick in ticks],
    )  # fmt: skip
    theme.hover_title(fig, say("after %{x:.0f} preemptions"))
    _cost_lines(fig, curves, strategies, palette)
    labels.chosen_line(fig, curves.chosen_x, _times(curves.chosen_x), palette)
    return fig.figure()


def _times(count: float) -> str:
    words = say("{count} preemptions", count=format_count(count))
    return words if count > 1 else say("{count} preemption", count=format_count(count))


def _cost_lines(fig: Sketch, curves: CostCurves, strategies: Sequence[str], palette: Palette) -> None:
    """Bands first, then lines, end labels, and each strategy's value at the chosen point."""
    bands = [curves.low_s[name] for name in strategies] + [curves.high_s[name] for name in strategies]
    theme.seconds_axis(fig, bands, palette, title=say("victim delay [s]"))
    rough = series.thin(curves.x, series.BAND_POINTS)
    fine = series.thin(curves.x, keep=curves.chosen_x)
    for name in strategies:
        theme.band(
            fig,
            curves.x[rough],
            curves.low_s[name][rough],
            curves.high_s[name][rough],
            color=palette.of(name),
            name=name,
        )
    values = {name: labels.value_at(curves.x, curves.likely_s[name], curves.chosen_x) for name in strategies}
    for name in strategies:
        theme.line(
            fig,
            curves.x[fine],
            curves.likely_s[name][fine],
            say(name),
            color=palette.of(name),
            dash=theme.DASHES[name],
        )
    for name, seconds in values.items():
        if np.isfinite(seconds):
            theme.dot(fig, curves.chosen_x, seconds, color=palette.of(name), palette=palette)
    labels.end_labels(fig, [(say(name), float(curves.likely_s[name][-1]), palette.of(name)) for name in strategies])
    values_there = [(format_seconds(seconds), seconds, palette.of(name)) for name, seconds in values.items()]
    labels.value_labels(fig, curves.chosen_x, values_there, palette.background)


def _crossing(fig: Sketch, curves: CostCurves, strategies: Sequence[str], palette: Palette) -> None:
    """Mark where swap and recompute cost the same, if both are shown and it lies in the range."""
    where = curves.crossing_x
    if where is None or not {"swap", "recompute"} <= set(strategies) or not curves.x[0] <= where <= curves.x[-1]:
        return
    height = labels.value_at(curves.x, curves.likely_s["recompute"], where)
    theme.dot(
        fig, where, height, color=palette.background, palette=palette, symbol="circle", size=10,
        line={"color": palette.text, "width": 1.5},
    )  # fmt: skip
    early = labels.fraction(fig, "xaxis", where) < 0.35  # beside the rising lines, on the side with more room
    equal = say("swap = recompute<br>at {tokens}", tokens=labels.tokens(where))
    labels.note(
        fig, where, height, equal, palette.text, yshift=-26 if early else 26,
        xanchor="left" if early else "right", align="left" if early else "right", bgcolor=palette.background,
    )  # fmt: skip


def cost_by_length_alt(curves: CostCurves, strategies: Sequence[str] = STRATEGIES) -> str:
    """The delays at the chosen length, and where swap and recompute cross."""
    crossing = say("Swap and recompute do not cross in this range.")
    if curves.crossing_x is not None:
        crossing = say("Swap and recompute cost the same at {tokens}.", tokens=labels.tokens(curves.crossing_x))
    there = {"tokens": labels.tokens(curves.chosen_x), "delays": _values_there(curves, strategies)}
    return f"{say('Victim delay at {tokens}: {delays}.', **there)} {crossing}"


def cost_by_preemptions_alt(curves: CostCurves, strategies: Sequence[str] = STRATEGIES) -> str:
    """The summed delays at the chosen number, and from where offload is cheaper."""
    crossing = say("Offload, its one write counted, never gets cheaper than recompute.")
    if curves.crossing_x is not None:
        crossing = say(
            "Offload, its one write counted, is cheaper than recompute from {times} on.",
            times=_times(curves.crossing_x),
        )
    there = {"times": _times(curves.chosen_x), "delays": _values_there(curves, strategies)}
    return f"{say('Victim delay after {times}: {delays}.', **there)} {crossing}"


def _values_there(curves: CostCurves, strategies: Sequence[str]) -> str:
    values = {name: labels.value_at(curves.x, curves.likely_s[name], curves.chosen_x) for name in strategies}
    return ", ".join(
        f"{say(name)} {format_seconds(seconds) if np.isfinite(seconds) else say('unknown')}"
        for name, seconds in values.items()
    )


def cost_by_length_points(curves: CostCurves, strategies: Sequence[str] = STRATEGIES) -> list[series.Row]:
    """A row a length: likely, low and high delay of each strategy that is shown."""
    return _cost_rows(curves, "tokens", strategies)


def cost_by_preemptions_points(curves: CostCurves) -> list[series.Row]:
    """A row a number of preemptions: likely, low and high delay of each strategy."""
    return _cost_rows(curves, "preemptions", STRATEGIES)


def _cost_rows(curves: CostCurves, x_name: str, strategies: Sequence[str]) -> list[series.Row]:
    columns = {x_name: curves.x}
    for name in strategies:
        columns |= {
            f"{name}_s": curves.likely_s[name],
            f"{name}_low_s": curves.low_s[name],
            f"{name}_high_s": curves.high_s[name],
        }
    return series.rows(columns, series.thin(curves.x, keep=curves.chosen_x))
