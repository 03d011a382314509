"""Results of many cases at once: rows that differ in numbers only are computed together, as arrays."""

from __future__ import annotations

import functools
import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from kvmodel import catalog
from kvmodel.arrays import Floats
from kvmodel.errors import CatalogError, DoesNotFit
from kvmodel.inputs.case import DEFAULTS, LIMITS, Case
from kvmodel.inputs.questions import CONFIG, INPUTS
from kvmodel.memory import gpu_memory
from kvmodel.recovery import break_even, costs, resolve, strategies, verdict
from kvmodel.recovery.costs import at
from kvmodel.recovery.resolve import Inputs
from kvmodel.recovery.strategies import STRATEGIES
from kvmodel.sweeps.choices import read_choices

SCALARS = ("tp", "gemm_efficiency", "request_overhead_ms")  # numbers that are one of a group: the rest are arrays
AT_ONCE = 8192  # rows of a group computed together
Results = dict[str, Any]
# Results over a group's arrays with which of its rows cannot be, and what says why a case cannot be.
Question = tuple[Callable[[Case, Results], tuple[Results, Any]], Callable[[Case], object]]


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the file, read: its cells as they stand, `numbers` of its own, and all other values by their name.

    `group` is what rows must share to be computed together: all that is not a number, and `SCALARS`.
    """

    cells: list[str]
    group: tuple[Any, ...]
    shared: Results
    numbers: Results

    @property
    def case(self) -> Case:
        return Case(**{field: self.value(field) for field in DEFAULTS})

    def value(self, name: str) -> Any:
        return self.numbers[name] if name in self.numbers else self.shared[name]


def row_reader(own_inputs: tuple[str, ...]) -> Callable[[list[str], Mapping[str, Any]], Row]:
    """What reads cells and choices as a Row, and may raise CaseError, CatalogError.

    What is no number is read once for rows that follow each other with the same: of a Case it takes most of the time.
    """
    numeric = {
        name: limits
        for name, limits in {**LIMITS, **{name: INPUTS[name].limits for name in own_inputs}}.items()
        if limits.kind in ("int", "float") and name not in (*SCALARS, *CONFIG)
    }

    @functools.lru_cache(maxsize=64)
    def read_shared(choices: tuple[tuple[str, Any], ...]) -> tuple[Results, tuple[Any, ...]]:
        case, own = read_choices(dict(choices), own_inputs)
        values = vars(case) | {name: value for name, value in own.items() if name != "reading"}  # its model is known
        return values, tuple(value for name, value in values.items() if name not in numeric)

    def read(cells: list[str], choices: Mapping[str, Any]) -> Row:
        numbers = {name: numeric[name].read(name, value) for name, value in choices.items() if name in numeric}
        shared, key = read_shared(tuple((name, value) for name, value in choices.items() if name not in numeric))
        beside = tuple(name in numbers for name in numeric if shared[name] is None)
        return Row(cells, (key, beside), shared, numbers)

    return read


def results_of(question: Question, rows: Sequence[Row], own_inputs: tuple[str, ...]) -> list[list[Any] | str]:
    """For each row its results, or a sentence why there are none."""
    groups: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for index, row in enumerate(rows):
        groups[row.group].append(index)
    answers: list[list[Any] | str] = ["" for _ in rows]
    for indices in groups.values():
        indices.sort(
            key=lambda index: rows[index].value("preemptions")
        )  # every preemption is a pass over all of a part
        for start in range(0, len(indices), AT_ONCE):
            part = indices[start : start + AT_ONCE]
            results, refusals = _group_results(question, [rows[index] for index in part], own_inputs)
            series = [_cells(value, len(part)) for value in results.values()]
            for position, index in enumerate(part):
                refusal = refusals.get(position)
                answers[index] = refusal if refusal else [values[position] for values in series]
    return answers


def _cells(values: Any, count: int) -> list[Any]:
    """A column of results as JSON has them: whole numbers without a fraction; empty for what is not finite."""
    column = np.broadcast_to(values, count)
    if column.dtype.kind != "f":
        return list(column.tolist())
    finite = np.isfinite(column)
    whole = finite & (np.abs(column) < 2**53) & (np.floor(column) == column)
    cells = column.astype(object)
    cells[whole] = column[whole].astype(np.int64)
    cells[~finite] = ""
    return list(cells.tolist())


def _group_results(
    question: Question, rows: Sequence[Row], own_inputs: tuple[str, ...]
) -> tuple[Results, dict[int, str]]:
    """Results of one group as arrays, and refusals by position."""
    first = rows[0]
    values = {
        name: value
        if name in SCALARS or not isinstance(value, (int, float))
        else np.array([row.value(name) for row in rows], dtype=float)
        for name, value in (first.shared | first.numbers).items()
    }
    answer_group, possible = question
    try:
        results, misfits = answer_group(first.case, values)
    except (CatalogError, DoesNotFit):  # true of every row of the group
        results, misfits = dict.fromkeys(names_of_results(question, own_inputs), math.nan), True
    refusals = {}
    for position in np.flatnonzero(np.broadcast_to(misfits, len(rows))).tolist():
        case = rows[position].case
        refusals[position] = _why(resolve.require_weights_fit, case) or _why(possible, case)
    return results, refusals


def _why(possible: Callable[[Case], object], case: Case) -> str:
    """Why a case cannot be: what `possible` says of it, empty where nothing."""
    try:
        possible(case)
    except (CatalogError, DoesNotFit) as error:
        return str(error)
    return ""


def names_of_results(question: Question, own_inputs: tuple[str, ...]) -> list[str]:
    """The columns that a question adds: those of its default case."""
    return list(_group_results(question, [row_reader(own_inputs)([], {})], own_inputs)[0])


def pools(case: Case, values: Results) -> Floats:
    """KV pool of a GPU for every row's `max_num_batched_tokens`; not above zero where the weights do not fit."""
    model, gpu = catalog.model(case.model), catalog.gpu(case.gpu)
    different, position = np.unique(values["max_num_batched_tokens"], return_inverse=True)
    budgets = [
        gpu_memory.memory_budget(model, gpu, tp=case.tp, max_num_batched_tokens=int(batched)) for batched in different
    ]
    return np.array([budget.pool_bytes for budget in budgets])[position]


def _compare(case: Case, values: Results) -> tuple[Results, Any]:
    inputs = _inputs(case, values)
    misfits = (inputs.pool_bytes_per_gpu <= 0) | (
        resolve.moved_bytes(inputs, strategies.last_context(inputs)) > inputs.pool_bytes_per_gpu
    )
    prices = strategies.price(inputs)
    contests = _contests(inputs, prices, len(values["tokens"]))
    results: Results = {
        f"{name}_{key}": getattr(prices[name], key)
        for name in STRATEGIES
        for key in ("victim_delay_s", "low_s", "high_s")
    }
    return results | {
        "winner": [contest.winner for contest in contests],
        "factor": [math.nan if contest.factor is None else contest.factor for contest in contests],
        "wait_for_blocks_s": costs.wait_for_blocks_s(inputs),
        "break_even_copy_bytes_per_s": break_even.copy_rate_of_equal_cost(inputs),
    }, misfits


def _inputs(case: Case, values: Results) -> Inputs:
    """Inputs of a whole group, its numbers as arrays. Raises DoesNotFit where no row can fit."""
    numbers = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
    return at(resolve.over(case, numbers), pool_bytes_per_gpu=pools(case, values))


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


COMPARE: Question = (_compare, resolve.inputs)
