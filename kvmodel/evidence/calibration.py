"""A time that a reader measured against the model: what it implies, whether it can be, and what to put in its place.

A prefill gives the share of the peak that matrix products reach; two prefills of different length give the fixed cost
of a request as well. A copy gives a rate; two give the fixed cost of a load as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from kvmodel import catalog
from kvmodel.errors import CaseError
from kvmodel.inputs.case import LIMITS, Case
from kvmodel.recovery import costs, resolve
from kvmodel.timing import engine_time, step_time
from kvmodel.units import GB, MS
from kvmodel.words import say

HALVINGS = 60


@dataclass(frozen=True)
class Point:
    """One measurement: of how many tokens, and how long. [s]"""

    tokens: int
    seconds: float


@dataclass(frozen=True)
class PrefillReading:
    """What a measured prefill says. `gemm_efficiency` and `request_overhead_ms` go into a Case; None: it cannot be.

    It cannot be where any of the measurements is below its floor; `floor_s` is that of the first. `mfu` counts the FLOP
    of the first over the dense peak of the model's weights.
    """

    point: Point
    modelled_s: float
    floor_s: float
    mfu: float
    impossible: bool
    gemm_efficiency: float | None
    request_overhead_ms: float | None

    @property
    def beyond(self) -> bool:
        """Whether it takes more than the peak, so that the model's fixed cost of a request is too high for it."""
        return self.gemm_efficiency is not None and self.gemm_efficiency > 1


@dataclass(frozen=True)
class CopyReading:
    """What a measured copy of a request says, one way. `copy_gb_per_s` goes into a Case; None: it cannot be."""

    point: Point
    modelled_s: float
    floor_s: float
    effective_bytes_per_s: float
    impossible: bool
    copy_gb_per_s: float | None
    load_overhead_ms: float | None

    @property
    def beyond(self) -> bool:
        """Whether it takes more than the wire's rate, so that the model's fixed cost of a load is too high for it."""
        wire_bytes_per_s = self.effective_bytes_per_s * self.point.seconds / self.floor_s
        return self.copy_gb_per_s is not None and self.copy_gb_per_s * GB > wire_bytes_per_s


def prefill_s(case: Case, tokens: int) -> float:
    """What the model says of one request alone on the GPU. [s]"""
    shape, gpu, engine = (
        resolve.model_shape(catalog.model(case.model)),
        resolve.case_rates(case),
        resolve.case_engine(case),
    )
    chunk = min(case.max_num_batched_tokens, tokens)
    return float(engine_time.prefill_s(tokens, 0, shape, gpu, engine, tp=case.tp, chunk_tokens=chunk))


def read_prefill(case: Case, point: Point, second: Point | None = None) -> PrefillReading:
    """What one or two measured prefills imply. Raises CaseError where two of them contradict each other."""
    shape, rates = resolve.model_shape(catalog.model(case.model)), resolve.case_rates(case)
    floors_s = [float(step_time.floor_s(each.tokens, 0, shape, rates, tp=case.tp)) for each in points_of(point, second)]
    flop = step_time.linear_flop(point.tokens, shape) + step_time.attention_flop(point.tokens, 0, shape)
    peak = case.tp * step_time.matrix_peak_flop_per_s(shape, rates)
    impossible = below_floor(floors_s, point, second)
    share, overhead_ms = (None, None) if impossible else solve_prefill(case, point, second)
    return PrefillReading(
        point=point,
        modelled_s=prefill_s(case, point.tokens),
        floor_s=floors_s[0],
        mfu=float(flop / (point.seconds * peak)),
        impossible=impossible,
        gemm_efficiency=share,
        request_overhead_ms=overhead_ms,
    )


def solve_prefill(case: Case, point: Point, second: Point | None) -> tuple[float, float | None]:
    """The share of the peak at which the model takes what was measured, and with a second point the overhead. [ms]"""

    def at(share: float, tokens: int) -> float:
        return prefill_s(replace(case, gemm_efficiency=share), tokens)

    limits = LIMITS["gemm_efficiency"].ends
    if second is None:
        return solve(lambda share: at(share, point.tokens), point.seconds, limits, "share of the peak", point), None
    short, long = in_order("prefill", point, second)
    share = solve(
        lambda share: at(share, long.tokens) - at(share, short.tokens),
        long.seconds - short.seconds, limits, "share of the peak", long,
    )  # fmt: skip
    without = replace(case, gemm_efficiency=share, request_overhead_ms=0.0)
    return share, max(short.seconds - prefill_s(without, short.tokens), 0.0) / MS


def copy_s(case: Case, direction: str, tokens: int) -> float:
    """What the model says of copying a request's KV one way, the engine's part of a load included. [s]"""
    inputs = resolve.inputs(replace(case, tokens=tokens, preemptions=1))
    return float(costs.load(inputs, tokens).in_s if direction == "h2d" else costs.out_s(inputs, tokens))


def read_copy(case: Case, direction: str, point: Point, second: Point | None = None) -> CopyReading:
    """What one or two measured copies imply, one way: "h2d" in, "d2h" out. Raises CaseError, also for a misfit."""
    inputs = resolve.inputs(replace(case, tokens=point.tokens, preemptions=1))
    moved_bytes = [float(resolve.moved_bytes(inputs, each.tokens)) for each in points_of(point, second)]
    floors_s = [size_bytes / catalog.link(case.link_id).link_bytes_per_s for size_bytes in moved_bytes]
    impossible = below_floor(floors_s, point, second)
    rate, overhead_ms = (None, None) if impossible else solve_copy(case, direction, point, second)
    return CopyReading(
        point=point,
        modelled_s=copy_s(case, direction, point.tokens),
        floor_s=floors_s[0],
        effective_bytes_per_s=moved_bytes[0] / point.seconds,
        impossible=impossible,
        copy_gb_per_s=rate,
        load_overhead_ms=overhead_ms,
    )


def solve_copy(case: Case, direction: str, point: Point, second: Point | None) -> tuple[float, float | None]:
    """The rate at which the model takes what was measured [GB/s], and with a second point the fixed cost left. [ms]"""

    def at(rate: float, tokens: int) -> float:
        return copy_s(replace(case, copy_gb_per_s=rate), direction, tokens)

    limits = LIMITS["copy_gb_per_s"].ends
    if second is None:
        return solve(lambda rate: at(rate, point.tokens), point.seconds, limits, "rate in GB/s", point), None
    short, long = in_order("copy", point, second)
    grows_s = long.seconds - short.seconds
    rate = solve(lambda rate: at(rate, long.tokens) - at(rate, short.tokens), grows_s, limits, "rate in GB/s", long)
    fixed_s = (short.seconds * long.tokens - long.seconds * short.tokens) / (long.tokens - short.tokens)
    return rate, max(fixed_s, 0.0) / MS


def points_of(point: Point, second: Point | None) -> list[Point]:
    return [point] if second is None else [point, second]


def below_floor(floors_s: list[float], point: Point, second: Point | None) -> bool:
    """Whether any of the measurements is faster than can be."""
    return any(each.seconds < floor_s for each, floor_s in zip(points_of(point, second), floors_s, strict=True))


def case_fields(prefill: PrefillReading | None, copy: CopyReading | None) -> dict[str, float | None]:
    """The Case inputs that make the model say what was measured, None where its own figure stays.

    To four digits: they stand in links. What is impossible replaces nothing.
    """
    figures: dict[str, float | None] = {}
    if prefill is not None and not prefill.impossible:
        figures |= {"gemm_efficiency": prefill.gemm_efficiency, "request_overhead_ms": prefill.request_overhead_ms}
    if copy is not None and not copy.impossible:
        figures |= {"copy_gb_per_s": copy.copy_gb_per_s}
    return {field: None if value is None else float(f"{value:.4g}") for field, value in figures.items()}


def model_alone(case: Case) -> Case:
    """The Case with the model's own figures in place of those that a measurement would replace."""
    return replace(case, gemm_efficiency=None, request_overhead_ms=None, copy_gb_per_s=None)


def in_order(what: str, point: Point, second: Point) -> tuple[Point, Point]:
    """The shorter of two measurements, then the longer. Raises CaseError where they contradict each other."""
    short, long = sorted((point, second), key=lambda each: each.tokens)
    if short.tokens == long.tokens or long.seconds <= short.seconds:
        raise CaseError(
            say(
                "second {what}: {tokens2:,} tokens in {seconds2:g} s given beside {tokens:,} in {seconds:g} s; "
                "allowed: another length, of which the longer takes longer",
                what=say(what),
                tokens2=second.tokens,
                seconds2=second.seconds,
                tokens=point.tokens,
                seconds=point.seconds,
            )
        )
    return short, long


def solve(
    seconds_of: Callable[[float], float], target_s: float, limits: tuple[float, float], what: str, point: Point
) -> float:
    """The value within its limits at which a falling time is `target_s`, by halving its logarithm. Raises CaseError."""
    least_s, most_s = seconds_of(limits[1]), seconds_of(limits[0])
    if not least_s <= target_s <= most_s:
        raise CaseError(
            say(
                "measured time: {tokens:,} tokens in {seconds:g} s given; allowed: what a {what} from {low:g} to "
                "{high:g} explains, here {least_s:.3g} to {most_s:.3g} s (the timing 'kernels' leaves the engine's "
                "own time out)",
                tokens=point.tokens,
                seconds=point.seconds,
                what=say(what),
                low=limits[0],
                high=limits[1],
                least_s=least_s,
                most_s=most_s,
            )
        )
    low, high = np.log(limits)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if seconds_of(float(np.exp(middle))) > target_s else (low, middle)
    return float(np.exp((low + high) / 2))
