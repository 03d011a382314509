"""The model against times that other people measured, row by row and kind by kind.

A row is judged under the timing of what was measured: sums of kernels as kernels, whole engines as engines of their
time. Rows of an engine that is not modelled get the error of today's timing, and are named as not modelled.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from kvmodel import catalog
from kvmodel.arrays import Floats
from kvmodel.catalog import assumptions
from kvmodel.evidence import measured
from kvmodel.evidence.measured import Step
from kvmodel.memory import kv_cache
from kvmodel.recovery import resolve
from kvmodel.timing import engine_time, step_time
from kvmodel.timing.engine_time import EngineTimes
from kvmodel.timing.step_time import GpuRates

MODERN_PREFILLS = ("prefill", "prefill_assembled", "prefill_assembled_chunked", "prefill_ttft1")
KV_BYTES_PER_VALUE = 2  # every row was measured with a 16-bit KV cache
# Tokens in a step where an engine cut the prefill: the profile's own chunk, and vLLM's default on an H100.
CHUNK_TOKENS = {"prefill_assembled_chunked": 2048, "prefill_ttft1": 8192, "ttft_recompute": 8192}
ABOVE_TOKENS = 5_000  # first tokens and loads are judged above this length: pixels are 10 ms
NOT_MODELLED = "not modelled"


@dataclass(frozen=True)
class Rates:
    """Where rates and engine times come from; a fit puts its own in place of the assumptions."""

    gpu: Callable[[str, str], GpuRates] = lambda gpu_id, timing: resolve.gpu_rates(catalog.gpu(gpu_id), timing)
    engine: Callable[[str, str], EngineTimes] = engine_time.engine_times
    older_gemm_factor: float | None = None


@dataclass(frozen=True)
class Errors:
    """Errors of one kind of row, as shares of the measured time."""

    kind: str
    n: int
    median: float
    p90: float
    bias: float  # median of the signed errors


def kind_of(row: Step) -> str:
    """The line of the error table that a row belongs to."""
    if row.timing is None:
        return "prefill_llama_cpp"
    if row.timing == "2023":
        return "decode_2023" if row.kind == "decode_step" else "prefill_2023"
    if row.kind in MODERN_PREFILLS:
        return "prefill"
    return {"prefill_assembled_pcie_tp": "prefill_pcie_tp", "ttft_recompute": "recompute_curve"}.get(row.kind, row.kind)


def modelled_s(rows: Sequence[Step], rates: Rates = Rates()) -> Floats:
    """What the model says each row takes. [s]"""
    groups: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for index, row in enumerate(rows):
        groups[row.kind, row.gpu, row.model, row.tp, row.timing].append(index)
    result = np.empty(len(rows))
    for indices in groups.values():
        result[indices] = group_s([rows[index] for index in indices], rates)
    return result


def group_s(rows: Sequence[Step], rates: Rates) -> Floats:
    """The same for rows that share kind, GPU, model, tensor parallelism and engine, as arrays."""
    first = rows[0]
    timing, tp = first.timing or "today", first.tp
    model, gpu = catalog.model(first.model), rates.gpu(first.gpu, timing)
    shape, engine = resolve.model_shape(model), rates.engine(first.gpu, timing)
    batch, tokens, context = np.array([[row.batch, row.tokens, row.context] for row in rows], dtype=float).T
    if first.kind == "linear_sum":
        older = rates.older_gemm_factor or assumptions.value("kernels", "older_gemm_factor")
        return linear_sum_s(tokens, shape, replace(gpu, gemm_efficiency=older * np.asarray(gpu.gemm_efficiency)), tp)
    kv_bytes = kv_cache.kv_bytes(model.kv_layers, context, bytes_per_value=KV_BYTES_PER_VALUE, tp=tp) * batch
    if first.kind == "decode_step":
        kernels_s = step_time.decode_s(batch, kv_bytes, shape, gpu, tp=tp)
        return np.asarray(engine_time.decode_step_s(kernels_s, batch, engine))
    if first.kind == "mixed_step":
        return mixed_step_s(batch, tokens, kv_bytes, shape, gpu, tp)
    chunk = CHUNK_TOKENS.get(first.kind, tokens * batch)
    return np.asarray(
        engine_time.prefill_s(tokens, context, shape, gpu, engine, tp=tp, chunk_tokens=chunk, sequences=batch)
    )


def linear_sum_s(tokens: Floats, shape: step_time.ModelShape, gpu: GpuRates, tp: int) -> Floats:
    """Kernels of a step without attention, head and all-reduce, as Vidur profiles them."""
    linear_s = step_time.linear_s(tokens, shape, gpu, tp=tp, sampled=0)
    traffic_s = step_time.traffic_s(tokens, shape, gpu, tp=tp)
    return np.asarray(linear_s + traffic_s + shape.layers * gpu.launch_s_per_layer)


def mixed_step_s(
    decodes: Floats, chunk: Floats, kv_bytes: Floats, shape: step_time.ModelShape, gpu: GpuRates, tp: int
) -> Floats:
    """Kernels of one step with a prefill chunk (of nothing before it) beside decodes."""
    beside = step_time.kv_read_s(kv_bytes, gpu, beside_chunk=True)
    alone = step_time.kv_read_s(kv_bytes, gpu, beside_chunk=False)
    step_s = step_time.step_s(decodes + chunk, shape, gpu, tp=tp, sampled=decodes + (chunk > 0))
    return np.asarray(step_s + step_time.attention_s(chunk, 0, shape, gpu, tp=tp) + np.where(chunk > 0, beside, alone))


def relative_errors(rows: Sequence[Step], rates: Rates = Rates()) -> Floats:
    """Modelled over measured, less one."""
    return modelled_s(rows, rates) / np.array([row.seconds for row in rows]) - 1


def errors_of(kind: str, errors: Floats) -> Errors:
    size = np.abs(errors)
    return Errors(kind, len(size), float(np.median(size)), float(np.percentile(size, 90)), float(np.median(errors)))


def judged_rows(rows: Iterable[Step]) -> list[Step]:
    """Rows that the error table counts: a first token of few tokens is read too coarsely from its plot."""
    return [row for row in rows if row.kind != "ttft_recompute" or row.tokens > ABOVE_TOKENS]


@cache
def step_errors() -> tuple[Errors, ...]:
    """The error table of steps and prefills, a kind a line."""
    rows = judged_rows(measured.steps())
    by_kind: dict[str, list[Step]] = defaultdict(list)
    for row in rows:
        by_kind[kind_of(row)].append(row)
    return tuple(errors_of(kind, relative_errors(group)) for kind, group in by_kind.items())
