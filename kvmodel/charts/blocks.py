"""Block size: swap cost for each layout with its bytes a copy, and Figure 19 of the vLLM paper."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from kvmodel.arrays import Floats
from kvmodel.charts import labels, series, theme
from kvmodel.charts.theme import LIGHT, Palette, Sketch
from kvmodel.claims.figure19 import Figure19
from kvmodel.curves.curves import BlockCurves
from kvmodel.units import MS, format_bytes, format_count, format_ratio, format_seconds
from kvmodel.words import say


def cost_by_block(curves: BlockCurves, *, palette: Palette = LIGHT) -> go.Figure:
    """Swap out and in against block size, a line a layout; above, the bytes of one copy in the chosen layout.

    Bands are the ranges of swap in the chosen layout and of recompute.
    """
    case_layout = curves.chosen_layout
    names = [say("swap {layout}", layout=layout) for layout in curves.swap_s]
    fig = theme.sketch(palette, right=labels.room_px([*curves.swap_s, say("recompute")]))
    _block_axis(fig, curves.block_tokens, palette)
    ranges = [*curves.low_s.values(), *curves.high_s.values()]
    theme.seconds_axis(fig, [*curves.swap_s.values(), *ranges], palette, title=say("victim delay [s]"))
    for name, low_s in curves.low_s.items():
        theme.band(fig, curves.block_tokens, low_s, curves.high_s[name], color=palette.of(name), name=f"{name} range")
    for name, layout in zip(names, curves.swap_s, strict=True):
        theme.line(
            fig, curves.block_tokens, curves.swap_s[layout], name, color=palette.swap, mode="lines+markers",
            width=2.4 if layout == case_layout else 1.2, marker={"size": 6 if layout == case_layout else 4},
            xaxis="x2" if layout == case_layout else "x",
        )  # fmt: skip
    _recompute_line(fig, curves.block_tokens, curves.recompute_s, palette, name=say("recompute"))
    _bytes_axis_above(fig, curves, palette)
    labels.chosen_line(fig, curves.chosen_block_tokens, "", palette)
    there = labels.value_at(curves.block_tokens, curves.swap_s[case_layout], curves.chosen_block_tokens)
    theme.dot(fig, curves.chosen_block_tokens, there, color=palette.swap, palette=palette)
    labels.value_labels(
        fig,
        curves.chosen_block_tokens,
        [(format_seconds(there), there, palette.swap)],
        palette.background,
        falling=True,
    )
    ends = [
        (f"<b>{layout}</b>" if layout == case_layout else layout, float(series[-1]), palette.swap)
        for layout, series in curves.swap_s.items()
    ]
    labels.end_labels(fig, [*ends, (say("recompute"), curves.recompute_s, palette.recompute)])
    return fig.figure()


def _block_axis(fig: Sketch, blocks: Floats, palette: Palette) -> None:
    ticks = blocks[::2]
    span = (float(blocks[0]) / 1.15, float(blocks[-1]) * 1.15)
    texts = [format_count(tick) for tick in ticks]
    theme.axis(fig, "xaxis", palette, title=say("block size [tokens]"), span=span, ticks=list(ticks), labels=texts)
    theme.hover_title(fig, say("blocks of %{x} tokens"))


def _bytes_axis_above(fig: Sketch, curves: BlockCurves, palette: Palette) -> None:
    """The same x axis once more, on top, in bytes a copy: the honest axis."""
    per_copy = np.asarray(curves.bytes_per_copy[curves.chosen_layout])
    fig.layout["margin"]["t"] = 58
    fig.layout["xaxis2"] = fig.layout["xaxis"] | {
        "overlaying": "x",
        "matches": "x",
        "side": "top",
        "showline": False,
        "title": {
            "text": say("size of one copy, {layout} [bytes]", layout=curves.chosen_layout),
            "font": {"size": 12, "color": palette.muted},
            "standoff": 6,
        },
        "tickvals": list(curves.block_tokens[::4]),
        "ticktext": [theme.without_zeros(format_bytes(size)) for size in per_copy[::4]],
    }


def _recompute_line(fig: Sketch, x: Floats, seconds: float, palette: Palette, *, name: str, width: float = 2.2) -> None:
    ends = [x[0] / 1.15, x[-1] * 1.15]
    theme.line(
        fig, ends, [seconds, seconds], name, color=palette.recompute, dash=theme.DASHES["recompute"], width=width
    )


def figure19(figure: Figure19, *, palette: Palette = LIGHT) -> go.Figure:
    """Swap against block size with recompute as the paper plots it (x 0.9) and as measured, and their crossing."""
    fig = theme.sketch(palette, right=labels.room_px([say("swap")]))
    _block_axis(fig, figure.block_tokens, palette)
    top = 1.08 * float(figure.swap_s.max())
    ticks = [tick * MS for tick in range(0, 200, 20) if tick * MS <= top]
    theme.axis(
        fig, "yaxis", palette, title=say("swap out and in, recompute [s]"), span=(0, top), log=False, grid=True,
        ticks=ticks, labels=["0", *[format_seconds(tick) for tick in ticks[1:]]],
    )  # fmt: skip
    theme.line(
        fig,
        figure.block_tokens,
        figure.swap_s,
        say("swap"),
        color=palette.swap,
        mode="lines+markers",
        marker={"size": 7},
    )
    plotted_s, measured_s = figure.recompute_plotted_s, figure.recompute_measured_s
    _recompute_line(fig, figure.block_tokens, plotted_s, palette, name=say("recompute as plotted"))
    _recompute_line(fig, figure.block_tokens, measured_s, palette, name=say("recompute measured"), width=1.1)
    crossing = figure.crossing_block_tokens
    theme.dot(
        fig, crossing, plotted_s, color=palette.background, palette=palette, size=11,
        line={"color": palette.text, "width": 1.5},
    )  # fmt: skip
    cross = say("cross at block size {tokens}", tokens=figure.crossing_plotted_block_tokens)
    labels.note(fig, crossing, plotted_s, cross, palette.text, yshift=-20)
    labels.end_labels(fig, [(say("swap"), float(figure.swap_s[-1]), palette.swap)])
    both = say(
        "recompute<br>measured {measured} (thin)<br>as plotted {plotted} (bold)",
        measured=format_seconds(measured_s),
        plotted=format_seconds(plotted_s),
    )
    labels.note(
        fig, float(figure.block_tokens[-1]), measured_s, both, palette.recompute, xanchor="right", align="right",
        yanchor="bottom", yshift=4,
    )  # fmt: skip
    return fig.figure()


def cost_by_block_alt(curves: BlockCurves) -> str:
    """Swap at the chosen block and layout against recompute."""
    series = curves.swap_s[curves.chosen_layout]
    there = labels.value_at(curves.block_tokens, series, curves.chosen_block_tokens)
    per_copy = labels.value_at(
        curves.block_tokens, curves.bytes_per_copy[curves.chosen_layout], curves.chosen_block_tokens
    )
    return say(
        "With blocks of {tokens} and layout {layout} one copy is {size} and swap takes {swap}; recompute takes "
        "{recompute} whatever the block size. Swap takes {first} with blocks of 1 token, {last} with {most}.",
        tokens=labels.tokens(curves.chosen_block_tokens),
        layout=curves.chosen_layout,
        size=format_bytes(per_copy),
        swap=format_seconds(there),
        recompute=format_seconds(curves.recompute_s),
        first=format_seconds(float(series[0])),
        last=format_seconds(float(series[-1])),
        most=format_count(curves.block_tokens[-1]),
    )


def figure19_alt(figure: Figure19) -> str:
    """The ends of the swap line, both recompute lines, the crossing and the ratio at the largest block."""
    return say(
        "Swap out and in falls from {first} at block size 1 to {last} at 256; recompute takes {plotted} as plotted, "
        "{measured} as measured. As plotted they cross at block size {crossing}; at 256 recompute takes {ratio} as "
        "long.",
        first=format_seconds(float(figure.swap_s[0])),
        last=format_seconds(float(figure.swap_s[-1])),
        plotted=format_seconds(figure.recompute_plotted_s),
        measured=format_seconds(figure.recompute_measured_s),
        crossing=figure.crossing_plotted_block_tokens,
        ratio=format_ratio(float(figure.ratio[-1])),
    )


def cost_by_block_points(curves: BlockCurves) -> list[series.Row]:
    """A row a block size: swap and bytes a copy in each layout, and recompute."""
    columns = {"block_tokens": curves.block_tokens}
    for layout in curves.swap_s:
        columns[f"swap_{layout}_s"] = curves.swap_s[layout]
        columns[f"copy_{layout}_bytes"] = curves.bytes_per_copy[layout]
    columns["recompute_s"] = np.full_like(curves.block_tokens, curves.recompute_s)
    for name in curves.low_s:
        columns |= {f"{name}_low_s": curves.low_s[name], f"{name}_high_s": curves.high_s[name]}
    return series.rows(columns)


def figure19_points(figure: Figure19) -> list[series.Row]:
    """A row a block size: swap, both recompute lines, and their ratios to swap."""
    count = len(figure.block_tokens)
    columns = {
        "block_tokens": figure.block_tokens,
        "swap_s": figure.swap_s,
        "recompute_plotted_s": np.full(count, figure.recompute_plotted_s),
        "recompute_measured_s": np.full(count, figure.recompute_measured_s),
        "recompute_plotted_over_swap": figure.ratio,
        "recompute_measured_over_swap": figure.ratio_measured,
    }
    return series.rows(columns)
