"""Small charts one above another over one x axis, each with its own y axis and a heading."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import ArrayLike

from kvmodel.charts import labels, theme
from kvmodel.charts.theme import Palette, Sketch

PANEL_PX, HEAD_PX, LINE_PX = 84, 34, 18


def panel_figure(palette: Palette, panels: int, lines: Sequence[str], *, left: int = 56, right: int = 16) -> Sketch:
    """An empty chart with room for so many panels, below lines of text."""
    top = LINE_PX * len(lines) + 6
    height = top + panels * (PANEL_PX + HEAD_PX) + theme.MARGIN_BOTTOM_PX
    fig = theme.sketch(palette, height=height, left=left, right=right)
    fig.layout["margin"]["t"] = top
    fig.layout.update(hoversubplots="axis", barmode="group", bargap=0.1)
    for place, line_text in enumerate(reversed(lines)):
        labels.text(
            fig, line_text, palette.muted, x=0, xref="paper", xanchor="left", y=1, yref="paper", yanchor="bottom",
            yshift=LINE_PX * place,
        )  # fmt: skip
    return fig


def panel(
    fig: Sketch, place: int, heading: str, palette: Palette, *, span: tuple[float, float], ticks: Sequence[float],
    texts: Sequence[str], log: bool = False,
) -> str:  # fmt: skip
    """Panel `place` from the top with its heading; gives the name by which a trace is drawn in it."""
    height = labels.plot_height_px(fig)
    top = 1 - (place * (PANEL_PX + HEAD_PX) + HEAD_PX) / height
    number = "" if place == 0 else str(place + 1)
    theme.axis(fig, f"yaxis{number}", palette, title="", span=span, ticks=ticks, labels=texts, log=log, grid=True)
    fig.layout[f"yaxis{number}"].update(domain=[max(top - PANEL_PX / height, 0.0), top], ticklabelstandoff=5)
    labels.text(
        fig, heading, palette.text, x=0, xref="paper", xanchor="left", y=top, yref="paper", yanchor="bottom", yshift=5
    )
    return f"y{number}"


def over(fig: Sketch, panels: int) -> None:
    """The x axis belongs below the last panel: called when both are set."""
    fig.layout["xaxis"].update(anchor="y" if panels == 1 else f"y{panels}", showline=True)


def line(fig: Sketch, x: ArrayLike, y: ArrayLike, name: str, hover: str, *, yaxis: str, look: dict[str, Any]) -> None:
    """A line in a panel, as `look` says: its colour, dash and more."""
    theme.line(fig, x, y, name, hover=hover, yaxis=yaxis, **look)


def bars(fig: Sketch, x: ArrayLike, y: ArrayLike, name: str, hover: str, *, yaxis: str, color: str) -> None:
    """Bars in a panel, those of several names beside each other."""
    fig.add(
        "bar", x=theme.small(x), y=theme.small(y), name=name, yaxis=yaxis,
        marker={"color": color, "line": {"width": 0}}, hovertemplate=f"{name} {hover}<extra></extra>",
    )  # fmt: skip
