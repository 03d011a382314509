"""The rate of copies against the bytes of one copy, by method and direction, with what others measured on the link."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from kvmodel.arrays import Floats
from kvmodel.evidence import copy_rows, measured
from kvmodel.evidence.measured import Copy
from kvmodel.inputs.case import Case
from kvmodel.recovery import resolve
from kvmodel.recovery.comparison import Comparison
from kvmodel.timing.copy_path import copy_path
from kvmodel.timing.transfer import transfer
from kvmodel.units import GIB, KIB, MIB

METHODS = ("per-copy", "batched", "kernel")
DIRECTIONS = ("d2h", "h2d")
CURVE_POINTS = 97
SMALLEST_BYTES, LARGEST_BYTES = KIB, 64 * MIB
LARGEST_SHOWN_BYTES = GIB  # no engine moves more KV in one copy


@dataclass(frozen=True)
class Curve:
    """One method in one direction: the rate reached at each size of a copy. [bytes/s]"""

    method: str
    direction: str
    bytes_per_s: Floats


@dataclass(frozen=True)
class MeasuredRate:
    """One measured rate, and where it is from."""

    method: str
    direction: str
    bytes_per_copy: int
    copies: int
    bytes_per_s: float
    gpu: str
    source: str


@dataclass(frozen=True)
class CopyRates:
    """Curves over `bytes_per_copy`, measured points on the same kind of link, and what the Case's own copies reach.

    `chosen_bytes_per_s` is by direction, for the method that the Case's engine uses.
    """

    link: str
    bytes_per_copy: Floats
    curves: tuple[Curve, ...]
    measured_rates: tuple[MeasuredRate, ...]
    chosen_method: str
    chosen_bytes_per_copy: float
    chosen_bytes_per_s: dict[str, float]


def copy_rates(result: Comparison) -> CopyRates:
    """The rates of a Case's link, over sizes that hold its own copies and all measured ones."""
    case, inputs = result.case, result.inputs
    case_bytes = float(resolve.moved_bytes(inputs, inputs.tokens) / resolve.copy_count(inputs, inputs.tokens))
    points = matching(case)
    sizes = [SMALLEST_BYTES, LARGEST_BYTES, case_bytes, *(point.bytes_per_copy for point in points)]
    size = np.union1d(np.geomspace(min(sizes), max(sizes), CURVE_POINTS), [case_bytes])
    case_rates = {direction: float(rate(case, direction, case_bytes)) for direction in DIRECTIONS}
    return CopyRates(
        link=case.link_id,
        bytes_per_copy=size,
        curves=tuple(
            Curve(copy_path(by_method).method, direction, rate(by_method, direction, size))
            for by_method in methods(case)
            for direction in DIRECTIONS
        ),
        measured_rates=points,
        chosen_method=copy_path(case).method,
        chosen_bytes_per_copy=case_bytes,
        chosen_bytes_per_s=case_rates,
    )


def methods(case: Case) -> list[Case]:
    """The Case with each method that its host memory allows: pageable memory has the driver's own alone."""
    if case.host_memory == "pageable":
        return [case]
    return [replace(case, copy_method=method) for method in METHODS]


def rate(case: Case, direction: str, bytes_per_copy: Floats | float) -> Floats:
    """Rate that copies of a size reach, their fixed cost in it; how many there are does not matter. [bytes/s]"""
    return np.asarray(bytes_per_copy / transfer(copy_path(case), direction, 1, bytes_per_copy, tp=case.tp).seconds)


def matching(case: Case) -> tuple[MeasuredRate, ...]:
    """Measured rates on the Case's kind of link and memory, copies alone on it as the rows were."""
    return tuple(
        MeasuredRate(
            method=copy_path(copy_rows.case_of(row)).method,
            direction=row.direction,
            bytes_per_copy=row.bytes_per_copy,
            copies=row.copies,
            bytes_per_s=row.bytes_per_s,
            gpu=row.gpu,
            source=row.source,
        )
        for row in measured.copies()
        if matches(row, case)
    )


def matches(row: Copy, case: Case) -> bool:
    """Whether a row is a rate measured under what the Case says of its link and memory."""
    as_measured = (case.numa, case.duplex, case.rate) == ("near", "alone", "measured")
    same_path = (row.link, row.host_memory) == (case.link_id, case.host_memory)
    return same_path and as_measured and row.bytes_per_s > 0 and row.bytes_per_copy <= LARGEST_SHOWN_BYTES
