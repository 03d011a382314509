"""The map of who is faster where: context length against copy rate."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from kvmodel.charts import labels, series, theme
from kvmodel.charts.theme import LIGHT, Palette, Sketch
from kvmodel.curves.curves import WinnerMap
from kvmodel.units import GB, format_count, format_rate, format_tokens
from kvmodel.words import say

RATE_TICKS = (0.01, 0.1, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10000)  # GB/s
MAP_LEVELS = ((1.0, 0.10), (3.0, 0.12), (10.0, 0.16))  # from this factor on, so much more colour


def winner_map(winners: WinnerMap, *, palette: Palette = LIGHT) -> go.Figure:
    """Who is faster for every length and copy rate: blue where swap is, orange where recompute is, by factor.

    Recompute over swap is the rate over the break-even rate, so every factor's border is that line, moved: areas are
    drawn exactly instead of cell by cell. Between the first borders the ranges overlap: too close to call.
    """
    fig = theme.sketch(palette)
    theme.length_axis(fig, winners.tokens, palette)
    low, high = _rates(winners)
    ticks = [rate * GB for rate in RATE_TICKS if low * 0.999 <= rate * GB <= high * 1.001]
    theme.axis(
        fig, "yaxis", palette, title=say("effective copy rate, out and in [GB/s]"), span=(low, high), ticks=ticks,
        labels=[f"{tick / GB:g}" for tick in ticks],
    )  # fmt: skip
    fig.layout["hovermode"] = "closest"
    few = series.thin(winners.tokens, series.BAND_POINTS)
    tokens, even = winners.tokens[few], winners.break_even_bytes_per_s[few]
    for factor, opacity in MAP_LEVELS:
        for name, edge in (("swap", high), ("recompute", low)):
            border = max(factor, winners.clear_factor[name])
            times = border if name == "swap" else 1 / border
            inside = np.clip(even * times, low, high)
            theme.band(
                fig, tokens, inside, np.full_like(inside, edge), color=palette.of(name), opacity=opacity,
                name=f"{name} {border:.2g}x faster",
            )  # fmt: skip
            _border_name(fig, winners, times, float(tokens[-4]), palette.of(name))
    theme.line(
        fig, tokens, even, say("break-even"), color=palette.text, width=2,
        hover=say("at %{x:,.0f} tokens: %{y:.2s}B/s"),
    )  # fmt: skip
    _map_words(fig, winners, palette)
    return fig.figure()


def _rates(winners: WinnerMap) -> tuple[float, float]:
    """The range of copy rates, made to hold this case."""
    rate = winners.chosen_bytes_per_s if np.isfinite(winners.chosen_bytes_per_s) else winners.copy_bytes_per_s[0]
    return min(float(winners.copy_bytes_per_s[0]), rate / 1.5), max(float(winners.copy_bytes_per_s[-1]), rate * 1.5)


def _border_name(fig: Sketch, winners: WinnerMap, times: float, tokens: float, color: str) -> None:
    """The factor of a border, written just inside its area near the right end."""
    height = times * labels.value_at(winners.tokens, winners.break_even_bytes_per_s, tokens)
    low, high = _rates(winners)
    if low * 1.3 < height < high / 1.3:
        factor = f"{max(times, 1 / times):.2g}x"
        labels.note(fig, tokens, height, factor, color, size=10, yshift=8 if times > 1 else -8)


def _even_at(winners: WinnerMap, tokens: float) -> float:
    """Break-even rate at a length; infinite where nothing has to be recomputed."""
    rate = labels.value_at(winners.tokens, winners.break_even_bytes_per_s, tokens)
    return rate if np.isfinite(rate) else float("inf")


def _map_words(fig: Sketch, winners: WinnerMap, palette: Palette) -> None:
    """Names of the areas and of the line; the line's stands away from the chosen point."""
    low, high = _rates(winners)

    def length_at(share: float) -> float:
        return float(winners.tokens[0] ** (1 - share) * winners.tokens[-1] ** share)

    even = _even_at(winners, length_at(0.5))
    if even < high / 4:
        labels.note(fig, length_at(0.5), max(high / 2, even), f"<b>{say('swap faster')}</b>", palette.swap, size=14)
    if even > low * 2:
        under = float(np.sqrt(low * min(even / 1.3, 4 * low)))
        labels.note(fig, length_at(0.5), under, f"<b>{say('recompute faster')}</b>", palette.recompute, size=14)
    beside = length_at(0.17 if labels.fraction(fig, "xaxis", winners.chosen_tokens) > 0.35 else 0.8)
    if low < _even_at(winners, beside) < high:
        even_words = say("break-even")
        labels.note(fig, beside, _even_at(winners, beside), even_words, palette.text, bgcolor=palette.background)
    _this_case(fig, winners, palette)


def _this_case(fig: Sketch, winners: WinnerMap, palette: Palette) -> None:
    """The chosen length and the rate its copies reach, the words on the side away from the break-even line."""
    tokens, rate = winners.chosen_tokens, winners.chosen_bytes_per_s
    if not np.isfinite(rate):
        return
    theme.dot(
        fig, tokens, rate, color=palette.text, palette=palette, size=11,
        hover=say("{tokens} at {rate}", tokens=labels.tokens(tokens), rate=format_rate(rate)),
    )  # fmt: skip
    labels.note(
        fig, tokens, rate, say("this case, {rate}", rate=format_rate(rate)), palette.text,
        yshift=15 if rate > _even_at(winners, tokens) else -15,
        xanchor="right" if labels.fraction(fig, "xaxis", tokens) > 0.45 else "left",
    )  # fmt: skip


def winner_map_alt(winners: WinnerMap) -> str:
    """The chosen point against the break-even rate at its length."""
    even = _even_at(winners, winners.chosen_tokens)
    if not np.isfinite(even):
        return say(
            "At {tokens} nothing has to be recomputed: no copy rate is faster.",
            tokens=labels.tokens(winners.chosen_tokens),
        )
    return say(
        "At {tokens} recompute is faster below {even} of effective copy rate and swap above it; this case reaches "
        "{rate}, so {faster} is faster. Lengths from {least} to {most} tokens.",
        tokens=labels.tokens(winners.chosen_tokens),
        even=format_rate(even),
        rate=format_rate(winners.chosen_bytes_per_s),
        faster=say("swap" if winners.chosen_bytes_per_s > even else "recompute"),
        least=format_tokens(winners.tokens[0]),
        most=format_count(winners.tokens[-1]),
    )


def winner_map_points(winners: WinnerMap) -> list[series.Row]:
    """A row a length: the effective copy rate of equal cost. Recompute over swap is a rate divided by it."""
    columns = {"tokens": winners.tokens, "break_even_bytes_per_s": winners.break_even_bytes_per_s}
    return series.rows(columns, series.thin(winners.tokens, series.BAND_POINTS))
