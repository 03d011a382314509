"""The mean request of a server from its arrival to its last token: one bar of its parts."""

from __future__ import annotations

from collections.abc import Mapping

import plotly.graph_objects as go

from kvmodel.charts import labels, lanes
from kvmodel.charts.lanes import Look, Piece
from kvmodel.charts.theme import LIGHT, Palette
from kvmodel.diagnosis.request_times import GENERATING, PREEMPTED, PREFILL, PREFILL_AND_REST, QUEUE, REST
from kvmodel.units import format_seconds
from kvmodel.words import say

REQUEST = "the mean request"
AFTER_FIRST_TOKEN = (GENERATING, PREEMPTED)
LANE_PX, TOP_PX, BOTTOM_PX = 58, 22, 2
SHORTEST = 0.002  # of the bar: what is shorter is no more than a line in it


def looks(palette: Palette) -> dict[str, Look]:
    """The wait in grey, prefill in orange, tokens in blue; where preempted streams stand still hatched."""
    return {
        QUEUE: Look(palette.wait, "/", 0.55),
        PREFILL: Look(palette.recompute),
        PREFILL_AND_REST: Look(palette.recompute, opacity=0.7),
        REST: Look(palette.wait),
        GENERATING: Look(palette.swap),
        PREEMPTED: Look(palette.recompute, "x"),
    }


def pieces(parts_s: Mapping[str, float]) -> list[Piece]:
    """The parts one after the other."""
    now, bar = 0.0, []
    for name, seconds in parts_s.items():
        bar.append(Piece(name, now, seconds))
        now += seconds
    return bar


def first_token_s(parts_s: Mapping[str, float]) -> float:
    """When the first token is there."""
    return sum(seconds for name, seconds in parts_s.items() if name not in AFTER_FIRST_TOKEN)


def request_strip(parts_s: Mapping[str, float], *, palette: Palette = LIGHT) -> go.Figure:
    """The bar of `kvmodel.diagnosis.request_times`, its first token marked."""
    bars = {REQUEST: [piece for piece in pieces(parts_s) if piece.seconds > 0]}
    fig = lanes.lane_figure(bars, palette, title="", lane_px=LANE_PX, top_px=TOP_PX)
    fig.layout["xaxis"] |= {"showticklabels": False, "showgrid": False}
    fig.layout["margin"]["b"] = BOTTOM_PX
    fig.layout["height"] = TOP_PX + LANE_PX + BOTTOM_PX
    lanes.draw_pieces(fig, bars, looks(palette), palette)
    longest = {name: seconds for name, seconds in parts_s.items() if seconds >= SHORTEST * lanes.end_s(bars[REQUEST])}
    lanes.below(fig, REQUEST, parts_text(longest), palette)
    at = first_token_s(parts_s)
    labels.shape(
        fig, "line", x0=at, x1=at, y0=0.3, y1=1, yref="paper", line={"width": 1.5, "color": palette.text, "dash": "dot"}
    )
    labels.above(fig, at, say("first token {time}", time=format_seconds(at)), palette.text)
    end_s = lanes.end_s(bars[REQUEST])
    labels.text(
        fig, f"<b>{format_seconds(end_s)}</b>", palette.text, x=end_s, xref="x", xanchor="left", xshift=8,
        y=say(REQUEST), yref="y",
    )  # fmt: skip
    return fig.figure()


def parts_text(parts_s: Mapping[str, float]) -> str:
    return " + ".join(f"{say(name)} {format_seconds(seconds)}" for name, seconds in parts_s.items() if seconds > 0)


def request_strip_alt(parts_s: Mapping[str, float]) -> str:
    """The chart in words."""
    return say(
        "The mean request from its arrival to its last token: {parts}; its first token comes after {first}.",
        parts=parts_text(parts_s),
        first=format_seconds(first_token_s(parts_s)),
    )
