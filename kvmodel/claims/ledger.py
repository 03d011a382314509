"""The claims ledger: what the article and the vLLM paper say, the verdict, and this model's number for it.

Texts, Cases and sources are rows of data/claims.toml; every number in a text is computed here for the claim's Case.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import urlencode

from kvmodel import catalog
from kvmodel.claims import on_compute, on_engines, on_figure19, on_recovery, on_sizes
from kvmodel.claims.numbers import Figures, texts
from kvmodel.claims.scenarios import preset_case
from kvmodel.errors import CatalogError
from kvmodel.inputs.case import DEFAULTS, Case, case_from
from kvmodel.words import say

VERDICTS = ("holds", "holds if", "differs", "dated", "rule of thumb")
SPEAKERS = ("article", "vllm-paper")
TEXTS = ("says", "ours", "condition")
# Charts of Crossover, named in its URL.
VIEWS = ("length", "block-size", "copy-rate", "winner-map", "preemptions", "figure19")
PLACEHOLDER = re.compile(r"\[\[(\w+)\]\]")
NUMBERS: dict[str, Callable[[Case], Figures]] = {
    "A01": on_sizes.kv_formula,
    "A02": on_sizes.printed_table,
    "A03": on_sizes.round_trip,
    "A04": on_sizes.small_blocks,
    "A05": on_compute.ridge,
    "A06": on_compute.short_prefill,
    "A07": on_compute.short_step,
    "A08": on_compute.marginal,
    "A09": on_recovery.swap_in,
    "A10": on_figure19.plotted_ratios,
    "A11": on_figure19.plotted_ratios,
    "A12": on_recovery.usual_case,
    "A13": on_recovery.every_length,
    "A14": on_compute.attention_square,
    "A15": on_recovery.three_times,
    "A16": on_recovery.strategy_table,
    "A17": on_recovery.slow_link,
    "A18": on_recovery.stalled_batch,
    "A19": on_recovery.default_choice,
    "A20": on_recovery.waiting,
    "A21": on_engines.keeps_in_v0,
    "A22": on_recovery.lazy_discard,
    "A23": on_engines.removed_flags,
    "A24": on_engines.step_message,
    "A25": on_engines.retraction,
    "A26": on_engines.destinations,
    "A27": on_engines.few_preemptions,
    "A28": on_engines.some_preemptions,
    "A29": on_recovery.wait_beside_gain,
    "A30": on_engines.pool_levers,
    "A31": on_engines.counter,
    "P01": on_figure19.small_copies,
    "P02": on_figure19.recompute_by_block,
    "P03": on_figure19.plotted_ratios,
    "P04": on_figure19.middle,
    "P05": on_recovery.lazy_discard,
    "P06": on_engines.swap_bound,
    "P07": on_recovery.known_tokens,
    "P08": on_figure19.plotted_scale,
    "P09": on_figure19.wins_by_copy_size,
}


@dataclass(frozen=True, kw_only=True)
class Citation:
    """A source of data/sources.toml, and where in it if that is narrower than the source's own `where`."""

    source: str
    where: str | None = None


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One statement judged. `says`, `ours` and `condition` still hold their placeholders; `numbers` fill them.

    `page` and `chart` name what shows the point, `case` with which inputs; `query` is what a link to it carries.
    """

    id: str
    by: str
    verdict: str
    says: str
    ours: str
    condition: str
    page: str
    chart: str | None
    case: Case
    query: Mapping[str, str]
    digits: int
    sources: tuple[Citation, ...]

    @property
    def numbers(self) -> Figures:
        """The claim's numbers, in the unit that each name ends in: computed now."""
        return NUMBERS[self.id](self.case)

    @property
    def link(self) -> str:
        """Path and query that open the explorer at the point in question."""
        path = "" if self.page == "home" else self.page
        return f"/{path}?{urlencode(self.query)}"


def claim_ids() -> tuple[str, ...]:
    """All ids, in the order of the file: A01 ... of the article, P01 ... of the paper."""
    return tuple(catalog.table("claims")["claims"])


def claim(claim_id: str) -> Claim:
    """One row of the ledger. Raises CatalogError for an unknown id."""
    rows = catalog.table("claims")["claims"]
    if claim_id not in rows:
        raise CatalogError(f"claim: unknown id {claim_id[:40]!r}; allowed: {', '.join(rows)}")
    row = rows[claim_id]
    base = preset_case(row["preset"], Case()) if "preset" in row else Case()
    case = case_from(asdict(base) | row.get("case", {}))
    query = {
        field: str(value)
        for field, value in asdict(case).items()
        if value != DEFAULTS[field] or field in row.get("case", {})
    }
    return Claim(
        id=claim_id,
        by=row["by"],
        verdict=row["verdict"],
        says=row["says"],
        ours=row["ours"],
        condition=row["condition"],
        page=row["page"],
        chart=row.get("chart"),
        case=case,
        query=query | ({"view": row["chart"]} if row.get("chart") in VIEWS else {}),
        digits=row.get("digits", 2),
        sources=tuple(Citation(**row_source) for row_source in row["sources"]),
    )


def ledger() -> tuple[Claim, ...]:
    """All claims."""
    return tuple(claim(claim_id) for claim_id in claim_ids())


def with_numbers(text: str, numbers: Mapping[str, str]) -> str:
    """A claim's text with its numbers. Raises KeyError for a number that is missing."""
    return PLACEHOLDER.sub(lambda match: numbers[match.group(1)], text)


def source_text(citation: Citation) -> str:
    """A citation for people: the title, and where in it."""
    title = say(catalog.source(citation.source)["title"])
    return f"{title}, {citation.where}" if citation.where else title


def rows() -> list[dict[str, Any]]:
    """The ledger as plain data, for JSON: texts filled in, numbers with their units in the names."""
    return [as_row(each) for each in ledger()]


def as_row(entry: Claim) -> dict[str, Any]:
    """One claim as plain data."""
    numbers = entry.numbers
    number_texts = texts(numbers, entry.digits)
    return {
        "id": entry.id,
        "by": entry.by,
        "verdict": entry.verdict,
        **{name: with_numbers(getattr(entry, name), number_texts) for name in TEXTS},
        "numbers": dict(numbers),
        "link": entry.link,
        "sources": [
            {"id": citation.source, "text": source_text(citation), "url": catalog.source(citation.source).get("url")}
            for citation in entry.sources
        ],
    }
