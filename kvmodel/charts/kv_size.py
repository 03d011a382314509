"""KV cache bytes against context length, several models."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from kvmodel.charts import labels, series, theme
from kvmodel.charts.theme import LIGHT, Palette, Sketch
from kvmodel.curves.curves import KvCurves
from kvmodel.units import format_bytes
from kvmodel.words import say

OTHERS = ("dash", "dot", "dashdot", "longdash", "longdashdot")


def kv_by_length(curves: KvCurves, *, palette: Palette = LIGHT) -> go.Figure:
    """KV of one request on each GPU: the reader's model stands out, its size at the chosen length is marked."""
    few = series.thin(curves.tokens, series.BAND_POINTS, keep=curves.chosen_tokens)
    fig = theme.sketch(palette, right=labels.room_px([labels.short_label(label) for label in curves.kv_bytes]), left=82)
    theme.length_axis(fig, curves.tokens, palette)
    theme.bytes_axis(fig, curves.kv_bytes.values(), palette, title=say("KV cache on each GPU [bytes]"))
    others = [label for label in curves.kv_bytes if label != curves.chosen_label]
    for index, label in enumerate(others):
        dash = OTHERS[index % len(OTHERS)]
        _line(fig, curves, label, few, color=palette.muted, dash=dash, width=1.4)
    _line(fig, curves, curves.chosen_label, few, color=palette.swap, dash="solid", width=3)
    _case_point(fig, curves, palette)
    colors = {label: palette.swap if label == curves.chosen_label else palette.muted for label in curves.kv_bytes}
    ends = [(labels.short_label(label), float(curves.kv_bytes[label][-1]), color) for label, color in colors.items()]
    labels.end_labels(fig, ends)
    return fig.figure()


def _line(fig: Sketch, curves: KvCurves, label: str, few: np.ndarray, *, color: str, dash: str, width: float) -> None:
    size = curves.kv_bytes[label][few]
    theme.line(
        fig, curves.tokens[few], size, label, color=color, dash=dash, width=width,
        text=[format_bytes(value) for value in size.tolist()], hover="%{text}",
    )  # fmt: skip


def _case_point(fig: Sketch, curves: KvCurves, palette: Palette) -> None:
    there = labels.value_at(curves.tokens, curves.kv_bytes[curves.chosen_label], curves.chosen_tokens)
    if np.isfinite(there):
        labels.chosen_line(fig, curves.chosen_tokens, labels.tokens(curves.chosen_tokens), palette)
        theme.dot(fig, curves.chosen_tokens, there, color=palette.swap, palette=palette)
        mark = [(format_bytes(there), there, palette.swap)]
        labels.value_labels(fig, curves.chosen_tokens, mark, palette.background)


def kv_by_length_alt(curves: KvCurves) -> str:
    """Every model's size at the chosen length."""
    sizes = ", ".join(
        f"{label} {format_bytes(labels.value_at(curves.tokens, size, curves.chosen_tokens))}"
        for label, size in curves.kv_bytes.items()
    )
    return say(
        "KV cache of one request of {tokens} on each GPU: {sizes}.",
        tokens=labels.tokens(curves.chosen_tokens),
        sizes=sizes,
    )


def kv_by_length_points(curves: KvCurves) -> list[series.Row]:
    """A row a length: bytes of each model."""
    columns = {"tokens": curves.tokens} | {f"{label}_bytes": size for label, size in curves.kv_bytes.items()}
    return series.rows(columns, series.thin(curves.tokens, series.BAND_POINTS, keep=curves.chosen_tokens))
