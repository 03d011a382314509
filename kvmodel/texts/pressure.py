"""The numbers of the Pressure page as strings with units: of a run, of two beside each other, of the load curve."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite
from typing import Any

from kvmodel.simulation.load_curve import GOOD_SHARE, RUNS, Knee, Objective
from kvmodel.simulation.remedies import Row
from kvmodel.simulation.results import Results
from kvmodel.units import MS, NONE, format_count, format_gb, format_percent, format_seconds, significant
from kvmodel.words import say

Texts = dict[str, str]
Totals = dict[str, Any]
MAIN_SHARE = 0.5  # of the time to first token, from which on it is waiting above all


def totals(results: Results, objective: Objective) -> Totals:
    return results.totals(slo_ttft_s=objective.ttft_s, slo_tpot_s=objective.tpot_s)


def rate(per_s: float) -> str:
    """Three digits without trailing zeros."""
    return f"{float(f'{per_s:.3g}'):g}" if isfinite(per_s) else NONE


def _share(share: float) -> str:
    return "0 %" if share == 0 else format_percent(share)


CELLS: dict[str, Callable[[Totals], str]] = {  # a line of the comparison each
    "per_100": lambda run: significant(run["preemptions_per_100"], 2),
    "tax": lambda run: _share(run["recompute_tax"]),
    "ttft_p50": lambda run: format_seconds(run["ttft_s"]["p50"]),
    "ttft_p99": lambda run: format_seconds(run["ttft_s"]["p99"]),
    "served": lambda run: f"{rate(run['requests_per_s'])} requests/s",
    "output": lambda run: f"{format_count(run['output_tokens_per_s'])} tokens/s",
    "good": lambda run: _share(run["good_share"]),
    "preempted": lambda run: _share(run["preempted_share"]),
    "itl_p50": lambda run: format_seconds(run["itl_s"]["p50"]),
    "itl_p99": lambda run: format_seconds(run["itl_s"]["p99"]),
    "worst_gap": lambda run: format_seconds(run["worst_gap_s"]),
    "whole_p50": lambda run: format_seconds(run["end_to_end_s"]["p50"]),
    "whole_p99": lambda run: format_seconds(run["end_to_end_s"]["p99"]),
    "gpu_lost": lambda run: format_seconds(run["gpu_lost_s"]),
    "host_link": lambda run: format_gb(run["link_bytes"]),
    "usage": lambda run: _share(run["kv_usage_mean"]),
    "most": lambda run: f"{format_count(run['running_most'])} / {format_count(run['waiting_most'])}",
    "makespan": lambda run: format_seconds(run["makespan_s"]),
}
CARDS: dict[str, Callable[[Totals], str]] = {
    **{name: CELLS[name] for name in ("per_100", "tax", "ttft_p50", "ttft_p99")},
    "served": lambda run: rate(run["requests_per_s"]),
    "good": CELLS["good"],
}


def cards(run: Totals) -> list[tuple[str, str]]:
    """The key numbers: which, and as text."""
    return [(name, card(run)) for name, card in CARDS.items()]


def comparison_rows(runs: Sequence[Totals]) -> list[tuple[str, list[str]]]:
    """All numbers of runs beside each other: which, and a cell a run."""
    return [(name, [cell(run) for run in runs]) for name, cell in CELLS.items()]


def run_texts(scheduler: str, run: Totals, results: Results, block_tokens: int) -> Texts:
    """Placeholder name -> text, for the sentences about one run."""
    return {name: cell(run) for name, cell in CELLS.items()} | {
        "scheduler": scheduler,
        "requests": format_count(run["requests"]),
        "finished": format_count(run["finished"]),
        "preemptions": format_count(run["preemptions"]),
        "blocks": format_count(results.pool_blocks),
        "pool_tokens": format_count(results.pool_blocks * block_tokens),
        "livelocked": format_count(run["livelocked_requests"]),
        "outcome": run["outcome"],
        "queue": format_seconds(run["queue_s"]),
        "ttft_mean": format_seconds(run["ttft_s"]["mean"]),
    }


def cause(run: Totals) -> str:
    """Where a request's time goes: to the queue or not, and to gaps where requests are preempted."""
    queues = run["queue_s"] >= MAIN_SHARE * run["ttft_s"]["mean"]
    if run["preemptions"]:
        return "queue_and_gaps" if queues else "gaps"
    return "queue" if queues else "none"


def knee_texts(scheduler: str, bend: Knee, objective: Objective) -> tuple[str, Texts]:
    """Which sentence tells of a knee, and its numbers."""
    low, high = bend.low_per_s, bend.high_per_s
    which = "above" if high is None else "below" if low is None else "between"
    return which, {
        "scheduler": scheduler,
        "low": NONE if low is None else rate(low),
        "high": NONE if high is None else rate(high),
        "good": format_percent(GOOD_SHARE),
        "runs": format_count(RUNS),
    } | objective_texts(objective)


def best_remedy(rows: Sequence[Row]) -> tuple[str, Texts]:
    """Which sentence tells of the first remedy to try, and its numbers; and what the article's first one does."""
    as_is, first = rows[0], next((row for row in rows if row.place == 1), None)
    article = next((row for row in rows if row.article == 1 and not row.problem), None)
    if first is None or first.effect != "helps":
        return "none", {"preemptions": format_count(as_is.preemptions)}
    numbers = _remedy("first", first) | {"preemptions": format_count(as_is.preemptions)}
    if article is None or article.place == 1:
        return "first", numbers
    return "both", numbers | _remedy("article", article)


def _remedy(name: str, row: Row) -> Texts:
    return {
        name: row.id,
        f"{name}_action": say(row.action),
        f"{name}_preemptions": format_count(row.preemptions),
        f"{name}_ttft": format_seconds(row.ttft_p99_s),
        f"{name}_output": f"{format_count(row.output_tokens_per_s)} tokens/s",
        f"{name}_place": NONE if row.place is None else str(row.place),
    }


def objective_texts(objective: Objective) -> Texts:
    """The objective's two limits."""
    return {
        "slo_ttft": f"{objective.ttft_s:g} s",
        "slo_tpot": f"{objective.tpot_s / MS:g} ms",
    }
