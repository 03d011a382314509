"""One look for every chart: two palettes, a dash for each strategy, lines and axes."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

from kvmodel.arrays import Floats
from kvmodel.units import format_bytes, format_seconds, format_tokens
from kvmodel.words import say

DASHES = {"wait": "dot", "swap": "solid", "recompute": "dash", "offload": "dashdot", "both": "longdash"}
FULL_HEIGHT_PX, MARGIN_TOP_PX, MARGIN_BOTTOM_PX, MARGIN_LEFT_PX = 420, 30, 52, 74


@dataclass(frozen=True)
class Palette:
    """Colours of a chart: one a strategy, and the greys. `font` None leaves the family to the page around it."""

    wait: str
    swap: str
    recompute: str
    offload: str
    both: str
    text: str
    muted: str
    grid: str
    background: str
    font: str | None

    def of(self, strategy: str) -> str:
        """The colour of a strategy."""
        return str(getattr(self, strategy))


LIGHT = Palette(
    wait="#6B7280",
    swap="#0072B2",
    recompute="#C2410C",
    offload="#7A4FA3",
    both="#2F7D4F",
    text="#1E2329",
    muted="#6A6F76",
    grid="#E6E6DF",
    background="#FCFCFA",
    font="Pretendard, system-ui, sans-serif",
)
# Streamlit's browser code replaces these strings, wherever they stand in a figure, by the page's own colours, light or
# dark: categories 1 to 5, then the darkest grey, the grid's grey and the background. Category 1 is a mid grey in both.
STREAMLIT = Palette(
    wait="#000001",
    swap="#000002",
    recompute="#000003",
    offload="#000004",
    both="#000005",
    text="#000037",
    muted="#000001",
    grid="#000035",
    background="#000038",
    font=None,
)


@dataclass(frozen=True)
class Sketch:
    """A chart while it is drawn: traces and layout as plotly knows them, checked once by :meth:`figure`.

    Adding ten texts to a finished Figure one by one takes plotly longer than all else here.
    """

    data: list[dict[str, Any]]
    layout: dict[str, Any]
    palette: Palette

    def add(self, kind: str, **trace: Any) -> None:
        """One more trace."""
        self.data.append({"type": kind} | trace)

    def figure(self) -> go.Figure:
        """The finished figure; for a page only what a page needs of it."""
        return PageFigure(self) if self.palette is STREAMLIT else go.Figure(data=self.data, layout=self.layout)


class PageFigure(go.Figure):
    """A chart that only knows its JSON, all that Streamlit asks of a figure.

    Building and copying plotly's own objects takes most of a page's time. They would be the same: a test compares.
    """

    def __init__(self, sketch: Sketch) -> None:
        object.__setattr__(self, "sketch", sketch)

    def to_dict(self) -> dict[str, Any]:
        """Data and layout, arrays packed as plotly.js reads them."""
        sketch: Sketch = object.__getattribute__(self, "sketch")
        traces = [{key: packed_array(value) for key, value in trace.items()} for trace in sketch.data]
        return {"data": traces, "layout": sketch.layout}


def packed_array(value: Any) -> Any:
    """A single-precision array in plotly's typed form; anything else as it is."""
    if not isinstance(value, np.ndarray) or value.dtype != np.float32 or not value.size:
        return value
    return {"dtype": "f4", "bdata": base64.b64encode(value.tobytes()).decode("ascii")}


def sketch(palette: Palette, *, height: int = FULL_HEIGHT_PX, left: int = MARGIN_LEFT_PX, right: int = 20) -> Sketch:
    """An empty chart with the palette's paper, fonts and margins; no legend, no zoom by dragging."""
    layout = {
        "template": {},
        "height": height,
        "margin": {"l": left, "r": right, "t": MARGIN_TOP_PX, "b": MARGIN_BOTTOM_PX, "pad": 0},
        "font": {"family": palette.font, "size": 12, "color": palette.muted},
        "paper_bgcolor": palette.background,
        "plot_bgcolor": palette.background,
        "hoverlabel": {
            "bgcolor": palette.background,
            "bordercolor": palette.grid,
            "font": {"family": palette.font, "size": 12, "color": palette.text},
        },
        "showlegend": False,
        "dragmode": False,
        "hovermode": "closest",
        "annotations": [],
        "shapes": [],
    }
    return Sketch([], layout, palette)


def axis(
    fig: Sketch,
    which: str,
    palette: Palette,
    *,
    title: str,
    span: tuple[float, float],
    ticks: Sequence[float],
    labels: Sequence[str],
    log: bool = True,
    grid: bool = False,
) -> None:
    """Set the "xaxis" or "yaxis": its range and ticks in data values, whether logarithmic or not."""
    ends = [float(np.log10(end)) for end in span] if log else list(span)
    fig.layout[which] = {
        "type": "log" if log else "linear",
        "title": {"text": title, "font": {"size": 12, "color": palette.muted}, "standoff": 8},
        "range": ends,
        "tickmode": "array",
        "tickvals": list(ticks),
        "ticktext": list(labels),
        "tickangle": 0,
        "ticklabelstandoff": 5 if which == "yaxis" else 2,
        "tickfont": {"size": 12, "color": palette.muted},
        "showgrid": grid,
        "gridcolor": palette.grid,
        "gridwidth": 1,
        "zeroline": False,
        "showline": not grid,
        "linecolor": palette.grid,
        "automargin": False,
        "fixedrange": True,
        "spikecolor": palette.muted,
        "spikethickness": 1,
        "spikedash": "dot",
    }


def length_axis(fig: Sketch, tokens: Floats, palette: Palette, *, title: str | None = None) -> None:
    """The x axis over tokens, of a context by default: 128, 512, 2K, 8K, 32K, 128K; further apart in a longer one."""
    span = (float(tokens[0]), max(float(tokens[-1]), 2 * float(tokens[0])))
    for ratio in (4, 16, 64):
        ticks = [
            t for t in 128.0 * float(ratio) ** np.arange(-6, 12) if span[0] * 0.999 <= t <= span[1] * 1.001 and t >= 1
        ]
        if len(ticks) <= 7:
            break
    words = say("context length [tokens]") if title is None else title
    axis(fig, "xaxis", palette, title=words, span=span, ticks=ticks, labels=[format_tokens(round(t)) for t in ticks])
    hover_title(fig, say("%{x:,.0f} tokens"))


def seconds_axis(fig: Sketch, values: Iterable[ArrayLike], palette: Palette, *, title: str) -> None:
    """A logarithmic y axis over seconds: 10 ms, 100 ms, 1 s."""
    span = log_span(values)
    decades = 10.0 ** np.arange(-9, 9)
    steps = (1,) if span[1] / span[0] > 30 else (1, 2, 5)
    ticks = [d * step for d in decades for step in steps if span[0] <= d * step <= span[1]]
    axis(fig, "yaxis", palette, title=title, span=span, ticks=ticks, labels=[tick_seconds(t) for t in ticks], grid=True)


def bytes_axis(fig: Sketch, values: Iterable[ArrayLike], palette: Palette, *, title: str) -> None:
    """A logarithmic y axis over bytes: 1 MiB, 16 MiB, 256 MiB, 4 GiB."""
    span = log_span(values)
    ticks = [t for t in 16.0 ** np.arange(0, 14) if span[0] <= t <= span[1]]
    labels = [without_zeros(format_bytes(tick)) for tick in ticks]
    axis(fig, "yaxis", palette, title=title, span=span, ticks=ticks, labels=labels, grid=True)


def hover_title(fig: Sketch, text: str) -> None:
    """One hover box for all lines, headed by the x value with its unit."""
    fig.layout["xaxis"]["unifiedhovertitle"] = {"text": text}
    fig.layout["hovermode"] = "x unified"


def tick_seconds(seconds: float) -> str:
    """A round number of seconds without decimals: "100 ms", "1 s"."""
    return format_seconds(seconds, digits=1)


def without_zeros(number: str) -> str:
    """A number with its unit, without trailing zeros: "1.50 s" is "1.5 s", "2.00 MiB" is "2 MiB"."""
    return re.sub(r"\.?0+(?= )", "", number) if "." in number else number


def log_span(values: Iterable[ArrayLike], pad: float = 0.05) -> tuple[float, float]:
    """Ends of a logarithmic axis that holds all finite values above zero, with a little room."""
    every = np.concatenate([np.ravel(np.asarray(value, dtype=float)) for value in values])
    every = every[np.isfinite(every) & (every > 0)]
    if not every.size:
        return 1.0, 10.0
    low, high = np.log10(every.min()), np.log10(every.max())
    room = max(pad * (high - low), 0.05)
    return float(10 ** (low - room)), float(10 ** (high + room))


def small(values: ArrayLike) -> NDArray[np.float32]:
    """Single precision: half the bytes in a page, far finer than a pixel."""
    return np.asarray(values, dtype=np.float32)


def line(
    fig: Sketch, x: ArrayLike, y: ArrayLike, name: str, *, color: str, dash: str = "solid", width: float = 2.2,
    hover: str | None = "%{y:.2s}s", **more: Any,
) -> None:  # fmt: skip
    """One line; `hover` is its value's format with its unit, None for no hover."""
    hover_style: dict[str, Any] = (
        {"hoverinfo": "skip"} if hover is None else {"hovertemplate": f"{name} {hover}<extra></extra>"}
    )
    style = {"color": color, "dash": dash, "width": width}
    fig.add("scatter", x=small(x), y=small(y), name=name, line=style, **({"mode": "lines"} | hover_style | more))


def band(fig: Sketch, x: Floats, low: Floats, high: Floats, *, color: str, name: str, opacity: float = 0.13) -> None:
    """A translucent band; as a polygon of its own, so that its opacity touches nothing else."""
    valid = np.isfinite(low) & np.isfinite(high) & (low > 0)
    if valid.any():
        outline = np.concatenate([x[valid], x[valid][::-1]]), np.concatenate([low[valid], high[valid][::-1]])
        fig.add(
            "scatter", x=small(outline[0]), y=small(outline[1]), name=name, mode="lines", line={"width": 0},
            fill="toself", fillcolor=color, opacity=opacity, hoverinfo="skip",
        )  # fmt: skip


def dot(
    fig: Sketch, x: float, y: float, *, color: str, palette: Palette, hover: str | None = None, **marker: Any
) -> None:
    """One marked point, ringed in the background's colour; without `hover` the line under it tells."""
    style = {"color": color, "size": 9, "line": {"color": palette.background, "width": 1.5}} | marker
    hover_style = {"hoverinfo": "skip"} if hover is None else {"hovertemplate": hover + "<extra></extra>"}
    fig.add("scatter", x=[x], y=[y], mode="markers", marker=style, **hover_style)
