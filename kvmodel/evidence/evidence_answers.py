"""The questions of the command line about truth: how wrong the model is, and what a reader's own measurement says."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from typing import Any

from kvmodel import files
from kvmodel.catalog import assumptions
from kvmodel.errors import LONGEST_ECHO, CaseError, shown_name, unusable
from kvmodel.evidence import calibration, copy_rows, measured, step_rows
from kvmodel.evidence.calibration import CopyReading, Point, PrefillReading
from kvmodel.evidence.measured import Step
from kvmodel.evidence.measured_points import SAYS, in_percent
from kvmodel.inputs.case import Case
from kvmodel.recovery import resolve

NEEDED = {"linear_sum": ("tokens",), "decode_step": ("batch",), "mixed_step": ()}  # above 0; of other kinds both
MOST_ROWS = 100_000
COLUMNS = tuple("id kind source gpu model dtype engine tp batch tokens context value unit".split())


def evidence_answer(file: str | None) -> dict[str, Any]:
    """The error table, or the errors on the rows of a reader's own file. Raises CaseError."""
    if file is not None:
        return {"rows": judged_file(file)}
    errors = (*step_rows.step_errors(), *copy_rows.copy_errors())
    kinds = ("prefill_other_gpu", "prefill_other_source")
    held_out = [
        {"kind": kind, "p90_percent": 100 * row.value, "says": row.note}
        for kind, row in ((kind, assumptions.assumption("band", kind)) for kind in kinds)
    ]
    order = list(SAYS)
    rows = sorted(errors, key=lambda row: order.index(row.kind))
    return {"rows": [in_percent(row) for row in rows], "held_out": held_out}


def judged_file(path: str) -> list[dict[str, Any]]:
    """The errors on steps of a CSV file in the form of `data/measured/steps.csv`. Raises CaseError."""
    by_kind: dict[str, list[Step]] = defaultdict(list)
    for step in steps_in(path):
        by_kind[step_rows.kind_of(step)].append(step)
    return [in_percent(step_rows.errors_of(kind, step_rows.relative_errors(rows))) for kind, rows in by_kind.items()]


def steps_in(path: str) -> list[Step]:
    """The steps of a file. Raises CaseError where it cannot be read or a row does not hold."""
    try:
        with files.open_text(path) as file:
            rows = files.table_rows(file, MOST_ROWS)
            _, heading = next(rows, (0, []))
            missing = [name for name in COLUMNS if name not in heading]
            if missing:
                raise CaseError(f"file: {path!r} lacks {', '.join(missing)}; allowed: the columns {', '.join(COLUMNS)}")
            blank = dict.fromkeys(COLUMNS, "")
            steps = [own_step(blank | dict(zip(heading, row, strict=False))) for _, row in rows]
    except CaseError:
        raise
    except (OSError, ValueError, csv.Error) as error:
        raise unusable("file", path, error) from None
    if not steps:
        raise CaseError(f"file: {path!r} has no rows; allowed: a row for each step that was measured")
    return steps


@cache
def kinds() -> tuple[str, ...]:
    """Kinds of steps that were measured."""
    return tuple(sorted({step.kind for step in measured.steps()}))


def own_step(row: Mapping[str, str]) -> Step:
    """A row of a reader's file as a step. Raises CaseError where it is none that the model can be asked about."""
    row = {**row, "id": shown_name(row["id"])}
    if row["kind"] not in kinds():
        raise CaseError(f"kind: {row['kind'][:LONGEST_ECHO]!r} given in row {row['id']}; allowed: {', '.join(kinds())}")
    for column in ("gpu", "model"):
        if not row[column]:
            raise CaseError(f"{column}: none given in row {row['id']}; allowed: an id of the catalog")
    found = measured.step(row)
    needed = NEEDED.get(found.kind, ("batch", "tokens"))
    for column, value in vars(found).items():
        if column in ("tp", "seconds", *needed) and not value:
            name = "value" if column == "seconds" else column
            raise CaseError(f"{name}: {row[name][:LONGEST_ECHO]!r} given in row {row['id']}; allowed: above 0")
    return found


def calibrate(case: Case, own: Mapping[str, Any]) -> dict[str, Any]:
    """What a reader's measured prefill and copy imply, and the inputs that make the model say the same."""
    prefill = points(case, own, "prefill")
    copied = points(case, own, "copy")
    if not prefill and not copied:
        raise CaseError("prefill_s: none given, and no copy_s; allowed: at least one measured time in seconds")
    resolve.require_sequence_fits(case, vars(case) | {"past": 0})
    answer: dict[str, Any] = {"tokens": case.tokens}
    reading: PrefillReading | None = None
    copy_reading: CopyReading | None = None
    if prefill:
        reading = calibration.read_prefill(case, *prefill)
        answer["prefill"] = asdict(reading)
    if copied:
        copy_reading = calibration.read_copy(case, own["direction"], *copied)
        answer["copy"] = asdict(copy_reading)
    replaced = calibration.case_fields(reading, copy_reading)
    return answer | {"use": {field: value for field, value in replaced.items() if value is not None}}


def points(case: Case, own: Mapping[str, Any], what: str) -> list[Point]:
    """One or two measurements of a kind; the first is of the Case's own length."""
    first, second = own[f"{what}_s"], own[f"{what}2_s"]
    if second is not None and (first is None or own[f"{what}2_tokens"] is None):
        raise CaseError(f"{what}2_s: {second:g} given alone; allowed: with {what}_s and {what}2_tokens")
    if second is None and own[f"{what}2_tokens"] is not None:
        raise CaseError(f"{what}2_tokens: {own[f'{what}2_tokens']:,} given alone; allowed: with {what}2_s")
    found = [] if first is None else [Point(case.tokens, first)]
    return found if second is None else [*found, Point(own[f"{what}2_tokens"], second)]
