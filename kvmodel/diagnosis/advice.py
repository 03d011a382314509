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
from kvmodel.catalog import assumptions
from kvmodel.catalog.prices import MOST_UTILIZATION
from kvmodel.catalog.prices import ORDER as PRICES
from kvmodel.diagnosis import server_remedies
from kvmodel.diagnosis.causes import LIVELOCK, QUEUEING, Diagnosis, limit, request_tokens
from kvmodel.diagnosis.server_remedies import NotEnough, Simulated
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
    rung: str | None = None  # of data/remedies.toml, where it is one


def advice(
    diagnosis: Diagnosis,
    window: Window,
    rates: Rates,
    era: Era,
    case: Case,
    fields: Mapping[str, Any],
    gpu: str | None,
) -> tuple[list[Remedy], str]:
    """Remedies for a verdict, best first, and what that order is. `fields`: those that are no mere defaults."""
    facts = facts_of(window, rates, case, fields, gpu) | fitting(diagnosis, window, rates)
    rows = [row for row in catalog.table("advice")["remedy"] if applies(row, diagnosis, era, fields)]
    remedies = [remedy for row in rows if (remedy := remedy_of(row, era, facts)) is not None]
    rungs = tuple(dict.fromkeys(remedy.rung for remedy in remedies if remedy.rung is not None))
    if not rungs:
        return remedies, say(RULE)
    try:
        simulation = server_remedies.simulated(diagnosis, window, rates, era, case, set(fields), rungs)
    except NotEnough as reason:
        return ranked(remedies, None), f"{say(RULE)} ({reason})"
    return ranked(remedies, simulation), simulation.rule


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


def applies(row: Mapping[str, Any], diagnosis: Diagnosis, era: Era, fields: Mapping[str, Any]) -> bool:
    """Whether a row is for this verdict, engine, version and KV dtype."""
    verdict: str = diagnosis.verdict
    if verdict == QUEUEING:
        verdict = "queueing for kv" if diagnosis.kv_is_short else "queueing for a place"
    product = "tensorrt-llm" if era.product == "triton" else era.product
    if row["engine"] not in ("any", product) or verdict not in row["verdicts"]:
        return False
    if at_least(era.since, row.get("below", "9999")):
        return False
    return not (row.get("only_16_bit") and fields.get("kv_dtype", "bf16") not in ("bf16", "fp16"))


def remedy_of(row: Mapping[str, Any], era: Era, facts: Mapping[str, str]) -> Remedy | None:
    """A row with its numbers, None where one is not known or no detected version has the flag."""
    texts = [row["flag"], say(row["buys"])]
    if any(name not in facts for text in texts for name in PLACEHOLDER.findall(text)):
        return None
    flag, buys = (PLACEHOLDER.sub(lambda match: facts[match[1]], text) for text in texts)
    stands: Standing | None = Standing()
    if flag:
        stands = standing(row.get("known_as", flag.split()[0]), era, row.get("known_from"))
    if stands is None:
        return None
    action, price, source = say(row["action"]), row["price"], row["source"]
    return Remedy(row["id"], action, flag, stands.needs, stands.as_of, price, buys, source, row.get("rung"))


def facts_of(window: Window, rates: Rates, case: Case, fields: Mapping[str, Any], gpu: str | None) -> dict[str, str]:
    """The numbers that advice is made of, as text; what the metrics do not give is left out."""
    engine = window.engine
    pool, usage, running = engine.pool_tokens, engine.usage, engine.gauges.get("running")
    facts = {"double_tp": str(2 * case.tp), "double_budget": str(2 * case.max_num_batched_tokens)}
    facts |= utilization(window, case, fields, gpu)
    if usage is not None:
        facts["usage"] = format_percent(usage)
        if usage and running:
            facts["more_requests"] = format_count(running * limit("usage", "high") / max(usage, 0.01)).replace(",", "")
    if pool:
        twice = format_count(2 * pool)
        facts["fp8_buys"] = say("the same bytes hold {tokens} tokens, twice as many as now", tokens=twice)
    return facts | offload(pool, case, fields)


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
        return {}
    buys = say(
        "{pool} tokens hold {fit} requests of {request} tokens to their end; the others wait before they start",
        pool=format_count(pool),
        fit=format_count(fit),
        request=format_count(request),
    )
    return {"fitting_requests": str(fit), "fitting_buys": buys}


def utilization(window: Window, case: Case, fields: Mapping[str, Any], gpu: str | None) -> dict[str, str]:
    """A higher share of the GPU's memory, and the tokens that it brings where model and GPU are known."""
    now = window.engine.setting("gpu_memory_utilization")
    if now is not None and now >= MOST_UTILIZATION:
        return {}
    share = MOST_UTILIZATION - (assumptions.value("memory", "utilization") if now is None else now)
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
