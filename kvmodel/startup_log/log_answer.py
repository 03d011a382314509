"""`explain-log`: a start-up log's figures, each explained and checked, for a model of the catalog or a config.json."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kvmodel import catalog
from kvmodel.catalog import weights
from kvmodel.errors import CaseError, bad_value
from kvmodel.inputs.case import BYTES_PER_VALUE, Case
from kvmodel.metrics import running_lines
from kvmodel.startup_log import check, log_reader, refusals
from kvmodel.startup_log.check import Finding, Named
from kvmodel.startup_log.log_reader import LogValues
from kvmodel.units import MIB
from kvmodel.words import say

LARGEST_BYTES = 64 * MIB
WIDTHS = {  # of a KV value under the names of engines; blocks of 32 values of llama.cpp with their scales
    "bfloat16": 2, "float16": 2, "half": 2, "f16": 2, "float32": 4, "float": 4, "f32": 4, "float8_e4m3fn": 1,
    "float8_e5m2": 1, "float8_e4m3fnuz": 1, "fp8_e4m3": 1, "fp8_e5m2": 1, "fp8_inc": 1,
    "q8_0": 34 / 32, "q5_1": 24 / 32, "q5_0": 22 / 32, "q4_1": 20 / 32, "q4_0": 18 / 32, "iq4_nl": 18 / 32,
}  # fmt: skip
MOST_ENGINES, MOST_COMMON = 64, MIB
PARTITION = re.compile(r"[0-9]{1,4}(?:,[0-9]{1,4}){1,63}")
ENGINE_OF_LINE = re.compile(r"^.{0,80}?\b(?:EngineCore_|Worker_|)DP([0-9]{1,4})(?![0-9A-Za-z])")


def explain(case: Case, command_inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to one log. Raises CaseError where the file cannot be read or says nothing of a pool."""
    if command_inputs.get("file") is None:
        raise CaseError("file: not given; allowed: the path of a start-up log")
    return explain_text(_text(str(command_inputs["file"])), case, command_inputs)


def explain_text(text: str, case: Case, command_inputs: Mapping[str, Any]) -> dict[str, Any]:
    """As :func:`explain`, of the text itself. What the log says of tp, pp and dcp goes before what was given.

    Of several engines in one process the answer is that of the one with the smallest pool; `engines` has each.
    """
    parts = engines_of(text)
    answers = [answer_of(part, case, command_inputs) for part in parts.values()]
    smallest = min(answers, key=lambda answer: answer["figures"].get("pool_bytes") or 0.0)
    for name, answer in zip(parts, answers, strict=True):
        answer["engine_name"] = name or None
    consistent = all(answer["consistent"] for answer in answers)
    return smallest | {"engines": answers if len(answers) > 1 else [], "consistent": consistent}


def answer_of(text: str, case: Case, command_inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The answer of one engine's lines."""
    log = log_reader.read_log(text)
    take_given(log, case, command_inputs)
    model = model_of(log.model, command_inputs.get("model"))
    width = value_bytes(log.kv_dtype, case)
    against = None
    if model is not None and width is not None:
        against = Named(model.kv_layers, width, model.label, weights.weight_bytes(model))
    refusal = refusals.refusal(text, log, against)
    if log.empty() and refusal is None:
        if running_lines.read(text) is not None:
            raise CaseError(
                say("log: these are running lines; allowed: a start-up log; `diagnose FILE` reads running lines")
            )
        raise CaseError(say("log: no line of an engine's memory or KV pool in it; allowed: a start-up log"))
    findings = check.check(log, against)
    if model is not None and width is None:
        means = say("how many bytes a value of it takes is not known here: nothing is held against the model")
        findings.insert(0, Finding("kv_dtype", str(log.kv_dtype), means))
    if refusal is not None:
        findings.insert(0, Finding("refused", refusal.refused, refusal.mend))
    return {
        "model": model.id if model else None,
        "label": model.label if model else None,
        "engine": log.engine,
        "version": log.version,
        "refused": refusal.refused if refusal else None,
        "mend": refusal.mend if refusal else None,
        "after_start": refusal.after_start if refusal else False,
        "figures": log.values(),
        "findings": [asdict(finding) for finding in findings],
        "implied_bytes_per_token": check.implied_bytes_per_token(log),
        "model_bytes_per_token": check.rank_rate(log, against) if against else None,
        "consistent": check.consistent(findings),
    }


def take_given(log: LogValues, case: Case, command_inputs: Mapping[str, Any]) -> None:
    """Degrees and partition that were given, where the log does not say them. Raises CaseError for a bad partition."""
    given = {"tp": case.tp, "pp": command_inputs.get("pp"), "dcp": command_inputs.get("dcp")}
    for name, degree in given.items():
        if getattr(log, name) is None:
            setattr(log, name, float(degree or 1))
            log.assumed = (*log.assumed, name) if (degree or 1) == 1 else log.assumed
    partition = command_inputs.get("pp_partition")
    if partition is not None:
        if not PARTITION.fullmatch(str(partition)):
            raise bad_value("pp_partition", partition, say("layers of each stage, such as 23,23,24,22"))
        log.partition = str(partition)
    if log.partition is not None:
        log.partition = log.partition.replace(" ", "")
        log.pp = max(log.pp or 1.0, float(log.partition.count(",") + 1))


def value_bytes(kv_dtype: str | None, case: Case) -> float | None:
    """Bytes of a KV value under the name that a log gives its type; None where that is not known. [bytes]"""
    if kv_dtype in (None, "auto"):
        return float(BYTES_PER_VALUE[case.kv_dtype])
    known = {**WIDTHS, **BYTES_PER_VALUE}
    return float(known[kv_dtype]) if kv_dtype in known else None


def engines_of(text: str) -> dict[str, str]:
    """The lines of each engine of one process, by its name; what no engine prints alone belongs to all.

    All as one where there are so many engines that reading each with what is common would take too long.
    """
    if "DP" not in text:
        return {"": text}
    rows = text[: log_reader.LONGEST_LOG].splitlines(keepends=True)
    names = [f"DP{match[1]}" if (match := ENGINE_OF_LINE.match(row)) else "" for row in rows]
    engines = list(dict.fromkeys(name for name in names if name))
    common = sum(len(row) for row, name in zip(rows, names, strict=True) if not name)
    if len(engines) < 2 or len(engines) * common > MOST_COMMON:
        return {"": text}
    parts = {
        engine: "".join(row for row, name in zip(rows, names, strict=True) if name in ("", engine))
        for engine in engines[:MOST_ENGINES]
    }
    told = {engine: part for engine, part in parts.items() if log_reader.read_log(part).pool_bytes is not None}
    return told if len(told) > 1 else {"": text}


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
