"""A server under a workload as the Pressure page asks for it: a Case, requests, one engine or two side by side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np

from kvmodel import catalog
from kvmodel.inputs.case import Case
from kvmodel.simulation import load_curve, simulate, workload
from kvmodel.simulation.load_curve import Objective, Point
from kvmodel.simulation.results import Results
from kvmodel.simulation.simulate import Engine, Run
from kvmodel.simulation.workload import Workload
from kvmodel.units import format_count
from kvmodel.words import Later

ALONE = "none"  # in the place of a second scheduler
WHOLE_POOL_PERCENT = 100
MOST_RUNS = 64
MOST_CURVES = 32


@dataclass(frozen=True, kw_only=True)
class Demand:
    """Which requests arrive, and how fast; None: as the workload of that name has it."""

    workload: str = "chat"
    requests: int = 400
    seed: int = 0
    requests_per_s: float | None = None
    burstiness: float | None = None
    clients: int | None = None

    def arrivals(self) -> Workload:
        """The requests. Raises CaseError."""
        return workload.by_name(
            self.workload, self.requests, seed=self.seed, requests_per_s=self.requests_per_s,
            burstiness=self.burstiness, clients=self.clients,
        )  # fmt: skip

    def at_rate(self, requests_per_s: float) -> Workload:
        """The same requests at another rate; clients in a closed loop give way to it."""
        return replace(self, requests_per_s=requests_per_s, clients=None).arrivals()


@dataclass(frozen=True, kw_only=True)
class Pressure:
    """All that the page shows depends on this. Its first view is a server under pressure, beside one that waits."""

    case: Case
    demand: Demand = Demand()
    engine: Engine = field(default_factory=Engine)  # without what `pool_percent` makes of its pool
    beside: str = "wait"
    pool_percent: int = 20  # of what the GPU's memory leaves, or more where one request needs it; not of given blocks
    objective: Objective = field(default_factory=Objective)

    @property
    def schedulers(self) -> tuple[str, ...]:
        """The chosen one and, if it is another, the one beside it."""
        return tuple(dict.fromkeys(name for name in (self.engine.scheduler, self.beside) if name != ALONE))


def engine_of(server: Pressure, scheduler: str) -> Engine:
    """The engine of one run, with its pool. Raises DoesNotFit where the weights leave none."""
    engine = replace(server.engine, scheduler=scheduler)
    if engine.num_blocks is not None or server.pool_percent == WHOLE_POOL_PERCENT:
        return engine
    whole = memory_blocks(server.case, engine)
    share = whole * server.pool_percent // WHOLE_POOL_PERCENT
    return replace(engine, num_blocks=min(max(share, longest_blocks(server)), whole))


def longest_blocks(server: Pressure) -> int:
    """Blocks that the longest request holds at its end: a smaller pool can never finish it."""
    load = server.demand.arrivals()
    return -(-int((load.prompt_tokens + load.output_tokens).max() - 1) // server.case.block_tokens)


def memory_blocks(case: Case, engine: Engine) -> int:
    """Blocks of the pool that the GPU's memory leaves. Raises DoesNotFit."""
    whole = replace(engine, num_blocks=None)
    return simulate.engine_settings(case, whole, simulate.step_inputs(case)).num_blocks


@lru_cache(maxsize=MOST_RUNS)
def cached_results(case: Case, demand: Demand, engine: Engine, run: Run) -> Results:
    """A run, kept for the next reader: the same inputs give the same run. Raises CaseError or DoesNotFit."""
    return run(case, demand.arrivals(), engine)


def curve_points(
    server: Pressure, schedulers: Iterable[str], middle_per_s: float, run: Run = simulate.simulate
) -> Iterator[tuple[str, Point]]:
    """The load curve's points, one scheduler after the other. Raises CaseError or DoesNotFit."""
    for scheduler in schedulers:
        engine = engine_of(server, scheduler)
        for point in load_curve.points(server.case, server.demand.at_rate, engine, server.objective, middle_per_s, run):
            yield scheduler, point


def by_scheduler(points: Iterable[tuple[str, Point]]) -> dict[str, list[Point]]:
    curves: dict[str, list[Point]] = {}
    for scheduler, point in points:
        curves.setdefault(scheduler, []).append(point)
    return curves


@lru_cache(maxsize=MOST_CURVES)
def curves(server: Pressure) -> tuple[dict[str, list[Point]], Later, float]:
    """The load curve of each scheduler, the load in one line, and the rate that was asked for."""
    rate_per_s = offered_per_s(server.demand, run(server, server.schedulers[0]))
    points = curve_points(server, server.schedulers, rate_per_s)
    return by_scheduler(points), load_text(server), rate_per_s


def pool_share(server: Pressure, results: Results) -> float:
    """The pool of a run as a share of what memory leaves."""
    return results.pool_blocks / memory_blocks(server.case, server.engine)


def run(server: Pressure, scheduler: str, run: Run = simulate.simulate) -> Results:
    """One run. Raises CaseError or DoesNotFit, one sentence."""
    return cached_results(server.case, server.demand, engine_of(server, scheduler), run)


def load_text(server: Pressure, results: Results | None = None) -> Later:
    """The load in one line, for a chart that travels without its page; without a run it has no rate of its own."""
    values = {
        "workload": server.demand.workload,
        "requests": Later("{count} requests", (("count", format_count(server.demand.requests)),)),
        "seed": Later("seed {seed}", (("seed", server.demand.seed),)),
    }
    if results is None:
        return Later("{workload}, {requests}, {seed}", tuple(values.items()))
    values |= {
        "rate": f"{offered_per_s(server.demand, results):.3g}",
        "blocks": Later("{count} blocks", (("count", format_count(results.pool_blocks)),)),
    }
    return Later("{workload}, {requests}, {rate} requests/s, {blocks}, {seed}", tuple(values.items()))


def offered_per_s(demand: Demand, results: Results) -> float:
    """The rate at which requests come: as asked for, else the workload's own, else as its clients sent. [requests/s]"""
    workload_rate = catalog.table("workloads")[demand.workload].get("requests_per_s")
    if demand.clients is None and (demand.requests_per_s or workload_rate):
        return float(demand.requests_per_s or workload_rate["value"])
    arrival_s = results.requests.arrival_s
    span_s = float(np.nanmax(arrival_s) - np.nanmin(arrival_s)) or results.makespan_s
    return len(arrival_s) / span_s if span_s > 0 else float("nan")
