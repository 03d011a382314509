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
from kvmodel.cli.processes import processes
from kvmodel.errors import CaseError
from kvmodel.inputs import questions
from kvmodel.inputs.case import DEFAULTS, Case
from kvmodel.sweeps import sweep
from kvmodel.sweeps.grid import Grid

SUFFIXES = (".csv", ".parquet")
PROGRESS_EVERY_S = 1.0
ERASE_LINE = "\r\x1b[K"  # the line, where answers or a sentence come next
TASKS_WORTH_PROCESSES = 4  # starting processes takes as long as about so many tasks


def answer(case: Case, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Write the file; how many rows it has, and how many of them say only why there is no result. Raises CaseError."""
    path, what = inputs["output"], inputs["what"]
    suffix = Path(path or "").suffix.lower()
    if suffix not in SUFFIXES:
        path_text = "none" if path is None else repr(path)
        raise CaseError(f"-o: {path_text} given; allowed: a file name that ends in {' or '.join(SUFFIXES)}")
    if suffix == ".parquet":
        parquet_module()
    grid_inputs = {name for names in questions.GRID_INPUTS.values() for name in names}
    choices = {name: value for name, value in (vars(case) | dict(inputs)).items() if value != default_of(name)}
    cases = sweep.grid_of(
        what, {name: value for name, value in choices.items() if name in grid_inputs}, inputs["over"] or []
    )
    with executor(inputs, cases) as workers:
        rows = list(with_progress(sweep.rows(what, cases, workers), len(cases)))
    table = sweep.as_table(rows, list(cases.over))
    files.write(path, as_parquet(table) if suffix == ".parquet" else files.as_csv(table))
    errors = sum("error" in row for row in rows)
    return {"what": what, "rows": len(rows), "errors": errors, "columns": list(table[0]), "output": path}


def with_progress(rows: Iterable[sweep.Row], number: int) -> Iterator[sweep.Row]:
    """The rows as they come; on a terminal, one line says how many there are so far."""
    last_s = time.monotonic()
    is_terminal = sys.stderr is not None and sys.stderr.isatty()
    has_line = False
    try:
        for count, row in enumerate(rows):
            if is_terminal and time.monotonic() - last_s > PROGRESS_EVERY_S:
                last_s, has_line = time.monotonic(), True
                print(f"\r{count:,} of {number:,} cases", end="", file=sys.stderr, flush=True)
            yield row
    finally:
        if has_line:
            print(ERASE_LINE, end="", file=sys.stderr, flush=True)


def default_of(name: str) -> Any:
    return DEFAULTS[name] if name in DEFAULTS else questions.INPUTS[name].default if name in questions.INPUTS else None


def executor(inputs: Mapping[str, Any], cases: Grid) -> AbstractContextManager[Executor | None]:
    """Where a grid is computed: on a Dask cluster, on processes, or here where it is small."""
    if inputs["dask"] is not None:
        if inputs["processes"] is not None:
            raise CaseError("processes: given with --dask; allowed: one of them")
        return sweep.dask(inputs["dask"])
    tasks = -(-len(cases) // sweep.AT_ONCE[inputs["what"]])
    number = min(inputs["processes"] or os.cpu_count() or 1, tasks)
    if number == 1 or (inputs["processes"] is None and tasks < TASKS_WORTH_PROCESSES):
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
