"""The limits of the diagnosis, each a rule of thumb with its source (data/diagnosis.toml)."""

from __future__ import annotations

from kvmodel.catalog import assumptions


def limit(section: str, key: str) -> float:
    """A limit of the diagnosis."""
    return assumptions.value(section, key, file="diagnosis")
