"""The command `sweep`: a grid of cases into a CSV or Parquet file, whole or not at all."""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from kvmodel import files
from kvmodel.cli import sweep
from kvmodel.cli.processes import processes
from kvmodel.cli.sweep_grid import Grid, grid
from kvmodel.errors import CaseError
from kvmodel.inputs import questions
from kvmodel.inputs.case import DEFAULTS, Case

SUFFIXES = (".csv", ".parquet")
TOLD_EVERY_S = 1.0
ERASED = "\r\x1b[K"  # the line, where answers or a sentence come next
TASKS_WORTH_PROCESSES = 4  # starting processes takes as long as about so many tasks


def answer(case: Case, own: Mapping[str, Any], fields: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
    """Write the file; how many rows it has, and how many of them only say why there are no results.

    `fields` are the inputs of each question, the Case's and its own. Raises CaseError: one sentence.
    """
    path, what = own["output"], own["what"]
    suffix = Path(path or "").suffix.lower()
    if suffix not in SUFFIXES:
        given_path = "none" if path is None else repr(path)
        raise CaseError(f"-o: {given_path} given; allowed: a file name that ends in {' or '.join(SUFFIXES)}")
    if suffix == ".parquet":
        parquet_module()
    inputs = fields[what]
    given = {name: value for name, value in (vars(case) | dict(own)).items() if value != default_of(name)}
    for name in sorted(set(given).intersection(chain_of(fields)) - set(inputs)):
        raise CaseError(f"{name}: given, but {what} does not depend on it; allowed: {', '.join(inputs)}")
    cases = grid(own["over"] or [], {name: given[name] for name in inputs if name in given}, inputs)
    questions_own = tuple(name for name in inputs if name not in DEFAULTS)
    sweep.require_values(what, cases, questions_own)
    with executor(own, cases) as chosen:
        rows = list(counted(sweep.rows(what, cases, questions_own, chosen), len(cases)))
    errors = [row["error"] for row in rows if "error" in row]
    if len(errors) == len(rows):
        raise CaseError(errors[0])
    columns = list(dict.fromkeys([*cases.over, *(name for row in rows for name in row if name != "error"), "error"]))
    table = [{name: row.get(name) for name in columns} for row in rows]
    files.write(path, as_parquet(table) if suffix == ".parquet" else files.as_csv(table))
    return {"what": what, "rows": len(rows), "errors": len(errors), "columns": columns, "output": path}


def counted(rows: Iterable[sweep.Row], number: int) -> Iterator[sweep.Row]:
    """The rows as they come; on a terminal, one line says how many there are so far."""
    told_s = time.monotonic()
    watched = sys.stderr is not None and sys.stderr.isatty()
    written = False
    try:
        for count, row in enumerate(rows):
            if watched and time.monotonic() - told_s > TOLD_EVERY_S:
                told_s, written = time.monotonic(), True
                print(f"\r{count:,} of {number:,} cases", end="", file=sys.stderr, flush=True)
            yield row
    finally:
        if written:
            print(ERASED, end="", file=sys.stderr, flush=True)


def chain_of(fields: Mapping[str, tuple[str, ...]]) -> set[str]:
    return {name for inputs in fields.values() for name in inputs}


def default_of(name: str) -> Any:
    return DEFAULTS[name] if name in DEFAULTS else questions.INPUTS[name].default if name in questions.INPUTS else None


def executor(own: Mapping[str, Any], cases: Grid) -> AbstractContextManager[Executor | None]:
    """Where a grid is computed: on a Dask cluster, on processes, or here where it is small."""
    if own["dask"] is not None:
        if own["processes"] is not None:
            raise CaseError("processes: given with --dask; allowed: one of them")
        return sweep.dask(own["dask"])
    tasks = -(-len(cases) // sweep.AT_ONCE[own["what"]])
    number = min(own["processes"] or os.cpu_count() or 1, tasks)
    if number == 1 or (own["processes"] is None and tasks < TASKS_WORTH_PROCESSES):
        return nullcontext()
    return processes(number)


def parquet_module() -> Any:
    try:
        from pyarrow import parquet
    except ImportError:
        raise CaseError("-o: pyarrow is not installed, which writes .parquet; allowed: .csv") from None
    return parquet


def as_parquet(table: list[dict[str, Any]]) -> bytes:
    """A column each, with the type of its values; swept numbers are numbers."""
    import pyarrow

    file = io.BytesIO()
    parquet_module().write_table(pyarrow.Table.from_pylist(table), file)
    return file.getvalue()
