"""What to change at a server, in which order, with flags that its version has.

The order is the simulator's where the metrics tell enough to simulate the server
(:mod:`kvmodel.diagnosis.server_remedies`), else a rule: first what costs nothing, then what turns preemption into
queueing, then host memory, then what changes results, then hardware. Which of the two is said with the advice. Flags
that every detected version has come before the others.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from kvmodel import catalog
from kvmodel.catalog.prices import MOST_UTILIZATION
from kvmodel.catalog.prices import ORDER as PRICES
from kvmodel.diagnosis import server_remedies
from kvmodel.diagnosis.bands import request_tokens
from kvmodel.diagnosis.causes import LIVELOCK, PRESSURE, QUEUEING, Diagnosis
from kvmodel.diagnosis.hot_engine import HOT
from kvmodel.diagnosis.queues import KV
from kvmodel.diagnosis.server_remedies import NotEnough, Simulated
from kvmodel.diagnosis.thresholds import limit
from kvmodel.errors import CaseError
from kvmodel.inputs.case import Case
from kvmodel.memory import kv_cache
from kvmodel.metrics.era import Era, Standing, at_least, standing
from kvmodel.metrics.server_rates import Rates
from kvmodel.metrics.server_window import Window
from kvmodel.recovery import resolve, strategies
from kvmodel.simulation.remedies import AS_IS
from kvmodel.units import GIB, format_count, format_percent, format_seconds
from kvmodel.words import say

RULE = (
    "first what costs nothing, then what turns preemption into queueing, then host memory, then accuracy, then hardware"
)
BY_CAUSE = "what the cause asks for, in the order in which it can be looked at"
SHORT_OF_KV = (PRESSURE, LIVELOCK, f"{QUEUEING} for {KV}")  # verdicts whose remedies are ordered by price
POOL_SETTINGS = ("num_gpu_blocks_override", "kv_cache_memory_bytes", "cpu_kvcache_space_bytes")
PLACEHOLDER = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Remedy:
    """One thing to change. `needs` and `as_of` say how the flag stands in the detected versions (`era.Standing`)."""

    id: str
    action: str
    flag: str
    needs: str
    as_of: str
    price: str
    buys: str
    source: str
    risk: str = ""
    rung: str | None = None  # of data/remedies.toml, where it is one


def advice(
    diagnosis: Diagnosis,
    window: Window,
    rates: Rates,
    era: Era,
    case: Case,
    fields: Mapping[str, Any],
    gpu: str | None,
    hot: str | None = None,
) -> tuple[list[Remedy], str]:
    """Remedies for a verdict, best first, and what that order is. `fields`: those that are no mere defaults.

    `hot`: what balancing would buy, where one engine among several is the trouble: then no flag is advised.
    """
    verdict = HOT if hot is not None else verdict_with_cause(diagnosis)
    facts = facts_of(diagnosis, window, rates, case, fields, gpu) | ({"hot_buys": hot} if hot else {})
    rows = [row for row in catalog.table("advice")["remedy"] if applies(row, verdict, era, window, fields)]
    remedies = [remedy for row in rows if (remedy := remedy_of(row, era, facts)) is not None]
    if verdict not in SHORT_OF_KV:
        return sorted(remedies, key=lambda remedy: (bool(remedy.needs), remedy.rung is not None)), say(BY_CAUSE)
    rungs = tuple(dict.fromkeys(remedy.rung for remedy in remedies if remedy.rung is not None))
    if not rungs:
        return ranked(remedies, None), say(RULE)
    try:
        simulation = server_remedies.simulated(diagnosis, window, rates, era, case, set(fields), rungs)
    except NotEnough as reason:
        return ranked(remedies, None), f"{say(RULE)} ({reason})"
    return ranked(remedies, simulation), simulation.rule


def verdict_with_cause(diagnosis: Diagnosis) -> str:
    """The verdict, a queue's with what it waits for."""
    return f"{diagnosis.verdict} for {diagnosis.waits_for}" if diagnosis.waits_for else diagnosis.verdict


def ranked(remedies: list[Remedy], simulation: Simulated | None) -> list[Remedy]:
    """The order of the advice, the one place that decides it: the simulator's, then RULE for what it does not try.

    A flag that the server's release may not have comes after all those that it has.
    """
    if simulation is None:
        return sorted(remedies, key=lambda remedy: (bool(remedy.needs), PRICES.index(remedy.price)))
    as_is = simulation.rows[AS_IS]
    with_gains = [
        replace(remedy, buys=server_remedies.with_gain(remedy.buys, simulation.rows[remedy.rung], as_is))
        if remedy.rung in simulation.rows
        else remedy
        for remedy in remedies
    ]
    return sorted(with_gains, key=lambda remedy: (bool(remedy.needs), *place(remedy, simulation)))


def place(remedy: Remedy, simulation: Simulated) -> tuple[bool, int]:
    """Sorts by the simulator's place, and what it has not tried after that by price."""
    row = simulation.rows.get(remedy.rung or "")
    return (True, PRICES.index(remedy.price)) if row is None else (False, server_remedies.place(row))


def applies(row: Mapping[str, Any], verdict: str, era: Era, window: Window, fields: Mapping[str, Any]) -> bool:
    """Whether a row is for this verdict, engine, version and KV dtype, and not void with the server's own settings."""
    product = "tensorrt-llm" if era.product == "triton" else era.product
    if row["engine"] not in ("any", product) or verdict not in row["verdicts"]:
        return False
    if at_least(era.since, row.get("below", "9999")):
        return False
    setting = window.engine.setting
    if any(setting(name) is not None for name in row.get("void_with", ())):
        return False
    if "only_with" in row and setting(row["only_with"]) is None:
        return False
    return not (row.get("only_16_bit") and fields.get("kv_dtype", "bf16") not in ("bf16", "fp16"))


def remedy_of(row: Mapping[str, Any], era: Era, facts: Mapping[str, str]) -> Remedy | None:
    """A row with its numbers, None where one is not known or no detected version has the flag."""
    texts = [row["flag"], say(row["buys"])]
    if "flag_alone" in row and not set(PLACEHOLDER.findall(row["flag"])) <= set(facts):
        texts[0] = row["flag_alone"]
    if any(name not in facts for text in texts for name in PLACEHOLDER.findall(text)):
        return None
    flag, buys = (PLACEHOLDER.sub(lambda match: facts[match[1]], text) for text in texts)
    stands: Standing | None = Standing()
    if flag:
        stands = standing(row.get("known_as", flag.split()[0]), era, row.get("known_from"))
    if stands is None:
        return None
    action, price, source = say(row["action"]), row["price"], row["source"]
    risk = say(row["risk"]) if "risk" in row else ""
    return Remedy(row["id"], action, flag, stands.needs, stands.as_of, price, buys, source, risk, row.get("rung"))


def facts_of(
    diagnosis: Diagnosis, window: Window, rates: Rates, case: Case, fields: Mapping[str, Any], gpu: str | None
) -> dict[str, str]:
    """The numbers that advice is made of, as text; what the metrics do not give is left out."""
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
