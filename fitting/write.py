"""Fitted constants as the text of `kvmodel/data/fitted.toml`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

import kvmodel
from fitting import constants
from kvmodel.arrays import Floats

FITTED = Path(kvmodel.__file__).parent / "data" / "fitted.toml"
KERNELS, OLD = "fit-kernel-tables", "splitwise-traces"
BAND_NOTES = {
    "prefill_other_gpu": ", each chip left out of the fit in turn",
    "prefill_other_source": ", each source left out of the fit in turn",
}
HEAD = """# Written by `python -m fitting.fit` from data/measured; do not edit. Nothing in assumptions.toml is fitted.
"""


def row(key: str, value: float, source: str, *, basis: str = "measured", unit: str = "", note: str = "") -> str:
    """One figure, to three digits."""
    parts = [f"value = {value:.3g}"]
    parts += [f'unit = "{unit}"'] if unit else []
    parts += [f'basis = "{basis}"', f'source = "{source}"']
    parts += [f'note = "{note}"'] if note else []
    return f"{key} = {{ {', '.join(parts)} }}"


def section(name: str, unit: str, rows: Iterable[str]) -> str:
    return "\n".join([f"[{name}]", *([f'unit = "{unit}"'] if unit else []), *rows]) + "\n"


def shares(what: str, values: Mapping[str, float], chips: Iterable[str], source: str) -> list[str]:
    """Measured chips, the GPUs that share one, and the median of the measured for all others."""
    chips = tuple(chips)
    rows = [row("default", constants.default(values, what), source, basis="assumed", note="median of the measured")]
    rows += [row(chip, values[f"{what} {chip}"], source) for chip in chips]
    for gpu_id, chip in constants.SAME_CHIP.items():
        if chip in chips and not (what == "weight_read" and gpu_id.startswith("h200")):
            rows.append(row(gpu_id, values[f"{what} {chip}"], source, basis="assumed", note=f"the chip of {chip}"))
    return rows


def document(
    modern: Mapping[str, float],
    old: Mapping[str, float],
    pcie: Mapping[str, float],
    errors: Mapping[str, Floats],
) -> str:
    """The whole file."""
    gpu = constants.DECODES_BESIDE_CHUNKS
    engine = [row(name, modern[f"engine {name}"], "engine-against-kernels") for name in constants.ENGINE_GPUS]
    engine += [
        row(name, modern[f"engine {like}"], "engine-against-kernels", basis="assumed", note=f"as {like}")
        for name, like in constants.SAME_ENGINE.items()
    ]
    host_ms = {name: 1000 * value for name, value in old.items()}
    one_way = pcie["all_reduce_bytes_per_s"] / 1e9
    sections = [
        section("gemm_efficiency", "share", shares("gemm", modern, constants.GEMM_CHIPS, KERNELS)),
        section("gemm_efficiency_2023", "share", shares("gemm", old, constants.OLD_CHIPS, OLD)),
        section("weight_read_efficiency", "share", shares("weight_read", modern, constants.WEIGHT_READ_CHIPS, KERNELS)),
        section("attention_efficiency", "share", [row("default", modern["attention"], KERNELS)]),
        section("kv_read_efficiency", "share", [row(gpu, modern["kv_read"], "llmservingsim-profiles")]),
        section(
            "kv_read_efficiency_beside_chunk",
            "share",
            [row(gpu, modern["kv_read_beside_chunk"], "llmservingsim-profiles")],
        ),
        section(
            "kernels",
            "",
            [
                row("launch_us_per_layer", 1e6 * modern["launch_s_per_layer"], KERNELS, unit="us"),
                row(
                    "older_gemm_factor",
                    modern["older_gemm_factor"],
                    "vidur-profiles",
                    unit="ratio",
                    note="matrix products of 2024 over those of today; only to judge rows of that time",
                ),
            ],
        ),
        section(
            "all_reduce", "", [row("pcie_pair_gb_per_s", one_way, "aiconfigurator-kernels", unit="GB/s", note="L40S")]
        ),
        section("timing.today.engine_factor", "ratio", engine),
        section(
            "all_reduce_2023",
            "share",
            [
                row("nvlink_share", old["nvlink"], OLD),
                row(
                    "nvlink_large_share",
                    old["nvlink_large_share"],
                    OLD,
                    note="of that, for messages of 64 MiB and more",
                ),
            ],
        ),
        section(
            "timing.2023",
            "ms",
            [
                row("request_overhead_ms", host_ms["request_overhead_s"], OLD),
                row("decode_overhead_ms", host_ms["decode_overhead_s"], OLD),
                row("decode_overhead_ms_per_sequence", host_ms["decode_overhead_s_per_sequence"], OLD),
            ],
        ),
        section("timing.2023.host_step_ms", "ms", shares("host_step_s", host_ms, constants.OLD_CHIPS, OLD)),
        section("band", "share", list(bands(errors))),
    ]
    return HEAD + "\n" + "\n".join(sections)


def bands(errors: Mapping[str, Floats]) -> Iterable[str]:
    """Half-width of low..high for a kind of case: the 90th percentile of the errors that were left."""
    for kind, left in errors.items():
        middle = f"median {100 * np.median(np.abs(left)):.1f} % of {len(left)} rows{BAND_NOTES.get(kind, '')}"
        yield row(kind, float(np.percentile(np.abs(left), 90)), OLD if "2023" in kind else KERNELS, note=middle)
