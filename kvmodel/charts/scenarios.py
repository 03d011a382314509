"""The recommended-strategy table as a picture: recompute over copy for every outcome, beside the article's word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from kvmodel.charts import labels, series, theme
from kvmodel.charts.theme import LIGHT, Palette, Sketch
from kvmodel.claims.scenarios import COPY, Outcome, Row
from kvmodel.units import finite_or_none, format_ratio
from kvmodel.words import say

LANE_PX = 74
LEAST_REACH = 10**0.5  # of the axis on either side of 1


@dataclass(frozen=True)
class Mark:
    """How a condition is shown: symbol, height in its lane, name beside the dot and in full."""

    symbol: str
    rise: float
    short: str
    full: str


MARKS = {
    "article": Mark("circle", 0.06, "article", "the article's conditions"),
    "today-v1": Mark("square", -0.16, "V1 today", "vLLM V1 today, which only recomputes, against a swap"),
    "today": Mark("diamond", -0.38, "offload today", "today with offload"),
}


@dataclass(frozen=True)
class Lane:
    """One variant of a row of the table with its outcomes."""

    row: str
    variant: str
    article_pick: str
    outcomes: tuple[Outcome, ...]

    @property
    def name(self) -> str:
        """As shown."""
        return f"{say(self.row)}: {say(self.variant)}"


def ratio(outcome: Outcome) -> float:
    """Recompute over the copy it is compared with: above one the copy is faster. NaN where unknown."""
    contest = outcome.contest
    if contest.factor is None:
        return float("nan")
    return 1 / contest.factor if contest.winner == "recompute" else contest.factor


def lanes(rows: Sequence[Row]) -> list[Lane]:
    """A lane a variant, in the table's order."""
    variants = []
    for row in rows:
        for variant in dict.fromkeys(outcome.variant for outcome in row.outcomes):
            these = tuple(outcome for outcome in row.outcomes if outcome.variant == variant)
            variants.append(Lane(row.id, variant, COPY[row.article_pick], these))
    return variants


def outcomes(rows: Sequence[Row], *, palette: Palette = LIGHT) -> go.Figure:
    """A dot an outcome, left of 1 where recompute is faster; each lane is tinted on the side the article picked.

    A hollow dot is too close to call.
    """
    lane_list = lanes(rows)
    fig = theme.sketch(palette, height=LANE_PX * len(lane_list) + 54 + theme.MARGIN_BOTTOM_PX, left=12, right=12)
    fig.layout["margin"]["t"] = 54
    span = _ratio_axis(fig, lane_list, palette)
    theme.axis(fig, "yaxis", palette, title="", span=(-0.55, len(lane_list) - 0.4), ticks=[], labels=[], log=False)
    fig.layout["yaxis"]["showline"] = False
    labels.shape(fig, "line", x0=1, x1=1, y0=0, y1=1, yref="paper", line={"color": palette.muted, "width": 1})
    heights = {lane.name: len(lane_list) - 1 - index for index, lane in enumerate(lane_list)}
    for lane in lane_list:
        recompute = lane.article_pick == "recompute"
        labels.shape(
            fig, "rect", x0=span[0] if recompute else span[1], x1=1, line={"width": 0}, opacity=0.12,
            fillcolor=palette.recompute if recompute else palette.swap,
            y0=heights[lane.name] - 0.49, y1=heights[lane.name] + 0.17,
        )  # fmt: skip
        labels.text(
            fig, lane.name, palette.text, x=0, xref="paper", xanchor="left", y=heights[lane.name] + 0.32, yref="y"
        )
    for condition in MARKS:
        _dots(fig, lane_list, heights, condition, palette)
    _sides(fig, palette)
    return fig.figure()


def _ratio_axis(fig: Sketch, lane_list: Sequence[Lane], palette: Palette) -> tuple[float, float]:
    """A logarithmic axis around 1 that holds every ratio, with room for its text."""
    every = [times for lane in lane_list for times in map(ratio, lane.outcomes) if np.isfinite(times)]
    span = min([1 / LEAST_REACH, *(times / 1.5 for times in every)]), max([LEAST_REACH, *(1.5 * t for t in every)])
    ticks = [tick for tick in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100) if span[0] < tick < span[1]]
    names = [f"{tick:g}x" for tick in ticks]
    theme.axis(
        fig, "xaxis", palette, title=say("recompute time / copy time [ratio]"), span=span, ticks=ticks, labels=names
    )
    fig.layout["xaxis"].update(showgrid=True, showline=False)
    return span


def _sides(fig: Sketch, palette: Palette) -> None:
    """What left and right mean, and the tint."""
    left, right = say("◀ recompute faster"), say("copy faster ▶")
    sides = ((left, palette.recompute, 0.0, "left"), (right, palette.swap, 1.0, "right"))
    for words, color, x, anchor in sides:
        labels.text(
            fig, f"<b>{words}</b>", color, x=x, xref="paper", xanchor=anchor, y=1, yref="paper", yanchor="bottom",
            yshift=24,
        )  # fmt: skip
    labels.text(
        fig, say("tinted: the article's pick; hollow: too close to call"), palette.muted, size=11, x=0, xref="paper",
        xanchor="left", y=1, yref="paper", yanchor="bottom", yshift=4,
    )  # fmt: skip


def _dots(fig: Sketch, lane_list: Sequence[Lane], heights: Mapping[str, int], condition: str, palette: Palette) -> None:
    """All outcomes of a condition as one trace, each with its ratio beside it; the first lane names them."""
    mark = MARKS[condition]
    points = [
        (lane, outcome, ratio(outcome))
        for lane in lane_list
        for outcome in lane.outcomes
        if outcome.condition == condition and np.isfinite(ratio(outcome))
    ]
    colors = [_color(outcome, palette) for _, outcome, _ in points]
    fig.add(
        "scatter", mode="markers", name=mark.full,
        x=[times for _, _, times in points], y=[heights[lane.name] + mark.rise for lane, _, _ in points],
        marker={
            "symbol": mark.symbol, "size": 9, "line": {"color": colors, "width": 1.8},
            "color": [
                palette.background if outcome.contest.close else color
                for (_, outcome, _), color in zip(points, colors, strict=True)
            ],
        },
        customdata=[f"{lane.name}, {say(mark.full)}: {_in_words(outcome)}" for lane, outcome, _ in points],
        hovertemplate="%{customdata}<extra></extra>",
    )  # fmt: skip
    for (lane, _, times), color in zip(points, colors, strict=True):
        right = labels.fraction(fig, "xaxis", times) > 0.75
        name = f" {say(mark.short)}" if lane is lane_list[0] else ""
        labels.note(
            fig, times, heights[lane.name] + mark.rise, format_ratio(times) + name, color, size=11,
            xanchor="right" if right else "left", xshift=-9 if right else 9,
        )  # fmt: skip


def _color(outcome: Outcome, palette: Palette) -> str:
    if outcome.contest.close:
        return palette.muted
    return palette.recompute if outcome.contest.winner == "recompute" else palette.swap


def _in_words(outcome: Outcome) -> str:
    close = f", {say('too close to call')}" if outcome.contest.close else ""
    takes = say(
        "recompute takes {ratio} the time of {copy}", ratio=format_ratio(ratio(outcome)), copy=say(_copy_name(outcome))
    )
    return f"{takes}{close}"


def _copy_name(outcome: Outcome) -> str:
    both = (outcome.contest.winner, outcome.contest.runner_up)
    return next((name for name in both if name is not None and name != "recompute"), "a copy")


def outcomes_alt(rows: Sequence[Row]) -> str:
    """Each row's article pick and the ratios under both conditions."""
    texts = [
        say(
            "{lane}, article {pick}: {ratios}",
            lane=lane.name,
            pick=say(lane.article_pick),
            ratios=", ".join(f"{say(MARKS[o.condition].full)} {format_ratio(ratio(o))}" for o in lane.outcomes),
        )
        for lane in lanes(rows)
    ]
    return say("Recompute time over copy time, above 1 a copy is faster. {lanes}.", lanes="; ".join(texts))


def outcomes_points(rows: Sequence[Row]) -> list[series.Row]:
    """A row an outcome."""
    return [
        {
            "row": row.id,
            "article_pick": row.article_pick,
            "variant": outcome.variant,
            "condition": outcome.condition,
            "model_pick": outcome.pick,
            "recompute_over_copy": finite_or_none(ratio(outcome)),
        }
        for row in rows
        for outcome in row.outcomes
    ]
