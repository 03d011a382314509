"""The KV-size table: size against length, and copy times on every link, as the article prints them and exactly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvmodel import catalog
from kvmodel.arrays import Floats
from kvmodel.catalog import assumptions
from kvmodel.inputs.case import Case
from kvmodel.memory import kv_cache
from kvmodel.timing import transfer
from kvmodel.units import GB, MIB, MS

TABLE_TOKENS = np.array([512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072])
ARTICLE_TOKENS = TABLE_TOKENS[:5]
ARTICLE_MODEL = "llama-3-8b"


@dataclass(frozen=True)
class LinkTimes:
    """One way (the slower direction) and out-and-in times of one link, for every length of the table. [s]"""

    link: str
    link_rate_one_way_s: Floats
    link_rate_round_trip_s: Floats
    measured_one_way_s: Floats
    measured_round_trip_s: Floats


@dataclass(frozen=True)
class KvTable:
    """Sizes on one GPU and the times of each link."""

    tokens: Floats
    kv_bytes: Floats
    links: tuple[LinkTimes, ...]


def kv_table(case: Case, links: tuple[str, ...]) -> KvTable:
    """The table for a Case's model, KV dtype and tensor parallel; bytes over rate, without per-copy costs."""
    kept = case.stored
    size = kv_cache.kv_bytes(kept.layers, TABLE_TOKENS, bytes_per_value=kept.bytes_per_value, tp=case.tp)
    return KvTable(TABLE_TOKENS, size, tuple(_link_times(size, link) for link in links))


def _link_times(size: Floats, link_id: str) -> LinkTimes:
    link = catalog.link(link_id)
    wire_s = _bytes_only_s(size, link.link_bytes_per_s)
    out_s, in_s = _bytes_only_s(size, link.d2h_bytes_per_s), _bytes_only_s(size, link.h2d_bytes_per_s)
    return LinkTimes(link_id, wire_s, 2 * wire_s, np.maximum(out_s, in_s), out_s + in_s)


def _bytes_only_s(size: Floats, rate: float) -> Floats:
    return transfer.copy_s(0, size, per_copy_s=0, link_bytes_per_s=rate)


@dataclass(frozen=True)
class ArticleTable:
    """The article's own table for Llama 3 8B in bf16: what it prints beside the exact times at the same rates."""

    tokens: Floats
    printed_mib: Floats
    rates_gb_per_s: tuple[float, ...]
    printed_one_way_ms: Floats
    exact_one_way_ms: Floats


def article_table() -> ArticleTable:
    """As printed: MiB divided by "GB/s" as if 1,000 MiB were a GB, rounded to a millisecond; and exact SI.

    The arrays of times have a row for each rate. Source: the article's table and its "30" and "15 GB/s".
    """
    size = kv_cache.kv_bytes(catalog.model(ARTICLE_MODEL).kv_layers, ARTICLE_TOKENS, bytes_per_value=2)
    rates = tuple(assumptions.value("article", key) for key in ("pcie4_gb_per_s", "pcie3_gb_per_s"))
    mib = size / MIB
    return ArticleTable(
        tokens=ARTICLE_TOKENS,
        printed_mib=mib,
        rates_gb_per_s=rates,
        printed_one_way_ms=np.array([np.rint(mib / rate) for rate in rates]),
        exact_one_way_ms=np.array([_bytes_only_s(size, rate * GB) / MS for rate in rates]),
    )
