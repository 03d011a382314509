"""The recommended-strategy table as a picture: recompute over copy for every outcome, beside the article's word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from kvmodel.charts import labels, theme
from kvmodel.charts.theme import LIGHT, Palette
from kvmodel.comparison import plain
from kvmodel.scenarios import COPY, Outcome, Row
from kvmodel.units import format_ratio

LANE_PX = 74
CONDITIONS = {  # symbol, words, height in the lane
    "article": ("circle", "the article's conditions", 0.06),
    "today-v1": ("square", "vLLM V1 today, no copies", -0.16),
    "today": ("diamond", "today with offload", -0.38),
}


@dataclass(frozen=True)
class Lane:
    """One variant of a row of the table with its outcomes."""

    name: str
    article_pick: str
    outcomes: tuple[Outcome, ...]


def ratio(outcome: Outcome) -> float:
    """Recompute over the copy it is compared with: above one the copy is faster. NaN where unknown."""
    contest = outcome.contest
    if contest.factor is None:
        return float("nan")
    return 1 / contest.factor if contest.winner == "recompute" else contest.factor


def lanes(rows: Sequence[Row]) -> list[Lane]:
    """A lane a variant, in the table's order."""
    found = []
    for row in rows:
        for variant in dict.fromkeys(outcome.variant for outcome in row.outcomes):
            these = tuple(outcome for outcome in row.outcomes if outcome.variant == variant)
            found.append(Lane(f"{row.id}: {variant}", COPY[row.article_pick], these))
    return found


def outcomes(rows: Sequence[Row], *, palette: Palette = LIGHT) -> go.Figure:
    """A dot an outcome, left of 1 where recompute is faster; each lane is tinted on the side the article picked."""
    listed = lanes(rows)
    fig = theme.figure(palette, height=LANE_PX * len(listed) + 54 + theme.MARGIN_BOTTOM_PX, left=12, right=12)
    fig.layout.margin.t = 54
    every = [abs(np.log10(ratio(outcome))) for lane in listed for outcome in lane.outcomes]
    reach = 10 ** (1.25 * max([0.5, *[size for size in every if np.isfinite(size)]]))
    ticks = [tick for tick in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100) if 1 / reach < tick < reach]
    theme.axis(
        fig, "xaxis", palette, title="recompute time / copy time [ratio]", span=(1 / reach, reach), ticks=ticks,
        labels=[f"{tick:g}x" for tick in ticks],
    )  # fmt: skip
    fig.layout.xaxis.update(showgrid=True, showline=False)
    theme.axis(fig, "yaxis", palette, title="", span=(-0.55, len(listed) - 0.4), ticks=[], labels=[], log=False)
    fig.layout.yaxis.showline = False
    fig.add_shape(
        type="line", x0=1, x1=1, y0=0, y1=1, yref="paper", layer="below", line={"color": palette.muted, "width": 1}
    )
    for index, lane in enumerate(listed):
        _lane(fig, lane, len(listed) - 1 - index, reach, palette, first=index == 0)
    sides = (("◀ recompute faster", palette.recompute, 0.0, "left"), ("copy faster ▶", palette.swap, 1.0, "right"))
    for words, color, x, anchor in sides:
        labels.text(
            fig, f"<b>{words}</b>", color, x=x, xref="paper", xanchor=anchor, y=1, yref="paper", yanchor="bottom",
            yshift=22,
        )  # fmt: skip
    labels.text(
        fig, "tinted: the side the article picks", palette.muted, size=11, x=0.5, xref="paper", y=1, yref="paper",
        yanchor="bottom", yshift=4,
    )  # fmt: skip
    return fig


def _lane(fig: go.Figure, lane: Lane, y: int, reach: float, palette: Palette, *, first: bool) -> None:
    color = palette.recompute if lane.article_pick == "recompute" else palette.swap
    edge = 1 / reach if lane.article_pick == "recompute" else reach
    fig.add_shape(
        type="rect", x0=edge, x1=1, y0=y - 0.47, y1=y + 0.2, layer="below", line={"width": 0},
        fillcolor=color, opacity=0.12,
    )  # fmt: skip
    labels.text(
        fig, lane.name, palette.text, x=0, xref="paper", xanchor="left", y=y + 0.34, yref="y", size=12,
    )  # fmt: skip
    for outcome in lane.outcomes:
        _outcome(fig, outcome, y, palette, named=first)


def _outcome(fig: go.Figure, outcome: Outcome, y: int, palette: Palette, *, named: bool) -> None:
    symbol, words, rise = CONDITIONS[outcome.condition]
    times = ratio(outcome)
    if not np.isfinite(times):
        return
    own = palette.recompute if outcome.contest.winner == "recompute" else palette.swap
    color = palette.muted if outcome.contest.close else own
    close = ", too close to call" if outcome.contest.close else ""
    theme.dot(
        fig, times, y + rise, color=palette.background if outcome.contest.close else color, palette=palette, size=10,
        symbol=symbol, line={"color": color, "width": 1.8},
        hover=f"{outcome.variant}, {words}: recompute takes {format_ratio(times)} as long as "
        f"{_copy_name(outcome)}{close}",
    )  # fmt: skip
    said = f"{format_ratio(times)} {words}" if named else format_ratio(times)
    right = labels.fraction(fig, "xaxis", times) > 0.75
    labels.note(
        fig, times, y + rise, said, color, size=11, xanchor="right" if right else "left", xshift=-9 if right else 9
    )


def _copy_name(outcome: Outcome) -> str:
    both = (outcome.contest.winner, outcome.contest.runner_up)
    return next((name for name in both if name is not None and name != "recompute"), "a copy")


def outcomes_alt(rows: Sequence[Row]) -> str:
    """Each row's article pick and the ratios under both conditions."""
    told = [
        f"{lane.name}, article {lane.article_pick}: "
        + ", ".join(f"{CONDITIONS[o.condition][1]} {format_ratio(ratio(o))}" for o in lane.outcomes)
        for lane in lanes(rows)
    ]
    return f"Recompute time over copy time, above 1 a copy is faster. {'; '.join(told)}."


def outcomes_points(rows: Sequence[Row]) -> list[theme.Row]:
    """A row an outcome."""
    return [
        {
            "row": row.id,
            "article_pick": row.article_pick,
            "variant": outcome.variant,
            "condition": outcome.condition,
            "model_pick": outcome.pick,
            "recompute_over_copy": plain(ratio(outcome)),
        }
        for row in rows
        for outcome in row.outcomes
    ]
