"""Simulated runs second by second: waiting, running, KV usage, preemptions; one run or two on the same arrivals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import plotly.graph_objects as go

from kvmodel.arrays import Floats
from kvmodel.charts import lanes, panels, series, theme
from kvmodel.charts.theme import LIGHT, Palette
from kvmodel.simulation.results import PerSecond, Results
from kvmodel.units import format_count, format_percent, format_seconds
from kvmodel.words import Later, say

Runs = Mapping[str, Results]  # by scheduler
Columns = dict[str, Floats]
MOST_TIMES = 100
STRATEGY = {  # whose colour a scheduler has: by what it does with a victim
    "vllm-v1": "recompute", "vllm-v1-first-chunk": "recompute", "vllm-v1-offload": "offload",
    "vllm-v1-offload-all": "offload", "vllm-v0": "recompute", "vllm-v0-swap": "swap", "sglang": "recompute",
    "sglang-hicache": "offload", "trtllm-no-evict": "wait", "trtllm-suspend": "swap", "wait": "wait",
}  # fmt: skip


def looks(schedulers: Iterable[str], palette: Palette) -> dict[str, dict[str, Any]]:
    """Colour and dash of each run; of two in one colour the second is dashed."""
    by_run: dict[str, dict[str, Any]] = {}
    for name in schedulers:
        color = palette.of(STRATEGY[name])
        again = any(look["color"] == color for look in by_run.values())
        by_run[name] = {"color": color, "dash": "dot" if again else "solid", "width": 1.8}
    return by_run


def key(schedulers: Iterable[str], palette: Palette) -> str:
    """The names of the runs in their looks, to stand in a heading."""
    signs = {"solid": "—", "dot": "┄"}
    return "   ".join(
        f'<span style="color:{look["color"]}">{signs[look["dash"]]} {name}</span>'
        for name, look in looks(schedulers, palette).items()
    )


def by_second(runs: Runs, load: Later | str, *, palette: Palette = LIGHT) -> go.Figure:
    """Four panels over one time axis: a line a run, bars for preemptions; `load` is said above them."""
    by_run = {name: columns(results.seconds, stretch(runs)) for name, results in runs.items()}
    headings = {
        "waiting": say("requests waiting"),
        "running": say("requests running"),
        "kv_usage": say("KV blocks in use"),
        "preemptions": say("preemptions, per {time}", time=theme.without_zeros(format_seconds(interval_s(runs), 3))),
    }
    hovers = {"waiting": "%{y:.0f}", "running": "%{y:.0f}", "kv_usage": "%{y:.0%}", "preemptions": "%{y:.0f}"}
    fig = panels.panel_figure(palette, len(headings), (key(runs, palette), str(load)))
    end_s = max([float(each["time_s"][-1]) for each in by_run.values() if len(each["time_s"])], default=1.0)
    ticks = lanes.round_steps(end_s)
    theme.axis(
        fig, "xaxis", palette, title=say("time [s]"), span=(0, end_s), log=False, ticks=ticks,
        labels=[format_count(tick) for tick in ticks],
    )  # fmt: skip
    theme.hover_title(fig, "%{x:,.0f} s")
    for place, (column, heading) in enumerate(headings.items()):
        most = 1.0 if column == "kv_usage" else max(float(np.max(each[column], initial=1)) for each in by_run.values())
        ticks = [0.0, 0.5, 1.0] if column == "kv_usage" else lanes.round_steps(most, min(int(most), 4))
        texts = [format_percent(tick) if column == "kv_usage" else format_count(tick) for tick in ticks]
        yaxis = panels.panel(fig, place, heading, palette, span=(0, 1.05 * most), ticks=ticks, texts=texts)
        for name, look in looks(runs, palette).items():
            x, y = by_run[name]["time_s"], by_run[name][column]
            if column == "preemptions":
                panels.bars(fig, x, y, name, hovers[column], yaxis=yaxis, color=look["color"])
            else:
                panels.line(fig, x, y, name, hovers[column], yaxis=yaxis, look=look)
    panels.over(fig, len(headings))
    return fig.figure()


def columns(seconds: PerSecond, samples: int) -> Columns:
    """So many samples as one: the most that wait, mean running and usage, all preemptions."""
    starts = np.arange(0, len(seconds.time_s), samples)
    counts = np.diff(np.append(starts, len(seconds.time_s)))

    def total(values: Any) -> Floats:
        return np.add.reduceat(np.asarray(values, dtype=float), starts) if len(starts) else np.array([])

    return {
        "time_s": seconds.time_s[starts + counts - 1],
        "waiting": np.maximum.reduceat(seconds.waiting.astype(float), starts) if len(starts) else np.array([]),
        "running": total(seconds.running) / counts,
        "kv_usage": total(seconds.kv_usage) / counts,
        "preemptions": total(seconds.preemptions),
    }


def stretch(runs: Runs) -> int:
    """How many samples are drawn as one: more than `MOST_TIMES` points cannot be told apart."""
    longest = max(len(results.seconds.time_s) for results in runs.values())
    return max(-(-longest // MOST_TIMES), 1)


def interval_s(runs: Runs) -> float:
    """The time that a drawn point stands for."""
    per_second = [results.seconds for results in runs.values() if len(results.seconds.time_s)]
    return stretch(runs) * float(per_second[0].time_s[0]) if per_second else 1.0


def by_second_alt(runs: Runs, load: Later | str) -> str:
    """How high each run's queue and pool went, and how often it preempted."""
    texts = [
        say(
            "{scheduler}: at most {waiting} requests waiting and {running} running, {usage} of the KV blocks in use, "
            "{preemptions} preemptions in {time}",
            scheduler=name,
            waiting=format_count(int(np.max(results.seconds.waiting, initial=0))),
            running=format_count(int(np.max(results.seconds.running, initial=0))),
            usage=format_percent(float(np.max(results.seconds.kv_usage, initial=0.0)), 3),
            preemptions=format_count(results.preemption_events),
            time=format_seconds(results.makespan_s, 3),
        )
        for name, results in runs.items()
    ]
    return say("The server second by second, under {load}. {schedulers}.", load=load, schedulers="; ".join(texts))


def by_second_points(runs: Runs, load: Later | str) -> list[series.Row]:
    """A row a drawn time and run."""
    return [
        {"load": str(load), "scheduler": name, **row}
        for name, results in runs.items()
        for row in series.rows(columns(results.seconds, stretch(runs)))
    ]
