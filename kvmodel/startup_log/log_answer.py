"""`explain-log`: a start-up log's figures, each explained and checked, for a model of the catalog or a config.json."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kvmodel import catalog
from kvmodel.catalog import kv_dtypes
from kvmodel.catalog.rows import FULL_BYTES
from kvmodel.errors import CaseError
from kvmodel.inputs.case import Case
from kvmodel.memory import as_kept
from kvmodel.startup_log import check, log_reader
from kvmodel.startup_log.check import Named
from kvmodel.startup_log.log_reader import LogValues
from kvmodel.units import MIB
from kvmodel.words import say

LARGEST_BYTES = 64 * MIB
AUTO = "auto"  # the model's own dtype, or what its checkpoint asks for: the reader's word counts


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
    against, findings = held_against(log, model, case.kv_dtype)
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


def held_against(
    log: LogValues, model: catalog.Model | None, kv_dtype: str
) -> tuple[Named | None, list[check.Finding]]:
    """The model as the log's engine may keep it, and what is found against that: of several ways what agrees most.

    fp8 of a sparse model is a record or plain; recurrent states are as wide as a flag in the log, the file or the
    engine's own default says, and a log that contradicts that is told by its figures.
    """
    if model is None:
        return None, check.check(log)
    in_log = None if log.kv_dtype in (None, AUTO) else kv_dtypes.kv_dtype_id(str(log.kv_dtype))
    ways = ways_kept(model, in_log or kv_dtype)
    tried = [(named, check.check(log, named)) for named in ways]

    def agreement(way: tuple[Named, list[check.Finding]]) -> tuple[bool, int]:
        return check.consistent(way[1]), sum(finding.agrees is True for finding in way[1])

    return max(tried, key=agreement)  # of equals the first


def ways_kept(model: catalog.Model, kv_dtype: str) -> Iterator[Named]:
    """The model's layers in each way that an engine of the log may keep them, the likeliest first."""
    both = [kv_dtypes.stored(model.kv_layers, kv_dtype, plain=plain) for plain in (False, True)]
    for kept in both if both[0] != both[1] else both[:1]:
        yield Named(kept.layers, kept.bytes_per_value, model.label)
        if any(group.state_values for group in kept.layers):
            for width in (FULL_BYTES, as_kept.STATE_BYTES):
                layers = tuple(as_kept.with_state_bytes(group, width) for group in kept.layers)
                yield Named(layers, kept.bytes_per_value, model.label)


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
