"""What a remedy costs its reader: the kinds of price, cheapest first, and how much memory an engine may be given."""

from kvmodel import catalog

KINDS: dict[str, str] = catalog.table("remedies")["price"]
ORDER = tuple(KINDS)
MOST_UTILIZATION: float = catalog.table("remedies")["rung"]["utilization"]["to"]


def price_of(remedy: str) -> str:
    """What kind of price a remedy of advice.toml has."""
    return str(next(row["price"] for row in catalog.table("advice")["remedy"] if row["id"] == remedy))
