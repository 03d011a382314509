"""A grid of cases from its text: `tokens=1024,4096` and `policy=vllm-v0,vllm-v1` make four."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import Any

from kvmodel.errors import CaseError, bad_value, refused

MOST_CASES = 200_000
ALLOWED = "an input and its values, such as tokens=1024,4096"
Choices = dict[str, Any]


@dataclass(frozen=True)
class Grid:
    """What all cases share, and the values of each input that is swept, in the order given; the last varies fastest."""

    base: Mapping[str, Any]
    over: Mapping[str, Sequence[str]]

    def __len__(self) -> int:
        return math.prod(map(len, self.over.values()))

    def __iter__(self) -> Iterator[Choices]:
        """The inputs of each case."""
        for values in product(*self.over.values()):
            yield {**self.base, **dict(zip(self.over, values, strict=True))}

    def parts(self, size: int) -> Iterator[list[Choices]]:
        """The cases in order, `size` at a time."""
        cases = iter(self)
        while part := list(islice(cases, size)):
            yield part


def grid(texts: Sequence[str], base: Mapping[str, Any], inputs: Sequence[str]) -> Grid:
    """The grid of texts `field=value,value`. Raises CaseError for a field not among `inputs`, or too many cases."""
    if not texts:
        raise refused("over", "none", ALLOWED)
    over: dict[str, list[str]] = {}
    for text in texts:
        name, equals, values_text = text.partition("=")
        field = name.strip().lstrip("-").replace("-", "_")
        values = [value.strip() for value in values_text.split(",")]
        if not equals or not all(values):
            raise refused("over", repr(text[:60]), ALLOWED)
        if field not in inputs:
            raise bad_value("over", name, ", ".join(inputs))
        if field in over or len(set(values)) < len(values):
            raise CaseError(f"over: {text[:60]!r} repeats an input or a value; allowed: each once")
        over[field] = values
    cases = Grid(base, over)
    if len(cases) > MOST_CASES:
        raise refused("over", f"{len(cases):,} cases", f"up to {MOST_CASES:,}")
    return cases
