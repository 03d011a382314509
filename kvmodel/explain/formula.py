"""A formula three ways: symbols, the numbers put in, and the result with its unit.

A line holds terms, a term factors; each line's result is worked out from the numbers that it shows, so that the
numbers and the result cannot part. Lines name the function of the model that gives the same result.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from kvmodel.units import (
    GB,
    KB,
    TFLOP,
    format_bytes,
    format_count,
    format_gb,
    format_rate,
    format_ratio,
    format_seconds,
    significant,
)
from kvmodel.words import say

DIGITS = 3  # of the numbers put in: enough to check the sums by hand
HEADLINE_DIGITS, TO_TWO_DIGITS = 2, ("s", "bytes/s")  # as on the pages: the model's times are good to no more


@dataclass(frozen=True)
class Factor:
    """One letter of a formula: its LaTeX symbol, the number put in, and what it counts or its unit."""

    symbol: str
    value: float
    unit: str = ""


@dataclass(frozen=True)
class Term:
    """A product of factors, over a product of others. `part` names the piece of a bar whose colour it has."""

    factors: tuple[Factor, ...]
    under: tuple[Factor, ...] = ()
    part: str = ""

    @property
    def value(self) -> float:
        above = math.prod(factor.value for factor in self.factors)
        return above / math.prod(factor.value for factor in self.under)


@dataclass(frozen=True)
class Line:
    """`symbol` = its terms added up (`join` "root": the root of the sum of their squares), in `unit`.

    `computed_in` is the function of kvmodel that computes it, `headline` a result that the pages show.
    """

    name: str
    symbol: str
    terms: tuple[Term, ...]
    unit: str
    computed_in: str
    join: str = "sum"
    headline: bool = False

    @property
    def value(self) -> float:
        if self.join == "root":
            return math.hypot(*(term.value for term in self.terms))
        return math.fsum(term.value for term in self.terms)


Trace = tuple[Line, ...]  # the last line is the result, those before it are put into it


def symbols(term: Term) -> str:
    """A term in LaTeX."""
    above, below = (r"\,".join(factor.symbol for factor in side) for side in (term.factors, term.under))
    return rf"\dfrac{{{above}}}{{{below}}}" if below else above


def numbers(term: Term) -> str:
    """A term with its numbers put in, as text."""
    above = " × ".join(number_text(factor.value, factor.unit) for factor in term.factors)
    if not term.under:
        return above
    below = " × ".join(number_text(factor.value, factor.unit) for factor in term.under)
    return f"{above} / ({below})" if len(term.under) > 1 else f"{above} / {below}"


def result(line: Line) -> str:
    """A line's result with its unit: what pages show to two digits is shown so here."""
    if line.unit == "bytes":
        return f"{format_count(line.value)} {say('bytes')} = {format_bytes(line.value)} = {format_gb(line.value)}"
    return number_text(
        line.value, line.unit, digits=HEADLINE_DIGITS if line.headline and line.unit in TO_TWO_DIGITS else DIGITS
    )


def number_text(value: float, unit: str, digits: int = DIGITS) -> str:
    """A number with its unit, or with the word for what it counts."""
    if unit == "s":
        return format_seconds(value, digits)
    if unit == "bytes" and value >= KB:
        return format_gb(value, digits)
    if unit == "bytes/s":
        return format_rate(value, digits)
    if unit == "FLOP/s":
        return f"{significant(value / TFLOP, digits)} TFLOP/s"
    if unit == "FLOP":
        return f"{significant(value / TFLOP, digits)} TFLOP"
    if unit == "parameters":
        return say("{number} billion parameters", number=significant(value / GB, digits))
    if unit == "times":
        return format_ratio(value)
    number = format_count(value) if value == int(value) else significant(value, digits)
    if unit == "preemptions":
        return say("{count} preemptions", count=number)
    return f"{number} {say(unit)}".strip()
