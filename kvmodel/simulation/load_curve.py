"""How a server answers to more and more requests a second: the same requests, closer together, and the knee."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

from kvmodel.inputs.case import Case
from kvmodel.simulation import simulate
from kvmodel.simulation.simulate import Engine, Run
from kvmodel.simulation.workload import Workload

AROUND = (0.25, 0.4, 0.6, 0.8, 1.0, 1.3, 1.7, 2.5)  # of the rate in the middle
HALVINGS = 3  # of the stretch in which the knee lies
RUNS = len(AROUND) + HALVINGS
GOOD_SHARE = 0.9  # of requests that keep to the objective, up to the knee


@dataclass(frozen=True)
class Objective:
    """What a request is to keep to: first token within `ttft_s`, each later one within `tpot_s` on average."""

    ttft_s: float = 2.0
    tpot_s: float = 0.05


@dataclass(frozen=True)
class Point:
    """A run at one rate; `totals` as of :meth:`kvmodel.simulation_results.Results.totals`."""

    requests_per_s: float
    totals: dict[str, Any]

    @property
    def good(self) -> bool:
        return bool(self.totals["good_share"] >= GOOD_SHARE)


@dataclass(frozen=True)
class Knee:
    """Nine of ten requests keep to the objective up to `low_per_s`, fewer at `high_per_s`; None: no run showed it."""

    low_per_s: float | None
    high_per_s: float | None


def points(
    case: Case,
    at_rate: Callable[[float], Workload],
    engine: Engine,
    objective: Objective,
    middle_per_s: float,
    run: Run = simulate.simulate,
) -> Iterator[Point]:
    """One run after another, `RUNS` at most: rates around the middle one, then those that close in on the knee.

    Raises CaseError or DoesNotFit as `simulation.simulate` does.
    """
    curve: list[Point] = []

    def point_at(requests_per_s: float) -> Point:
        results = run(case, at_rate(requests_per_s), engine)
        point = Point(requests_per_s, results.totals(slo_ttft_s=objective.ttft_s, slo_tpot_s=objective.tpot_s))
        curve.append(point)
        return point

    for factor in AROUND:
        yield point_at(factor * middle_per_s)
    for _ in range(HALVINGS):
        bend = knee(curve)
        if bend.low_per_s is None or bend.high_per_s is None:
            return
        yield point_at(sqrt(bend.low_per_s * bend.high_per_s))


def knee(curve: Sequence[Point]) -> Knee:
    """Between the last rate that is still good and the first that is not."""
    rising = sorted(curve, key=lambda point: point.requests_per_s)
    bad = next((place for place, point in enumerate(rising) if not point.good), len(rising))
    return Knee(
        rising[bad - 1].requests_per_s if bad else None,
        rising[bad].requests_per_s if bad < len(rising) else None,
    )
