"""The roofline of a GPU with the Case's prefill and decode on it, and a step's time against its tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from kvmodel.charts import labels, series, theme
from kvmodel.charts.theme import LIGHT, Palette, Sketch
from kvmodel.curves.roofline_points import MeasuredPoint, Point, Roofline, StepCurve
from kvmodel.units import (
    TB,
    TFLOP,
    format_count,
    format_percent,
    format_seconds,
    format_tokens,
    significant,
)
from kvmodel.words import say


def roofline(roof: Roofline, *, palette: Palette = LIGHT) -> go.Figure:
    """Ceilings, ridge, and each point at its attained rate with a thin line up to its ceiling."""
    fig = theme.sketch(palette)
    x = roof.intensity_flop_per_byte
    intensities = [point.intensity_flop_per_byte for point in roof.points]
    intensities += [point.intensity_flop_per_byte for point in roof.measured_points]
    span = (
        min([float(x[0]), *(0.7 * intensity for intensity in intensities)]),
        max([float(x[-1]), *(1.4 * intensity for intensity in intensities)]),
    )
    ticks = [tick for tick in 10.0 ** np.arange(-3, 7) if span[0] <= tick <= span[1]]
    theme.axis(
        fig, "xaxis", palette, title=say("arithmetic intensity [FLOP/byte]"), span=span, ticks=ticks,
        labels=[significant(tick, 1) for tick in ticks],
    )  # fmt: skip
    ceiling = np.minimum(roof.peak_flop_per_s, np.array(span) * roof.hbm_bytes_per_s)
    rates = [point.attained_flop_per_s for point in roof.points]
    top = roof.peak_flop_per_s * 1.6
    room = [rate / (top / rate) ** 0.25 for rate in rates]  # for the words under each point
    heights = theme.log_span([ceiling, room, top, [point.attained_flop_per_s for point in roof.measured_points]])
    ticks = [tick for tick in TFLOP * 10.0 ** np.arange(-4, 6) if heights[0] <= tick <= heights[1]]
    theme.axis(
        fig, "yaxis", palette, title=say("rate [TFLOP/s]"), span=heights, ticks=ticks,
        labels=[significant(tick / TFLOP, 1) for tick in ticks], grid=True,
    )  # fmt: skip
    _ceilings(fig, roof, span, palette)
    _measured_marks(fig, roof.measured_points, palette)
    for point in roof.points:
        _point(fig, point, palette)
    return fig.figure()


def _ceilings(fig: Sketch, roof: Roofline, span: tuple[float, float], palette: Palette) -> None:
    ridge = roof.ridge_flop_per_byte
    corners = [span[0], ridge, span[1]]
    heights = [min(roof.peak_flop_per_s, corner * roof.hbm_bytes_per_s) for corner in corners]
    theme.line(
        fig, corners, heights, say("ceiling"), color=palette.text, width=2,
        hover=say("%{y:.3s}FLOP/s at %{x:.3~r} FLOP/byte"),
    )  # fmt: skip
    labels.shape(
        fig, "line", x0=ridge, x1=ridge, y0=0, y1=labels.fraction(fig, "yaxis", roof.peak_flop_per_s),
        yref="paper", line={"color": palette.muted, "width": 1, "dash": "dot"},
    )  # fmt: skip
    peak, rate = significant(roof.peak_flop_per_s / TFLOP, 3), significant(roof.hbm_bytes_per_s / TB, 3)
    labels.text(
        fig, say("peak {rate} TFLOP/s", rate=peak), palette.text, x=1, xref="paper", xanchor="right",
        y=labels.fraction(fig, "yaxis", roof.peak_flop_per_s), yref="paper", yanchor="bottom",
    )  # fmt: skip
    halfway = float(np.sqrt(span[0] * ridge))
    labels.note(
        fig, halfway, halfway * roof.hbm_bytes_per_s, say("memory<br>{rate} TB/s", rate=rate), palette.text,
        xanchor="right", align="right", xshift=-10, yshift=12,
    )  # fmt: skip
    labels.text(
        fig, say("ridge {intensity} FLOP/byte", intensity=significant(ridge, 3)), palette.muted,
        x=labels.fraction(fig, "xaxis", ridge), xref="paper", xanchor="left", xshift=4, y=0, yref="paper",
        yanchor="bottom",
    )  # fmt: skip


def _measured_marks(fig: Sketch, points: Sequence[MeasuredPoint], palette: Palette) -> None:
    """Prefills that others measured on this GPU with this model: hollow marks."""
    if not points:
        return
    fig.add(
        "scatter",
        x=theme.small([point.intensity_flop_per_byte for point in points]),
        y=theme.small([point.attained_flop_per_s for point in points]),
        name="measured",
        mode="markers",
        marker={"color": palette.recompute, "symbol": "circle-open", "size": 6},
        text=[f"{labels.tokens(point.row.tokens * point.row.batch)}, {point.row.engine}" for point in points],
        hovertemplate=f"{say('measured: %{text}<br>%{y:.3s}FLOP/s at %{x:.3~r} FLOP/byte')}<extra></extra>",
    )
    labels.text(
        fig, say("○ prefills measured on this GPU"), palette.recompute, size=11, x=0, xref="paper", xanchor="left", y=1,
        yref="paper", yanchor="bottom", yshift=6,
    )  # fmt: skip


def _point(fig: Sketch, point: Point, palette: Palette) -> None:
    color = palette.recompute if point.name == "prefill" else palette.both
    x, attained_flop_per_s = point.intensity_flop_per_byte, point.attained_flop_per_s
    share = format_percent(attained_flop_per_s / point.ceiling_flop_per_s)
    rate = f"{significant(attained_flop_per_s / TFLOP, 2)} TFLOP/s"
    hover = say(
        "{point}: {intensity} FLOP/byte, {rate}, {share} of its ceiling, {time} a step",
        point=say(point.name),
        intensity=significant(x, 2),
        rate=rate,
        share=share,
        time=format_seconds(point.seconds),
    )
    theme.line(
        fig, [x, x], [attained_flop_per_s, point.ceiling_flop_per_s], point.name, color=color, width=1.2, hover=None
    )
    theme.dot(
        fig, x, attained_flop_per_s, color=color, palette=palette, size=12,
        symbol="circle" if point.name == "prefill" else "diamond", hover=hover,
    )  # fmt: skip
    right = labels.fraction(fig, "xaxis", x) > 0.55
    words = say("<b>{point}</b><br>{rate}<br>{share} of ceiling", point=say(point.name), rate=rate, share=share)
    labels.note(
        fig, x, attained_flop_per_s, words, color, yshift=-9, yanchor="top", xanchor="right" if right else "left",
        align="right" if right else "left", bgcolor=palette.background,
    )  # fmt: skip


def step_time(curve: StepCurve, *, palette: Palette = LIGHT) -> go.Figure:
    """Seconds of a step against its new tokens: flat, then linear; its two limits, the knee and the floor."""
    names = step, compute, weight_read, floor = say("step"), say("compute"), say("weight read"), say("floor")
    fig = theme.sketch(palette, right=labels.room_px(names))
    theme.length_axis(fig, curve.tokens, palette, title=say("new tokens in the step [tokens]"))
    spread = [curve.step_s, curve.floor_s, curve.weight_read_s]
    theme.seconds_axis(fig, spread, palette, title=say("time of one step [s]"))
    few = series.thin(curve.tokens, series.BAND_POINTS, keep=curve.chosen_tokens)
    x = curve.tokens[few]
    theme.line(fig, x, curve.floor_s[few], floor, color=palette.muted, dash="dot", width=1.6)
    in_range = curve.compute_s[few] >= 10 ** fig.layout["yaxis"]["range"][0]
    theme.line(
        fig, x[in_range], curve.compute_s[few][in_range], compute, color=palette.recompute, dash="dash", width=1.1
    )
    theme.line(fig, x, curve.weight_read_s[few], weight_read, color=palette.swap, width=1.1, dash="longdash")
    theme.line(fig, x, curve.step_s[few], step, color=palette.text, width=2.6)
    _knee(fig, curve, palette)
    labels.chosen_line(fig, curve.chosen_tokens, labels.tokens(curve.chosen_tokens), palette)
    theme.dot(fig, curve.chosen_tokens, curve.chosen_s, color=palette.text, palette=palette)
    there = [(format_seconds(curve.chosen_s), curve.chosen_s, palette.text)]
    labels.value_labels(fig, curve.chosen_tokens, there, palette.background)
    lines = [curve.step_s, curve.compute_s, curve.weight_read_s, curve.floor_s]
    colors = [palette.text, palette.recompute, palette.swap, palette.muted]
    labels.end_labels(fig, [(n, float(s[-1]), c) for n, s, c in zip(names, lines, colors, strict=True)])
    return fig.figure()


def _knee(fig: Sketch, curve: StepCurve, palette: Palette) -> None:
    """Where the two limits meet."""
    if curve.knee_tokens is None:
        return
    height = labels.value_at(curve.tokens, curve.weight_read_s, curve.knee_tokens)
    theme.dot(
        fig, curve.knee_tokens, height, color=palette.background, palette=palette, size=10,
        line={"color": palette.text, "width": 1.5},
    )  # fmt: skip
    knee = say("knee {tokens}", tokens=labels.tokens(curve.knee_tokens))
    labels.note(fig, curve.knee_tokens, height, knee, palette.text, yshift=-18, xanchor="left", xshift=4)


def roofline_alt(roof: Roofline) -> str:
    """The ceilings, the ridge, and where the points lie."""
    texts = "; ".join(
        say(
            "{point} at {intensity} FLOP/byte reaches {rate} TFLOP/s, {share} of its ceiling",
            point=say(point.name),
            intensity=significant(point.intensity_flop_per_byte, 2),
            rate=significant(point.attained_flop_per_s / TFLOP, 2),
            share=format_percent(point.attained_flop_per_s / point.ceiling_flop_per_s),
        )
        for point in roof.points
    )
    ceilings = say(
        "Peak {peak} TFLOP/s, memory {memory} TB/s, ridge at {ridge} FLOP/byte: {points}.",
        peak=significant(roof.peak_flop_per_s / TFLOP, 3),
        memory=significant(roof.hbm_bytes_per_s / TB, 3),
        ridge=significant(roof.ridge_flop_per_byte, 3),
        points=texts,
    )
    return ceilings + _measured_alt(roof.measured_points)


def _measured_alt(points: Sequence[MeasuredPoint]) -> str:
    if not points:
        return ""
    rates = [point.attained_flop_per_s / TFLOP for point in points]
    return say(
        " {count} prefills measured on this GPU reach {least} to {most} TFLOP/s.",
        count=len(points),
        least=significant(min(rates), 2),
        most=significant(max(rates), 2),
    )


def step_time_alt(curve: StepCurve) -> str:
    """The flat part, the knee, and the chosen step."""
    knee = say("there is no knee")
    if curve.knee_tokens:
        knee = say("the knee is at {tokens}", tokens=labels.tokens(curve.knee_tokens))
    return say(
        "A step of {least} token takes {shortest}, of {most} tokens {longest}; {knee}. {tokens} take {time}.",
        least=format_count(curve.tokens[0]),
        shortest=format_seconds(float(curve.step_s[0])),
        most=format_tokens(curve.tokens[-1]),
        longest=format_seconds(float(curve.step_s[-1])),
        knee=knee,
        tokens=labels.tokens(curve.chosen_tokens),
        time=format_seconds(curve.chosen_s),
    )


def roofline_points(roof: Roofline) -> list[series.Row]:
    """The corners of the ceiling, then the points, then the measured ones: intensity, ceiling, attained rate."""
    x = roof.intensity_flop_per_byte
    corners = [float(x[0]), roof.ridge_flop_per_byte, float(x[-1])]
    rows = [_row("ceiling", corner, roof, None, None) for corner in corners]
    rows += [
        _row(point.name, point.intensity_flop_per_byte, roof, point.attained_flop_per_s, point.seconds)
        for point in roof.points
    ]
    return rows + [
        _row(
            f"measured {point.row.id}", point.intensity_flop_per_byte, roof, point.attained_flop_per_s,
            point.row.seconds,
        )
        for point in roof.measured_points
    ]  # fmt: skip


def _row(
    name: str, intensity: float, roof: Roofline, attained_flop_per_s: float | None, step_s: float | None
) -> series.Row:
    return {
        "name": name,
        "intensity_flop_per_byte": intensity,
        "ceiling_flop_per_s": min(roof.peak_flop_per_s, intensity * roof.hbm_bytes_per_s),
        "attained_flop_per_s": attained_flop_per_s,
        "step_s": step_s,
    }


def step_time_points(curve: StepCurve) -> list[series.Row]:
    """A row a number of tokens: the step, its two limits and its floor."""
    columns = {
        "tokens": curve.tokens,
        "step_s": curve.step_s,
        "compute_s": curve.compute_s,
        "weight_read_s": curve.weight_read_s,
        "floor_s": curve.floor_s,
    }
    return series.rows(columns, series.thin(curve.tokens, series.BAND_POINTS, keep=curve.chosen_tokens))
