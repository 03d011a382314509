"""Text inside a chart: labels at line ends, values at the chosen point, notes, the footer. Labels keep apart."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike

from kvmodel import __version__, catalog
from kvmodel.charts.theme import Palette, Sketch
from kvmodel.inputs.case import Case
from kvmodel.units import format_count
from kvmodel.words import say

GAP_PX = 17
LETTER_PX = 6.8
WIDE = 1.75  # letters that a syllable of Hangul is wide: 12 px
FOOTER_PX = 36
LONGEST_LABEL = 18  # letters
EDGE = 1e-6  # a text a rounding error outside its axis is not drawn


def fraction(fig: Sketch, which: str, value: float) -> float:
    """Where a data value lies along "xaxis" or "yaxis": 0 at its start, 1 at its end, never outside."""
    set_up = fig.layout[which]
    place = np.log10(value) if set_up["type"] == "log" and value > 0 else value
    start, end = set_up["range"]
    return float(np.clip((place - start) / (end - start), EDGE, 1 - EDGE))


def at_value(fig: Sketch, which: str, value: float) -> float:
    """The coordinate an annotation needs: log10 of the value on a log axis, inside its range."""
    start, end = fig.layout[which]["range"]
    return float(start + (end - start) * fraction(fig, which, value))


def apart(places_px: Sequence[float], height_px: float, gap_px: float = GAP_PX) -> list[float]:
    """Heights of labels, moved as little as keeps them `gap_px` apart and on the plot."""
    order = np.argsort(places_px)
    places = np.array(places_px, dtype=float)[order]
    for _ in range(60):
        overlap = np.maximum(gap_px - (places[1:] - places[:-1]), 0.0)
        if not overlap.any():
            break
        places[:-1] -= overlap / 2
        places[1:] += overlap / 2
    floors = gap_px * np.arange(places.size)
    places = np.maximum.accumulate(np.maximum(places, 0.0) - floors) + floors
    ceilings = height_px - floors[::-1]
    places = np.minimum.accumulate((np.minimum(places, height_px) - ceilings)[::-1])[::-1] + ceilings
    heights = np.empty_like(places)
    heights[order] = places
    return [float(place) for place in heights]


def plot_height_px(fig: Sketch) -> float:
    """Height of the plotting area."""
    return float(fig.layout["height"] - fig.layout["margin"]["t"] - fig.layout["margin"]["b"])


def room_px(labels: Sequence[str]) -> int:
    """The right margin that these labels need."""
    return int(14 + LETTER_PX * max(map(letters, labels)))


def letters(words: str) -> float:
    """How wide a text is, in Latin letters.

    >>> letters("swap"), letters("스왑")
    (4, 3.5)
    """
    if words.isascii():
        return len(words)
    return sum(WIDE if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in words)


def short_label(label: str) -> str:
    """A label that leaves room for the plot on a phone."""
    if letters(label) <= LONGEST_LABEL:
        return label
    while letters(label) > LONGEST_LABEL - 1:
        label = label[:-1]
    return label + "…"


def end_labels(fig: Sketch, labels: Sequence[tuple[str, float, str]]) -> None:
    """Names of lines at the right of the plot, each at the height of its line: (name, last y, colour)."""
    finite_labels = [(name, y, color) for name, y, color in labels if np.isfinite(y)]
    height = plot_height_px(fig)
    heights = [height * fraction(fig, "yaxis", y) for _, y, _ in finite_labels]
    for (name, _, color), place in zip(finite_labels, apart(heights, height), strict=True):
        text(fig, name, color, x=1, xref="paper", y=place / height, yref="paper", xanchor="left", xshift=6)


def value_labels(
    fig: Sketch, x: float, labels: Sequence[tuple[str, float, str]], background: str, *, falling: bool = False
) -> None:
    """Values beside the marked points at x: (text, y, colour), on the side that a rising (or falling) line leaves."""
    finite_labels = [(words, y, color) for words, y, color in labels if np.isfinite(y)]
    height, along = plot_height_px(fig), fraction(fig, "xaxis", x)
    on_left = along > 0.75 if falling else along > 0.22
    shift = 9 if on_left != falling else -9
    heights = [max(height * fraction(fig, "yaxis", y) + shift, GAP_PX / 2) for _, y, _ in finite_labels]
    for (words, _, color), place in zip(finite_labels, apart(heights, height), strict=True):
        text(
            fig, words, color, x=along, xref="paper", y=place / height, yref="paper", bgcolor=background,
            xanchor="right" if on_left else "left", xshift=-8 if on_left else 8,
        )  # fmt: skip


def tokens(count: float) -> str:
    """ "1 token", "4,096 tokens"."""
    words = say("{count} token") if count == 1 else say("{count} tokens")
    return words.format(count=format_count(count))


def chosen_line(fig: Sketch, x: float, words: str, palette: Palette) -> None:
    """A thin mid-grey vertical line at the reader's own x, named above the plot."""
    shape(fig, "line", x0=x, x1=x, y0=0, y1=1, yref="paper", line={"color": palette.muted, "width": 1})
    above(fig, x, words, palette.muted)


def above(fig: Sketch, x: float, words: str, color: str, **more: Any) -> None:
    """Text over the plot at x, turned inward near its ends."""
    along = fraction(fig, "xaxis", x)
    anchor = "left" if along < 0.2 else "right" if along > 0.8 else "center"
    text(fig, words, color, x=along, xref="paper", y=1, yref="paper", xanchor=anchor, yanchor="bottom", **more)


def note(fig: Sketch, x: float, y: float, words: str, color: str, **more: Any) -> None:
    """Text at data values, whatever the axes."""
    text(fig, words, color, x=at_value(fig, "xaxis", x), xref="x", y=at_value(fig, "yaxis", y), yref="y", **more)


def text(fig: Sketch, words: str, color: str, *, size: int = 12, **place: Any) -> None:
    """An annotation without an arrow, centred on its place unless told otherwise."""
    fig.layout["annotations"].append(
        {"text": words, "showarrow": False, "borderpad": 0, "yanchor": "middle", "font": {"size": size, "color": color}}
        | place
    )


def shape(fig: Sketch, kind: str, **place: Any) -> None:
    """A line or a rectangle behind the traces; on log axes in data values."""
    fig.layout["shapes"].append({"type": kind, "layer": "below"} | place)


def value_at(x: ArrayLike, y: ArrayLike, where: float) -> float:
    """The y of a curve at `where`, between its points on log scales; NaN outside them."""
    positive = np.isfinite(y) & (np.asarray(y) > 0)
    if not positive.any() or not np.min(x) <= where <= np.max(x):
        return float("nan")
    return float(np.exp(np.interp(np.log(where), np.log(np.asarray(x)[positive]), np.log(np.asarray(y)[positive]))))


def footer(fig: go.Figure, case: Case | None, palette: Palette) -> go.Figure:
    """What the chart was drawn for, below it: charts travel into design reviews without their page."""
    words = f"kvmodel {__version__}"
    if case is not None:
        split = f" x {case.tp}" if case.tp > 1 else ""
        name = catalog.model(case.model).name
        words = f"{name} · {case.gpu}{split} · {case.link_id}<br>timing {case.timing} · {words}"
    margin = fig.layout.margin
    bottom = margin.b + FOOTER_PX
    fig.update_layout(height=fig.layout.height + FOOTER_PX, margin_b=bottom)
    fig.add_annotation(
        text=words, showarrow=False, font={"size": 10, "color": palette.muted}, align="left",
        x=0, xref="paper", xanchor="left", xshift=8 - margin.l,
        y=0, yref="paper", yanchor="bottom", yshift=4 - bottom,
    )  # fmt: skip
    return fig
