"""The ladder of remedies for one server under one workload: what each buys, best order for an objective.

`ladder(case, workload, objective)` gives the rows of the table, best first after the server as it is. Each row is a
simulated run (about 0.1 s for 500 requests). A caller with progress to show, or several objectives, takes the rows one
by one from `tried`, and puts them in order with `ordered`, which simulates nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import inf, nan, sqrt
from typing import Any

from kvmodel.catalog import prices
from kvmodel.errors import CaseError, bad_value
from kvmodel.inputs.case import Case
from kvmodel.simulation import simulate
from kvmodel.simulation.remedy_rungs import Rung, Server, flag_of, gpu_host_gib, rungs, server_on
from kvmodel.simulation.simulate import Engine, Run
from kvmodel.simulation.workload import Workload

AS_IS = "as-is"
DEFAULT_ENGINE = Engine()
OBJECTIVES = {  # the column that counts, and whether more of it is better
    "preemptions": ("preemptions", False),
    "throughput": ("output_tokens_per_s", True),
    "ttft-p99": ("ttft_p99_s", False),
    "itl-p99": ("itl_p99_s", False),
}
TOTALS = (  # numbers of a run that a row has under the same name
    "preemptions", "preemptions_per_100", "preempted_share", "recompute_tax", "gpu_lost_s", "requests_per_s",
    "output_tokens_per_s",
)  # fmt: skip
NOTICEABLE = 0.05  # a smaller gain is none: other arrivals of the same kind move it as much
RULE = (
    "first what helps by 5 % or more, the cheapest kind of price first and in it the largest gain; "
    "then what changes little, then what does harm"
)


@dataclass(frozen=True, kw_only=True)
class Row:
    """A remedy tried. Times in seconds; numbers are NaN where it could not be tried, and `problem` says why."""

    id: str  # of data/remedies.toml, or "as-is"
    action: str
    flag: str = ""  # of the server's engine, where it has one
    stands: str = ""  # which releases have the flag, where not all do
    price: str = "free"  # a kind of catalog.prices
    risk: str = ""
    article: int | None = None  # place in the article's list
    beside: str = AS_IS  # row that it is to be compared with
    place: int | None = None  # for the objective, from 1; None: not a remedy, or could not be tried
    gain: float = nan  # of the objective against the row `beside`, as a share of that; above 0 is better
    effect: str = ""  # of catalog.prices.EFFECTS: whether the gain is more than chance
    problem: str = ""
    outcome: str = ""  # "finished", or why the run could not go on
    gpus: int = 0
    pool_tokens: int = 0
    host_gib: float = 0.0  # of host memory, over all GPUs
    preemptions: float = nan
    preemptions_per_100: float = nan
    preempted_share: float = nan
    recompute_tax: float = nan  # share of prefilled tokens
    gpu_lost_s: float = nan
    requests_per_s: float = nan
    output_tokens_per_s: float = nan
    ttft_p50_s: float = nan
    ttft_p99_s: float = nan
    itl_p50_s: float = nan
    itl_p99_s: float = nan


def ladder(
    case: Case,
    workload: Workload,
    objective: str = "preemptions",
    *,
    engine: Engine = DEFAULT_ENGINE,
    version: str | None = None,
) -> tuple[Row, ...]:
    """The server as it is, then all remedies in the best order for an objective (of OBJECTIVES).

    `version` is the engine's: with it a flag is left out where that release does not have it.

    Raises
    ------
    DoesNotFit : the server as it is has no pool.
    CaseError : a request is too long for it, or the objective is none.
    """
    require_objective(objective)
    return ranking(tuple(rows(case, workload, engine=engine, version=version)), objective)


def rows(
    case: Case,
    workload: Workload,
    *,
    engine: Engine = DEFAULT_ENGINE,
    version: str | None = None,
    only: tuple[str, ...] | None = None,
    run: Run = simulate.simulate,
) -> Iterator[Row]:
    """The server as it is, then each rung (of `only`) as it is simulated, in the order of data/remedies.toml."""
    server = Server(case, engine)
    yield as_it_is(server, workload, run)
    for rung in rungs(engine.scheduler):
        if only is None or rung.id in only:
            yield row_of(rung, server, workload, version, run)


def as_it_is(server: Server, workload: Workload, run: Run = simulate.simulate) -> Row:
    """The row that the others are compared with. Raises CaseError, DoesNotFit."""
    return with_totals(Row(id=AS_IS, action="the server as it is"), server, workload, run)


def number_of_rows(engine: Engine) -> int:
    """How many rows `tried` gives, for progress."""
    return 1 + len(rungs(engine.scheduler))


def row_of(rung: Rung, server: Server, workload: Workload, version: str | None, run: Run = simulate.simulate) -> Row:
    """One rung simulated, or the sentence why it cannot be."""
    row = Row(
        id=rung.id, action=rung.action, price=rung.price, risk=rung.risk, article=rung.article,
        beside=rung.beside if rung.beside in {other.id for other in rungs(server.engine.scheduler)} else AS_IS,
    )  # fmt: skip
    try:
        after = server_on(rung, server, workload)
        flag, stands = flag_of(rung, after, version)
        return with_totals(replace(row, flag=flag, stands=stands), after, workload, run)
    except CaseError as error:
        return replace(row, problem=str(error))


def with_totals(row: Row, server: Server, workload: Workload, run: Run) -> Row:
    """The row with the numbers of a run. Raises CaseError, DoesNotFit."""
    results = run(server.case, workload, server.engine)
    totals = results.totals(slo_ttft_s=1, slo_tpot_s=1)
    numbers: dict[str, Any] = {name: float(totals[name]) for name in TOTALS}
    for name in ("ttft", "itl"):
        numbers |= {f"{name}_{part}_s": totals[f"{name}_s"][part] for part in ("p50", "p99")}
    return replace(
        row,
        outcome=results.outcome,
        gpus=server.case.tp,
        pool_tokens=results.pool_blocks * server.case.block_tokens,
        host_gib=gpu_host_gib(server) * server.case.tp,
        **numbers,
    )


def require_objective(objective: str) -> None:
    if objective not in OBJECTIVES:
        raise bad_value("objective", objective, ", ".join(OBJECTIVES))


# --- order ---


def ranking(rows: tuple[Row, ...], objective: str) -> tuple[Row, ...]:
    """The same rows by RULE, with place, gain and effect; last those only for comparison or that could not be tried."""
    by_id = {row.id: row for row in rows}
    baselines = {row.beside for row in rows}
    with_effect = [replace(row, **effect(row, by_id[row.beside], objective)) for row in rows]
    remedies = sorted((row for row in with_effect if not row.problem and row.id not in baselines), key=place)
    with_place = tuple(replace(row, place=place) for place, row in enumerate(remedies, 1))
    rest = tuple(row for row in with_effect[1:] if row.problem or row.id in baselines)
    return (with_effect[0], *with_place, *rest)


def effect(row: Row, before: Row, objective: str) -> dict[str, Any]:
    """By which share of what it was the objective gets better, and whether that is more than chance."""
    column, more_is_better = OBJECTIVES[objective]
    old, new = getattr(before, column), getattr(row, column)
    if row.problem:
        return {}
    if row.outcome != "finished":
        return {"effect": prices.UNFINISHED, "gain": -inf}
    if before.outcome != "finished":
        return {"effect": prices.HELPS, "gain": inf}
    better = new - old if more_is_better else old - new
    least = 2 * sqrt(old) if column == "preemptions" else 0.0  # a count of n is good to about the root of n
    small = abs(better) < max(NOTICEABLE * old, least)
    return {
        "gain": better / old if old else float((better > 0) - (better < 0)),
        "effect": prices.LITTLE if small or not better else prices.HELPS if better > 0 else prices.HARMS,
    }


def place(row: Row) -> tuple[int, int, float]:
    """Sorts rows that were simulated."""
    return prices.place(row.price, row.effect, row.gain)


def swap_beside_recompute(rows: tuple[Row, ...]) -> dict[str, float] | None:
    """Preemptions with swap and with recomputing in the same engine; None where the ladder has no swap."""
    swap = next((row for row in rows if row.id == "swap" and not row.problem), None)
    if swap is None:
        return None
    recompute = next(row for row in rows if row.id == swap.beside)
    return {"swap_preemptions": swap.preemptions, "recompute_preemptions": recompute.preemptions}
