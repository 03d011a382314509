"""`--rows FILE.csv`: one case a row; the same CSV comes back with the results added, computed as arrays.

A bad value stops everything with one sentence that names its line. A row that is well formed but cannot be
(a model that does not fit) gets a sentence in the column `error`, and no results.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from kvmodel import files
from kvmodel.cli import answers
from kvmodel.errors import CaseError, CatalogError, unusable
from kvmodel.inputs.case import Case
from kvmodel.memory import kv_cache
from kvmodel.recovery import resolve
from kvmodel.sweeps.row_results import (
    AT_ONCE,
    COMPARE,
    Question,
    Results,
    Row,
    names_of_results,
    pools,
    results_of,
    row_reader,
)

MOST_ROWS = 100_000


def answer(
    command: str, path: str, choices: Mapping[str, str], fields: Sequence[str], own_inputs: tuple[str, ...]
) -> str:
    """The CSV with results. `choices` are flags given besides: they hold where a row says nothing.

    Raises
    ------
    CaseError, CatalogError : a file, column or value that cannot be used; one sentence with the line.
    """
    columns, rows, line_end = _read(path, choices, fields, own_inputs)
    question = QUESTIONS[command]
    names = names_of_results(question, own_inputs)
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator=line_end)
    writer.writerow([*columns, *names, "error"])
    for start in range(0, len(rows), AT_ONCE):  # results of all rows would take ten times the file's memory
        part = rows[start : start + AT_ONCE]
        for row, result in zip(part, results_of(question, part, own_inputs), strict=True):
            if isinstance(result, str):
                writer.writerow([*row.cells, *("" for _ in names), result])
            else:
                writer.writerow([*row.cells, *result, ""])
    return out.getvalue()


def _read(
    path: str, choices: Mapping[str, str], fields: Sequence[str], own_inputs: tuple[str, ...]
) -> tuple[list[str], list[Row], str]:
    """Column names as they stand, the rows, and how a line ends."""
    line = 1
    try:
        with files.open_text(path) as file:
            table = files.table_rows(file, MOST_ROWS)
            line, columns = next(table, (1, []))
            names, read = _names(columns, fields), row_reader(own_inputs)
            rows = []
            for line, cells in table:  # noqa: B007 - a refusal names it
                if len(cells) != len(columns):
                    raise CaseError(f"{len(cells)} cells given; allowed: {len(columns)}, as many as the header has")
                row_choices = {name: cell.strip() for name, cell in zip(names, cells, strict=True) if cell.strip()}
                rows.append(read(cells, {**choices, **row_choices}))
            line_end = "\r\n" if "\r\n" in (file.newlines or ()) else "\n"
    except (CaseError, CatalogError) as error:
        raise CaseError(f"line {line} of {path}: {error}") from None
    except csv.Error as error:
        raise CaseError(f"line {line + 1} of {path}: {error}") from None
    except UnicodeDecodeError:
        raise CaseError(f"--rows: {path!r} is not UTF-8 text; allowed: a CSV file") from None
    except (OSError, ValueError) as error:
        raise unusable("--rows", path, error) from None
    if not columns:
        raise CaseError(f"--rows: {path!r} is empty; allowed: a header with any of {', '.join(fields)}")
    return columns, rows, line_end


def _names(cells: Sequence[str], fields: Sequence[str]) -> list[str]:
    """The inputs that the columns of a header stand for."""
    names = [cell.strip().lstrip("-").replace("-", "_") for cell in cells]
    for index, name in enumerate(names):
        if name not in fields:
            raise CaseError(f"column: {cells[index][:40]!r} given; allowed: {', '.join(fields)}")
        if name in names[:index]:
            raise CaseError(f"column: {cells[index]!r} given twice; allowed: each input once")
    return names


def _size(case: Case, values: Results) -> tuple[Results, Any]:
    return answers.size(case, values), False


def _copy(case: Case, values: Results) -> tuple[Results, Any]:
    return answers.copy(case, values), False


def _prefill(case: Case, values: Results) -> tuple[Results, Any]:
    free = pools(case, values)
    kept = case.stored
    kv_bytes = kv_cache.kv_bytes(
        kept.layers, values["tokens"] + values["past"], bytes_per_value=kept.bytes_per_value, tp=case.tp
    )
    return answers.prefill(case, values), (free <= 0) | (kv_bytes > free)


QUESTIONS: dict[str, Question] = {
    "size": (_size, vars),
    "prefill": (_prefill, resolve.inputs),
    "copy": (_copy, vars),
    "compare": COMPARE,
}
