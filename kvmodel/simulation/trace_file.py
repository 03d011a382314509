"""A trace: a CSV file with a request a row. It may have millions, so that its rows are read one at a time."""

from __future__ import annotations

import csv
from array import array
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from kvmodel import files
from kvmodel.arrays import Floats
from kvmodel.errors import CaseError, unusable
from kvmodel.limits import Limits


def columns(
    path: str | Path, limits: Mapping[str, Limits], names: tuple[str, ...], more: tuple[str, ...], *, most_rows: int
) -> dict[str, Floats]:
    """The numbers of the columns `names`, and of `more` where they are there. Raises CaseError.

    Only they are kept of a row, so that a long file takes little memory.
    """
    try:
        with files.open_text(path) as file:
            rows = files.table_rows(file, most_rows)
            _, heading = next(rows, (0, []))
            places = _places(path, [name.strip() for name in heading], names, more)
            numbers, count = {name: array("d") for name in places}, 0
            for line, row in rows:
                if len(row) != len(heading):
                    sentence = f"{len(row)} values given in line {line} of {path}"
                    raise CaseError(f"{sentence}; allowed: {len(heading)}, as many as the heading has")
                for name, place in places.items():
                    numbers[name].append(_number(path, name, limits[name], row[place], line))
                count += 1
    except CaseError:
        raise
    except (OSError, ValueError, csv.Error) as error:
        no_csv = error if isinstance(error, OSError) else ValueError("it is not a CSV file of UTF-8 text")
        raise unusable("trace", path, no_csv) from None
    if not count:
        raise CaseError(f"{path}: no rows; allowed: a heading with {', '.join(names)} and a row for each request")
    return {name: np.frombuffer(column) for name, column in numbers.items()}


def _places(path: str | Path, heading: list[str], names: tuple[str, ...], more: tuple[str, ...]) -> dict[str, int]:
    """Where the columns stand. Raises CaseError."""
    for name in (*names, *more):
        if heading and name in names and name not in heading:
            raise CaseError(f"{path}: no column {name}; needed: {', '.join(names)}")
        if heading.count(name) > 1:
            raise CaseError(f"{path}: {heading.count(name)} columns {name}; allowed: one of each")
    return {name: heading.index(name) for name in (*names, *more) if name in heading}


def _number(path: str | Path, name: str, allowed: Limits, text: str, line: int) -> float:
    """Checked here, not by pydantic: a trace may have millions. Raises CaseError."""
    try:
        value = float(text)
        if allowed.least <= value <= allowed.greatest and (allowed.kind != "int" or value == int(value)):
            return value
    except ValueError:
        pass
    sentence = f"{name}: {text[:40]!r} given in line {line} of {path}"
    raise CaseError(f"{sentence}; allowed: {allowed.allowed}")
