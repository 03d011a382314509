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
from kvmodel.sweeps.row_results import COMPARE, Question, Results, Row, names_of_results, pools, read_row, results_of


def answer(
    command: str, path: str, choices: Mapping[str, str], fields: Sequence[str], own_inputs: tuple[str, ...]
) -> str:
    """The CSV with results. `choices` are flags given besides: they hold where a row says nothing.

    Raises
    ------
    CaseError, CatalogError : a file, column or value that cannot be used; one sentence with the line.
    """
    text = _text(path)
    table = csv.reader(io.StringIO(text, newline=""))
    columns, rows = _read(table, path, choices, fields, own_inputs)
    question = QUESTIONS[command]
    results, names = results_of(question, rows, own_inputs), names_of_results(question, own_inputs)
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\r\n" if "\r\n" in text else "\n")
    writer.writerow([*columns, *names, "error"])
    for row, result in zip(rows, results, strict=True):
        if isinstance(result, str):
            writer.writerow([*row.cells, *("" for _ in names), result])
        else:
            writer.writerow([*row.cells, *result, ""])
    return out.getvalue()


def _text(path: str) -> str:
    try:
        return files.read_text(path)
    except UnicodeDecodeError:
        raise CaseError(f"--rows: {path!r} is not UTF-8 text; allowed: a CSV file") from None
    except (OSError, ValueError) as error:
        raise unusable("--rows", path, error) from None


def _read(
    table: Any, path: str, choices: Mapping[str, str], fields: Sequence[str], own_inputs: tuple[str, ...]
) -> tuple[list[str], list[Row]]:
    """Column names as they stand, and the rows. Blank lines count as none."""
    rows: list[Row] = []
    columns: list[str] | None = None
    names: list[str] = []
    try:
        for cells in table:
            if not cells:
                continue
            if columns is None:
                columns, names = cells, _names(cells, fields)
                continue
            if len(cells) != len(columns):
                raise CaseError(f"{len(cells)} cells given; allowed: {len(columns)}, as many as the header has")
            row_choices = {name: cell.strip() for name, cell in zip(names, cells, strict=True) if cell.strip()}
            rows.append(read_row(cells, {**choices, **row_choices}, own_inputs))
    except (CaseError, CatalogError, csv.Error) as error:
        raise CaseError(f"line {table.line_num} of {path}: {error}") from None
    if columns is None:
        raise CaseError(f"--rows: {path!r} is empty; allowed: a header with any of {', '.join(fields)}")
    return columns, rows


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
