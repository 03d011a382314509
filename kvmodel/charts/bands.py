"""Preemptions per 100 finished requests on the article's scale."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from kvmodel.charts import labels, series, theme
from kvmodel.charts.theme import LIGHT, Palette
from kvmodel.diagnosis.thresholds import limit
from kvmodel.units import significant
from kvmodel.words import say

HEIGHT_PX = 140
WORDS = ("costs nothing<br>real", "nothing is<br>said", "tune the<br>batch", "swap: mostly<br>wrong")
COLORS = ("both", "wait", "recompute", "recompute")


def edges() -> list[float]:
    """Where the bands begin; the last has no end."""
    return [0.0, *(limit("band", name) for name in ("few", "tune", "most"))]


def place(per_100: float) -> float:
    """Where a ratio stands on bands of equal width: 0 to 3 in the first three, and nearing 4 in the last."""
    starts = edges()
    most = starts[-1]
    return float(np.interp(per_100, starts, range(len(starts)))) if per_100 < most else 4 - most / per_100


def preemption_scale(per_100: float, *, palette: Palette = LIGHT) -> go.Figure:
    """The ratio among the bands. Their widths are equal, whatever they span."""
    fig = theme.sketch(palette, height=HEIGHT_PX, left=12, right=12)
    fig.layout["margin"] |= {"t": 34, "b": 30}
    starts = edges()
    theme.axis(
        fig, "xaxis", palette, title="", span=(0, len(starts)), ticks=range(len(starts)),
        labels=[f"{start:g}" for start in starts], log=False,
    )  # fmt: skip
    theme.axis(fig, "yaxis", palette, title="", span=(0, 1), ticks=(), labels=(), log=False)
    for index, (words, color) in enumerate(zip(WORDS, COLORS, strict=True)):
        strong = index == min(int(place(per_100)), len(WORDS) - 1)
        labels.shape(
            fig, "rect", x0=index, x1=index + 1, y0=0, y1=1, line={"width": 0}, fillcolor=palette.of(color),
            opacity=0.3 if strong else 0.12,
        )  # fmt: skip
        labels.text(fig, say(words), palette.text, size=11, x=index + 0.5, y=0.38)
    at = place(per_100)
    marker = {"symbol": "triangle-down", "size": 14, "color": palette.text}
    fig.add("scatter", x=[at], y=[0.93], mode="markers", marker=marker, hoverinfo="skip", cliponaxis=False)
    labels.above(fig, at, say("{ratio} per 100 finished", ratio=significant(per_100, 2)), palette.text, size=13)
    return fig.figure()


def preemption_scale_alt(per_100: float) -> str:
    """The chart in words."""
    starts = [f"{start:g}" for start in edges()[1:]]
    return say(
        "{ratio} preemptions per 100 finished requests, on a scale with limits at {limits} and {last}.",
        ratio=significant(per_100, 2),
        limits=", ".join(starts[:-1]),
        last=starts[-1],
    )


def preemption_scale_points(per_100: float) -> list[series.Row]:
    """A row a band: where it begins and ends, and the ratio in the band where it is."""
    starts = edges()
    here = min(int(place(per_100)), len(WORDS) - 1)
    return [
        {
            "band": say(words).replace("<br>", " "),
            "from_per_100": start,
            "to_per_100": end,
            "ratio_per_100": per_100 if index == here else None,
        }
        for index, (words, start, end) in enumerate(zip(WORDS, starts, [*starts[1:], None], strict=True))
    ]
