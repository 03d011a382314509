"""What happens to a preempted request, on one time axis, and when it produces its next token."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import plotly.graph_objects as go

from kvmodel.charts import lanes, series
from kvmodel.charts.lanes import Look, Piece
from kvmodel.charts.theme import LIGHT, Palette, Sketch
from kvmodel.units import format_seconds
from kvmodel.words import say

PREFILL = ("linear", "attention", "activations", "all-reduce", "launch")
Parts = Mapping[str, Mapping[str, float]]


def pieces(strategy_parts: Mapping[str, float]) -> list[Piece]:
    """The parts of one strategy in the order in which they happen; what is unknown (NaN) or nothing is left out.

    The copy out makes room at once; then the request waits for blocks, is copied in, prefilled. What the engine adds
    belongs to the prefill where there is one, else to the copy in.
    """
    part = dict(strategy_parts)
    prefill_s = sum(part.get(name, 0.0) for name in PREFILL)
    copy_in_s = part.get("per-copy in", 0.0) + part.get("wire in", 0.0)
    engine_s = part.get("engine", 0.0)
    stretches = [
        ("queue", part.get("queue", 0.0)),
        ("copy out", part.get("per-copy out", 0.0) + part.get("wire out", 0.0)),
        ("wait for blocks", part.get("wait for blocks", 0.0)),
        ("copy in", copy_in_s + (0.0 if prefill_s else engine_s)),
        ("prefill", prefill_s + (engine_s if prefill_s else 0.0)),
    ]
    lane, now = [], 0.0
    for name, seconds in stretches:
        if np.isfinite(seconds) and seconds > 0:
            lane.append(Piece(name, now, seconds))
            now += seconds
    return lane


def timeline(parts: Parts, *, palette: Palette = LIGHT) -> go.Figure:
    """A lane a strategy from the moment of preemption to the next token (`kvmodel.recovery.parts.parts`)."""
    request = {strategy: pieces(by_part) for strategy, by_part in parts.items()}
    fig = lanes.lane_figure(request, palette, title=say("time since preemption, ● next token [s]"), lane_px=62)
    waiting = Look(palette.wait, pattern="/", opacity=0.55)
    looks = {
        "queue": Look(pattern="/", opacity=0.55),
        "copy out": Look(),
        "wait for blocks": waiting,
        "copy in": Look(opacity=0.72),
        "prefill": Look(),
    }
    lanes.draw_pieces(fig, request, looks, palette)
    for strategy, lane in request.items():
        lanes.head(fig, strategy, _in_words(strategy, lane), palette)
        if lane:
            _next_token(fig, strategy, lanes.end_s(lane), palette)
    return fig.figure()


def _next_token(fig: Sketch, strategy: str, seconds: float, palette: Palette) -> None:
    hover = say("{strategy}: next token after {time}", strategy=say(strategy), time=format_seconds(seconds))
    fig.add(
        "scatter",
        x=[seconds], y=[say(strategy)], mode="markers", cliponaxis=False,
        marker={"color": palette.of(strategy), "size": 11, "line": {"color": palette.background, "width": 2}},
        hovertemplate=f"{hover}<extra></extra>",
    )  # fmt: skip
    lanes.end_note(fig, strategy, seconds, f"<b>{format_seconds(seconds)}</b>", palette)


def _in_words(strategy: str, lane: list[Piece]) -> str:
    """The pieces that set the strategies apart; the wait for blocks is common to all."""
    if not lane:
        return say("queue unknown: no running batch that fits") if strategy == "wait" else say("nothing to do")
    apart = [piece for piece in lane if piece.name != "wait for blocks"]
    sum_text = " + ".join(f"{say(piece.name)} {format_seconds(piece.seconds)}" for piece in apart)
    return f"{say('slower half')}: {sum_text}" if strategy == "both" else sum_text


def timeline_alt(parts: Parts) -> str:
    """When each strategy gives the next token, and the common wait."""
    ends = {strategy: lanes.end_s(pieces(by_part)) for strategy, by_part in parts.items()}
    times = ", ".join(f"{say(name)} {format_seconds(end) if end else say('unknown')}" for name, end in ends.items())
    wait_s = next(
        (by_part["wait for blocks"] for by_part in parts.values() if "wait for blocks" in by_part), float("nan")
    )
    if not np.isfinite(wait_s):
        return say("Time from preemption to the next token: {strategies}.", strategies=times)
    return say(
        "Time from preemption to the next token: {strategies}; {wait} of each but wait is the wait for free blocks.",
        strategies=times,
        wait=format_seconds(wait_s),
    )


def timeline_points(parts: Parts) -> list[series.Row]:
    """A row a piece: strategy, piece, start and length."""
    return [
        {"strategy": strategy, "piece": piece.name, "start_s": piece.start_s, "length_s": piece.seconds}
        for strategy, by_part in parts.items()
        for piece in pieces(by_part)
    ]
