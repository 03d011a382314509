"""A plan, its levers and a start-up log as strings with units, ready to stand in a sentence or a table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from kvmodel import catalog
from kvmodel.memory import pool_plan
from kvmodel.memory.as_kept import HYBRID_OFF, Kept
from kvmodel.memory.levers import Lever, freed_bytes
from kvmodel.memory.pool_plan import Plan
from kvmodel.units import GIB, NONE, format_bytes, format_count, format_percent, format_ratio, significant

FEW_REQUESTS = 10  # below, a fraction of a request is worth a digit


def plan_texts(plan: Plan) -> dict[str, str]:
    """Placeholder name -> text: the pool with its range, requests at both lengths, what is needed and what is short."""
    startup, budget = plan.startup, plan.budget
    spent_bytes = pool_plan.spent_bytes(budget)
    return {
        "model": catalog.model(startup.case.model).label,
        "gpu": catalog.gpu(startup.case.gpu).label,
        "gpus": format_count(startup.case.tp * startup.pp),
        "kv_dtype": startup.case.kv_dtype,
        "utilization": format_percent(startup.share, 3),
        "batched": format_count(startup.case.max_num_batched_tokens),
        "pool": format_bytes(max(plan.pool_bytes, 0.0)),
        "low": format_bytes(plan.low_bytes),
        "high": format_bytes(plan.high_bytes),
        "pool_tokens": format_count(plan.printed["vllm"].tokens),
        "mean_tokens": format_count(startup.case.decode_context),
        "mean": requests(plan.mean_requests()),
        "mean_low": requests(plan.mean_requests(plan.low_bytes)),
        "mean_high": requests(plan.mean_requests(plan.high_bytes)),
        "full_tokens": format_count(startup.longest),
        "full": requests(plan.full_requests),
        "hybrid_off": requests(plan.printed["vllm-hybrid-off"].concurrency),
        "need": format_bytes(plan.need_bytes),
        "short": format_bytes(max(plan.need_bytes - plan.pool_bytes, 0.0)),
        "longest": format_count(plan.longest_tokens),
        "spent": format_bytes(spent_bytes),
        "weights": format_bytes(budget.weight_bytes),
        "usable": format_bytes(budget.usable_bytes),
        "total": format_bytes(budget.total_bytes),
        "over": format_bytes(max(spent_bytes - budget.usable_bytes, 0.0)),
    }


def requests(count: float) -> str:
    """Whole requests; a few with a digit, as engines print them.

    >>> requests(454.2), requests(6.843), requests(0.0)
    ('454', '6.8', '0')
    """
    return format_count(math.floor(count)) if count >= FEW_REQUESTS else significant(count, 2)


def is_hybrid(plan: Plan) -> bool:
    """Whether the hybrid manager makes a difference to what fits."""
    lines = plan.printed
    return lines["vllm"].concurrency != lines["vllm-hybrid-off"].concurrency


def lever_cells(levers: Sequence[Lever]) -> list[list[str]]:
    """Of each lever what it frees, the pool it gives, and requests of mean and of full length."""
    now = levers[0].plan
    return [
        [
            gain_text(freed_bytes(lever.plan, now)) if index else NONE,
            format_bytes(max(lever.plan.pool_bytes, 0.0)),
            requests(lever.plan.mean_requests()),
            requests(lever.plan.full_requests),
        ]
        for index, lever in enumerate(levers)
    ]


def gain_text(size_bytes: float) -> str:
    """In GiB, two decimals, as pools are printed.

    >>> gain_text(10.36 * GIB), gain_text(0.0), gain_text(-0.25 * GIB)
    ('+10.36 GiB', '0', '−0.25 GiB')
    """
    size = round(size_bytes / GIB, 2)
    return f"{'+' if size > 0 else '−'}{abs(size):.2f} GiB" if size else "0"


def lever_value(lever: Lever) -> str:
    """What a lever is set to, for its name."""
    if lever.what == "gpu":
        return catalog.gpu(lever.value).label
    if lever.what == "utilization":
        return format_percent(float(lever.value))
    return format_count(int(lever.value)) if lever.value.isdigit() else lever.value


def host_texts(host: Mapping[str, Any], mean_bytes: float) -> dict[str, str]:
    """What a host pool holds, with requests of mean length; from :func:`kvmodel.memory.pool_plan.host_pool`."""
    share = host["host_pool_bytes_per_gpu"]
    return {
        "share": format_bytes(share),
        "host_tokens": format_count(host["host_pool_tokens"]),
        "host_full": requests(host["host_requests"]),
        "host_mean": requests(share / mean_bytes),
    }


def storage_texts(way: Kept) -> dict[str, str]:
    return {"size": format_bytes(way.kv_bytes), "growth": format_bytes(way.growth_bytes_per_token)}


def hybrid_pair(ways: Sequence[Kept]) -> dict[str, str]:
    """The request with the hybrid manager on and off, and how many times it is; empty where both are the same."""
    off = next((way for way in ways if way.mode == HYBRID_OFF), None)
    if off is None:
        return {}
    times = format_ratio(off.kv_bytes / ways[0].kv_bytes)
    return {"on": format_bytes(ways[0].kv_bytes), "off": format_bytes(off.kv_bytes), "times": times}


def log_values(figures: Mapping[str, Any]) -> dict[str, str]:
    """Every figure of a log as text: sizes in GiB, counts with thousands separated, names as they stand."""
    return {
        name: log_value(name, value) for name, value in figures.items() if name not in ("engine", "version", "ranks")
    }


def log_engine(answer: Mapping[str, Any]) -> str:
    """The engine that wrote a log and its version, as far as it says."""
    return " ".join(part for part in (answer["engine"], answer["version"]) if part)


def log_value(name: str, value: float | str) -> str:
    if isinstance(value, str):
        return value
    if name.endswith("_bytes"):
        return f"{value / GIB:,.2f} GiB"
    return format_count(value) if float(value).is_integer() else f"{value:g}"
