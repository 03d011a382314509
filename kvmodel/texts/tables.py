"""Rows of strings for the tables of the pages: every number with its unit."""

from __future__ import annotations

import numpy as np

from kvmodel import catalog
from kvmodel.catalog import assumptions
from kvmodel.claims.scenarios import Outcome
from kvmodel.curves.kv_table import KvTable, LinkTimes, article_table
from kvmodel.inputs.case import Case
from kvmodel.recovery import resolve
from kvmodel.recovery.comparison import Comparison
from kvmodel.recovery.strategies import STRATEGIES
from kvmodel.timing import copy_path
from kvmodel.units import (
    MIB,
    MS,
    format_bytes,
    format_count,
    format_gb,
    format_ratio,
    format_seconds,
    format_tokens,
)
from kvmodel.words import say

TABLE_LINKS = ("pcie3-x16", "pcie4-x16", "pcie5-x16", "pcie6-x16", "nvlink-c2c")


def price_rows(result: Comparison) -> list[tuple[str, bool, list[str]]]:
    """For each strategy: its name as shown, whether the engine has it, and its three prices as text."""
    rows = []
    for name in STRATEGIES:
        price = result.prices[name]
        low, high = format_seconds(float(price.low_s)), format_seconds(float(price.high_s))
        cells = [
            format_seconds(float(price.victim_delay_s)),
            f"{low} – {high}",
            format_seconds(float(price.gpu_s)),
            format_gb(float(price.link_bytes)),
            format_bytes(float(price.host_bytes)),
            say("{count} tokens", count=format_count(float(price.recomputed_tokens))),
        ]
        rows.append((say(name), name in result.inputs.available, cells))
    return rows


def kv_rows(table: KvTable, *, measured: bool) -> list[list[str]]:
    """Tokens, size, and "one way / out and in" on each link, at the measured or the link rate."""

    def times(link: LinkTimes, index: int) -> str:
        one_way = link.measured_one_way_s if measured else link.link_rate_one_way_s
        both_ways = link.measured_round_trip_s if measured else link.link_rate_round_trip_s
        return f"{format_seconds(float(one_way[index]))} / {format_seconds(float(both_ways[index]))}"

    return [
        [format_tokens(float(tokens)), format_bytes(float(size)), *(times(link, index) for link in table.links)]
        for index, (tokens, size) in enumerate(zip(table.tokens, table.kv_bytes, strict=True))
    ]


def kv_link_labels(table: KvTable) -> list[str]:
    """Column titles of :func:`kv_rows` after the first two."""
    return [say(catalog.link(link.link).label) for link in table.links]


def article_rows() -> list[list[str]]:
    """The article's table: tokens, size, then for each rate the printed and the exact one-way time."""
    table = article_table()
    return [
        [
            format_tokens(float(tokens)),
            format_bytes(float(table.printed_mib[index]) * MIB),
            *(
                text
                for article, exact in zip(table.printed_one_way_ms, table.exact_one_way_ms, strict=True)
                for text in (f"{article[index]:.0f} ms", format_seconds(float(exact[index]) * MS, digits=3))
            ),
        ]
        for index, tokens in enumerate(table.tokens)
    ]


def article_header() -> list[tuple[str, dict[str, str]]]:
    """Columns of :func:`article_rows`: the kind of each, and the rate it is at."""
    rates = [{"rate": f"{rate:.0f}"} for rate in article_table().rates_gb_per_s]
    columns = [(kind, rate) for rate in rates for kind in ("article_printed", "article_exact")]
    return [("tokens", {}), ("article_size", {}), *columns]


def article_round_trip() -> dict[str, str]:
    """4,096 tokens out and in: the article's 34 ms, the exact time at its rate, and at the measured rate."""
    table = article_table()
    index = int(np.flatnonzero(table.tokens == 4096)[0])
    link = catalog.link("pcie4-x16")
    size = float(table.printed_mib[index]) * MIB
    measured_s = size / link.h2d_bytes_per_s + size / link.d2h_bytes_per_s
    return {
        "printed": f"{2 * table.printed_one_way_ms[0][index]:.0f}",
        "exact": format_seconds(2 * float(table.exact_one_way_ms[0][index]) * MS, digits=3),
        "measured": format_seconds(measured_s),
    }


def outcome_cells(outcome: Outcome) -> dict[str, str]:
    """Costs of one scenario outcome under its objective, and the ratio, as text."""
    prices = outcome.comparison.prices
    copy = str(outcome.contest.runner_up if outcome.contest.winner == "recompute" else outcome.contest.winner)

    def cost(name: str) -> str:
        price = prices[name]
        by_gpu = outcome.comparison.case.objective == "gpu-time"
        return format_seconds(float(price.gpu_s if by_gpu else price.victim_delay_s))

    return {
        "winner": say(outcome.pick if outcome.only else str(outcome.contest.winner)),
        "factor": format_ratio(outcome.contest.factor) if outcome.contest.factor else "–",
        "recompute": cost("recompute"),
        "copy": f"{say(copy)} {cost(copy)}",
    }


def link_columns(case: Case) -> tuple[str, ...]:
    """Links of the size table: every PCIe generation at x16 and NVLink-C2C, and the Case's own if it is another."""
    case_link = () if case.link_id in TABLE_LINKS else (case.link_id,)
    return (*TABLE_LINKS, *case_link)


def source_rows(result: Comparison) -> list[list[str]]:
    """What the numbers rest on: figure, value with its unit, basis, and source."""
    case, gpu, link = result.case, catalog.gpu(result.case.gpu), catalog.link(result.case.link_id)
    model = catalog.model(case.model)
    figures = [
        ("dense 16-bit peak", gpu.dense_16bit_tflop_per_s, "TFLOP/s"),
        ("memory rate", gpu.hbm_gb_per_s, "GB/s"),
        ("memory", gpu.driver_memory_gib or gpu.memory_gb, "GiB"),
        ("link rate", link.link_gb_per_s, "GB/s"),
        ("large copies in (H2D)", link.h2d_gb_per_s, "GB/s"),
        ("large copies out (D2H)", link.d2h_gb_per_s, "GB/s"),
        ("one copy in", link.per_copy_h2d_us, "µs"),
        ("one copy out", link.per_copy_d2h_us, "µs"),
    ]
    rows = [[say("model"), model.label, say(model.basis), catalog.source(model.source)["title"]]]
    rows += [
        [say(name), f"{figure.value:,g} {unit}", say(figure.basis), _source(figure)] for name, figure, unit in figures
    ]
    gemm = "gemm_efficiency_2023" if case.timing == "2023" else "gemm_efficiency"
    timing = f"timing.{case.timing}"
    for name, section, key in (
        ("share of the peak in matrix products", gemm, case.gpu),
        ("share of the memory rate when weights are read", "weight_read_efficiency", case.gpu),
        ("share of the peak in attention", "attention_efficiency", case.gpu),
        ("engine over kernels", f"{timing}.engine_factor", case.gpu),
        ("overhead of a request", timing, "request_overhead_ms"),
        ("overhead of a load", timing, "load_overhead_ms"),
        ("range of a prefill time, each way", "band", resolve.prefill_band_kind(case.gpu, case.timing)),
    ):
        rows.append(_assumed_row(name, assumptions.assumption(section, key)))
    return rows + copy_source_rows(case)


def copy_source_rows(case: Case) -> list[list[str]]:
    """What a Case's copies rest on beside its link's row."""
    return [
        _assumed_row(name, assumptions.assumption(section, key, copy_path.FILE))
        for name, section, key in copy_path.assumptions_used(case)
    ]


def _assumed_row(name: str, row: assumptions.Assumption) -> list[str]:
    return [say(name), f"{row.value:,g} {say(row.unit)}", say(row.basis), _source(row)]


def _source(figure: catalog.SourcedNumber | assumptions.Assumption) -> str:
    title = catalog.source(figure.source)["title"]
    return f"{title} ({figure.note})" if figure.note else title
