"""The constants that are fitted, and how a set of them becomes the model's rates.

Few, each with a physical meaning: what share of its peak a chip reaches in matrix products, what share of its memory
rate when weights stream in, what a whole engine adds. A GPU with the same chip as a measured one takes its shares; any
other takes the median of those measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from statistics import median

from kvmodel import catalog
from kvmodel.evidence.measured import Step
from kvmodel.evidence.step_rows import Rates
from kvmodel.recovery import resolve
from kvmodel.timing.engine_time import EngineTimes, engine_times
from kvmodel.timing.step_time import GpuRates

GEMM_CHIPS = ("a100-sxm4-80gb", "h100-sxm5-80gb", "a40", "l40s", "rtx-a6000", "rtx-4090")
WEIGHT_READ_CHIPS = ("a100-sxm4-80gb", "h100-sxm5-80gb", "a40", "rtx-4090")  # those with rows of few tokens
ENGINE_GPUS = ("a100-sxm4-40gb", "h100-sxm5-80gb", "gh200-96gb")
OLD_CHIPS = ("a100-sxm4-80gb", "h100-sxm5-80gb")
SAME_CHIP = {  # the same silicon, clocked alike against its datasheet peak
    "a100-sxm4-40gb": "a100-sxm4-80gb",
    "a100-pcie-80gb": "a100-sxm4-80gb",
    "h100-pcie-80gb": "h100-sxm5-80gb",
    "h200-sxm-141gb": "h100-sxm5-80gb",
    "gh200-96gb": "h100-sxm5-80gb",
}
SAME_ENGINE = {"a100-sxm4-80gb": "a100-sxm4-40gb", "a100-pcie-80gb": "a100-sxm4-40gb"}
DECODES_BESIDE_CHUNKS = "rtx-4090"  # the one GPU with mixed steps

START: dict[str, float] = {
    "attention": 0.7,
    "older_gemm_factor": 0.9,
    "launch_s_per_layer": 40e-6,
    "kv_read": 0.8,
    "kv_read_beside_chunk": 0.5,
    **{f"gemm {chip}": 0.7 for chip in GEMM_CHIPS},
    **{f"weight_read {chip}": 0.8 for chip in WEIGHT_READ_CHIPS},
    **{f"engine {gpu}": 1.1 for gpu in ENGINE_GPUS},
}
START_2023: dict[str, float] = {
    **{f"gemm {chip}": 0.6 for chip in OLD_CHIPS},
    **{f"host_step_s {chip}": 30e-3 for chip in OLD_CHIPS},
    "request_overhead_s": 20e-3,
    "decode_overhead_s": 8e-3,
    "decode_overhead_s_per_sequence": 0.3e-3,
    "nvlink": 0.4,
    "nvlink_large_share": 0.5,
}
START_PCIE: dict[str, float] = {"all_reduce_bytes_per_s": 4e9}


def share(values: Mapping[str, float], what: str, gpu_id: str) -> float:
    """A GPU's own share, that of its chip, or the median of those measured."""
    own = values.get(f"{what} {SAME_CHIP.get(gpu_id, gpu_id)}")
    return own if own is not None else default(values, what)


def default(values: Mapping[str, float], what: str) -> float:
    return median(value for name, value in values.items() if name.startswith(f"{what} "))


def modern_rates(values: Mapping[str, float]) -> Rates:
    """Rates and engine times of today's engines under a set of constants."""

    def gpu(gpu_id: str, timing: str) -> GpuRates:
        assumed = resolve.gpu_rates(catalog.gpu(gpu_id), timing)
        return replace(
            assumed,
            gemm_efficiency=share(values, "gemm", gpu_id),
            weight_read_efficiency=share(values, "weight_read", gpu_id),
            attention_efficiency=values["attention"],
            launch_s_per_layer=values["launch_s_per_layer"],
            kv_read_efficiency=values.get("kv_read", assumed.kv_read_efficiency),
            kv_read_efficiency_beside_chunk=values.get("kv_read_beside_chunk", assumed.kv_read_efficiency_beside_chunk),
        )

    def engine(gpu_id: str, timing: str) -> EngineTimes:
        if timing == "kernels":
            return engine_times(gpu_id, timing)
        own = values.get(f"engine {SAME_ENGINE.get(gpu_id, gpu_id)}")
        times = engine_times("a GPU without rows", timing)
        return times if own is None else replace(times, engine_factor=own)

    return Rates(gpu, engine, values.get("older_gemm_factor"))


def rates_2023(values: Mapping[str, float], modern: Mapping[str, float]) -> Rates:
    """The same for the engine of 2023: its own matrix products, host and all-reduce, the rest as today."""
    kernels = modern_rates(modern).gpu

    def gpu(gpu_id: str, timing: str) -> GpuRates:
        nvlink_bytes_per_s = catalog.gpu(gpu_id).nvlink_bytes_per_s or 1.0
        return replace(
            kernels(gpu_id, timing),
            gemm_efficiency=share(values, "gemm", gpu_id),
            all_reduce_bytes_per_s=values["nvlink"] * nvlink_bytes_per_s,
            all_reduce_large_share=values["nvlink_large_share"],
            kv_read_efficiency=resolve.gpu_rates(catalog.gpu(gpu_id), timing).kv_read_efficiency,
        )

    def engine(gpu_id: str, timing: str) -> EngineTimes:
        return EngineTimes(
            host_step_s=share(values, "host_step_s", gpu_id),
            request_overhead_s=values["request_overhead_s"],
            decode_overhead_s=values["decode_overhead_s"],
            decode_overhead_s_per_sequence=values["decode_overhead_s_per_sequence"],
        )

    return Rates(gpu, engine)


def pcie_rates(values: Mapping[str, float], modern: Mapping[str, float]) -> Rates:
    """Today's kernels with an all-reduce over PCIe."""
    rates = modern_rates(modern)

    def gpu(gpu_id: str, timing: str) -> GpuRates:
        return replace(rates.gpu(gpu_id, timing), all_reduce_bytes_per_s=values["all_reduce_bytes_per_s"])

    return Rates(gpu, rates.engine)


def tells(row: Step, name: str) -> bool:
    """Whether a row depends on a constant that belongs to one GPU, one kind of row, or to all."""
    what, _, gpu_id = name.partition(" ")
    if what in ("gemm", "weight_read"):
        return SAME_CHIP.get(row.gpu, row.gpu) == gpu_id
    if what == "engine":
        return row.timing == "today" and SAME_ENGINE.get(row.gpu, row.gpu) == gpu_id
    if what.startswith("kv_read"):
        return row.kind == "mixed_step"
    return row.kind == "linear_sum" if what == "older_gemm_factor" else True
