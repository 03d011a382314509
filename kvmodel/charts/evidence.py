"""The model against measurements: modelled over measured time, and how their ratio goes with length."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from kvmodel.arrays import Floats
from kvmodel.charts import labels, series, theme
from kvmodel.charts.theme import LIGHT, Palette, Sketch
from kvmodel.evidence.measured_points import COPY, ENGINE, KERNELS, NOT_MODELLED, OLD_ENGINE, Pair
from kvmodel.units import format_percent, format_seconds, significant
from kvmodel.words import say

BANDS = ((0.2, 0.10), (0.1, 0.16))  # half-width as a share, and how strong it is drawn
MARKS = {  # colour of the palette, symbol, and the same symbol as text
    KERNELS: ("swap", "circle", "●"),
    ENGINE: ("recompute", "diamond", "◆"),
    OLD_ENGINE: ("offload", "square", "■"),
    NOT_MODELLED: ("wait", "x", "✕"),
    COPY: ("both", "triangle-up", "▲"),
}
KEY_ROW_PX, KEY_WIDTH_PX, KEY_LETTER_PX = 18, 275, 6.4  # as wide as a phone leaves beside the axis
RATIO_TICKS = (0.1, 0.2, 0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2, 3, 5, 10)
LEAST_RATIOS = (0.7, 1.4)  # a flat line of good points is not to look like a cloud


def against_measured(pairs: Sequence[Pair], *, palette: Palette = LIGHT) -> go.Figure:
    """Modelled against measured time of every row, with the diagonal and bands of 10 and 20 % about it."""
    fig = theme.sketch(palette)
    span = theme.log_span([[pair.measured_s for pair in pairs], [pair.modelled_s for pair in pairs]])
    decades = 10.0 ** np.arange(-9, 9)
    steps = (1,) if span[1] / span[0] > 30 else (1, 2, 5)
    ticks = [decade * step for decade in decades for step in steps if span[0] <= decade * step <= span[1]]
    texts = [theme.tick_seconds(tick) for tick in ticks]
    theme.axis(fig, "xaxis", palette, title=say("measured time [s]"), span=span, ticks=ticks, labels=texts)
    theme.axis(fig, "yaxis", palette, title=say("modelled time [s]"), span=span, ticks=ticks, labels=texts, grid=True)
    ends = np.array(span)
    _bands(fig, ends, ends, palette, words_at=1)
    measured_s, modelled_s = ([getattr(pair, name) for pair in pairs] for name in ("measured_s", "modelled_s"))
    _marks(fig, pairs, measured_s, modelled_s, say("%{x:.3s}s, model %{y:.3s}s"), palette)
    return fig.figure()


def by_length(pairs: Sequence[Pair], *, palette: Palette = LIGHT) -> go.Figure:
    """Modelled over measured time against the length of a sequence; plain copies have none and are left out."""
    pairs = with_length(pairs)
    ratios = [pair.ratio for pair in pairs]
    fig = theme.sketch(palette)
    lengths = np.array(sorted(float(pair.length_tokens) for pair in pairs) or [1.0])
    theme.length_axis(fig, np.array([lengths[0] / 1.2, lengths[-1] * 1.2]), palette, title=say("length [tokens]"))
    fig.layout["hovermode"] = "closest"
    span = theme.log_span([ratios, LEAST_RATIOS])
    ticks = [tick for tick in RATIO_TICKS if span[0] <= tick <= span[1]]
    theme.axis(
        fig, "yaxis", palette, title=say("modelled / measured [ratio]"), span=span, ticks=ticks,
        labels=[f"{tick:g}" for tick in ticks], grid=True,
    )  # fmt: skip
    start, end = (10**edge for edge in fig.layout["xaxis"]["range"])
    _bands(fig, np.array([start, end]), np.array([1.0, 1.0]), palette, words_at=0)
    _marks(fig, pairs, [float(pair.length_tokens) for pair in pairs], ratios, say("model / measured %{y:.3r}"), palette)
    return fig.figure()


def with_length(pairs: Sequence[Pair]) -> list[Pair]:
    """The rows of :func:`by_length`."""
    return [pair for pair in pairs if pair.length_tokens]


def _bands(fig: Sketch, x: Floats, exact: Floats, palette: Palette, *, words_at: int) -> None:
    """The line of a model that is right, and bands about it; said in the left (0) or right (1) corner below."""
    for share, opacity in BANDS:
        theme.band(
            fig, x, exact * (1 - share), exact * (1 + share), color=palette.wait, name=f"±{share:.0%}", opacity=opacity
        )
    theme.line(fig, x, exact, "modelled = measured", color=palette.text, width=1.2, hover=None)
    side = "right" if words_at else "left"
    labels.text(
        fig, say("line: modelled = measured<br>bands: ±10 %, ±20 %"), palette.muted, size=11, x=words_at, xref="paper",
        xanchor=side, xshift=-6 if words_at else 6, y=0, yref="paper", yanchor="bottom", yshift=6, align=side,
    )  # fmt: skip


def _marks(
    fig: Sketch, pairs: Sequence[Pair], x: Sequence[float], y: Sequence[float], xy_text: str, palette: Palette
) -> None:
    """A mark a row, a trace for rows that share all but their length; what the marks mean is written above.

    `xy_text` is what a row's hover text says of x and y.
    """
    groups: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for index, pair in enumerate(pairs):
        groups[pair.measured_as, pair.gpu, pair.model, f"tp {pair.tp}", pair.engine, pair.source].append(index)
    for (kind, gpu, model, split, engine, source), rows in groups.items():
        color, symbol, _ = MARKS[kind]
        about = ", ".join(part for part in (gpu, model, split) if part)
        by = f"{engine} ({source})" if engine else source
        fig.add(
            "scatter",
            x=theme.small([x[row] for row in rows]),
            y=theme.small([y[row] for row in rows]),
            mode="markers",
            marker={"color": palette.of(color), "symbol": symbol, "size": 7, "opacity": 0.75},
            text=[str(pairs[row].setting) for row in rows],
            hovertemplate=f"<b>{about}</b><br>{by}<br>%{{text}}<br>{xy_text}<extra></extra>",
        )
    _key(fig, [kind for kind in MARKS if any(pair.measured_as == kind for pair in pairs)], palette)


def _key(fig: Sketch, kinds: Sequence[str], palette: Palette) -> None:
    """What the marks mean, above the plot, in as many lines as a phone needs."""
    rows: list[list[str]] = [[]]
    for kind in kinds:
        if _width_px([*rows[-1], kind]) > KEY_WIDTH_PX and rows[-1]:
            rows.append([])
        rows[-1].append(kind)
    fig.layout["margin"]["t"] += KEY_ROW_PX * (len(rows) - 1)
    for line, row in enumerate(reversed(rows)):
        for place, kind in enumerate(row):
            color, _, sign = MARKS[kind]
            labels.text(
                fig, f"{sign} {say(kind)}", palette.of(color), x=0, xref="paper", xanchor="left",
                xshift=_width_px(row[:place]), y=1, yref="paper", yanchor="bottom", yshift=6 + KEY_ROW_PX * line,
            )  # fmt: skip


def _width_px(kinds: Sequence[str]) -> float:
    return sum(KEY_LETTER_PX * (labels.letters(say(kind)) + 3) for kind in kinds)


def against_measured_alt(pairs: Sequence[Pair]) -> str:
    """How many rows, over which times, and how far off."""
    seconds = [pair.measured_s for pair in pairs]
    off = np.abs([pair.ratio - 1 for pair in pairs])
    return say(
        "{count} measured times from {least} to {most} against the model's: half are within {median}, nine of ten "
        "within {p90}.",
        count=len(pairs),
        least=format_seconds(min(seconds)),
        most=format_seconds(max(seconds)),
        median=format_percent(float(np.median(off))),
        p90=format_percent(float(np.percentile(off, 90))),
    )


def by_length_alt(pairs: Sequence[Pair]) -> str:
    """The median of modelled over measured for the shorter and the longer half of the rows."""
    rows = sorted(with_length(pairs), key=lambda pair: pair.length_tokens)
    middle = rows[len(rows) // 2].length_tokens
    halves = [[row for row in rows if (row.length_tokens < middle) == shorter] for shorter in (True, False)]
    sides = (say("median ratio {ratio} below {tokens} tokens"), say("median ratio {ratio} from {tokens} tokens"))
    medians = [
        side.format(ratio=significant(float(np.median([row.ratio for row in half])), 3), tokens=f"{middle:,}")
        for half, side in zip(halves, sides, strict=True)
        if half
    ]
    return say(
        "Modelled over measured time of {count} rows by length: {halves} on.",
        count=len(rows),
        halves=", ".join(medians),
    )


def evidence_points(pairs: Sequence[Pair]) -> list[series.Row]:
    """A row a measurement: what it is, where it is from, both times and their ratio."""
    return [
        {
            "id": pair.id,
            "kind": pair.kind,
            "measured_as": pair.measured_as,
            "gpu": pair.gpu,
            "model": pair.model,
            "engine": pair.engine,
            "tp": float(pair.tp),
            "setting": str(pair.setting),
            "length_tokens": float(pair.length_tokens) or None,
            "measured_s": pair.measured_s,
            "modelled_s": pair.modelled_s,
            "modelled_over_measured": pair.ratio,
            "source": pair.source,
        }
        for pair in pairs
    ]


def by_length_points(pairs: Sequence[Pair]) -> list[series.Row]:
    """The same for the rows that have a length."""
    return evidence_points(with_length(pairs))
