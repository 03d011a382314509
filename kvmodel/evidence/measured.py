"""Times that other people measured, as published: the rows that the model is fitted on and judged by.

`data/measured/steps.csv` holds engine steps, prefills and first tokens; `data/measured/copies.csv` copies between GPU
and host. Every row names its source.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cache

from kvmodel import catalog
from kvmodel.errors import CaseError
from kvmodel.files import DATA
from kvmodel.units import GB, MS

FOLDER = DATA / "measured"
SECONDS = {"ms": MS, "s": 1.0, "us": 1e-6}


@dataclass(frozen=True, kw_only=True)
class Step:
    """One measured step, prefill or first token: `batch` sequences of `tokens` new ones after `context` others."""

    id: str
    kind: str
    source: str
    gpu: str
    model: str
    dtype: str
    engine: str
    tp: int
    batch: int
    tokens: int
    context: int
    seconds: float

    @property
    def timing(self) -> str | None:
        """The timing whose engine this is; None for engines that are not modelled."""
        if "llama.cpp" in self.engine:
            return None
        if "kernels" in self.engine:
            return "kernels"
        return "2023" if "2023" in self.engine else "today"


@dataclass(frozen=True, kw_only=True)
class Copy:
    """One measured copy: a rate by bytes a copy, or the time in which an engine loads `tokens` tokens of KV."""

    id: str
    kind: str
    source: str
    gpu: str
    model: str
    engine: str
    link: str
    direction: str
    method: str
    host_memory: str
    bytes_per_copy: int
    copies: int
    tokens: int
    bytes_per_s: float  # 0 where a time was measured
    seconds: float  # 0 where a rate was measured


@cache
def steps() -> tuple[Step, ...]:
    """All measured steps of the package."""
    return tuple(step(row) for row in read("steps.csv"))


@cache
def copies() -> tuple[Copy, ...]:
    """All measured copies of the package."""
    return tuple(copy(row) for row in read("copies.csv"))


def read(name: str) -> Iterable[Mapping[str, str]]:
    with (FOLDER / name).open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def step(row: Mapping[str, str]) -> Step:
    """A row of `steps.csv`. Raises CaseError naming the row and the column."""
    columns = texts(row, Step) | {"seconds": number(row, "value") * SECONDS[one_of(row, "unit", SECONDS)]}
    return Step(**ids(row) | counts(row, "tp", "batch", "tokens", "context") | columns)  # type: ignore[arg-type]


def copy(row: Mapping[str, str]) -> Copy:
    """A row of `copies.csv`. Raises CaseError naming the row and the column."""
    unit, value = one_of(row, "unit", ("GB/s", *SECONDS)), number(row, "value")
    rate = {"bytes_per_s": value * GB if unit == "GB/s" else 0.0, "seconds": value * SECONDS.get(unit, 0.0)}
    return Copy(**ids(row) | counts(row, "bytes_per_copy", "copies", "tokens") | texts(row, Copy) | rate)  # type: ignore[arg-type]


def texts(row: Mapping[str, str], kind: type) -> dict[str, object]:
    """The columns of text that a kind of row has, as they are."""
    return {field.name: row[field.name] for field in fields(kind) if field.type == "str" and field.name in TEXTS}


TEXTS = ("id", "kind", "source", "dtype", "engine", "link", "direction", "method", "host_memory")


def ids(row: Mapping[str, str]) -> dict[str, object]:
    """GPU and model as the catalog writes them; a row may name none."""
    return {name: catalog.id_of(name, row[name]) if row[name] else "" for name in ("gpu", "model")}


def counts(row: Mapping[str, str], *names: str) -> dict[str, object]:
    return {name: whole(row, name) if row[name] else 0 for name in names}


def whole(row: Mapping[str, str], name: str) -> int:
    value = number(row, name)
    if value != int(value):
        raise CaseError(f"{name}: {row[name][:40]!r} given in row {row['id']}; allowed: a whole number")
    return int(value)


def number(row: Mapping[str, str], name: str) -> float:
    try:
        value = float(row[name])
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise CaseError(f"{name}: {row[name][:40]!r} given in row {row['id']}; allowed: a number of 0 or more")
    return value


def one_of(row: Mapping[str, str], name: str, options: Iterable[str]) -> str:
    if row[name] not in options:
        raise CaseError(f"{name}: {row[name][:40]!r} given in row {row['id']}; allowed: {', '.join(options)}")
    return row[name]
