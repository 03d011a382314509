"""Swap or recompute: cost against length and preemptions, and the map of who wins where."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from kvmodel.charts import labels, theme
from kvmodel.charts.blocks import (
    cost_by_block,
    cost_by_block_alt,
    cost_by_block_points,
    figure19,
    figure19_alt,
    figure19_points,
)
from kvmodel.charts.breakdown import stacked_parts, stacked_parts_alt, stacked_parts_points
from kvmodel.charts.theme import LIGHT, Palette
from kvmodel.curves import CostCurves, WinnerMap
from kvmodel.recovery import STRATEGIES
from kvmodel.units import GB, format_count, format_rate, format_seconds, format_tokens

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

CLOSE_FACTOR = 1.5  # two bands of 20 % still overlap here: 1.2 / 0.8
MAP_LEVELS = ((1.0, 0.10), (3.0, 0.12), (10.0, 0.16))  # from this factor on, so much more colour


def cost_by_length(curves: CostCurves, shown: Sequence[str] = STRATEGIES, *, palette: Palette = LIGHT) -> go.Figure:
    """Victim delay of one preemption against context length, with bands; what is unknown (NaN) is left out."""
    fig = theme.figure(palette, right=labels.room_px(shown))
    theme.length_axis(fig, curves.x, palette)
    _cost_lines(fig, curves, shown, palette)
    labels.chosen_line(fig, curves.chosen_x, f"{format_count(curves.chosen_x)} tokens", palette)
    _crossing(fig, curves, shown, palette)
    return fig


def cost_by_preemptions(
    curves: CostCurves, shown: Sequence[str] = STRATEGIES, *, palette: Palette = LIGHT
) -> go.Figure:
    """Victim delay summed over 1 to n preemptions, the context growing in between. Waiting is paid once."""
    fig = theme.figure(palette, right=labels.room_px(shown))
    last = float(curves.x[-1])
    step = max(1, round(last / 5))
    ticks = [1.0, *np.arange(step, last + 1, step)] if step > 1 else list(curves.x)
    theme.axis(
        fig, "xaxis", palette, title="preemptions of the request [count]", span=(0.7, last + 0.3), log=False,
        ticks=ticks, labels=[format_count(tick) for tick in ticks],
    )  # fmt: skip
    theme.hover_title(fig, "after %{x:.0f} preemptions")
    _cost_lines(fig, curves, shown, palette)
    labels.chosen_line(fig, curves.chosen_x, _times(curves.chosen_x), palette)
    return fig


def _times(count: float) -> str:
    return f"{format_count(count)} preemption{'s' if count > 1 else ''}"


def _cost_lines(fig: go.Figure, curves: CostCurves, shown: Sequence[str], palette: Palette) -> None:
    """Bands first, then lines, end labels, and each strategy's value at the chosen point."""
    series = [curves.low_s[name] for name in shown] + [curves.high_s[name] for name in shown]
    theme.seconds_axis(fig, series, palette, title="victim delay [s]")
    rough = theme.thin(curves.x, theme.BAND_POINTS)
    fine = theme.thin(curves.x, keep=curves.chosen_x)
    for name in shown:
        theme.band(
            fig,
            curves.x[rough],
            curves.low_s[name][rough],
            curves.high_s[name][rough],
            color=palette.of(name),
            name=name,
        )
    values = {name: labels.value_at(curves.x, curves.likely_s[name], curves.chosen_x) for name in shown}
    for name in shown:
        theme.line(
            fig, curves.x[fine], curves.likely_s[name][fine], name, color=palette.of(name), dash=theme.DASHES[name]
        )
    for name, seconds in values.items():
        if np.isfinite(seconds):
            theme.dot(fig, curves.chosen_x, seconds, color=palette.of(name), palette=palette)
    labels.end_labels(fig, [(name, float(curves.likely_s[name][-1]), palette.of(name)) for name in shown])
    values_there = [(format_seconds(seconds), seconds, palette.of(name)) for name, seconds in values.items()]
    labels.value_labels(fig, curves.chosen_x, values_there, palette.background)


def _crossing(fig: go.Figure, curves: CostCurves, shown: Sequence[str], palette: Palette) -> None:
    """Mark where swap and recompute cost the same, if both are shown and it lies in the range."""
    where = curves.crossing_x
    if where is None or not {"swap", "recompute"} <= set(shown) or not curves.x[0] <= where <= curves.x[-1]:
        return
    height = labels.value_at(curves.x, curves.likely_s["recompute"], where)
    theme.dot(
        fig, where, height, color=palette.background, palette=palette, symbol="circle", size=10,
        line={"color": palette.text, "width": 1.5},
    )  # fmt: skip
    late = labels.fraction(fig, "xaxis", where) > 0.6
    labels.note(
        fig, where, height, f"swap = recompute<br>at {format_count(where)} tokens", palette.text, yshift=-26,
        xanchor="right" if late else "left", align="right" if late else "left", bgcolor=palette.background,
    )  # fmt: skip


def winner_map(winners: WinnerMap, *, close_factor: float = CLOSE_FACTOR, palette: Palette = LIGHT) -> go.Figure:
    """Who is faster for every length and copy rate: blue where swap is, orange where recompute is, by factor.

    Recompute over swap is the rate over the break-even rate, so every factor's border is that line, moved: areas are
    drawn exactly instead of cell by cell. Between the borders of `close_factor` it is too close to call.
    """
    fig = theme.figure(palette)
    theme.length_axis(fig, winners.tokens, palette)
    low, high = float(winners.copy_bytes_per_s[0]), float(winners.copy_bytes_per_s[-1])
    ticks = [
        t for t in np.array([0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500]) * GB if low <= t * 1.001 and t <= high * 1.001
    ]
    theme.axis(
        fig, "yaxis", palette, title="effective copy rate, out and in [GB/s]", span=(low, high), ticks=ticks,
        labels=[f"{tick / GB:g}" for tick in ticks],
    )  # fmt: skip
    fig.layout.hovermode = "closest"
    few = theme.thin(winners.tokens, theme.BAND_POINTS)
    tokens, even = winners.tokens[few], winners.break_even_bytes_per_s[few]
    for factor, opacity in MAP_LEVELS:
        border = max(factor, close_factor)
        for name, start, edge in (("swap", even * border, high), ("recompute", even / border, low)):
            inside = np.clip(start, low, high)
            theme.band(
                fig, tokens, inside, np.full_like(inside, edge), color=palette.of(name), opacity=opacity,
                name=f"{name} {border:g}x faster",
            )  # fmt: skip
    theme.line(
        fig, tokens, even, "break-even", color=palette.text, width=2,
        hover="at %{x:,.0f} tokens: %{y:.2s}B/s",
    )  # fmt: skip
    _map_words(fig, winners, palette)
    return fig


def _map_words(fig: go.Figure, winners: WinnerMap, palette: Palette) -> None:
    """Names of the areas, and the chosen point with its factor."""
    low, high = float(winners.copy_bytes_per_s[0]), float(winners.copy_bytes_per_s[-1])
    middle = float(np.sqrt(winners.tokens[0] * winners.tokens[-1]))
    even = labels.value_at(winners.tokens, winners.break_even_bytes_per_s, middle)
    if even < high / 4:
        labels.note(fig, middle, max(high / 2, even), "<b>swap faster</b>", palette.swap, size=14)
    if even > low * 4:
        labels.note(fig, middle, min(low * 1.8, even), "<b>recompute faster</b>", palette.recompute, size=14)
    if low < even < high:
        labels.note(fig, middle, even, "break-even", palette.text, bgcolor=palette.background)
    chosen = winners.chosen_bytes_per_s
    if np.isfinite(chosen):
        theme.dot(
            fig, winners.chosen_tokens, float(np.clip(chosen, low, high)), color=palette.text, palette=palette, size=11,
            hover=f"{format_count(winners.chosen_tokens)} tokens at {format_rate(chosen)}",
        )  # fmt: skip
        right = labels.fraction(fig, "xaxis", winners.chosen_tokens) > 0.6
        labels.note(
            fig, winners.chosen_tokens, chosen, f"this case, {format_rate(chosen)}", palette.text, yshift=15,
            xanchor="right" if right else "left",
        )  # fmt: skip


def cost_by_length_alt(curves: CostCurves, shown: Sequence[str] = STRATEGIES) -> str:
    """The delays at the chosen length, and where swap and recompute cross."""
    crossing = "Swap and recompute do not cross in this range."
    if curves.crossing_x is not None:
        crossing = f"Swap and recompute cost the same at {format_count(curves.crossing_x)} tokens."
    return f"Victim delay at {format_count(curves.chosen_x)} tokens: {_values_there(curves, shown)}. {crossing}"


def cost_by_preemptions_alt(curves: CostCurves, shown: Sequence[str] = STRATEGIES) -> str:
    """The summed delays at the chosen number, and from where offload is cheaper."""
    crossing = "Offload, its one write counted, never gets cheaper than recompute."
    if curves.crossing_x is not None:
        crossing = f"Offload, its one write counted, is cheaper than recompute from {_times(curves.crossing_x)} on."
    return f"Victim delay after {_times(curves.chosen_x)}: {_values_there(curves, shown)}. {crossing}"


def _values_there(curves: CostCurves, shown: Sequence[str]) -> str:
    values = {name: labels.value_at(curves.x, curves.likely_s[name], curves.chosen_x) for name in shown}
    return ", ".join(
        f"{name} {format_seconds(seconds) if np.isfinite(seconds) else 'unknown'}" for name, seconds in values.items()
    )


def winner_map_alt(winners: WinnerMap) -> str:
    """The chosen point against the break-even rate at its length."""
    even = labels.value_at(winners.tokens, winners.break_even_bytes_per_s, winners.chosen_tokens)
    faster = "swap" if winners.chosen_bytes_per_s > even else "recompute"
    return (
        f"At {format_count(winners.chosen_tokens)} tokens recompute is faster below {format_rate(even)} of effective "
        f"copy rate and swap above it; this case reaches {format_rate(winners.chosen_bytes_per_s)}, so {faster} is faster. "
        f"Lengths from {format_tokens(winners.tokens[0])} to {format_count(winners.tokens[-1])} tokens."
    )


def cost_by_length_points(curves: CostCurves) -> list[theme.Row]:
    """A row a length: likely, low and high delay of each strategy."""
    return _cost_rows(curves, "tokens")


def cost_by_preemptions_points(curves: CostCurves) -> list[theme.Row]:
    """A row a number of preemptions: likely, low and high delay of each strategy."""
    return _cost_rows(curves, "preemptions")


def _cost_rows(curves: CostCurves, x_name: str) -> list[theme.Row]:
    columns = {x_name: curves.x}
    for name in STRATEGIES:
        columns |= {
            f"{name}_s": curves.likely_s[name],
            f"{name}_low_s": curves.low_s[name],
            f"{name}_high_s": curves.high_s[name],
        }
    return theme.rows(columns, theme.thin(curves.x, keep=curves.chosen_x))


def winner_map_points(winners: WinnerMap) -> list[theme.Row]:
    """A row a length: the effective copy rate of equal cost. Recompute over swap is a rate divided by it."""
    columns = {"tokens": winners.tokens, "break_even_bytes_per_s": winners.break_even_bytes_per_s}
    return theme.rows(columns, theme.thin(winners.tokens, theme.BAND_POINTS))
