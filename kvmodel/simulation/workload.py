"""Requests over time: when they arrive and how long they are. The same seed gives the same requests."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvmodel import catalog, limits
from kvmodel.arrays import Floats
from kvmodel.errors import CaseError, bad_value
from kvmodel.files import DATA
from kvmodel.simulation import trace_file
from kvmodel.words import say

MOST_TOKENS = 10_000_000  # of one request
MOST_REQUESTS = 2_000_000
LIMITS = {
    "requests": limits.whole(1, MOST_REQUESTS),
    "prompt_tokens": limits.whole(1, MOST_TOKENS),
    "output_tokens": limits.whole(1, MOST_TOKENS),
    "arrival_s": limits.number(-MOST_TOKENS, MOST_TOKENS, "a number of seconds"),
    "priority": limits.whole(-MOST_TOKENS, MOST_TOKENS),
    "clients": limits.whole(1, MOST_REQUESTS),
    "think_s": limits.number(0, 1_000_000),
    "requests_per_s": limits.number(1e-6, 1e6),
    "burstiness": limits.number(0, 100),
    "median": limits.number(1, MOST_TOKENS),
    "spread": limits.number(0, 10),
}
Whole = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Workload:
    """Requests in the order of their index; arrays of one length.

    With `clients`, only the first `clients` requests arrive by `arrival_s`; each further one `think_s` after some
    request has finished: so many are in the server or thinking at any time.
    """

    prompt_tokens: Whole
    output_tokens: Whole
    arrival_s: Floats
    priority: Whole  # a smaller number is more urgent
    clients: int | None = None
    think_s: float = 0.0

    def __len__(self) -> int:
        return len(self.prompt_tokens)


def workload(
    prompt_tokens: Whole,
    output_tokens: Whole,
    arrival_s: Floats,
    *,
    priority: Whole | None = None,
    clients: int | None = None,
    think_s: float = 0.0,
) -> Workload:
    """Checked: one length or more of everything, tokens from 1 up, arrivals from 0 on. Raises CaseError."""
    number = len(prompt_tokens)
    urgency = np.zeros(number, np.int64) if priority is None else priority
    if not number == len(output_tokens) == len(arrival_s) == len(urgency):
        raise CaseError(say("workload: arrays of different lengths given; allowed: one value for each request"))
    require("requests", number)
    for name, tokens in (("prompt_tokens", prompt_tokens), ("output_tokens", output_tokens)):
        require(name, int(tokens.min()))
        require(name, int(tokens.max()))
    if not (np.isfinite(arrival_s).all() and (arrival_s >= 0).all()):
        raise CaseError(say("arrival_s: a negative or infinite time given; allowed: seconds from 0 on"))
    if clients is not None:
        require("clients", clients)
    require("think_s", think_s)
    return Workload(prompt_tokens, output_tokens, arrival_s, urgency, clients, float(think_s))


def require(field: str, value: float) -> None:
    """Raises CaseError for what is out of its limits."""
    LIMITS[field].require(field, value)


# --- arrivals ---


def poisson(requests: int, requests_per_s: float, seed: int) -> Floats:
    """Arrivals that know nothing of each other: exponential gaps. [s]"""
    return bursty(requests, requests_per_s, 1.0, seed)


def bursty(requests: int, requests_per_s: float, burstiness: float, seed: int) -> Floats:
    """Gaps of a gamma distribution; `burstiness` is their coefficient of variation: 0 even, 1 Poisson, 3 bursts. [s]"""
    require("requests", requests)
    require("requests_per_s", requests_per_s)
    require("burstiness", burstiness)
    if burstiness == 0:
        return np.arange(requests) / requests_per_s
    shape = 1 / burstiness**2
    gaps = np.random.default_rng(seed).gamma(shape, 1 / (shape * requests_per_s), requests)
    return np.cumsum(gaps) - gaps[0]


# --- lengths ---


def fixed(requests: int, tokens: int) -> Whole:
    return np.full(requests, tokens, np.int64)


def lognormal(requests: int, median: float, spread: float, most: int, seed: int) -> Whole:
    """Lengths whose logarithm is normal with standard deviation `spread`, from 1 to `most`. [tokens]"""
    require("median", median)
    require("spread", spread)
    lengths = np.random.default_rng(seed).lognormal(log(median), spread, requests)
    return np.clip(np.rint(lengths), 1, most).astype(np.int64)


def trace(path: str | Path) -> Workload:
    """The requests of a file, one a row: `arrival_s`, `prompt_tokens`, `output_tokens` and, if there, `priority`."""
    needed = ("arrival_s", "prompt_tokens", "output_tokens")
    columns = trace_file.columns(path, LIMITS, needed, ("priority",), most_rows=MOST_REQUESTS)
    return workload(
        columns["prompt_tokens"].astype(np.int64),
        columns["output_tokens"].astype(np.int64),
        columns["arrival_s"] - columns["arrival_s"].min(),
        priority=columns["priority"].astype(np.int64) if "priority" in columns else None,
    )


# --- named ---


def names() -> tuple[str, ...]:
    return tuple(catalog.table("workloads"))


def row_of(name: str) -> dict[str, Any]:
    """The row of a workload. Raises CaseError for an unknown one."""
    rows = catalog.table("workloads")
    if name not in rows:
        raise bad_value("workload", name, ", ".join(rows))
    return dict(rows[name])


def by_name(
    name: str,
    requests: int | None = None,
    *,
    seed: int = 0,
    requests_per_s: float | None = None,
    burstiness: float | None = None,
    clients: int | None = None,
) -> Workload:
    """A workload of data/workloads.toml; what is given takes the place of its own rate, burstiness or clients.

    A trace keeps its arrivals, stretched to the rate where one is given, and its first `requests`.
    """
    row = row_of(name)
    if row["arrivals"] == "trace":
        for field, value in (("clients", clients), ("burstiness", burstiness)):
            if value is not None:
                values = {"field": field, "value": value, "workload": name}
                raise CaseError(
                    say("{field}: {value:g} given; allowed: none, {workload} has its own arrivals", **values)
                )
        return _at_rate(first(trace(DATA / row["trace"]), requests), requests_per_s)
    number = 500 if requests is None else requests
    require("requests", number)
    prompt_seed, output_seed, arrival_seed = np.random.SeedSequence(seed).generate_state(3)
    lengths = [
        lognormal(
            number,
            _value(row, f"{part}_median"),
            _value(row, f"{part}_spread"),
            int(_value(row, f"{part}_most")),
            part_seed,
        )
        for part, part_seed in (("prompt", prompt_seed), ("output", output_seed))
    ]
    if clients is not None and requests_per_s is not None:
        raise CaseError(say("clients: {clients:,} given beside requests_per_s; allowed: one of them", clients=clients))
    closed_loop = clients is not None or (row["arrivals"] == "clients" and requests_per_s is None)
    if closed_loop and burstiness is not None:
        values = {"value": burstiness, "workload": name}
        raise CaseError(
            say(
                "burstiness: {value:g} given; allowed: none where clients wait for their answers, as in {workload}",
                **values,
            )
            if clients is None
            else say("burstiness: {value:g} given beside clients; allowed: one of them", value=burstiness)
        )
    if closed_loop:
        many = int(_value(row, "clients")) if clients is None else clients
        think_s = _value(row, "think_s") if "think_s" in row else 0.0
        return workload(lengths[0], lengths[1], np.zeros(number), clients=many, think_s=think_s)
    rate = _value(row, "requests_per_s") if requests_per_s is None else requests_per_s
    bursts = (_value(row, "burstiness") if "burstiness" in row else 1.0) if burstiness is None else burstiness
    return workload(lengths[0], lengths[1], bursty(number, rate, bursts, int(arrival_seed)))


def _value(row: dict[str, Any], key: str) -> float:
    return float(row[key]["value"])


def first(whole: Workload, requests: int | None) -> Workload:
    """The first so many requests; all of them without a number."""
    number = len(whole) if requests is None else min(requests, len(whole))
    require("requests", number)
    return replace(
        whole,
        prompt_tokens=whole.prompt_tokens[:number],
        output_tokens=whole.output_tokens[:number],
        arrival_s=whole.arrival_s[:number],
        priority=whole.priority[:number],
    )


def _at_rate(whole: Workload, requests_per_s: float | None) -> Workload:
    """The same arrivals, closer together or further apart."""
    if requests_per_s is None or whole.arrival_s[-1] == 0:
        return whole
    require("requests_per_s", requests_per_s)
    return replace(whole, arrival_s=whole.arrival_s * (len(whole) / requests_per_s / whole.arrival_s[-1]))
