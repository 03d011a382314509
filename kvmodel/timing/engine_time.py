"""What a whole engine adds to its kernels: a factor, a host that launches them, and fixed costs of a request or a step.

A host launches kernels while earlier ones run, so a step takes the longer of the two. It matters for engines of 2023,
whose host needed 20 to 35 ms a step; those of today hide it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvmodel.arrays import Numbers
from kvmodel.catalog import assumptions
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


def request_s(kernels_s: Numbers, steps: Numbers, engine: EngineTimes) -> Numbers:
    """Seconds of a request whose kernels take `kernels_s` in `steps` steps."""
    launched_s = np.maximum(engine.engine_factor * kernels_s, steps * engine.host_step_s)
    return launched_s + engine.request_overhead_s


def decode_step_s(kernels_s: Numbers, sequences: Numbers, engine: EngineTimes) -> Numbers:
    """Seconds of a step that decodes `sequences` sequences and whose kernels take `kernels_s`."""
    launched_s = np.maximum(engine.engine_factor * kernels_s, engine.host_step_s)
    return launched_s + engine.decode_overhead_s + sequences * engine.decode_overhead_s_per_sequence
