"""What a whole engine adds to its kernels: a factor, a host that launches them, and fixed costs of a request or a step.

A host launches kernels while earlier ones run, so a step takes the longer of the two. It matters for engines of 2023,
whose host needed 20 to 35 ms a step; those of today hide it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvmodel.arrays import Numbers, larger
from kvmodel.catalog import assumptions
from kvmodel.timing import step_time
from kvmodel.timing.step_time import GpuRates, ModelShape
from kvmodel.units import MS


@dataclass(frozen=True, kw_only=True)
class EngineTimes:
    """Costs of an engine beside its kernels; all numbers broadcast."""

    engine_factor: Numbers = 1.0
    host_step_s: Numbers = 0.0  # to launch the kernels of one step, while they run
    request_overhead_s: Numbers = 0.0
    load_overhead_s: Numbers = 0.0
    decode_overhead_s: Numbers = 0.0  # after kernels and host: sampling, scheduling
    decode_overhead_s_per_sequence: Numbers = 0.0


def engine_times(gpu_id: str, timing: str) -> EngineTimes:
    """The costs under a timing, with those of a GPU where they were measured on it."""
    section = f"timing.{timing}"
    return EngineTimes(
        engine_factor=assumptions.value(f"{section}.engine_factor", gpu_id),
        host_step_s=assumptions.value(f"{section}.host_step_ms", gpu_id) * MS,
        request_overhead_s=assumptions.value(section, "request_overhead_ms") * MS,
        load_overhead_s=assumptions.value(section, "load_overhead_ms") * MS,
        decode_overhead_s=assumptions.value(section, "decode_overhead_ms") * MS,
        decode_overhead_s_per_sequence=assumptions.value(section, "decode_overhead_ms_per_sequence") * MS,
    )


def prefill_s(
    new_tokens: Numbers,
    past_tokens: Numbers,
    shape: ModelShape,
    gpu: GpuRates,
    engine: EngineTimes,
    *,
    tp: Numbers = 1,
    chunk_tokens: Numbers,
    sequences: Numbers = 1,
) -> Numbers:
    """Seconds of a prefill alone on the GPU, engine and all; arguments as in :func:`step_time.prefill_s`."""
    kernels_s = step_time.prefill_s(
        new_tokens, past_tokens, shape, gpu, tp=tp, chunk_tokens=chunk_tokens, sequences=sequences
    )
    return request_s(kernels_s, np.ceil(new_tokens * sequences / chunk_tokens), engine)


def request_s(kernels_s: Numbers, steps: Numbers, engine: EngineTimes) -> Numbers:
    """Seconds of a request whose kernels take `kernels_s` in `steps` steps."""
    return launched_s(kernels_s, engine, steps) + engine.request_overhead_s


def decode_step_s(kernels_s: Numbers, sequences: Numbers, engine: EngineTimes) -> Numbers:
    """Seconds of a step that decodes `sequences` sequences and whose kernels take `kernels_s`."""
    overhead_s = engine.decode_overhead_s + sequences * engine.decode_overhead_s_per_sequence
    return launched_s(kernels_s, engine) + overhead_s


def launched_s(kernels_s: Numbers, engine: EngineTimes, steps: Numbers = 1.0) -> Numbers:
    """Seconds of `steps` steps whose host launches their kernels while those run."""
    return larger(engine.engine_factor * kernels_s, steps * engine.host_step_s)
