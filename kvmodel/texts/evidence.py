"""What the Evidence page says in words and tables: errors, gaps, GPUs, sources, and a reader's own measurement."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from kvmodel import catalog
from kvmodel.catalog import assumptions
from kvmodel.evidence import measured, measured_points, step_rows
from kvmodel.evidence.calibration import CopyReading, PrefillReading
from kvmodel.evidence.measured import Step
from kvmodel.evidence.measured_points import Pair
from kvmodel.inputs.case import Case
from kvmodel.recovery import resolve
from kvmodel.units import MS, NONE, format_count, format_percent, format_rate, format_ratio, format_seconds, significant
from kvmodel.words import say

FEW_ROWS = 12


def lead_texts(case: Case) -> dict[str, str]:
    """The errors that matter most, and what they mean for a Case."""
    errors = {row.kind: row for row in step_rows.step_errors()}
    held_out = assumptions.assumption("band", "prefill_other_gpu")
    kind = "prefill_2023" if case.timing == "2023" else "prefill"
    rows = measured_points.pairs_with([kind], [case.gpu])
    band = resolve.prefill_band_kind(case.gpu, case.timing)
    return {
        "n": format_count(errors["prefill"].n),
        "median": format_percent(errors["prefill"].median),
        "p90": format_percent(errors["prefill"].p90),
        "other_gpu_p90": format_percent(held_out.value),
        "other_gpu_note": say(str(held_out.note)),
        "gpu": catalog.gpu(case.gpu).label,
        "gpu_rows": format_count(len(rows)),
        "range": format_percent(assumptions.value("band", band)),
    }


def is_measured(case: Case) -> bool:
    """Whether what a Case's GPU reaches of its peak was fitted on rows of that GPU."""
    section = "gemm_efficiency_2023" if case.timing == "2023" else "gemm_efficiency"
    return assumptions.assumption(section, case.gpu).basis == "measured"


def error_rows(pairs: Sequence[Pair]) -> list[list[str]]:
    """A line a kind: its id, how many rows, median, 90th percentile and bias of the error, and what it is."""
    rows = {row.kind: measured_points.in_percent(row) for row in measured_points.errors(pairs)}
    return [
        [
            kind,
            format_count(rows[kind]["n"]),
            f"{rows[kind]['median_percent']:.1f} %",
            f"{rows[kind]['p90_percent']:.1f} %",
            f"{rows[kind]['bias_percent']:+.1f} %",
            rows[kind]["says"],
        ]
        for kind in measured_points.SAYS
        if kind in rows
    ]


def kinds() -> list[str]:
    """The kinds that have rows, in the order of the error table."""
    present = measured_points.options("kind")
    return [kind for kind in measured_points.SAYS if kind in present]


def _kv_kinds(row: Step) -> set[str]:
    return {group.kind for group in catalog.model(row.model).kv_layers}


# What the rows may lack: a row that would tell of it.
GAPS: Mapping[str, Callable[[Step], bool]] = {
    "decode": lambda row: step_rows.kind_of(row) == "decode_step",
    "past": lambda row: step_rows.kind_of(row) == "prefill" and row.context > 0,
    "pcie": lambda row: step_rows.kind_of(row) == "prefill_pcie_tp" and row.tp > 2,
    "quantised": lambda row: row.dtype not in ("bf16", "fp16"),
    "experts": lambda row: bool(catalog.model(row.model).num_experts),
    "latent": lambda row: "mla" in _kv_kinds(row),
    "window": lambda row: bool(_kv_kinds(row) & {"sliding", "chunked"}),
}


def gaps() -> list[tuple[str, int]]:
    """What few or no rows tell of, and how many do."""
    rows_by_gap = [(name, sum(map(tells, measured.steps()))) for name, tells in GAPS.items()]
    return [(name, rows) for name, rows in rows_by_gap if rows < FEW_ROWS]


def gap_texts() -> dict[str, str]:
    """Numbers for the sentences about what is not covered."""
    not_modelled = next(row for row in step_rows.step_errors() if row.kind == "prefill_llama_cpp")
    shares = {gpu: assumptions.assumption("gemm_efficiency", gpu) for gpu in catalog.gpu_ids()}
    default = assumptions.assumption("gemm_efficiency", "default")
    other = [gpu for gpu, share in shares.items() if share.basis != "measured"]
    chips = [gpu for gpu in other if shares[gpu] != default]
    rest = [gpu for gpu in other if shares[gpu] == default]
    links = {row.link for row in measured.copies()}
    return {
        "llama_cpp_n": format_count(not_modelled.n),
        "llama_cpp_median": format_percent(not_modelled.median),
        "llama_cpp_bias": format_percent(not_modelled.bias),
        "measured_gpus": _id_list(gpu for gpu in shares if gpu not in other),
        "chip_gpus": _id_list(chips),
        "other_gpus": _id_list(rest),
        "other_count": format_count(len(rest)),
        "gpu_count": format_count(len(shares)),
        "default_share": format_percent(default.value),
        "range": format_percent(assumptions.value("band", "prefill_other_gpu")),
        "copy_range": format_percent(assumptions.value("band", "copy")),
        "measured_links": _id_list(link for link in catalog.link_ids() if link in links),
        "other_links": _id_list(link for link in catalog.link_ids() if link not in links),
        "mixed_gpus": _id_list(sorted({row.gpu for row in measured.steps() if row.kind == "mixed_step"})),
    }


def _id_list(ids: Iterable[str]) -> str:
    return ", ".join(ids)


def source_rows() -> list[tuple[str, str, str, str, str]]:
    """A line a source of measured rows: title, address, how many rows, where in it, and its licence."""
    pairs = measured_points.pairs()
    sources = {source: catalog.source(source) for source in dict.fromkeys(pair.source for pair in pairs)}
    return [
        (
            row["title"],
            row["url"],
            format_count(sum(pair.source == source for pair in pairs)),
            row["where"],
            row.get("licence", NONE),
        )
        for source, row in sources.items()
    ]


def prefill_texts(reading: PrefillReading) -> dict[str, str]:
    """A reader's measured prefill beside the model, as text."""
    return _point_texts(reading) | {
        "mfu": format_percent(reading.mfu),
        "share": NONE if reading.gemm_efficiency is None else format_percent(reading.gemm_efficiency, 3),
        "overhead": NONE if reading.request_overhead_ms is None else format_seconds(reading.request_overhead_ms * MS),
    }


def copy_texts(reading: CopyReading) -> dict[str, str]:
    """A reader's measured copy beside the model, as text."""
    return _point_texts(reading) | {
        "effective": format_rate(reading.effective_bytes_per_s),
        "rate": NONE if reading.copy_gb_per_s is None else f"{significant(reading.copy_gb_per_s, 3)} GB/s",
        "overhead": NONE if reading.load_overhead_ms is None else format_seconds(reading.load_overhead_ms * MS),
    }


def _point_texts(reading: PrefillReading | CopyReading) -> dict[str, str]:
    return {
        "tokens": format_count(reading.point.tokens),
        "measured": format_seconds(reading.point.seconds, 3),
        "modelled": format_seconds(reading.modelled_s),
        "ratio": format_ratio(reading.modelled_s / reading.point.seconds),
        "floor": format_seconds(reading.floor_s, 3),
    }
