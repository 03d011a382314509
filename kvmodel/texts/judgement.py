"""Answers of `evidence` and `calibrate` as text for people."""

from __future__ import annotations

from kvmodel.texts.answers import Answer, name_value_lines, table
from kvmodel.units import NONE, format_percent, format_rate, format_seconds


def evidence(answer: Answer) -> str:
    head = ["kind", "rows", "median", "p90", "bias"]
    rows = [
        [row["kind"], f"{row['n']}", *(f"{row[f'{what}_percent']:.1f} %" for what in ("median", "p90", "bias"))]
        for row in answer["rows"]
    ]
    lines = [table([head, *rows]), "", *(f"{row['kind']}: {row['says']}" for row in answer["rows"])]
    for held_out in answer.get("held_out", []):
        lines.append(f"{held_out['kind']}: p90 {held_out['p90_percent']:.1f} %, {held_out['says']}")
    return "\n".join(lines)


def calibrate(answer: Answer) -> str:
    parts = []
    if "prefill" in answer:
        reading = answer["prefill"]
        parts.append(
            name_value_lines(
                ("measured prefill", _point_text(reading)),
                ("the model says", format_seconds(reading["modelled_s"])),
                ("nothing is faster than", format_seconds(reading["floor_s"])),
                ("implied MFU", format_percent(reading["mfu"])),
                ("share of the peak in matrix products", _share(reading["gemm_efficiency"])),
            )
        )
    if "copy" in answer:
        reading = answer["copy"]
        parts.append(
            name_value_lines(
                ("measured copy", _point_text(reading)),
                ("the model says", format_seconds(reading["modelled_s"])),
                ("nothing is faster than", format_seconds(reading["floor_s"])),
                ("effective rate", format_rate(reading["effective_bytes_per_s"])),
                ("rate of large copies", _rate(reading["copy_gb_per_s"])),
            )
        )
    flags = " ".join(f"--{name.replace('_', '-')} {value:.4g}" for name, value in answer["use"].items())
    impossible = any(answer[what]["impossible"] for what in ("prefill", "copy") if what in answer)
    if impossible:
        parts.append("impossible: a measured time is below what the datasheet allows; check model, GPU, tokens and tp")
    return "\n\n".join([*parts, *([f"to make the model say the same: {flags}"] if flags else [])])


def _point_text(reading: Answer) -> str:
    point = reading["point"]
    return f"{point['tokens']:,} tokens in {format_seconds(point['seconds'])}"


def _share(value: float | None) -> str:
    return NONE if value is None else format_percent(value)


def _rate(value: float | None) -> str:
    return NONE if value is None else f"{value:.3g} GB/s"
