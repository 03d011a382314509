"""Every measured row beside what the model says of it, worked out once: what the Evidence page filters and draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from kvmodel.evidence import copy_rows, measured, step_rows
from kvmodel.evidence.measured import Copy, Step
from kvmodel.evidence.step_rows import Errors
from kvmodel.words import Later, say

SAYS = {
    "prefill": "prefill of modern engines and kernels in 16 bit",
    "linear_sum": "kernels of one step without attention",
    "mixed_step": "a prefill chunk beside decodes, kernels",
    "decode_2023": "decode step, vLLM of 2023",
    "decode_step": "decode step of today's engines",
    "prefill_2023": "prefill, vLLM of 2023",
    "prefill_pcie_tp": "prefill with tensor parallel over PCIe",
    "prefill_llama_cpp": "llama.cpp, not modelled: the error of using the model anyway",
    "recompute_curve": "first token computed, whole engine, 10K to 100K tokens",
    "copy": "pinned copies, one call a copy and copy kernel",
    "copy_batched": "one batched call, copies of 28 KiB and more",
    "copy_batched_below_cliff": "one batched call, copies below its cliff at 28 KiB",
    "copy_pageable": "pageable copies: out of the processor's cache they are slower",
    "load_curve_large": "first token after a load, whole engine, 8B model",
    "load_curve_small": "first token after a load, whole engine, 1B model",
}

FIRST_KINDS = ("prefill",)  # what is shown until a reader asks for other rows
KERNELS, ENGINE, OLD_ENGINE, NOT_MODELLED, COPY = "kernels", "whole engine", "engine of 2023", "not modelled", "copies"
# How a row was measured, by what it has: a batch, tokens in the cache before it.
SETTINGS = {
    (False, False): "{tokens} tokens",
    (True, False): "{tokens} tokens x {batch}",
    (False, True): "{tokens} tokens after {past}",
    (True, True): "{tokens} tokens x {batch} after {past}",
}
LOADED = "{tokens} tokens, {link} {direction}, {memory} {method}"
COPIED = "{copies} x {bytes} B, {link} {direction}, {memory} {method}"
FAMILIES = {  # first word of an engine's name -> its id in links; others as they are
    "hf/torch": "pytorch",
    "gpu_cpu_benchmark": "copy-benchmark",
    "": "copy-benchmark",
}


@dataclass(frozen=True)
class Pair:
    """One measured row: its line of the error table, how it was measured, and both times. [s]

    `length_tokens` is the length of a sequence at the end of the step, 0 for plain copies.
    """

    id: str
    kind: str
    measured_as: str
    gpu: str
    model: str
    engine: str
    family: str
    source: str
    setting: Later
    tp: int
    length_tokens: int
    measured_s: float
    modelled_s: float

    @property
    def ratio(self) -> float:
        """Modelled over measured."""
        return self.modelled_s / self.measured_s


@cache
def pairs() -> tuple[Pair, ...]:
    """All rows that the error table counts, steps first."""
    steps = step_rows.judged_rows(measured.steps())
    copies = list(filter(copy_rows.is_judged, measured.copies()))
    times = step_rows.modelled_s(steps)
    return (
        *(step_pair(row, float(seconds)) for row, seconds in zip(steps, times, strict=True)),
        *(copy_pair(row, copy_rows.modelled_s(row)) for row in copies),
    )


def step_pair(row: Step, modelled_s: float) -> Pair:
    values = {"tokens": f"{row.tokens:,}", "batch": str(row.batch), "past": f"{row.context:,}"}
    return Pair(
        id=row.id,
        kind=step_rows.kind_of(row),
        measured_as=measured_as(row),
        gpu=row.gpu,
        model=row.model,
        engine=row.engine,
        family=family(row.engine),
        source=row.source,
        setting=Later(SETTINGS[row.batch > 1, row.context > 0], tuple(values.items())),
        tp=row.tp,
        length_tokens=row.tokens + row.context,
        measured_s=row.seconds,
        modelled_s=modelled_s,
    )


def copy_pair(row: Copy, modelled_s: float) -> Pair:
    sizes = {"tokens": f"{row.tokens:,}", "copies": f"{row.copies:,}", "bytes": f"{row.bytes_per_copy:,}"}
    path = {"link": row.link, "direction": row.direction, "memory": row.host_memory, "method": row.method}
    return Pair(
        id=row.id,
        kind=copy_rows.kind_of(row),
        measured_as=COPY,
        gpu=row.gpu,
        model=row.model,
        engine=row.engine,
        family=family(row.engine),
        source=row.source,
        setting=Later(LOADED if row.tokens else COPIED, tuple((sizes | path).items())),
        tp=1,
        length_tokens=row.tokens,
        measured_s=copy_rows.measured_s(row),
        modelled_s=modelled_s,
    )


def measured_as(row: Step) -> str:
    """Sum of kernels, whole engine of today or of 2023, or an engine that is not modelled."""
    if row.timing is None:
        return NOT_MODELLED
    if row.timing == "2023":
        return OLD_ENGINE
    return KERNELS if "kernels" in row.engine else ENGINE


def family(engine: str) -> str:
    """An engine without its version, as it stands in a link: "vLLM 0.24.0 kernels" is "vllm"."""
    first = engine.lower().split(" ")[0]
    return f"{first}-2023" if "2023" in engine else FAMILIES.get(first, first)


def options(field: str) -> list[str]:
    """The values of a field that any row has: in the order of the rows for kinds, else sorted. Empty ones are none."""
    values = dict.fromkeys(getattr(pair, field) for pair in pairs())
    values.pop("", None)
    return list(values) if field == "kind" else sorted(values)


def pairs_with(
    kinds: Sequence[str] = (), gpus: Sequence[str] = (), models: Sequence[str] = (), families: Sequence[str] = ()
) -> tuple[Pair, ...]:
    """The rows that have one of the values of each filter; an empty filter lets all through."""
    by_field = (("kind", set(kinds)), ("gpu", set(gpus)), ("model", set(models)), ("family", set(families)))
    filters = [(field, values) for field, values in by_field if values]
    return tuple(pair for pair in pairs() if all(getattr(pair, field) in values for field, values in filters))


def errors(rows: Sequence[Pair]) -> list[Errors]:
    """The error table of some rows, a kind a line, in the order of :func:`options`."""
    return [
        step_rows.errors_of(kind, np.array([pair.ratio for pair in rows if pair.kind == kind]) - 1)
        for kind in dict.fromkeys(pair.kind for pair in rows)
    ]


def in_percent(errors: Errors) -> dict[str, Any]:
    """One kind of row with its errors in per cent."""
    return {
        "kind": errors.kind,
        "says": say(SAYS[errors.kind]),
        "n": errors.n,
        "median_percent": 100 * errors.median,
        "p90_percent": 100 * errors.p90,
        "bias_percent": 100 * errors.bias,
    }
