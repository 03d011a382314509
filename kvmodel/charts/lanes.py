"""Horizontal lanes, one a strategy: a headed bar of pieces. Shared by the timeline and the stacked parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kvmodel.charts import labels, theme
from kvmodel.charts.theme import Palette, Sketch
from kvmodel.units import format_seconds
from kvmodel.words import say

SHORTEST_NAMED = 0.12  # of the axis: in shorter pieces there is no room for a name
BAR = 0.40  # of a lane's height


@dataclass(frozen=True)
class Piece:
    """A stretch of a lane."""

    name: str
    start_s: float
    seconds: float


Lanes = Mapping[str, Sequence[Piece]]


@dataclass(frozen=True)
class Look:
    """How a kind of piece is drawn: colour (None: the strategy's), hatching, opacity."""

    color: str | None = None
    pattern: str = ""
    opacity: float = 1.0


def lane_figure(lanes: Lanes, palette: Palette, *, title: str, lane_px: int, top_px: int = 8) -> Sketch:
    """An empty figure for these lanes, the first on top, on one linear time axis from 0."""
    fig = theme.sketch(palette, height=top_px + theme.MARGIN_BOTTOM_PX + lane_px * len(lanes), left=12, right=76)
    fig.layout["margin"]["t"] = top_px
    longest = max([end_s(pieces) for pieces in lanes.values()] or [0.0]) or 1.0
    ticks = round_steps(longest)
    theme.axis(
        fig, "xaxis", palette, title=title, span=(0, longest), log=False, ticks=ticks,
        labels=["0", *[theme.without_zeros(format_seconds(tick, digits=3)) for tick in ticks[1:]]],
    )  # fmt: skip
    fig.layout["xaxis"].update(showgrid=True, showline=False)
    fig.layout["yaxis"] = {
        "type": "category", "categoryorder": "array", "categoryarray": [say(lane) for lane in lanes][::-1],
        "range": [-0.5, len(lanes) - 0.5], "showticklabels": False, "showgrid": False, "fixedrange": True,
        "title": {"text": ""}, "automargin": False,
    }  # fmt: skip
    fig.layout.update(barmode="overlay", bargap=1 - BAR, uniformtext={"minsize": 11, "mode": "hide"})
    return fig


def end_s(pieces: Sequence[Piece]) -> float:
    """When the last piece is over."""
    return max([piece.start_s + piece.seconds for piece in pieces] or [0.0])


def round_steps(longest: float, most: int = 5) -> list[float]:
    """Ticks 0, s, 2 s ... with s one, two or five of a decade."""
    rough = longest / most
    decade = 10.0 ** np.floor(np.log10(rough))
    step = next(decade * factor for factor in (1, 2, 5, 10) if decade * factor >= rough * 0.999)
    return [float(step * index) for index in range(int(longest / step) + 1)]


def draw_pieces(fig: Sketch, lanes: Lanes, looks: Mapping[str, Look], palette: Palette) -> None:
    """A trace for each kind of piece, over the lanes that have it."""
    longest = max([end_s(pieces) for pieces in lanes.values()] or [0.0])
    for kind, look in looks.items():
        pairs = [(lane, piece) for lane, pieces in lanes.items() for piece in pieces if piece.name == kind]
        if not pairs:
            continue
        colors = [look.color or palette.of(lane) for lane, _ in pairs]
        has_pattern = bool(look.pattern)
        fig.add(
            "bar",
            orientation="h",
            y=[say(lane) for lane, _ in pairs],
            x=[piece.seconds for _, piece in pairs],
            base=[piece.start_s for _, piece in pairs],
            name=kind,
            text=[say(kind) if piece.seconds > SHORTEST_NAMED * longest else "" for _, piece in pairs],
            textposition="inside",
            insidetextanchor="middle",
            textangle=0,
            textfont={"size": 11, "color": palette.text if has_pattern else palette.background},
            marker={
                "color": palette.background if has_pattern else colors,
                "opacity": look.opacity,
                "line": {"width": 1, "color": colors if has_pattern else palette.background},
                "pattern": {"shape": look.pattern, "fgcolor": colors, "size": 6, "solidity": 0.25},
            },
            customdata=[format_seconds(piece.seconds) for _, piece in pairs],
            hovertemplate=f"%{{y}}: {say(kind)} %{{customdata}}<extra></extra>",
        )


def head(fig: Sketch, lane: str, words: str, palette: Palette) -> None:
    """The lane's name in its colour over its bar, and its words."""
    labels.text(
        fig, f'<b><span style="color:{palette.of(lane)}">{say(lane)}</span></b>  {words}', palette.muted,
        x=0, xref="x", xanchor="left", y=say(lane), yref="y", yshift=_half_bar_px(fig) + 10,
    )  # fmt: skip


def below(fig: Sketch, lane: str, words: str, palette: Palette) -> None:
    """A line of small text under the lane's bar."""
    labels.text(
        fig, words, palette.muted, size=11, x=0, xref="x", xanchor="left", y=say(lane), yref="y",
        yshift=-_half_bar_px(fig) - 9,
    )  # fmt: skip


def end_note(fig: Sketch, lane: str, seconds: float, words: str, palette: Palette) -> None:
    """Text right of the lane's end."""
    labels.text(
        fig, words, palette.of(lane), x=labels.at_value(fig, "xaxis", seconds), xref="x", xanchor="left", xshift=8,
        y=say(lane), yref="y", align="left",
    )  # fmt: skip


def _half_bar_px(fig: Sketch) -> float:
    return labels.plot_height_px(fig) / len(fig.layout["yaxis"]["categoryarray"]) * BAR / 2
