"""What each strategy's delay is made of: one stacked bar a strategy."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import plotly.graph_objects as go

from kvmodel.charts import lanes, series
from kvmodel.charts.lanes import Look, Piece
from kvmodel.charts.theme import LIGHT, Palette
from kvmodel.recovery.parts import PARTS
from kvmodel.units import finite_or_none, format_seconds
from kvmodel.words import say

NAMED = 3  # largest parts of a bar that are written under it
Parts = Mapping[str, Mapping[str, float]]


def looks(palette: Palette) -> dict[str, Look]:
    """Copies in blue, kernels in orange, waits and the engine in grey; told apart by hatching and shade."""
    return {
        "wait for blocks": Look(palette.wait, "/", 0.55),
        "queue": Look(palette.wait, "/", 0.55),
        "pinning": Look(palette.swap, "/", 0.6),
        "per-copy out": Look(palette.swap, "x"),
        "wire out": Look(palette.swap),
        "per-copy in": Look(palette.swap, "\\", 0.8),
        "wire in": Look(palette.swap, opacity=0.7),
        "linear": Look(palette.recompute),
        "attention": Look(palette.recompute, opacity=0.7),
        "activations": Look(palette.recompute, "x"),
        "all-reduce": Look(palette.offload),
        "launch": Look(palette.recompute, "."),
        "engine": Look(palette.wait),
    }


def bars_of(parts: Parts, with_wait: bool) -> dict[str, list[Piece]]:
    """The bars, in the order of `kvmodel.recovery.parts.PARTS`; unknown parts (NaN) and empty ones are left out."""
    bars: dict[str, list[Piece]] = {}
    for strategy, by_part in parts.items():
        now, bar = 0.0, []
        for name in PARTS:
            seconds = by_part.get(name, 0.0)
            if np.isfinite(seconds) and seconds > 0 and (with_wait or name != "wait for blocks"):
                bar.append(Piece(name, now, seconds))
                now += seconds
        bars[strategy] = bar
    return bars


def stacked_parts(parts: Parts, *, with_wait: bool = False, palette: Palette = LIGHT) -> go.Figure:
    """Stacked bars of `kvmodel.recovery.parts.parts`; `with_wait` adds the wait for blocks."""
    bars = {strategy: bar for strategy, bar in bars_of(parts, with_wait).items() if bar}
    fig = lanes.lane_figure(bars, palette, title=say("victim delay [s]"), lane_px=72)
    lanes.draw_pieces(fig, bars, looks(palette), palette)
    for strategy, bar in bars.items():
        lanes.head(fig, strategy, say("slower half") if strategy == "both" else "", palette)
        lanes.below(fig, strategy, _largest(bar), palette)
        lanes.end_note(fig, strategy, lanes.end_s(bar), f"<b>{format_seconds(lanes.end_s(bar))}</b>", palette)
    return fig.figure()


def _largest(bar: list[Piece]) -> str:
    """The largest parts in the bar's order, and how many smaller ones there are."""
    largest = sorted(bar, key=lambda piece: -piece.seconds)[:NAMED]
    sum_text = " + ".join(f"{say(piece.name)} {format_seconds(piece.seconds)}" for piece in bar if piece in largest)
    if len(bar) == len(largest):
        return sum_text
    return say("{largest} + {count} smaller", largest=sum_text, count=len(bar) - len(largest))


def stacked_parts_alt(parts: Parts, *, with_wait: bool = False) -> str:
    """Each strategy's total and largest parts."""
    bars = bars_of(parts, with_wait)
    totals = [
        f"{say(strategy)} {format_seconds(lanes.end_s(bar))} ({_largest(bar)})"
        if bar
        else say("{strategy} not in it", strategy=say(strategy))
        for strategy, bar in bars.items()
    ]
    return say("Parts of the victim delay: {parts}.", parts="; ".join(totals))


def stacked_parts_points(parts: Parts) -> list[series.Row]:
    """A row a strategy: seconds of every part, None for what is unknown."""
    return [
        {"strategy": strategy, **{f"{name}_s": finite_or_none(by_part.get(name, 0.0)) for name in PARTS}}
        for strategy, by_part in parts.items()
    ]
