"""Memory of one GPU as one bar: what is spent before the KV pool, and the pool with its range."""

from __future__ import annotations

import plotly.graph_objects as go

from kvmodel.charts import labels, lanes, series, theme
from kvmodel.charts.theme import LIGHT, Palette, Sketch
from kvmodel.memory.pool_plan import Plan, parts, spent_bytes
from kvmodel.units import GIB, format_bytes, significant
from kvmodel.words import say

POOL, FREE = "KV pool", "kept free"
SPAN = (-0.5, 0.5)
KEY_ROWS = ((POOL,), ("weights", "activations"), ("CUDA graphs", "other"), (FREE,))
SIGNS = {"": "■", "/": "▨", ".": "▦"}  # of a look's hatching
BAR_PX, TOP_PX, KEY_PX = 84, 26, 22
AXIS_PX = 46  # of the axis' own numbers and title, above the key


def looks(palette: Palette) -> dict[str, lanes.Look]:
    """KV in blue as everywhere; what is spent before it in greys and warm colours, told apart by hatching too."""
    return {
        "weights": lanes.Look(palette.wait),
        "activations": lanes.Look(palette.recompute),
        "CUDA graphs": lanes.Look(palette.recompute, "/", 0.8),
        "other": lanes.Look(palette.offload),
        POOL: lanes.Look(palette.swap),
        FREE: lanes.Look(palette.wait, "."),
    }


def memory_bar(plan: Plan, *, palette: Palette = LIGHT) -> go.Figure:
    """The bar from 0 to the GPU's memory, the limit of utilisation over it, and a key with every size under it."""
    whole = max(plan.budget.total_bytes, spent_bytes(plan.budget)) / GIB
    below_px = AXIS_PX + KEY_PX * len(KEY_ROWS)
    fig = theme.sketch(palette, height=TOP_PX + BAR_PX + below_px, left=12, right=20)
    fig.layout["margin"].update(t=TOP_PX, b=below_px)
    ticks = lanes.round_steps(whole)
    theme.axis(
        fig, "xaxis", palette, title=say("memory of one GPU [GiB]"), span=(0, whole), log=False, ticks=ticks,
        labels=[f"{tick:g}" for tick in ticks],
    )  # fmt: skip
    fig.layout["yaxis"] = {"range": list(SPAN), "visible": False, "fixedrange": True}
    fig.layout.update(barmode="overlay", bargap=0)
    _pieces(fig, plan, palette)
    _range(fig, plan, palette)
    _limit(fig, plan, palette)
    _key(fig, plan, palette)
    return fig.figure()


def _pieces(fig: Sketch, plan: Plan, palette: Palette) -> None:
    start = 0.0
    for name, size in parts(plan.budget).items():
        look = looks(palette)[name]
        fig.add(
            "bar", orientation="h", x=[size / GIB], y=[0], base=[start / GIB], width=[0.9], name=name,
            marker={
                "color": palette.background if look.pattern else look.color,
                "opacity": look.opacity,
                "line": {"width": 1, "color": look.color if look.pattern else palette.background},
                "pattern": {"shape": look.pattern, "fgcolor": look.color, "size": 6, "solidity": 0.25},
            },
            hovertemplate=f"{say(name)} {format_bytes(size)}<extra></extra>",
        )  # fmt: skip
        start += size


def _range(fig: Sketch, plan: Plan, palette: Palette) -> None:
    """Where the pool may begin: everything before it may be smaller or larger than predicted."""
    if plan.pool_bytes > 0:
        usable = plan.budget.usable_bytes
        ends = [max(usable - size, 0.0) / GIB for size in (plan.high_bytes, plan.low_bytes)]
        begins = say("the pool begins here or there: {range}", range=range_text(plan))
        fig.add(
            "scatter", x=ends, y=[0, 0], mode="lines+markers", line={"color": palette.text, "width": 2},
            marker={"symbol": "line-ns", "size": 14, "line": {"color": palette.text, "width": 2}},
            hovertemplate=f"{begins}<extra></extra>", name="range",
        )  # fmt: skip


def _limit(fig: Sketch, plan: Plan, palette: Palette) -> None:
    """What the engine may use, and what the GPU has where more than that is spent."""
    usable, total = plan.budget.usable_bytes, plan.budget.total_bytes
    labels.shape(fig, "line", x0=usable / GIB, x1=usable / GIB, y0=SPAN[0], y1=SPAN[1], layer="above",
                 line={"color": palette.text, "width": 2, "dash": "dot"})  # fmt: skip
    words = say("usable {usable} of {total}", usable=format_bytes(usable), total=format_bytes(total))
    labels.above(fig, usable / GIB, words, palette.text)


def _key(fig: Sketch, plan: Plan, palette: Palette) -> None:
    """Every part with its size, the pool first, the others two in a row: small ones have no room in the bar."""
    height = labels.plot_height_px(fig)
    for row, names in enumerate(KEY_ROWS):
        for column, name in enumerate(names):
            look, size = looks(palette)[name], parts(plan.budget)[name]
            sign = f'<span style="color:{look.color}">{SIGNS[look.pattern]}</span>'
            labels.text(
                fig, f"{sign} {say(name)} {_size(plan, name, size)}", palette.text, x=column / 2, xref="paper",
                xanchor="left", y=-(AXIS_PX + KEY_PX * (row + 0.5)) / height, yref="paper",
            )  # fmt: skip


def _size(plan: Plan, name: str, size: float) -> str:
    if name != POOL:
        return format_bytes(size)
    return f"<b>{format_bytes(size)}</b>, {range_text(plan)}" if size else f"<b>{say('none')}</b>"


def range_text(plan: Plan) -> str:
    """ "23.7 to 25.2 GiB"."""
    low, high = (significant(size / GIB, 3) for size in (plan.low_bytes, plan.high_bytes))
    return say("{low} to {high} GiB", low=low, high=high)


def memory_bar_alt(plan: Plan) -> str:
    """Every part's size, and what is missing where there is no pool."""
    budget = plan.budget
    sizes = {
        "parts": ", ".join(f"{say(name)} {format_bytes(size)}" for name, size in parts(budget).items()),
        "usable": format_bytes(budget.usable_bytes),
        "total": format_bytes(budget.total_bytes),
    }
    if plan.pool_bytes > 0:
        return say(
            "Memory of one GPU: {parts}; {usable} of {total} may be used; the pool may be {range}.",
            range=range_text(plan),
            **sizes,
        )
    return say(
        "Memory of one GPU: {parts}; {usable} of {total} may be used; {short} too little before any KV.",
        short=format_bytes(-plan.pool_bytes),
        **sizes,
    )


def memory_bar_points(plan: Plan) -> list[series.Row]:
    """A row a part: bytes, and for the pool the range."""
    sizes = parts(plan.budget)
    rows: list[series.Row] = [
        {"part": name, "bytes": size, "low_bytes": None, "high_bytes": None} for name, size in sizes.items()
    ]
    for row in rows:
        if row["part"] == POOL:
            row.update(low_bytes=plan.low_bytes, high_bytes=plan.high_bytes)
    return rows
