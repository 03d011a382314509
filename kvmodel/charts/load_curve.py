"""Preemptions, time to first token and throughput against the request rate, with the knee of each scheduler."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from kvmodel.arrays import Floats
from kvmodel.charts import labels, lanes, panels, series, theme
from kvmodel.charts.pressure import key, looks
from kvmodel.charts.theme import LIGHT, Palette, Sketch
from kvmodel.simulation.load_curve import Knee, Point, knee
from kvmodel.units import format_seconds, significant
from kvmodel.words import Later, say

Curves = Mapping[str, Sequence[Point]]  # by scheduler
Columns = dict[str, Floats]
READ: dict[str, Callable[[dict[str, Any]], float]] = {
    "preemptions_per_100": lambda totals: totals["preemptions_per_100"],
    "ttft_p50_s": lambda totals: totals["ttft_s"]["p50"],
    "ttft_p99_s": lambda totals: totals["ttft_s"]["p99"],
    "served_per_s": lambda totals: totals["requests_per_s"],
    "goodput_per_s": lambda totals: totals["goodput_requests_per_s"],
    "output_tokens_per_s": lambda totals: totals["output_tokens_per_s"],
    "recompute_tax": lambda totals: totals["recompute_tax"],
    "good_share": lambda totals: totals["good_share"],
}
PANELS = (  # heading, the column drawn thick, the one drawn thin, what a value is called when pointed at
    ("preemptions per 100 requests", "preemptions_per_100", None, "%{y:.3r}"),
    ("time to first token: p99, thin p50", "ttft_p99_s", "ttft_p50_s", "%{y:.3s}s"),
    ("throughput [requests/s], thin within the objective", "served_per_s", "goodput_per_s", "%{y:.3r} requests/s"),
)
THIN = 0.9


def columns(points: Sequence[Point]) -> Columns:
    """The numbers of a curve, rising in rate."""
    rising = sorted(points, key=lambda point: point.requests_per_s)
    values = {name: np.array([of(point.totals) for point in rising], dtype=float) for name, of in READ.items()}
    return {"requests_per_s": np.array([point.requests_per_s for point in rising], dtype=float)} | values


def load_curve(curves: Curves, load: Later | str, chosen_per_s: float, *, palette: Palette = LIGHT) -> go.Figure:
    """Three panels over the request rate; vertical lines at each scheduler's knee and at the chosen rate."""
    by_scheduler = {name: columns(points) for name, points in curves.items()}
    fig = panels.panel_figure(palette, len(PANELS), (key(curves, palette), str(load)))
    most = max(float(each["requests_per_s"].max()) for each in by_scheduler.values())
    ticks = lanes.round_steps(most)
    theme.axis(
        fig, "xaxis", palette, title=say("requests offered [requests/s]"), span=(0, 1.02 * most), log=False,
        ticks=ticks, labels=[f"{tick:g}" for tick in ticks],
    )  # fmt: skip
    theme.hover_title(fig, "%{x:.3r} requests/s")
    for place, (heading, thick, thin, hover) in enumerate(PANELS):
        panel_columns = [column for column in (thick, thin) if column]
        values = np.concatenate([each[column] for each in by_scheduler.values() for column in panel_columns])
        yaxis = _panel(fig, place, say(heading), values, palette, log="ttft" in thick)
        for name, look in looks(curves, palette).items():
            for column in panel_columns:
                width = look["width"] if column == thick else THIN
                panels.line(
                    fig, by_scheduler[name]["requests_per_s"], by_scheduler[name][column], name, hover, yaxis=yaxis,
                    look=look | {"width": width},
                )  # fmt: skip
    panels.over(fig, len(PANELS))
    for name, look in looks(curves, palette).items():
        _mark(fig, _bend_per_s(knee(curves[name])), look["color"], "solid")
    _mark(fig, chosen_per_s, palette.muted, "dot")
    return fig.figure()


def _panel(fig: Sketch, place: int, heading: str, values: Floats, palette: Palette, *, log: bool) -> str:
    """A panel that holds these values: seconds over decades, or numbers from 0."""
    if log:
        low, high = theme.log_span([values])
        decades = [decade for decade in 10.0 ** np.arange(-9, 9) if low <= decade <= high]
        texts = [theme.tick_seconds(decade) for decade in decades]
        return panels.panel(fig, place, heading, palette, span=(low, high), ticks=decades, texts=texts, log=True)
    top = max(float(np.nanmax(values, initial=0.0)), 1.0)
    steps = lanes.round_steps(top, 4)
    texts = [f"{step:g}" for step in steps]
    return panels.panel(fig, place, heading, palette, span=(0, 1.08 * top), ticks=steps, texts=texts)


def _bend_per_s(bend: Knee) -> float | None:
    """Where a knee is drawn: between its two rates; None where no run showed it."""
    return None if bend.low_per_s is None or bend.high_per_s is None else (bend.low_per_s * bend.high_per_s) ** 0.5


def _mark(fig: Sketch, rate_per_s: float | None, color: str, dash: str) -> None:
    """A vertical line through all panels."""
    if rate_per_s is not None and rate_per_s <= fig.layout["xaxis"]["range"][1]:
        labels.shape(
            fig, "line", x0=rate_per_s, x1=rate_per_s, xref="x", y0=0, y1=1, yref="paper",
            line={"color": color, "width": 1, "dash": dash},
        )  # fmt: skip


def load_curve_alt(curves: Curves, load: Later | str, chosen_per_s: float) -> str:
    """Each scheduler's knee, and its numbers at both ends."""
    texts = []
    for name, points in curves.items():
        bend, ends = _bend_per_s(knee(points)), columns(points)
        where = say("no knee in this range")
        if bend:
            where = say("the knee is near {rate} requests/s", rate=significant(bend, 2))
        first, last = (
            say(
                "{ratio} preemptions per 100 requests and a p99 of {ttft} to the first token at {rate} requests/s",
                ratio=significant(ends["preemptions_per_100"][at], 2),
                ttft=format_seconds(ends["ttft_p99_s"][at]),
                rate=significant(ends["requests_per_s"][at], 2),
            )
            for at in (0, -1)
        )
        texts.append(f"{name}: {where}; {first}, {last}")
    return say("Load curve under {load}. {schedulers}.", load=load, schedulers=". ".join(texts))


def load_curve_points(curves: Curves, load: Later | str, chosen_per_s: float) -> list[series.Row]:
    """A row a rate and scheduler."""
    return [
        {"load": str(load), "scheduler": name, **row}
        for name, points in curves.items()
        for row in series.rows(columns(points))
    ]
