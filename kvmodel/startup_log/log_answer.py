"""`explain-log`: a start-up log's figures, each explained and checked, for a model of the catalog or a config.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kvmodel import catalog
from kvmodel.errors import CaseError
from kvmodel.inputs.case import BYTES_PER_VALUE, Case
from kvmodel.startup_log import check, log_reader
from kvmodel.startup_log.check import Named
from kvmodel.units import MIB
from kvmodel.words import say

LARGEST_BYTES = 64 * MIB
NARROW = ("fp8", "int8", "float8")


def explain(case: Case, command_inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to one log. Raises CaseError where the file cannot be read or says nothing of a pool."""
    if command_inputs.get("file") is None:
        raise CaseError("file: not given; allowed: the path of a start-up log")
    return explain_text(_text(str(command_inputs["file"])), case, command_inputs)


def explain_text(text: str, case: Case, command_inputs: Mapping[str, Any]) -> dict[str, Any]:
    """As :func:`explain`, of the text itself. What the log says of tp, pp and dcp goes before what was given."""
    log = log_reader.read_log(text)
    if log.empty():
        raise CaseError(say("log: no line of an engine's memory or KV pool in it; allowed: a start-up log"))
    for name, degree in (("tp", case.tp), ("pp", command_inputs.get("pp")), ("dcp", command_inputs.get("dcp"))):
        if getattr(log, name) is None:
            setattr(log, name, float(degree or 1))
    model = model_of(log.model, command_inputs.get("model"))
    width = 1 if (log.kv_dtype or "").startswith(NARROW) else BYTES_PER_VALUE[case.kv_dtype]
    against = Named(model.kv_layers, width, model.label) if model else None
    findings = check.check(log, against)
    return {
        "model": model.id if model else None,
        "label": model.label if model else None,
        "engine": log.engine,
        "version": log.version,
        "figures": log.values(),
        "findings": [asdict(finding) for finding in findings],
        "implied_bytes_per_token": check.implied_bytes_per_token(log),
        "model_bytes_per_token": check.rank_rate(log, against) if against else None,
        "consistent": check.consistent(findings),
    }


def model_of(name_in_log: str | None, model_name: str | None) -> catalog.Model | None:
    """The model that was given, else the catalog's row for the name in the log; None where there is none."""
    if model_name is not None:
        return catalog.model(model_name)
    if name_in_log is None:
        return None
    row_id = catalog.model_id(name_in_log)
    return None if row_id is None else catalog.model(row_id)


def _text(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            return file.read(LARGEST_BYTES).decode("utf-8", errors="replace")
    except (OSError, ValueError) as error:
        raise CaseError(f"file: {path[:80]!r} cannot be read: {getattr(error, 'strerror', error)}") from None
