"""What to change at a server, in which order, with flags that its version has.

The order is that of :mod:`kvmodel.catalog.prices`, by what comes of each where the metrics tell enough to simulate the
server (:mod:`kvmodel.diagnosis.server_remedies`). Whether they do is said with the advice. Flags that every detected
version has come before the others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from kvmodel import catalog
from kvmodel.catalog import prices
from kvmodel.diagnosis import advice_numbers, server_remedies
from kvmodel.diagnosis.causes import LIVELOCK, PRESSURE, QUEUEING, Diagnosis
from kvmodel.diagnosis.hot_engine import HOT
from kvmodel.diagnosis.queues import KV
from kvmodel.diagnosis.server_remedies import NotEnough, Simulated, with_gain
from kvmodel.inputs.case import Case
from kvmodel.metrics.era import Era, Standing, at_least, standing
from kvmodel.metrics.server_rates import Rates
from kvmodel.metrics.server_window import Window
from kvmodel.simulation.remedies import AS_IS
from kvmodel.words import say

RULE = "the cheapest kind of price first; last what leaves as many preemptions and makes each cheaper"
BY_CAUSE = "what follows from the cause, the quickest to look at first"
SHORT_OF_KV = (PRESSURE, LIVELOCK, f"{QUEUEING} for {KV}")  # verdicts whose remedies are ordered by price
PLACEHOLDER = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, kw_only=True)
class Remedy:
    """One thing to change. `needs` and `as_of` say how the flag stands in the detected versions (`era.Standing`)."""

    id: str
    action: str
    flag: str
    needs: str
    as_of: str
    price: str
    effect: str  # of catalog.prices.EFFECTS, known or simulated
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
    facts = advice_numbers.numbers(diagnosis, window, rates, case, fields, gpu) | ({"hot_buys": hot} if hot else {})
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
        return ranked(remedies, None), say("{rule} (not simulated: {reason})", rule=say(RULE), reason=reason)
    return ranked(remedies, simulation), simulation.rule


def verdict_with_cause(diagnosis: Diagnosis) -> str:
    """The verdict, a queue's with what it waits for."""
    return f"{diagnosis.verdict} for {diagnosis.waits_for}" if diagnosis.waits_for else diagnosis.verdict


def ranked(remedies: list[Remedy], simulation: Simulated | None) -> list[Remedy]:
    """In the order of catalog/prices.py, without what the simulation found to do harm.

    A flag that the server's release may not have comes after all those that it has.
    """
    rows = {} if simulation is None else {row.id: row for row in simulation.rows.values() if not row.problem}

    def place(remedy: Remedy) -> tuple[bool, tuple[int, int, float]]:
        row = rows.get(remedy.rung or "")
        gain = 0.0 if row is None else row.gain
        return bool(remedy.needs), prices.place(remedy.price, remedy.effect, gain)

    simulated = [
        replace(remedy, effect=row.effect, buys=with_gain(remedy.buys, row, rows[AS_IS]))
        if (row := rows.get(remedy.rung or "")) is not None
        else remedy
        for remedy in remedies
    ]
    return sorted((remedy for remedy in simulated if remedy.effect not in (prices.HARMS, prices.UNFINISHED)), key=place)


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
    if fields.get(row.get("unknown", "")) is not None:
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
    risk = prices.of_rung(row, "risk")
    return Remedy(
        id=row["id"], action=say(row["action"]), flag=flag, needs=stands.needs, as_of=stands.as_of,
        price=prices.of_rung(row, "price"), effect=prices.effect_of(row), buys=buys, source=row["source"],
        risk=say(risk) if risk else "", rung=row.get("rung"),
    )  # fmt: skip
