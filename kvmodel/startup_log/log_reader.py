"""Start-up lines of vLLM, SGLang, TensorRT-LLM and llama.cpp -> the figures they print of memory and of the KV pool.

Lines may carry prefixes (time, process, colours); lines that say nothing of the pool are skipped.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from typing import Any

from kvmodel.startup_log import log_rules
from kvmodel.startup_log.log_rules import UNIT_BYTES, Rule
from kvmodel.units import GIB, MIB

LONGEST_LOG = MIB
APART = ("engine", "version", "ranks", "pools", "assumed", "printed")  # of a reading, but no single figure
ROUNDING = 0.5 + 1e-6  # of the last digit; 5.625 is printed as 5.62
DEFAULTS = {"tp": 1.0, "pp": 1.0, "dcp": 1.0}  # of every engine


@dataclass
class LogValues:
    """What a log prints; None where it does not. `printed` has the text of each size, to know how it was rounded.

    `pools` are the pools of the ranks, by process; `assumed` names settings that the log leaves open.
    """

    engine: str | None = None
    version: str | None = None
    model: str | None = None
    kv_dtype: str | None = None
    draft: str | None = None
    attention_dp: str | None = None
    partition: str | None = None
    total_bytes: float | None = None
    free_bytes: float | None = None
    utilization: float | None = None
    equivalent_utilization: float | None = None
    same_pool_utilization: float | None = None
    mem_fraction: float | None = None
    usable_bytes: float | None = None
    weight_bytes: float | None = None
    non_torch_bytes: float | None = None
    consumed_bytes: float | None = None
    activation_bytes: float | None = None
    peak_torch_bytes: float | None = None
    graph_bytes: float | None = None
    graph_estimate_bytes: float | None = None
    pool_bytes: float | None = None
    in_use_bytes: float | None = None
    pinned_bytes: float | None = None
    left_bytes: float | None = None
    key_bytes: float | None = None
    value_bytes: float | None = None
    needed_bytes: float | None = None
    conv_bytes: float | None = None
    state_bytes: float | None = None
    state_slots: float | None = None
    gpu_blocks: float | None = None
    profiled_blocks: float | None = None
    blocks_override: float | None = None
    cpu_blocks: float | None = None
    host_bytes: float | None = None
    host_blocks: float | None = None
    host_tokens: float | None = None
    tokens: float | None = None
    longest_tokens: float | None = None
    concurrency: float | None = None
    max_model_len: float | None = None
    block_tokens: float | None = None
    blocks_per_request: float | None = None
    max_num_batched_tokens: float | None = None
    max_num_seqs: float | None = None
    swap_gib: float | None = None
    tp: float | None = None
    pp: float | None = None
    dp: float | None = None
    dcp: float | None = None
    ranks: list[tuple[float, float]] = field(default_factory=list)
    pools: dict[str, float] = field(default_factory=dict)
    assumed: tuple[str, ...] = ()
    printed: dict[str, str] = field(default_factory=dict)

    def values(self) -> dict[str, Any]:
        """The figures that were there, without how they were printed."""
        values = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        left_out = ("printed", "assumed", "pools")
        return {name: value for name, value in values.items() if value not in (None, [], {}) and name not in left_out}

    def empty(self) -> bool:
        """Whether no figure was there, whatever the lines say of settings."""
        settings = {*log_rules.SETTINGS.values(), *log_rules.WORDS, "engine", "version"}
        return not set(self.values()) - settings

    def rounding_bytes(self, name: str) -> float:
        """Half of the last digit that a size was printed with. [bytes]"""
        text = self.printed.get(name, "0.00 GiB")
        number, unit = re.split(r"\s+", text.strip())
        decimals = len(number.partition(".")[2])
        return float(ROUNDING * 0.1**decimals * UNIT_BYTES[unit.lower()])

    def names(self, setting: str) -> bool:
        """Whether the log says a setting itself."""
        return getattr(self, setting) is not None and setting not in self.assumed


def both_ends(text: str) -> str:
    """A log that is too long without its middle: what was set stands at its start, why it ended at its end."""
    half = LONGEST_LOG // 2
    return text if len(text) <= LONGEST_LOG else f"{text[:half]}\n{text[-half + 1 :]}"


def read_log(text: str) -> LogValues:
    """The figures of a log; where a figure comes twice, the last one counts, as with a restart in one file.

    Several lines of blocks are several ranks: all are kept in `ranks`, and the smallest is `gpu_blocks`; so with the
    pools of several processes. Where all settings are printed, one that is not there has its default.
    """
    log = LogValues()
    plain = re.sub(r"\x1b\[[0-9;]{0,20}m", "", text[:LONGEST_LOG])
    log.engine = next((engine for engine, pattern in log_rules.ENGINES if re.search(pattern, plain)), None)
    for name, patterns in log_rules.WORDS.items():
        found = (match for pattern in patterns for match in re.finditer(pattern, plain))
        setattr(log, name, next((match[1] for match in found if not _of_draft(plain, match)), None))
    if log_rules.ALL_SETTINGS.search(plain):
        for name, value in DEFAULTS.items():
            setattr(log, name, value)
        log.kv_dtype = log.kv_dtype or "auto"
    for match in log_rules.SETTING.finditer(plain):
        value = float(match[2]) * log_rules.SUFFIX[match[3]]
        setattr(log, log_rules.SETTINGS[match[1].replace("-", "_")], value)
    for rule in log_rules.RULES:
        for match in rule.pattern.finditer(plain):
            _take(log, rule, match)
            if rule.names == ("pool_bytes",):
                _keep_pool(log, plain, match)
    for match in log_rules.EQUIVALENT.finditer(plain):
        log.utilization, log.equivalent_utilization = float(match[1]), float(match[2])
        log.same_pool_utilization = float(match[3]) if match[3] else None
    _settle(log)
    if log.engine == "vllm":
        log.engine = generation(log.version, since_0_21=bool(log_rules.SINCE_0_21.search(plain)))
    return log


def _of_draft(plain: str, match: re.Match[str]) -> bool:
    """Whether a word stands among the settings of a draft model."""
    _, found, since = plain[max(0, match.start() - 300) : match.start()].rpartition("speculative_config")
    return bool(found) and "}" not in since and since.lstrip("'\"=: ").startswith("{")


def _settle(log: LogValues) -> None:
    """Figures that follow from how several were printed."""
    if len(log.ranks) > 1:
        log.gpu_blocks, log.cpu_blocks = (min(values) for values in zip(*log.ranks, strict=True))
    if len(log.pools) > 1:
        log.pool_bytes = min(log.pools.values())
    if log.key_bytes is not None and log.value_bytes is not None and log.pool_bytes is None:
        log.pool_bytes = log.key_bytes + log.value_bytes
    if log.pool_bytes is None and log.in_use_bytes is not None:
        log.pool_bytes = log.in_use_bytes
        log.printed["pool_bytes"] = log.printed["in_use_bytes"]
    if log.tokens is None and log.host_tokens is not None:  # an engine on a CPU names its own pool so
        log.tokens, log.host_tokens = log.host_tokens, None


def generation(version: str | None, *, since_0_21: bool) -> str:
    """Which of vLLM's counts a V1 log follows: from 0.21 on tokens are concurrency x max_model_len."""
    parts = [int(part) for part in (version or "0.0").split(".")[:2]]
    return "vllm" if since_0_21 or parts >= [0, 21] else "vllm-v1"


def _take(log: LogValues, rule: Rule, match: re.Match[str]) -> None:
    groups = list(match.groups())
    if _is_smaller_part(log, rule, match):
        return
    for name in rule.names:
        text = groups.pop(0)
        unit = groups.pop(0) if name in log_rules.SIZES else None
        if text is None or name in log_rules.NOT_KEPT:
            continue
        value = float(text.replace(",", ""))
        if unit is not None:
            log.printed[name] = f"{text.replace(',', '')} {unit}"
            value *= UNIT_BYTES[unit.lower()]
        if name in log_rules.IN_GIB:
            name, value = log_rules.IN_GIB[name], value * GIB
            log.printed[name] = f"{text.replace(',', '')} GiB"
        setattr(log, name, value)
    if rule.names == ("gpu_blocks", "cpu_blocks"):
        log.ranks.append((log.gpu_blocks or 0.0, log.cpu_blocks or 0.0))


def _is_smaller_part(log: LogValues, rule: Rule, match: re.Match[str]) -> bool:
    """Whether a line is of the draft beside the model: SGLang prints both, with the same tokens, in any order."""
    if rule.names == ("weight_bytes",):
        return float(match[1].replace(",", "")) * UNIT_BYTES[match[2].lower()] < (log.weight_bytes or 0.0)
    if rule.names[0] != "tokens" or len(rule.names) == 1 or float(match[1].replace(",", "")) != log.tokens:
        return False
    of_first = float(match[2].replace(",", "")) * UNIT_BYTES[match[3].lower()]
    return of_first < (getattr(log, rule.names[1]) or 0.0)


def _keep_pool(log: LogValues, plain: str, match: re.Match[str]) -> None:
    """The pool under the process that printed it: a rank's name where it has one, so that a restart replaces it."""
    start = plain.rfind("\n", 0, match.start()) + 1
    head = plain[start : min(start + 200, match.start())]
    process = log_rules.PROCESS.search(head)
    rank = log_rules.RANK.search(head)
    key = rank[1].strip() if rank else ""
    if process:
        named = re.search(r"[TPD]P[0-9]|rank=|EngineCore", process[1])
        key = process[1] if named else f"{process[1]} {process[2]}"
    log.pools[key] = log.pool_bytes or 0.0
