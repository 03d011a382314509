"""The model's copies against measured ones: rates by size of a copy, and loads through a whole engine."""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from typing import Any

import numpy as np

from kvmodel import catalog
from kvmodel.arrays import Floats
from kvmodel.evidence import measured, step_rows
from kvmodel.evidence.measured import Copy
from kvmodel.evidence.step_rows import ABOVE_TOKENS, Errors
from kvmodel.inputs.case import Case
from kvmodel.memory import kv_cache
from kvmodel.recovery import costs, resolve
from kvmodel.timing.copy_path import copy_path
from kvmodel.timing.transfer import transfer
from kvmodel.units import KIB

LARGE_LOAD_BYTES_PER_TOKEN = 100_000  # a model of at least this leaves an engine's own time in the shade
CLIFF_BYTES = 28 * KIB  # of the measured batched calls
BLOCK_TOKENS, LAYOUT = 16, "contiguous"  # of the measured loads: one physical block of all layers


def method_of(row: Copy) -> str:
    """How a row's copies were made, as a Case says it."""
    if "kernel" in row.method:
        return "kernel"
    return "batched" if "Batch" in row.method else "per-copy"


def kind_of(row: Copy) -> str:
    """The line of the error table that a row belongs to."""
    if row.kind == "ttft_load":
        growth_bytes = kv_cache.growth_bytes_per_token(catalog.model(row.model).kv_layers, bytes_per_value=2)
        return "load_curve_large" if growth_bytes >= LARGE_LOAD_BYTES_PER_TOKEN else "load_curve_small"
    if method_of(row) == "batched":
        return "copy_batched_below_cliff" if row.bytes_per_copy < CLIFF_BYTES else "copy_batched"
    return "copy_pageable" if row.host_memory == "pageable" else "copy"


def case_of(row: Copy) -> Case:
    """The Case that a row was measured in."""
    method = method_of(row)
    fields: dict[str, Any] = {"gpu": row.gpu, "link": row.link, "copy_method": method, "host_memory": row.host_memory}
    if row.kind == "ttft_load":
        fields |= {"model": row.model, "tokens": row.tokens, "block_tokens": BLOCK_TOKENS, "layout": LAYOUT}
    return Case(**fields)


def modelled_s(row: Copy) -> float:
    """What the model says a row takes. [s]"""
    case = case_of(row)
    if row.kind == "ttft_load":
        return float(costs.load(resolve.inputs(case), row.tokens).in_s)
    size_bytes = row.copies * row.bytes_per_copy
    return float(transfer(copy_path(case), row.direction, row.copies, size_bytes, tp=case.tp).seconds)


def measured_s(row: Copy) -> float:
    """What was measured. [s]"""
    return row.seconds or row.copies * row.bytes_per_copy / row.bytes_per_s


def relative_errors(rows: list[Copy]) -> Floats:
    """Modelled time over measured, less one."""
    return np.array([modelled_s(row) / measured_s(row) - 1 for row in rows])


def is_judged(row: Copy) -> bool:
    """Short loads are read too coarsely from their plot to count."""
    return row.kind != "ttft_load" or row.tokens > ABOVE_TOKENS


@cache
def copy_errors() -> tuple[Errors, ...]:
    """The error table of copies, a kind a line."""
    by_kind: dict[str, list[Copy]] = defaultdict(list)
    for row in filter(is_judged, measured.copies()):
        by_kind[kind_of(row)].append(row)
    return tuple(step_rows.errors_of(kind, relative_errors(rows)) for kind, rows in by_kind.items())
