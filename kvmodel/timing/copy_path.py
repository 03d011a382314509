"""How a Case's copies are made: by which method, at what cost a copy and what rate, each way.

The link's row holds the cost of one driver call and the rate of large pinned copies; data/copies.toml what method, kind
of memory, socket and traffic the other way make of them. A reader's own rate, and the wire's, stand as they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TypeVar

from kvmodel import catalog
from kvmodel.arrays import Numbers
from kvmodel.catalog import assumptions
from kvmodel.inputs.case import Case
from kvmodel.timing import transfer
from kvmodel.timing.transfer import CopyRates, SmallLoads
from kvmodel.units import GB, KIB, US

STAGED = "staged"  # by the driver, whichever call was made: what becomes of copies in pageable memory
FILE = "copies"  # of data/
CLIFF = "batched_loads_below_cliff"
AnyRates = TypeVar("AnyRates", bound=CopyRates)


@dataclass(frozen=True, kw_only=True)
class CopyPath(CopyRates):
    """The rates of a Case's copies, their `method`, and the range of their times in assumptions.toml (`band_kind`)."""

    method: str
    band_kind: str


def copy_path(case: Case) -> CopyPath:
    """The path of a Case's copies, the reader's own rate and cost in place of the catalog's."""
    method, small = methods(case)
    pinned_now = case.pinning == "first-use" and method != STAGED
    path = CopyPath(
        method=method,
        h2d_bytes_per_s=_rate(case, method, "h2d"),
        d2h_bytes_per_s=_rate(case, method, "d2h"),
        per_copy_h2d_s=_per_copy_s(case, method, "h2d"),
        per_copy_d2h_s=_per_copy_s(case, method, "d2h"),
        host_memory_bytes_per_s=assumptions.value("memory", "host_memory_gb_per_s") * GB,
        small_loads=_small_loads(small) if small else None,
        sm_share=_sm_share(method),
        pin_s_per_byte=_value("pinning", "s_per_gb") / GB if pinned_now else 0.0,
        band_kind="copy_pcie5" if _as_swept(case, method) else "copy",
    )
    return as_measured(path, case.copy_gb_per_s, case.per_copy_us)


def as_measured(rates: AnyRates, copy_gb_per_s: Numbers | None, per_copy_us: Numbers | None) -> AnyRates:
    """Rates with a reader's own figures, which hold both ways; None: the catalog's stands."""
    if copy_gb_per_s is not None:
        rates = replace(rates, h2d_bytes_per_s=copy_gb_per_s * GB, d2h_bytes_per_s=copy_gb_per_s * GB)
    if per_copy_us is not None:
        rates = replace(rates, per_copy_h2d_s=per_copy_us * US, per_copy_d2h_s=per_copy_us * US)
    return rates


def methods(case: Case) -> tuple[str, str | None]:
    """The method of a Case's copies, and that of loads below the cliff of a batched call where there is one."""
    if case.host_memory == "pageable":
        return STAGED, None
    if case.copy_method != "auto":
        return case.copy_method, "batched" if case.copy_method == "batched" else None
    engine = catalog.table("engines")[case.policy]
    return engine["copy_method"], engine.get("small_loads")


def _as_swept(case: Case, method: str) -> bool:
    """Whether copies are made as in the block-size sweep on an H100, whose residuals are known."""
    calm = case.numa == "near" and case.duplex == "alone"
    return case.link_id == "pcie5-x16" and method in ("per-copy", "kernel") and calm


def assumptions_used(case: Case) -> list[tuple[str, str, str]]:
    """Figures of data/copies.toml behind a Case's copies and loads: what each is, its section and its key."""
    method, small = methods(case)
    link = case.link_id
    no_row = case.copy_gb_per_s is not None or case.rate == "link"
    figures = [
        ("block of a load", f"load.{case.timing}", "per_block_us", True),
        ("large copies in (H2D) on this GPU", "gpu_h2d_gb_per_s", case.gpu, not no_row and _differs(case, "h2d")),
        ("large copies out (D2H) on this GPU", "gpu_d2h_gb_per_s", case.gpu, not no_row and _differs(case, "d2h")),
        ("one copy of a batched call", "batched", "per_copy_us", method == "batched"),
        ("one copy by a kernel", "kernel", "per_copy_us", "kernel" in (method, small)),
        ("multiprocessors of a copy kernel", "kernel", "sm_share", "kernel" in (method, small)),
        ("cliff of a batched call", CLIFF, "below_kib", small is not None),
        ("copy through the driver's own buffer", "pageable", "staging_gb_per_s", method == STAGED),
        ("far socket, in", "far_node_h2d", link, case.numa == "far"),
        ("far socket, out", "far_node_d2h", link, case.numa == "far"),
        ("both ways at once, in", "both_ways_h2d", link, case.duplex == "both-ways"),
        ("both ways at once, out", "both_ways_d2h", link, case.duplex == "both-ways"),
        ("locking host memory", "pinning", "s_per_gb", case.pinning == "first-use"),
    ]
    return [(name, section, key) for name, section, key, applies in figures if applies]


def _differs(case: Case, direction: str) -> bool:
    """Whether large copies of a Case's GPU were measured to differ from its link's row."""
    same_link = catalog.gpu(case.gpu).link == case.link_id
    return same_link and case.gpu in catalog.table(FILE)[f"gpu_{direction}_gb_per_s"]


def _rate(case: Case, method: str, direction: str) -> float:
    """Rate of a large copy in one direction. [bytes/s]"""
    link = catalog.link(case.link_id)
    if case.rate == "link":
        return link.link_bytes_per_s
    rate = link.h2d_bytes_per_s if direction == "h2d" else link.d2h_bytes_per_s
    if _differs(case, direction):
        rate = _value(f"gpu_{direction}_gb_per_s", case.gpu) * GB
    if method == "kernel":
        rate *= _value("kernel", "rate_share")
    if case.numa == "far":
        rate *= _value(f"far_node_{direction}", link.id)
    if case.duplex == "both-ways":
        share = _value(f"both_ways_{direction}", link.id)
        rate *= min(share, _value("kernel", "both_ways_share")) if method == "kernel" else share
    return transfer.staged_bytes_per_s(rate, _value("pageable", "staging_gb_per_s") * GB) if method == STAGED else rate


def _per_copy_s(case: Case, method: str, direction: str) -> float:
    """Fixed cost of one copy. [s]"""
    if method == STAGED:
        return _value("pageable", f"per_copy_{direction}_us") * US
    if method in ("batched", "kernel"):
        return _value(method, "per_copy_us") * US
    link = catalog.link(case.link_id)
    return link.per_copy_h2d_s if direction == "h2d" else link.per_copy_d2h_s


def _small_loads(method: str) -> SmallLoads:
    """Below the cliff: the driver's slow path, or a kernel in its place."""
    cliff_bytes = _value(CLIFF, "below_kib") * KIB
    if method == "kernel":
        return SmallLoads(method, cliff_bytes, _value(method, "per_copy_us") * US, math.inf, _sm_share(method))
    return SmallLoads(method, cliff_bytes, _value(CLIFF, "per_copy_us") * US, _value(CLIFF, "gb_per_s") * GB, 0.0)


def _sm_share(method: str) -> float:
    return _value("kernel", "sm_share") if method == "kernel" else 0.0


def _value(section: str, key: str) -> float:
    return assumptions.value(section, key, FILE)
