"""Rate of copies against the bytes of one copy: a line a method and direction, with what others measured."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike

from kvmodel.charts import labels, series, theme
from kvmodel.charts.theme import LIGHT, Palette, Sketch
from kvmodel.curves.copy_rate import CopyRates, MeasuredRate
from kvmodel.units import GB, format_bytes, format_rate
from kvmodel.words import say

COLORS = {"per-copy": "swap", "batched": "offload", "kernel": "both", "staged": "swap"}
WAYS = {"d2h": ("out (D2H)", "solid", "circle-open"), "h2d": ("in (H2D)", "dash", "triangle-down-open")}
RATE_TICKS = (0.001, 0.01, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)  # GB/s


def copy_rates(rates: CopyRates, *, palette: Palette = LIGHT) -> go.Figure:
    """Curves of every method, out and in; hollow marks are measured; the vertical line is this case's copy."""
    fig = theme.sketch(palette, right=labels.room_px([curve.method for curve in rates.curves]))
    _axes(fig, rates, palette)
    for curve in rates.curves:
        way, dash, _ = WAYS[curve.direction]
        theme.line(
            fig, rates.bytes_per_copy, curve.bytes_per_s, f"{curve.method}, {say(way)}",
            color=palette.of(COLORS[curve.method]), dash=dash, hover="%{y:.3s}B/s",
            width=2.4 if curve.method == rates.chosen_method else 1.4,
        )  # fmt: skip
    _measured_marks(fig, rates.measured_rates, palette)
    here = say("this case: {size}", size=_size(rates.chosen_bytes_per_copy))
    labels.chosen_line(fig, rates.chosen_bytes_per_copy, here, palette)
    color = palette.of(COLORS[rates.chosen_method])
    for bytes_per_s in rates.chosen_bytes_per_s.values():
        theme.dot(fig, rates.chosen_bytes_per_copy, bytes_per_s, color=color, palette=palette)
    ends = {curve.method: float(curve.bytes_per_s[-1]) for curve in rates.curves}
    labels.end_labels(fig, [(method, end, palette.of(COLORS[method])) for method, end in ends.items()])
    return fig.figure()


def _axes(fig: Sketch, rates: CopyRates, palette: Palette) -> None:
    x = rates.bytes_per_copy
    for ratio in (16.0, 64.0, 256.0):
        ticks = [tick for tick in ratio ** np.arange(0, 10) if x[0] * 0.999 <= tick <= x[-1] * 1.001]
        if len(ticks) <= 4:
            break
    theme.axis(
        fig, "xaxis", palette, title=say("size of one copy [bytes]"), span=(float(x[0]), float(x[-1])), ticks=ticks,
        labels=[_size(tick) for tick in ticks],
    )  # fmt: skip
    curve_rates: list[ArrayLike] = [curve.bytes_per_s for curve in rates.curves]
    span = theme.log_span([*curve_rates, [point.bytes_per_s for point in rates.measured_rates]])
    rate_ticks = [rate * GB for rate in RATE_TICKS if span[0] <= rate * GB <= span[1]]
    theme.axis(
        fig, "yaxis", palette, title=say("rate [GB/s]"), span=span, ticks=rate_ticks,
        labels=[f"{tick / GB:g}" for tick in rate_ticks], grid=True,
    )  # fmt: skip
    words = say("solid: out (D2H), dashed: in (H2D)")
    if rates.measured_rates:
        words += f"<br>{say('○ out and ▽ in: measured')}"
    labels.text(
        fig, words, palette.muted, size=11, x=1, xref="paper", xanchor="right", xshift=-6, align="right",
        y=0, yref="paper", yanchor="bottom", yshift=6,
    )  # fmt: skip


def _measured_marks(fig: Sketch, points: tuple[MeasuredRate, ...], palette: Palette) -> None:
    groups: dict[tuple[str, str, str, str], list[MeasuredRate]] = defaultdict(list)
    for point in points:
        groups[point.method, point.direction, point.gpu, point.source].append(point)
    for (method, direction, gpu, source), rows in groups.items():
        way, _, symbol = WAYS[direction]
        group_text = f"<b>{say('measured')}, {method}, {say(way)}</b><br>{gpu} ({source})"
        fig.add(
            "scatter",
            x=theme.small([row.bytes_per_copy for row in rows]),
            y=theme.small([row.bytes_per_s for row in rows]),
            name="measured",
            mode="markers",
            marker={"color": palette.of(COLORS[method]), "symbol": symbol, "size": 8},
            text=[f"{row.copies:,} x {_size(row.bytes_per_copy)}" for row in rows],
            hovertemplate=f"{group_text}<br>%{{text}}: %{{y:.3s}}B/s<extra></extra>",
        )


def _size(size_bytes: float) -> str:
    return theme.without_zeros(format_bytes(size_bytes))


def copy_rates_alt(rates: CopyRates) -> str:
    """What this case's copies reach, what large ones do, and how many measured points are drawn."""
    case_rates = ", ".join(f"{format_rate(rate)} {say(WAYS[way][0])}" for way, rate in rates.chosen_bytes_per_s.items())
    loads = [curve for curve in rates.curves if curve.direction == "h2d"]
    largest = ", ".join(f"{curve.method} {format_rate(float(curve.bytes_per_s[-1]))}" for curve in loads)
    return say(
        "Copies of {size} by {method} reach {reached} on {link}; copies in of {large}: {largest}. {count} measured "
        "rates drawn.",
        size=_size(rates.chosen_bytes_per_copy),
        method=rates.chosen_method,
        reached=case_rates,
        link=rates.link,
        large=_size(float(rates.bytes_per_copy[-1])),
        largest=largest,
        count=len(rates.measured_rates),
    )


def copy_rates_points(rates: CopyRates) -> list[series.Row]:
    """A row a point of every curve, then a row a measurement."""
    few = series.thin(rates.bytes_per_copy, series.BAND_POINTS, keep=rates.chosen_bytes_per_copy)
    model_rows = [
        _row("model", curve.method, curve.direction, size, rate, None, None)
        for curve in rates.curves
        for size, rate in zip(rates.bytes_per_copy[few].tolist(), curve.bytes_per_s[few].tolist(), strict=True)
    ]
    return model_rows + [
        _row("measured", row.method, row.direction, row.bytes_per_copy, row.bytes_per_s, row.gpu, row.source)
        for row in rates.measured_rates
    ]


def _row(
    name: str, method: str, direction: str, size: float, bytes_per_s: float, gpu: str | None, source: str | None
) -> series.Row:
    return {
        "name": name,
        "method": method,
        "direction": direction,
        "bytes_per_copy": float(size),
        "bytes_per_s": bytes_per_s,
        "gpu": gpu,
        "source": source,
    }
