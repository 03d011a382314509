"""`--rows FILE.csv`: one case a row; the same CSV comes back with the results added, computed as arrays.

A bad value stops everything with one sentence that names its line. A row that is well formed but cannot be
(a model that does not fit) gets a sentence in the column `error`, and no results.
"""

from __future__ import annotations

import csv
import functools
import io
import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from kvmodel import answers, break_even, capacity, catalog, recovery, resolve, verdict
from kvmodel.case import Case, CaseError, DoesNotFit
from kvmodel.catalog import CatalogError
from kvmodel.recovery import STRATEGIES, at
from kvmodel.resolve import Inputs
from kvmodel.arrays import Floats

SCALARS = ("tp",)  # numbers that are one of a group: the rest are arrays
AT_ONCE = 8192  # rows of a group computed together
Results = dict[str, Any]


@dataclass(frozen=True)
class Row:
    """A line of the file, read: its cells as they stand, its Case, and `values`: Case and own inputs by name."""

    cells: list[str]
    case: Case
    values: Results


def read(cells: list[str], choices: Mapping[str, str], own: tuple[str, ...]) -> Row:
    """Raises CaseError, CatalogError."""
    case, values = answers.read(choices, own)
    return Row(cells, case, vars(case) | values)


def answer(command: str, path: str, choices: Mapping[str, str], fields: Sequence[str], own: tuple[str, ...]) -> str:
    """The CSV with results. `choices` are flags given besides: they hold where a row says nothing.

    Raises
    ------
    CaseError, CatalogError : a file, column or value that cannot be used; one sentence with the line.
    """
    text = _text(path)
    table = csv.reader(io.StringIO(text, newline=""))
    columns, rows = _read(table, path, choices, fields, own)
    results, names = _computed(command, rows, own), _names_of_results(command, own)
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\r\n" if "\r\n" in text else "\n")
    writer.writerow([*columns, *names, "error"])
    for row, result in zip(rows, results, strict=True):
        if isinstance(result, str):
            writer.writerow([*row.cells, *("" for _ in names), result])
        else:
            writer.writerow([*row.cells, *map(_cell, result), ""])
    return out.getvalue()


def _text(path: str) -> str:
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            return file.read()
    except UnicodeDecodeError:
        raise CaseError(f"--rows: {path!r} is not UTF-8 text; allowed: a CSV file") from None
    except (OSError, ValueError) as error:
        raise CaseError(f"--rows: {path!r} cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _read(
    table: Any, path: str, choices: Mapping[str, str], fields: Sequence[str], own: tuple[str, ...]
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
            given = {name: cell.strip() for name, cell in zip(names, cells, strict=True) if cell.strip()}
            rows.append(read(cells, {**choices, **given}, own))
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


def _cell(value: float | str) -> str:
    """As in JSON, empty for what is not finite."""
    if isinstance(value, str):
        return value
    return str(answers.plain(value)) if math.isfinite(value) else ""


def _computed(command: str, rows: Sequence[Row], own: tuple[str, ...]) -> list[list[Any] | str]:
    """For each row its results, or a sentence why there are none."""
    groups: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for index, row in enumerate(rows):
        groups[_group(row)].append(index)
    computed: list[list[Any] | str] = ["" for _ in rows]
    for indices in groups.values():
        indices.sort(key=lambda index: rows[index].case.preemptions)  # every preemption is a pass over all of a part
        for start in range(0, len(indices), AT_ONCE):
            part = indices[start : start + AT_ONCE]
            results, refusals = _answered(command, [rows[index] for index in part], own)
            series = [np.broadcast_to(value, len(part)).tolist() for value in results.values()]
            for position, index in enumerate(part):
                refusal = refusals.get(position)
                computed[index] = refusal if refusal else [values[position] for values in series]
    return computed


def _group(row: Row) -> tuple[Any, ...]:
    """What rows must share to be computed together: all that is not a number, and `tp`."""
    return tuple(
        value if name in SCALARS or not isinstance(value, (int, float)) else "number"
        for name, value in row.values.items()
    )


def _answered(command: str, rows: Sequence[Row], own: tuple[str, ...]) -> tuple[Results, dict[int, str]]:
    """Results of one group as arrays, and refusals by position."""
    first = rows[0]
    values = {
        name: value
        if name in SCALARS or not isinstance(value, (int, float))
        else np.array([row.values[name] for row in rows], dtype=float)
        for name, value in first.values.items()
    }
    answer_group, possible = ANSWERS[command]
    try:
        results, misfits = answer_group(first.case, values)
    except (CatalogError, DoesNotFit):  # true of every row of the group
        results, misfits = dict.fromkeys(_names_of_results(command, own), math.nan), True
    refusals = {}
    for position in np.flatnonzero(np.broadcast_to(misfits, len(rows))).tolist():
        case = rows[position].case
        refusals[position] = _too_heavy(case.model, case.gpu, case.tp, case.max_num_batched_tokens) or _why(possible, case)
    return results, refusals


def _why(possible: Callable[[Case], object], case: Case) -> str:
    """Why a case cannot be: what `possible` says of it, empty where nothing."""
    try:
        possible(case)
    except (CatalogError, DoesNotFit) as error:
        return str(error)
    return ""


@functools.cache
def _too_heavy(model: str, gpu: str, tp: int, batched: int) -> str:
    """The sentence where weights do not fit: the same for many rows."""
    return _why(answers.require_weights_fit, Case(model=model, gpu=gpu, tp=tp, max_num_batched_tokens=batched))


def _names_of_results(command: str, own: tuple[str, ...]) -> list[str]:
    """The columns that a command adds: those of its default case."""
    return list(_answered(command, [read([], {}, own)], own)[0])


def _size(case: Case, values: Results) -> tuple[Results, Any]:
    return answers.size(case, values), False


def _copy(case: Case, values: Results) -> tuple[Results, Any]:
    return answers.copy(case, values), False


def _prefill(case: Case, values: Results) -> tuple[Results, Any]:
    return answers.prefill(case, values), _pools(case, values) <= 0


def _pools(case: Case, values: Results) -> Floats:
    """KV pool of a GPU for every row's `max_num_batched_tokens`; not above zero where the weights do not fit."""
    model, gpu = catalog.model(case.model), catalog.gpu(case.gpu)
    different, position = np.unique(values["max_num_batched_tokens"], return_inverse=True)
    budgets = [
        capacity.memory_budget(model, gpu, tp=case.tp, max_num_batched_tokens=int(batched)) for batched in different
    ]
    return np.array([budget.pool_bytes for budget in budgets])[position]


def _compare(case: Case, values: Results) -> tuple[Results, Any]:
    inputs = _inputs(case, values)
    misfits = (inputs.pool_bytes_per_gpu <= 0) | (
        recovery.moved_bytes(inputs, recovery.last_context(inputs)) > inputs.pool_bytes_per_gpu
    )
    prices = recovery.price(inputs)
    contests = _contests(inputs, prices, len(values["tokens"]))
    results: Results = {
        f"{name}_{key}": getattr(prices[name], key)
        for name in STRATEGIES
        for key in ("victim_delay_s", "low_s", "high_s")
    }
    return results | {
        "winner": [contest.winner for contest in contests],
        "factor": [math.nan if contest.factor is None else contest.factor for contest in contests],
        "wait_for_blocks_s": recovery.wait_for_blocks_s(inputs),
        "break_even_copy_bytes_per_s": break_even.copy_rate_of_equal_cost(inputs),
    }, misfits


def _inputs(case: Case, values: Results) -> Inputs:
    """Inputs of a whole group, its numbers as arrays. Raises DoesNotFit where no row can fit.

    Resolved for the least request, as what asks whether a request fits takes one; then all is put in its place.
    """
    least = {"tokens": 1, "preemptions": 1, "tokens_between": 0, "block_tokens": 1, "max_num_batched_tokens": 16}
    resolved = resolve.inputs(case.model_copy(update=values | least))
    return at(resolved, pool_bytes_per_gpu=_pools(case, values), **{name: values[name] for name in least})


def _contests(inputs: Inputs, prices: Mapping[str, Any], count: int) -> list[verdict.Contest]:
    """The best of the available strategies, a row each, judged as a single case is."""
    names = [name for name in inputs.available if name != "wait"] or ["wait"]
    series = {
        name: [
            np.broadcast_to(getattr(prices[name], key), count).tolist() for key in ("victim_delay_s", "gpu_s", "band")
        ]
        for name in names
    }

    def of_row(index: int) -> dict[str, Any]:
        return {
            name: SimpleNamespace(victim_delay_s=delays[index], gpu_s=gpus[index], band=bands[index])
            for name, (delays, gpus, bands) in series.items()
        }

    return [verdict.contest(inputs, of_row(index), names) for index in range(count)]


# Each command's results over a group's arrays with which rows cannot be, and what says why a case cannot be.
ANSWERS: dict[str, tuple[Callable[[Case, Results], tuple[Results, Any]], Callable[[Case], object]]] = {
    "size": (_size, vars),
    "prefill": (_prefill, answers.require_weights_fit),
    "copy": (_copy, vars),
    "compare": (_compare, resolve.inputs),
}
