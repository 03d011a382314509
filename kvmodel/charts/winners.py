"""The map of who is faster where: context length against copy rate."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from kvmodel.charts import labels, points, theme
from kvmodel.charts.theme import LIGHT, Palette, Sketch
from kvmodel.curves import WinnerMap
from kvmodel.units import GB, format_count, format_rate, format_tokens

RATE_TICKS = (0.01, 0.1, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10000)  # GB/s
CLOSE_FACTOR = 1.5  # two bands of 20 % still overlap here: 1.2 / 0.8
MAP_LEVELS = ((1.0, 0.10), (3.0, 0.12), (10.0, 0.16))  # from this factor on, so much more colour


def winner_map(winners: WinnerMap, *, close_factor: float = CLOSE_FACTOR, palette: Palette = LIGHT) -> go.Figure:
    """Who is faster for every length and copy rate: blue where swap is, orange where recompute is, by factor.

    Recompute over swap is the rate over the break-even rate, so every factor's border is that line, moved: areas are
    drawn exactly instead of cell by cell. Between the borders of `close_factor` it is too close to call.
    """
    fig = theme.sketch(palette)
    theme.length_axis(fig, winners.tokens, palette)
    low, high = _rates(winners)
    ticks = [rate * GB for rate in RATE_TICKS if low * 0.999 <= rate * GB <= high * 1.001]
    theme.axis(
        fig, "yaxis", palette, title="effective copy rate, out and in [GB/s]", span=(low, high), ticks=ticks,
        labels=[f"{tick / GB:g}" for tick in ticks],
    )  # fmt: skip
    fig.layout["hovermode"] = "closest"
    few = points.thin(winners.tokens, points.BAND_POINTS)
    tokens, even = winners.tokens[few], winners.break_even_bytes_per_s[few]
    for factor, opacity in MAP_LEVELS:
        border = max(factor, close_factor)
        for name, start, edge in (("swap", even * border, high), ("recompute", even / border, low)):
            inside = np.clip(start, low, high)
            theme.band(
                fig, tokens, inside, np.full_like(inside, edge), color=palette.of(name), opacity=opacity,
                name=f"{name} {border:g}x faster",
            )  # fmt: skip
            _border_name(fig, winners, start[-4] / even[-4], float(tokens[-4]), palette.of(name))
    theme.line(
        fig, tokens, even, "break-even", color=palette.text, width=2,
        hover="at %{x:,.0f} tokens: %{y:.2s}B/s",
    )  # fmt: skip
    _map_words(fig, winners, palette)
    return fig.figure()


def _rates(winners: WinnerMap) -> tuple[float, float]:
    """The range of copy rates, made to hold this case."""
    chosen = winners.chosen_bytes_per_s if np.isfinite(winners.chosen_bytes_per_s) else winners.copy_bytes_per_s[0]
    return min(float(winners.copy_bytes_per_s[0]), chosen / 1.5), max(float(winners.copy_bytes_per_s[-1]), chosen * 1.5)


def _border_name(fig: Sketch, winners: WinnerMap, times: float, tokens: float, color: str) -> None:
    """The factor of a border, written just inside its area near the right end."""
    height = times * labels.value_at(winners.tokens, winners.break_even_bytes_per_s, tokens)
    low, high = _rates(winners)
    if low * 1.3 < height < high / 1.3:
        factor = f"{max(times, 1 / times):.2g}x"
        labels.note(fig, tokens, height, factor, color, size=10, yshift=8 if times > 1 else -8)


def _map_words(fig: Sketch, winners: WinnerMap, palette: Palette) -> None:
    """Names of the areas, and the chosen point with its factor."""
    low, high = _rates(winners)
    middle = float(np.sqrt(winners.tokens[0] * winners.tokens[-1]))
    even = labels.value_at(winners.tokens, winners.break_even_bytes_per_s, middle)
    if even < high / 4:
        labels.note(fig, middle, max(high / 2, even), "<b>swap faster</b>", palette.swap, size=14)
    if even > low * 2:
        labels.note(
            fig,
            middle,
            float(np.sqrt(low * min(even / 1.3, 4 * low))),
            "<b>recompute faster</b>",
            palette.recompute,
            size=14,
        )
    if low < even < high:
        labels.note(fig, middle, even, "break-even", palette.text, bgcolor=palette.background)
    chosen = winners.chosen_bytes_per_s
    if np.isfinite(chosen):
        theme.dot(
            fig, winners.chosen_tokens, float(np.clip(chosen, low, high)), color=palette.text, palette=palette, size=11,
            hover=f"{labels.tokens(winners.chosen_tokens)} at {format_rate(chosen)}",
        )  # fmt: skip
        right = labels.fraction(fig, "xaxis", winners.chosen_tokens) > 0.6
        labels.note(
            fig, winners.chosen_tokens, chosen, f"this case, {format_rate(chosen)}", palette.text, yshift=15,
            xanchor="right" if right else "left",
        )  # fmt: skip


def winner_map_alt(winners: WinnerMap) -> str:
    """The chosen point against the break-even rate at its length."""
    even = labels.value_at(winners.tokens, winners.break_even_bytes_per_s, winners.chosen_tokens)
    faster = "swap" if winners.chosen_bytes_per_s > even else "recompute"
    return (
        f"At {labels.tokens(winners.chosen_tokens)} recompute is faster below {format_rate(even)} of effective "
        f"copy rate and swap above it; this case reaches {format_rate(winners.chosen_bytes_per_s)}, so {faster} is "
        f"faster. Lengths from {format_tokens(winners.tokens[0])} to {format_count(winners.tokens[-1])} tokens."
    )


def winner_map_points(winners: WinnerMap) -> list[points.Row]:
    """A row a length: the effective copy rate of equal cost. Recompute over swap is a rate divided by it."""
    columns = {"tokens": winners.tokens, "break_even_bytes_per_s": winners.break_even_bytes_per_s}
    return points.rows(columns, points.thin(winners.tokens, points.BAND_POINTS))
