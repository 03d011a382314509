"""The ladder of remedies for a scraped server: its pool and load as the metrics tell them, simulated.

The load is a closed loop: as many requests at a time as run and wait, of the mean lengths. So the simulated pool is as
short as the server's, whatever GPU it has. Where that does not preempt about as often as the server does, the
simulation says nothing about it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import exp, log, sqrt

import numpy as np

from kvmodel import catalog
from kvmodel.catalog import assumptions, releases, weights
from kvmodel.diagnosis.causes import PRESSURE, QUEUEING, Diagnosis
from kvmodel.errors import CaseError
from kvmodel.inputs.case import Case
from kvmodel.metrics import histogram
from kvmodel.metrics.era import Era
from kvmodel.metrics.server_rates import Rates
from kvmodel.metrics.server_window import Window
from kvmodel.simulation import remedies, remedy_rungs, simulate, workload
from kvmodel.simulation.remedies import Row
from kvmodel.simulation.remedy_rungs import Server
from kvmodel.simulation.simulate import Engine
from kvmodel.simulation.workload import Workload
from kvmodel.units import format_count, significant
from kvmodel.words import say

OBJECTIVES = {PRESSURE: "preemptions", QUEUEING: "ttft-p99"}  # of the verdicts that are simulated
MOST_CLIENTS = 256
LEAST_REQUESTS, ROUNDS, FEWEST_ROUNDS = 200, 3, 1.5  # requests simulated: so many rounds of those at a time
MOST_STEPS = 12_000  # of a run: a few tenths of a second
ALIKE = 3.0  # simulated and measured preemptions differ by no more than this factor
WHOLE_PROMPT_SINCE = "0.19.0"


@dataclass(frozen=True)
class Load:
    """Requests at a time and what they are like; spreads are of the logarithm of a log-normal length."""

    clients: int
    prompt_tokens: float
    output_tokens: float
    prompt_spread: float
    output_spread: float
    requests_per_s: float | None


@dataclass(frozen=True)
class Simulated:
    """Rows of the ladder by rung with their places, and the sentence on how they came about."""

    rows: dict[str, Row]
    rule: str


class NotEnough(Exception):
    """What is missing for a simulation, in a few words."""


def simulated(
    diagnosis: Diagnosis, window: Window, rates: Rates, era: Era, case: Case, fields: set[str], rungs: tuple[str, ...]
) -> Simulated:
    """The rungs tried on the server. `fields` are those that are no mere defaults. Raises NotEnough."""
    objective = OBJECTIVES.get(diagnosis.verdict)
    if objective is None:
        raise NotEnough(say("no simulation of a server whose verdict is {verdict}", verdict=say(diagnosis.verdict)))
    server, load = server_of(window, era, case, fields), load_of(window, rates)
    require_short(server, load)
    try:
        as_is = rows_of(server, load, ())[0]
        if objective == "preemptions":
            require_alike(as_is.preemptions_per_100, rates.preemptions_per_100 or 0.0)
        rows = (as_is, *rows_of(server, load, rungs))
    except CaseError as error:
        raise NotEnough(str(error)) from None
    ordered = remedies.ranking(rows, objective)
    return Simulated({row.id: row for row in ordered}, sentence(server, load, as_is, objective))


def sentence(server: Server, load: Load, as_is: Row, objective: str) -> str:
    return say(
        "simulated for {objective} with {clients} requests at a time of {prompt} + {output} tokens on {tp} {gpu}, "
        "which as it is gives {per_100} preemptions per 100: {rule}",
        objective=objective,
        clients=load.clients,
        prompt=format_count(load.prompt_tokens),
        output=format_count(load.output_tokens),
        tp=server.case.tp,
        gpu=server.case.gpu,
        per_100=significant(as_is.preemptions_per_100, 2),
        rule=say(remedies.RULE),
    )


@lru_cache(64)
def rows_of(server: Server, load: Load, rungs: tuple[str, ...]) -> tuple[Row, ...]:
    """Rows of the rungs; without any the server as it is. A page asks for the same server again and again.

    They are kept for readers of any language, so without the sentences on a flag's releases and on a refusal.
    """
    requests = workload_of(load, server)
    if not rungs:
        return (remedies.as_it_is(server, requests),)
    engine_rungs = [rung for rung in remedy_rungs.rungs(server.engine.scheduler) if rung.id in rungs]
    rows = (remedies.row_of(rung, server, requests, None) for rung in engine_rungs)
    return tuple(replace(row, stands="", problem="refused" if row.problem else "") for row in rows)


def require_alike(ours: float, measured: float) -> None:
    """Raises NotEnough where the simulated server preempts much less, or much more, than the real one."""
    if not measured / ALIKE <= ours <= measured * ALIKE:
        raise NotEnough(
            say(
                "the simulated server preempts {ours} times per 100 requests and not {measured}",
                ours=significant(ours, 2),
                measured=significant(measured, 2),
            )
        )


def server_of(window: Window, era: Era, case: Case, fields: set[str]) -> Server:
    """Pool and settings as reported. Raises NotEnough where a GPU like that does not have such a pool."""
    pool_tokens = window.engine.pool_tokens
    if pool_tokens is None or "model" not in fields:
        raise NotEnough(
            say("the size of the pool is not reported") if "model" in fields else say("the model is not known")
        )
    scheduler = case.policy
    if scheduler == "vllm-v1" and era.gone is not None and not may_be(era.gone, WHOLE_PROMPT_SINCE):
        scheduler = "vllm-v1-first-chunk"
    blocks = max(1, simulate.given_out(int(pool_tokens // case.block_tokens), scheduler))
    free = catalog.gpu(case.gpu).memory_bytes - weights.weight_bytes(catalog.model(case.model)) / case.tp
    if blocks * simulate.block_bytes(case) > free:
        values = {"tp": case.tp, "gpu": case.gpu}
        raise NotEnough(say("such a pool does not fit on {tp} {gpu}; give --gpu and --tp", **values))
    try:
        engine = Engine(
            scheduler=scheduler,
            num_blocks=blocks,
            utilization=window.engine.setting("gpu_memory_utilization"),
            watermark=window.engine.setting("watermark"),
        )
    except CaseError as error:
        raise NotEnough(str(error)) from None
    return Server(case, engine)


def may_be(gone: str, version: str) -> bool:
    """Whether releases below `gone` include `version`."""
    return releases.release(gone) > releases.release(version)


def load_of(window: Window, rates: Rates) -> Load:
    """Raises NotEnough where lengths or the number of requests are not reported."""
    gauges = window.mean
    prompt, output = rates.prompt_tokens_per_request, rates.output_tokens_per_request
    if "running" not in gauges or prompt is None or output is None:
        raise NotEnough(say("running requests and their lengths are not reported"))
    clients = round(gauges["running"] + gauges.get("waiting", 0.0))
    if not 1 <= clients <= MOST_CLIENTS:
        counts = {"clients": format_count(clients), "most": MOST_CLIENTS}
        raise NotEnough(say("{clients} requests at a time; from 1 to {most} are simulated", **counts))
    if not (1 <= prompt <= workload.MOST_TOKENS and 1 <= output <= workload.MOST_TOKENS):  # NaN is not either
        lengths = {"prompt": prompt, "output": output}
        raise NotEnough(say("requests of {prompt:,.0f} + {output:,.0f} tokens are not simulated", **lengths))
    observed = window.increase.histograms
    return Load(
        clients=clients,
        prompt_tokens=prompt,
        output_tokens=output,
        prompt_spread=spread(observed.get("prompt_length"), "prompt_spread"),
        output_spread=spread(observed.get("output_length"), "output_spread"),
        requests_per_s=rates.finished_per_s or None,
    )


def spread(lengths: histogram.Histogram | None, assumed: str) -> float:
    """Of the log-normal lengths that have this mean and median: mean over median is e^(spread^2 / 2)."""
    median = None if lengths is None else histogram.quantile(0.5, lengths)
    if lengths is None or lengths.mean is None or not median:
        return assumptions.value("chat", assumed, file="workloads")
    return min(sqrt(2 * log(max(lengths.mean / median, 1.0))), 2.0)


def at_a_time(load: Load, server: Server) -> float:
    """Requests that run: all of them, or as many as the pool holds to their end."""
    most = (server.engine.num_blocks or 1) * server.case.block_tokens / (load.prompt_tokens + load.output_tokens)
    return min(most, load.clients)


def most_requests(load: Load, server: Server) -> int:
    """So many are simulated in MOST_STEPS: each step makes a token for all that run."""
    return int(MOST_STEPS * at_a_time(load, server) / load.output_tokens)


def require_short(server: Server, load: Load) -> None:
    """Raises NotEnough where a simulation would take too long to be waited for."""
    if most_requests(load, server) < FEWEST_ROUNDS * at_a_time(load, server):
        lengths = {"prompt": load.prompt_tokens, "output": load.output_tokens}
        raise NotEnough(say("requests of {prompt:,.0f} + {output:,.0f} tokens take too long to simulate", **lengths))


def workload_of(load: Load, server: Server) -> Workload:
    """Several rounds of the clients, who arrive over the time that a request takes (Little's law), not all at once."""
    requests = min(max(LEAST_REQUESTS, ROUNDS * load.clients), most_requests(load, server))
    most = max(1, (server.engine.num_blocks or 1) * server.case.block_tokens // 2)
    prompts, outputs = (
        workload.lognormal(requests, max(mean / exp(width**2 / 2), 1), width, most, seed)
        for seed, (mean, width) in enumerate(
            ((load.prompt_tokens, load.prompt_spread), (load.output_tokens, load.output_spread))
        )
    )
    stay_s = load.clients / load.requests_per_s if load.requests_per_s else 0.0
    arrival_s = np.minimum(np.arange(requests) / load.clients, 1) * min(stay_s, 1e6)
    return workload.workload(prompts, outputs, arrival_s, clients=load.clients)


def with_gain(buys: str, row: Row, as_is: Row) -> str:
    """What a remedy buys, with what the simulation says of it."""
    if row.problem:
        return buys
    counts = (as_is.preemptions_per_100, row.preemptions_per_100)
    before, after = (significant(count, 2) if count else "0" for count in counts)
    more = row.output_tokens_per_s / as_is.output_tokens_per_s - 1
    return say(
        "{buys}; simulated: {before} preemptions per 100 become {after}, output {more:+.0%}",
        buys=buys,
        before=before,
        after=after,
        more=more,
    )
