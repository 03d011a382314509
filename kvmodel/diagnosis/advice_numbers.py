"""The numbers that advice is made of, as text: from the server's own metrics, its model and its GPU.

What is not known is left out, and a row of data/advice.toml that needs it says something without it or is left out too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from kvmodel import catalog
from kvmodel.catalog.prices import MOST_UTILIZATION
from kvmodel.diagnosis.bands import request_tokens
from kvmodel.diagnosis.causes import LIVELOCK, PRESSURE, Diagnosis
from kvmodel.diagnosis.thresholds import limit
from kvmodel.errors import CaseError
from kvmodel.inputs.case import Case
from kvmodel.memory import kv_cache
from kvmodel.metrics.server_rates import Rates
from kvmodel.metrics.server_window import Window
from kvmodel.recovery import resolve, strategies
from kvmodel.units import GIB, format_count, format_percent, format_seconds
from kvmodel.words import say

POOL_SETTINGS = ("num_gpu_blocks_override", "kv_cache_memory_bytes", "cpu_kvcache_space_bytes")


def numbers(
    diagnosis: Diagnosis, window: Window, rates: Rates, case: Case, fields: Mapping[str, Any], gpu: str | None
) -> dict[str, str]:
    """By the names that the flags and sentences of data/advice.toml have for them."""
    engine = window.engine
    pool, running = engine.pool_tokens, engine.gauges.get("running")
    facts = {"double_tp": str(2 * case.tp)} if fields.get("tp", 1) > 1 else {}  # 1 is also the default
    facts |= {name: format_count(value) for name in POOL_SETTINGS if (value := engine.setting(name)) is not None}
    if limits := [name for name, count in rates.rejected.items() if count]:
        facts["admission_limit"] = f"--{limits[0].replace('_', '-')}"
    if running is not None and fields.get("max_num_seqs") is None:
        facts["running"] = format_count(running)
    if pool:
        twice = format_count(2 * pool)
        facts["fp8_buys"] = say("the same bytes hold {tokens} tokens, twice as many as now", tokens=twice)
    facts |= utilization(window, case, fields, gpu) | more_seats(window, fields)
    return facts | offload(pool, case, fields) | fitting(diagnosis, window, rates)


def more_seats(window: Window, fields: Mapping[str, Any]) -> dict[str, str]:
    """A seat limit above the known one that requests like these fill the pool with; nothing where it is no more."""
    seats, usage, running = fields.get("max_num_seqs"), window.engine.usage, window.engine.gauges.get("running")
    if seats is None or not usage or not running:
        return {}
    more = math.floor(running * limit("usage", "high") / max(usage, 0.01))
    return {"more_requests": str(more), "usage": format_percent(usage)} if more > seats else {}


def fitting(diagnosis: Diagnosis, window: Window, rates: Rates) -> dict[str, str]:
    """How many requests of mean length the pool holds to their end; in a livelock fewer than run, whatever the mean."""
    pool, running = window.engine.pool_tokens, window.engine.gauges.get("running")
    request = request_tokens(rates)
    if diagnosis.verdict == LIVELOCK and running is not None and running >= 2:
        fewer = math.ceil(running) - 1
        if not pool or not request or pool / request >= fewer:
            return {
                "fitting_requests": str(fewer),
                "fitting_buys": say("one less than now, so that the others get ahead"),
            }
    if not pool or not request or (fit := max(math.floor(pool / request), 1)) >= (running or math.inf):
        return fewer_than_now(diagnosis, window)
    buys = say(
        "{pool} tokens hold {fit} requests of {request} tokens to their end; the others wait before they start",
        pool=format_count(pool),
        fit=format_count(fit),
        request=format_count(request),
    )
    return {"fitting_requests": str(fit), "fitting_buys": buys}


def fewer_than_now(diagnosis: Diagnosis, window: Window) -> dict[str, str]:
    """Under pressure: as many of the requests that run as leave a tenth of the full pool free."""
    usage, running = window.engine.usage, window.engine.gauges.get("running")
    if diagnosis.verdict != PRESSURE or usage is None or not running or usage < limit("usage", "high"):
        return {}
    fewer = max(min(math.floor(running * limit("usage", "high") / usage), math.ceil(running) - 1), 1)
    values = {"running": format_count(running), "usage": format_percent(usage), "fewer": fewer}
    buys = say(
        "{running} fill the pool to {usage}; {fewer} such requests leave room for what they still write", **values
    )
    return {"fitting_requests": str(fewer), "fitting_buys": buys}


def utilization(window: Window, case: Case, fields: Mapping[str, Any], gpu: str | None) -> dict[str, str]:
    """A higher share of the GPU's memory, and the tokens that it brings where model and GPU are known.

    Without the share that the server has there is no value: it may be above any that would be named.
    """
    now = window.engine.setting("gpu_memory_utilization")
    if now is None:
        return {"utilization_buys": say("every 0.01 more is 1 % of the GPU's memory, all of it for the pool")}
    if now >= MOST_UTILIZATION:
        return {}
    share = MOST_UTILIZATION - now
    buys = say("{share} more of the GPU's memory, all of it for the pool", share=format_percent(share))
    if "model" in fields and gpu is not None:
        more = case.tp * share * catalog.gpu(gpu).memory_bytes / token_bytes(case)
        buys = say("about {more} tokens more in the pool", more=format_count(more))
        if pool := window.engine.pool_tokens:
            counts = {"more": format_count(more), "pool": format_count(pool)}
            buys = say("about {more} tokens more in the pool of {pool}", **counts)
    return {"utilization": f"{MOST_UTILIZATION}", "utilization_buys": buys}


def token_bytes(case: Case) -> float:
    """KV bytes that one token takes, over all GPUs."""
    kept = case.stored
    return float(kv_cache.growth_bytes_per_token(kept.layers, bytes_per_value=kept.bytes_per_value))


def offload(pool: float | None, case: Case, fields: Mapping[str, Any]) -> dict[str, str]:
    """Size and gain of a host tier; nothing where the model says that loading takes as long as recomputing."""
    if pool is None or not {"model", "tokens"} <= set(fields):
        return {}
    try:
        prices = strategies.price(resolve.inputs(case))
    except CaseError:
        return {}
    load_s, again_s = (float(prices[name].victim_delay_s) for name in ("offload", "recompute"))
    if load_s >= again_s:
        return {}
    size = 2 * pool * token_bytes(case)  # a tier no larger than the pool mirrors it and adds nothing
    buys = say(
        "as many preemptions, but each costs its request {load} and not {again}",
        load=format_seconds(load_s),
        again=format_seconds(again_s),
    )
    return {"offload_gib": str(math.ceil(size / GIB)), "offload_bytes": str(math.ceil(size)), "offload_buys": buys}
