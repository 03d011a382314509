"""Efficiencies, overheads and bands of data/assumptions.toml, with a default where a GPU has no data of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kvmodel import catalog
from kvmodel.catalog import Basis, CatalogError


@dataclass(frozen=True, kw_only=True)
class Assumption:
    """One figure with its unit (of the row or of its table), basis and source."""

    value: float
    unit: str
    basis: Basis
    source: str
    note: str | None = None


def assumption(section: str, key: str) -> Assumption:
    """One row with all it says of itself. Raises CatalogError naming section and key."""
    return Assumption(**_row(section, key))


def value(section: str, key: str) -> float:
    """The figure alone, in the unit of its row: not validated again, a test does that for the whole file."""
    return float(_row(section, key)["value"])


def _row(section: str, key: str) -> dict[str, Any]:
    rows = catalog.table("assumptions")
    for part in section.split("."):
        rows = rows.get(part, {})
    row = rows.get(key, rows.get("default"))
    if row is None:
        raise CatalogError(f"assumptions {section}: {key} is missing")
    return {"unit": rows.get("unit"), **row}
