"""What a remedy costs its reader, and the one order of remedies: Diagnose, `remedies`, Pressure and the guided path.

The order: first what helps, the cheapest kind of price first and in it the largest gain; then what changes little; then
what does harm. A remedy that was not simulated counts as one that helps, without a gain; but one of which
data/remedies.toml says that it leaves as many preemptions as there were, as one that changes little.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvmodel import catalog

KINDS: dict[str, str] = catalog.table("remedies")["price"]
ORDER = tuple(KINDS)
RUNGS: dict[str, dict[str, Any]] = catalog.table("remedies")["rung"]
MOST_UTILIZATION: float = RUNGS["utilization"]["to"]
HELPS, LITTLE, HARMS, UNFINISHED = EFFECTS = ("helps", "little", "harms", "unfinished")


def place(price: str, effect: str = HELPS, gain: float = 0.0) -> tuple[int, int, float]:
    """Sorts remedies, best first: what was found or is known of each, by the kind of its price."""
    does_harm = effect in (HARMS, UNFINISHED)
    return EFFECTS.index(effect), 0 if does_harm else ORDER.index(price), -gain


def effect_of(row: Mapping[str, Any]) -> str:
    """What is known of the effect of a row of data/advice.toml without a simulation."""
    return LITTLE if of_rung(row, "leaves_preemptions", False) else HELPS


def of_rung(row: Mapping[str, Any], name: str, otherwise: Any = "") -> Any:
    """What a row of data/advice.toml says of itself, else the rung of data/remedies.toml that it is."""
    return row.get(name, RUNGS.get(row.get("rung", ""), {}).get(name, otherwise))


def advice_row(remedy: str) -> Mapping[str, Any]:
    """A row of data/advice.toml by its id."""
    row: Mapping[str, Any] = next(row for row in catalog.table("advice")["remedy"] if row["id"] == remedy)
    return row
