"""Efficiencies, overheads and bands of data/assumptions.toml, with a default where a GPU has no data of its own.

The first is written by hand; data/fitted.toml, read with it, by `python -m fitting.fit` from the measured rows. Other
files of figures in the same form (data/copies.toml) are read by the same functions when they are named.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kvmodel import catalog
from kvmodel.catalog import Basis
from kvmodel.errors import CatalogError

FILES = ("assumptions", "fitted")


@dataclass(frozen=True, kw_only=True)
class Assumption:
    """One figure with its unit (of the row or of its table), basis and source."""

    value: float
    unit: str
    basis: Basis
    source: str
    note: str | None = None


def assumption(section: str, key: str, file: str | None = None) -> Assumption:
    """One row with all it says of itself. Raises CatalogError naming file, section and key."""
    return Assumption(**_row(section, key, file))


def value(section: str, key: str, file: str | None = None) -> float:
    """The figure alone, in the unit of its row: not validated again, a test does that for the whole file."""
    return float(_row(section, key, file)["value"])


def _row(section: str, key: str, file: str | None) -> dict[str, Any]:
    tables = [_section(name, section) for name in ((file,) if file else FILES)]
    for name in (key, "default"):
        for rows in tables:
            if name in rows:
                return {"unit": next((rows["unit"] for rows in tables if "unit" in rows), None), **rows[name]}
    raise CatalogError(f"{file or FILES[0]} {section}: {key} is missing")


def _section(file: str, section: str) -> dict[str, Any]:
    rows = catalog.table(file)
    for part in section.split("."):
        rows = rows.get(part, {})
    return rows
