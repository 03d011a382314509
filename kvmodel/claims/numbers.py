"""Numbers of the claims: figures that others published, and how a number is written, by the unit its name ends in."""

from __future__ import annotations

from collections.abc import Mapping

from kvmodel import catalog
from kvmodel.units import (
    MS,
    NONE,
    format_bytes,
    format_count,
    format_percent,
    format_rate,
    format_ratio,
    format_seconds,
    significant,
)

Figures = Mapping[str, float | str | None]


def quoted(name: str) -> float:
    """A figure of data/claims.toml that others measured or counted, in the unit its name ends in."""
    return float(catalog.table("claims")["quoted"][name]["value"])


def texts(numbers: Figures, digits: int = 2) -> dict[str, str]:
    """Every number as it stands in a sentence. Times, rates and ratios get `digits` significant digits."""
    return {name: as_text(name, value, digits) for name, value in numbers.items()}


def as_text(name: str, value: float | str | None, digits: int) -> str:
    """One number with the unit that its name ends in; a word stays a word, None is a dash.

    >>> as_text("swap_s", 0.0433, 2), as_text("kv_bytes_per_token", 131072, 2), as_text("held_tokens", 4096, 2)
    ('43 ms', '131,072 B', '4,096')
    """
    if value is None:
        return NONE
    if isinstance(value, str):
        return value
    if name.endswith("_bytes_per_s"):
        return format_rate(value, digits)
    if name.endswith("_bytes_per_token"):
        return f"{format_count(value)} B"
    if name.endswith("_bytes"):
        return format_bytes(value)
    if name.endswith("_printed_s"):
        return f"{format_count(value / MS)} ms"
    if name.endswith("_s"):
        return format_seconds(value, digits)
    if name.endswith("_about_tokens"):
        return significant(value, 2)
    if name.endswith("_factor"):
        return f"{value:g}"
    if name.endswith("_share"):
        return format_percent(value)
    if name.endswith("_ratio"):
        return format_ratio(value, digits)
    if name.endswith(("_flop_per_byte", "_flop_per_kv_byte")):
        return f"{significant(value, 3)} FLOP/byte"
    return format_count(value)
