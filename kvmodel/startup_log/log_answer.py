"""`explain-log`: a start-up log's figures, each explained and checked, for a model of the catalog or a config.json."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kvmodel import catalog
from kvmodel.catalog import kv_dtypes, weights
from kvmodel.catalog.rows import FULL_BYTES
from kvmodel.errors import CaseError, bad_value, unusable
from kvmodel.inputs.case import Case
from kvmodel.memory import as_kept
from kvmodel.metrics import running_lines
from kvmodel.startup_log import check, log_reader, refusals
from kvmodel.startup_log.check import Finding, Named
from kvmodel.startup_log.log_reader import LogValues
from kvmodel.units import MIB
from kvmodel.words import say

LARGEST_BYTES = 64 * MIB  # of what cannot be read from its end, such as a pipe
END_BYTES = 2 * log_reader.LONGEST_LOG  # half of it from either end; a character takes up to four
LLAMA_CPP_BYTES = {  # of a KV value: blocks of 32 values with their scales
    "f16": 2, "f32": 4, "q8_0": 34 / 32, "q5_1": 24 / 32, "q5_0": 22 / 32, "q4_1": 20 / 32, "q4_0": 18 / 32,
    "iq4_nl": 18 / 32,
}  # fmt: skip
MOST_ENGINES, MOST_COMMON = 64, MIB // 4
PARTITION = re.compile(r"[0-9]{1,4}(?:,[0-9]{1,4}){1,63}")
ENGINE_OF_LINE = re.compile(r"^.{0,80}?\b(?:EngineCore_|Worker_|)DP([0-9]{1,4})(?![0-9A-Za-z])")
METRIC = re.compile(
    r'^(?:vllm|sglang|trtllm|nv_trt_llm)[:_]\w{1,80}[{ ]|"(?:kvCacheStats|inflightBatchingStats)"', re.MULTILINE
)
AUTO = "auto"  # the model's own dtype, or what its checkpoint asks for: the reader's word counts


def explain(case: Case, command_inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to one log. Raises CaseError where the file cannot be read or says nothing of a pool."""
    if command_inputs.get("file") is None:
        raise CaseError("file: not given; allowed: the path of a start-up log")
    return explain_text(_text(str(command_inputs["file"])), case, command_inputs)


def explain_text(text: str, case: Case, command_inputs: Mapping[str, Any]) -> dict[str, Any]:
    """As :func:`explain`, of the text itself. What the log says of tp, pp and dcp goes before what was given.

    Of several engines in one process the answer is that of the one with the smallest pool; `engines` has each.
    """
    parts = engines_of(log_reader.both_ends(text))
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
    ways = [] if model is None else list(ways_kept(log, model, case.kv_dtype))
    against, findings = held_against(log, ways)
    refusal = refusals.refusal(text, log, against)
    if log.empty() and refusal is None:
        if running_lines.any_in(text):
            raise CaseError(say("log: these are running lines, which Diagnose reads; allowed: a start-up log"))
        if METRIC.search(text):
            raise CaseError(say("log: these are metrics, which Diagnose reads; allowed: a start-up log"))
        raise CaseError(say("log: no line of an engine's memory or KV pool in it; allowed: a start-up log"))
    if model is not None and not ways:
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


def held_against(log: LogValues, ways: list[Named]) -> tuple[Named | None, list[Finding]]:
    """The model as the log's engine may keep it, and what is found against that: of several ways what agrees most.

    fp8 of a sparse model is a record or plain; recurrent states are as wide as a flag in the log, the file or the
    engine's own default says, and a log that contradicts that is told by its figures.
    """
    if not ways:
        return None, check.check(log)
    tried = [(named, check.check(log, named)) for named in ways]

    def agreement(way: tuple[Named, list[Finding]]) -> tuple[bool, int]:
        return check.consistent(way[1]), sum(finding.agrees is True for finding in way[1])

    return max(tried, key=agreement)  # of equals the first


def ways_kept(log: LogValues, model: catalog.Model, kv_dtype: str) -> Iterator[Named]:
    """The model's layers in each way that an engine of the log may keep them, the likeliest first; none of a KV dtype
    that is not known."""
    weight_bytes = weights.weight_bytes(model)
    if log.kv_dtype in LLAMA_CPP_BYTES:
        yield Named(model.kv_layers, LLAMA_CPP_BYTES[log.kv_dtype], model.label, weight_bytes)
        return
    name = kv_dtype if log.kv_dtype in (None, AUTO) else kv_dtypes.kv_dtype_id(str(log.kv_dtype))
    if name is None:
        return
    both = [kv_dtypes.stored(model.kv_layers, name, plain=plain) for plain in (False, True)]
    for kept in both if both[0] != both[1] else both[:1]:
        yield Named(kept.layers, kept.bytes_per_value, model.label, weight_bytes)
        if any(group.state_values for group in kept.layers):
            for width in (FULL_BYTES, as_kept.STATE_BYTES):
                layers = tuple(as_kept.with_state_bytes(group, width) for group in kept.layers)
                yield Named(layers, kept.bytes_per_value, model.label, weight_bytes)


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
            start = file.read(END_BYTES)
            size_bytes = os.fstat(file.fileno()).st_size
            if size_bytes > 2 * END_BYTES and file.seekable():
                file.seek(-END_BYTES, os.SEEK_END)
                start += b"\n"
            return (start + file.read(LARGEST_BYTES)[-END_BYTES:]).decode("utf-8", errors="replace")
    except (OSError, ValueError) as error:
        raise unusable("file", path, error) from None
