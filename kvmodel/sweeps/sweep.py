"""A grid of cases computed on any `concurrent.futures` executor: processes of this machine, or a Dask cluster.

Two questions can be asked of a grid: "compare" (one preempted request: what each strategy costs and which wins, as
arrays) and "pressure" (a server under a workload: the totals of a simulated run a case).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from importlib import import_module
from itertools import chain
from typing import Any

from kvmodel.arrays import json_value
from kvmodel.errors import CaseError
from kvmodel.inputs.case import DEFAULTS
from kvmodel.inputs.questions import GRID_INPUTS
from kvmodel.simulation import pressure
from kvmodel.sweeps import row_results
from kvmodel.sweeps.choices import read_choices
from kvmodel.sweeps.grid import Choices, Grid, grid

AT_ONCE = {"compare": 4096, "pressure": 1}  # cases of one task: of about the same length in either question
CONNECT_S = 4
DASK_ADDRESS = re.compile(r"(?:[a-z]+://)?(?:\[[0-9a-fA-F:]+\]|[\w.-]+)(?::\d{1,5})?/?", re.ASCII)
NEW_NAMES = {"requests": "requests_in_all", "requests_per_s": "served_requests_per_s"}  # results named like inputs
TOGETHER = ("model", "tp", "copy_method", "host_memory")  # whether a value can be depends on another of them
Row = dict[str, Any]


def grid_of(what: str, base: Mapping[str, Any], over: Sequence[str]) -> Grid:
    """The grid of a question: what all cases share, and texts `field=value,value`. Raises CaseError."""
    require_inputs(what, base)
    cases = grid(over, base, GRID_INPUTS[what])
    require_values(what, cases)
    return cases


def require_inputs(what: str, choices: Mapping[str, Any]) -> None:
    """Raises CaseError where an input is given that the question does not depend on."""
    for name in sorted(set(choices) - set(GRID_INPUTS[what])):
        raise CaseError(f"{name}: given, but {what} does not depend on it; allowed: {', '.join(GRID_INPUTS[what])}")


def inputs_beside_case(what: str) -> tuple[str, ...]:
    """The question's inputs that are none of a Case's."""
    return tuple(name for name in GRID_INPUTS[what] if name not in DEFAULTS)


def rows(what: str, cases: Grid, executor: Executor | None = None) -> Iterator[Row]:
    """A row a case, in the grid's order: what is swept, the results, and in `error` why there are none.

    Without an executor in this process.
    """
    parts = list(cases.parts(AT_ONCE[what]))
    run = map if executor is None else executor.map
    return chain.from_iterable(run(part, [what] * len(parts), parts, [tuple(cases.over)] * len(parts)))


def as_table(rows: Sequence[Row], over: Sequence[str]) -> list[Row]:
    """Rows with the columns of all: what is swept, the results, the error. Raises CaseError where none has results."""
    if all("error" in row for row in rows):
        raise CaseError(rows[0]["error"])
    columns = list(dict.fromkeys([*over, *(name for row in rows for name in row if name != "error"), "error"]))
    return [{name: row.get(name) for name in columns} for row in rows]


def part(what: str, cases: list[Choices], over: tuple[str, ...]) -> list[Row]:
    """The rows of some cases: what an executor is given, so all of it can be pickled."""
    own_inputs = inputs_beside_case(what)
    return [
        {name: number_or_text(choices[name]) for name in over} | results
        for choices, results in zip(cases, QUESTIONS[what](cases, own_inputs), strict=True)
    ]


def number_or_text(text: str) -> int | float | str:
    """A swept value as a file should have it."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def comparisons(cases: list[Choices], own_inputs: tuple[str, ...]) -> list[Row]:
    """The results of `compare --rows`."""
    answers: list[Row] = [{} for _ in cases]
    rows_by_index: dict[int, row_results.Row] = {}
    read = row_results.row_reader(own_inputs)
    for index, choices in enumerate(cases):
        try:
            rows_by_index[index] = read([], choices)
        except CaseError as error:
            answers[index] = {"error": str(error)}
    names = row_results.names_of_results(row_results.COMPARE, own_inputs)
    for index, results in zip(
        rows_by_index,
        row_results.results_of(row_results.COMPARE, list(rows_by_index.values()), own_inputs),
        strict=True,
    ):
        values = {"error": results} if isinstance(results, str) else dict(zip(names, results, strict=True))
        answers[index] = {name: None if value == "" else value for name, value in values.items()}
    return answers


def under_pressure(cases: list[Choices], own_inputs: tuple[str, ...]) -> list[Row]:
    """The totals of `pressure`, `ttft_s` and the like as `ttft_s_mean`, `ttft_s_p50`, `ttft_s_p99`; see RENAMED."""
    return [pressure_row(choices, own_inputs) for choices in cases]


def pressure_row(choices: Choices, own_inputs: tuple[str, ...]) -> Row:
    try:
        totals = json_value(pressure.pressure(*read_choices(choices, own_inputs)))
    except CaseError as error:
        return {"error": str(error)}
    flat: Row = {}
    for name, value in totals.items():
        flat |= {f"{name}_{key}": each for key, each in value.items()} if isinstance(value, Mapping) else {name: value}
    return {NEW_NAMES.get(name, name): value for name, value in flat.items()}


QUESTIONS: dict[str, Callable[[list[Choices], tuple[str, ...]], list[Row]]] = {
    "compare": comparisons,
    "pressure": under_pressure,
}


def require_values(what: str, cases: Grid) -> None:
    """Raises CaseError for a value that is none of its input's: then no case is computed."""
    for field, values in cases.over.items():
        for value in values:
            try:
                _, inputs = read_choices({**cases.base, field: value}, inputs_beside_case(what))
            except CaseError:
                if field not in TOGETHER:
                    raise
                continue
            if what == "pressure":
                pressure.engine(inputs)
                pressure.require_workload(inputs)


@contextmanager
def dask(address: str) -> Iterator[Executor]:
    """The workers of a Dask scheduler, which have this package installed. Raises CaseError where it does not answer."""
    if not DASK_ADDRESS.fullmatch(address):
        raise CaseError(f"dask: {address[:60]!r} given; allowed: a scheduler's address, such as tcp://127.0.0.1:8786")
    try:
        distributed: Any = import_module("distributed")
    except ImportError:
        raise CaseError("dask: not installed; allowed: pip install kv-cache-recovery-explorer[dask]") from None
    try:
        client = distributed.Client(address, timeout=CONNECT_S, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        reason = next(iter(str(error).splitlines()), "") or type(error).__name__
        raise CaseError(f"dask: {address[:60]!r} does not answer: {reason[:120]}") from None
    with client:
        yield client.get_executor()
