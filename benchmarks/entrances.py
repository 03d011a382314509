"""The ways by which a text reaches the model, by kind: bytes in, what is told out, and what no answer may hold."""

import csv
import io
import json
import math
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from kvmodel.arrays import json_value
from kvmodel.cli import answers, rows, simulate_file
from kvmodel.cli.commands import COMMANDS
from kvmodel.diagnosis import from_scrapes
from kvmodel.evidence import evidence_answers
from kvmodel.hf import config_file
from kvmodel.inputs import addresses
from kvmodel.inputs.case import Case
from kvmodel.recovery import comparison
from kvmodel.startup_log import log_answer
from kvmodel.sweeps.choices import read_choices
from kvmodel.texts import diagnosis, startup_log

NEVER_NEGATIVE = ("_s", "_bytes", "_tokens", "tokens", "_blocks", "_per_100", "count", "preemptions")
SHARES = ("share", "usage", "hit_rate", "survival", "utilization", "watermark")  # from 0 to 1, alone or as `_share`
MOST_PRICED = 20  # requests of a trace, whose simulation is no part of reading it


def impossible(value: Any, key: str = "") -> str | None:
    """A number of an answer that cannot be: a negative time, length or count, a share beyond 0 to 1, NaN."""
    if isinstance(value, dict):
        inner = ((name if str(name).rpartition("_")[2] not in ("mean", "p50", "p99") else key) for name in value)
        found = (impossible(part, str(name)) for name, part in zip(inner, value.values(), strict=True))
        return next(filter(None, found), None)
    if isinstance(value, list | tuple):
        return next(filter(None, (impossible(part, key) for part in value)), None)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if (isinstance(value, float) and not math.isfinite(value)) or (value < 0 and key.endswith(NEVER_NEGATIVE)):
        return f"{key} is {str(value)[:40]}"
    return f"{key} is {str(value)[:40]}" if key.endswith(SHARES) and not 0 <= value <= 1 else None


def possible(answer: Any) -> Any:
    """The same answer, as JSON has it. Raises ArithmeticError where a number of it cannot be."""
    plain = json_value(answer)
    json.dumps(plain, allow_nan=False)
    if (found := impossible(plain)) is not None:
        raise ArithmeticError(found)
    return plain


def of_scrapes(*pages: bytes) -> str:
    return diagnosis.diagnose(possible(from_scrapes.diagnose(*pages)))


def of_log(content: bytes) -> str:
    answer = log_answer.explain_text(content.decode("utf-8", "replace"), Case(), {"model": None})
    possible(answer | {"figures": None})  # which are the log's own: an engine prints a pool below zero that it refuses
    return startup_log.explain_log(answer)


def of_config(content: bytes) -> str:
    reading = config_file.read_text(content, assume_defaults=len(content) % 2 == 0)
    answer = answers.fields_used(Case(model=reading.text), reading) | answers.config_answer(reading)
    return str(possible(answer | {"model": reading.text}))


@cache
def folder() -> tempfile.TemporaryDirectory[str]:
    """Where files stand whose reader takes a path, until the end of the process."""
    return tempfile.TemporaryDirectory()


def file_of(content: bytes, name: str) -> str:
    path = Path(folder().name) / name
    path.write_bytes(content)
    return str(path)


def of_simulation(content: bytes) -> str:
    return json.dumps(possible(simulate_file.simulate(file_of(content, "run.json"))))


def of_trace(content: bytes) -> str:
    command, path = COMMANDS["pressure"], file_of(content, "trace.csv")
    case, inputs = read_choices({"trace": path, "requests": MOST_PRICED}, command.inputs)
    return json.dumps(possible(command.answer(case, inputs)))


def of_table(content: bytes) -> str:
    """Of the command whose own column stands in the heading."""
    heading = content.split(b"\n", 1)[0]
    names = {b"past": "prefill", b"per-copy": "copy", b"bytes": "copy", b"objective": "compare"}
    name = next((command for column, command in names.items() if column in heading), "size")
    command, path = COMMANDS[name], file_of(content, "rows.csv")
    text = rows.answer(name, path, {}, (*command.fields, *command.inputs), command.inputs)
    for row in csv.DictReader(io.StringIO(text, newline="")):
        possible({key: float(cell) for key, cell in row.items() if cell and key.endswith(("_s", "bytes", "mfu"))})
    return text


def of_measured(content: bytes) -> str:
    return json.dumps(possible(evidence_answers.evidence_answer(file_of(content, "measured.csv"))))


def of_link(content: bytes) -> str:
    items = parse_qsl(content.decode("utf-8", "replace"), keep_blank_values=True)
    return json.dumps(possible(comparison.as_json(comparison.compare_case(addresses.case_of(items)))))


ENTRANCES: dict[str, Callable[..., str]] = {
    "scrape": of_scrapes, "two scrapes": of_scrapes, "trt json": of_scrapes,
    "two trt json": of_scrapes, "gzip": of_scrapes, "running": of_scrapes,
    "start-up": of_log, "config": of_config, "simulate": of_simulation, "trace": of_trace, "rows": of_table,
    "measured": of_measured, "link": of_link,
}  # fmt: skip
FORMS = {
    "trt json": "JSON", "two trt json": "JSON", "config": "JSON", "simulate": "JSON", "trace": "table", "rows": "cases",
    "measured": "table", "link": "link",
}  # fmt: skip
