"""The article's recommended-strategy table, row by row: its word, the model's verdict, and where the answer turns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from kvmodel import catalog
from kvmodel.inputs.case import Case, case_from
from kvmodel.recovery.comparison import Comparison, compare_case
from kvmodel.recovery.verdict import COPYING, Contest, contest
from kvmodel.units import format_bytes, format_count, format_percent, format_rate, format_ratio
from kvmodel.words import say

COPY = {"recompute": "recompute", "swap": "copy", "offload": "copy", "both": "copy"}
CONDITIONS = ("article", "today-v1", "today")


@dataclass(frozen=True)
class Outcome:
    """One variant under one condition: the Case, its comparison, and recompute against a copy in it.

    `contest` is between what the engine has; with `only` it has nothing but one, which is set against a swap.
    """

    variant: str
    condition: str
    comparison: Comparison
    contest: Contest
    only: bool

    @property
    def pick(self) -> str:
        """The model's word: a strategy, or `too close to call`; the engine's only one where it has no other."""
        if self.only:
            return str(self.comparison.verdict.best.winner)
        return "too close to call" if self.contest.close else str(self.contest.winner)


@dataclass(frozen=True)
class Row:
    """A row of the table: `outcomes` are all variants under each condition in turn."""

    id: str
    article_pick: str
    outcomes: tuple[Outcome, ...]

    @property
    def verdict(self) -> str:
        """Whether the article's word holds wherever the engine has a choice: `holds`, `holds if` or `differs`."""
        contested = [outcome for outcome in self.outcomes if not outcome.only]
        agree = [COPY.get(outcome.pick) == COPY[self.article_pick] for outcome in contested]
        return "holds" if all(agree) else "holds if" if any(agree) else "differs"


def table() -> tuple[Row, ...]:
    """All rows, computed."""
    return tuple(row(row_id) for row_id in catalog.table("scenarios")["rows"])


def row(row_id: str) -> Row:
    """One row, computed under both conditions."""
    fields = catalog.table("scenarios")["rows"][row_id]
    outcomes = tuple(
        _outcome(variant["name"], condition, case_of(variant, condition))
        for condition in CONDITIONS
        for variant in fields["variants"]
    )
    return Row(row_id, fields["article_pick"], outcomes)


def case_of(variant: dict[str, Any], condition: str) -> Case:
    """The Case of a variant under a condition of scenarios.toml."""
    choices = catalog.table("scenarios")["conditions"][condition] | variant
    choices.pop("name", None)
    article_rate = choices.pop("article_copy_gb_per_s", None)
    if article_rate is not None and condition == "article":
        choices["copy_gb_per_s"] = article_rate
    return case_from(choices)


def preset_case(name: str, base: Case) -> Case:
    """A named setting of scenarios.toml: a Case of its own, or a condition put upon a Case, its own rates dropped."""
    choices = dict(catalog.table("scenarios")["presets"][name])
    condition = choices.pop("condition", None)
    if condition is None:
        return case_from(choices)
    link_rates = {"copy_gb_per_s": None, "per_copy_us": None, "rate": "measured"}
    return replace(base, **link_rates | catalog.table("scenarios")["conditions"][condition])


def judge(case: Case, variant: str, condition: str) -> Outcome:
    """A reader's own Case, judged like a row."""
    return _outcome(variant, condition, case)


def _outcome(variant: str, condition: str, case: Case) -> Outcome:
    comparison = compare_case(case)
    acting = [name for name in comparison.inputs.available if name != "wait"]
    copying = [name for name in acting if name in COPYING]
    only = not copying or "recompute" not in acting
    best_copy = (contest(comparison.inputs, comparison.prices, copying).winner if copying else None) or "swap"
    pair = contest(comparison.inputs, comparison.prices, ["recompute", best_copy])
    return Outcome(variant, condition, comparison, pair, only)


def condition_text(outcome: Outcome) -> str:
    """The nearest thing that turns the answer, as numbers: `recompute at 3.5 GB/s (here 20 GB/s)`."""
    flips = outcome.comparison.verdict.flips
    if not flips:
        return say("nothing in range turns it")
    nearest = flips[0]
    as_text: Callable[[float], str] = {
        "copy_bytes_per_s": format_rate,
        "bytes_per_copy": lambda size: say("{size} a copy", size=format_bytes(size)),
        "context_tokens": lambda tokens: say("{count} tokens", count=format_count(tokens)),
        "survival": lambda share: say("{share} surviving", share=format_percent(share)),
    }[nearest.what]
    return say(
        "{strategy} at {there} (here {here})",
        strategy=say(nearest.then),
        there=as_text(nearest.at),
        here=as_text(nearest.now),
    )


def rows() -> list[dict[str, Any]]:
    """The table as plain data, for JSON: id, article, model, condition, verdict, and every outcome's numbers."""
    return [
        {
            "id": entry.id,
            "article": entry.article_pick,
            "model": "; ".join(_in_words(outcome) for outcome in entry.outcomes),
            "condition": condition_text(entry.outcomes[0]),
            "verdict": entry.verdict,
            "outcomes": [
                {
                    "variant": outcome.variant,
                    "condition": outcome.condition,
                    "pick": outcome.pick,
                    "contest": asdict(outcome.contest),
                    "turns": condition_text(outcome),
                    "victim_delay_s": {k: float(p.victim_delay_s) for k, p in outcome.comparison.prices.items()},
                    "gpu_s": {k: float(p.gpu_s) for k, p in outcome.comparison.prices.items()},
                    "case": asdict(outcome.comparison.case),
                }
                for outcome in entry.outcomes
            ],
        }
        for entry in table()
    ]


def _in_words(outcome: Outcome) -> str:
    factor = f" {format_ratio(outcome.contest.factor)}" if outcome.contest.factor else ""
    best = f" ({outcome.contest.winner}{factor})" if outcome.only or outcome.contest.close else factor
    return f"{outcome.condition}, {outcome.variant}: {outcome.pick}{best}"
