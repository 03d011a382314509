"""Start-up lines of vLLM, SGLang, TensorRT-LLM and llama.cpp -> the figures they print of memory and of the KV pool.

Lines may carry prefixes (time, process, colours); lines that say nothing of the pool are skipped. "GB" in these lines
is GiB, as all three engines divide by 2^30.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from typing import Any

from kvmodel.units import GIB, KIB, MIB

LONGEST_LOG = MIB
UNIT_BYTES = {"gib": GIB, "gb": GIB, "mib": MIB, "mb": MIB, "kib": KIB}
N = r"([0-9][0-9,]{0,18})"  # a whole number, thousands perhaps separated
X = r"([0-9][0-9,]{0,18}(?:\.[0-9]{1,9})?)"
S = r"(-?[0-9][0-9,]{0,12}(?:\.[0-9]{1,9})?)\s*(GiB|GB|MiB|MB)"  # a size


@dataclass(frozen=True)
class Rule:
    """A pattern and the figures its groups are, in order; a size takes two groups."""

    pattern: re.Pattern[str]
    names: tuple[str, ...]


def _rule(pattern: str, *names: str) -> Rule:
    return Rule(re.compile(pattern, re.IGNORECASE), names)


RULES = (
    # vLLM V0
    _rule(rf"# (?:GPU|cuda|rocm|xpu|hpu|npu) blocks: {N}, # CPU blocks: {N}", "gpu_blocks", "cpu_blocks"),
    _rule(rf"total_gpu_memory \({S}\)\s*x\s*gpu_memory_utilization \({X}\)\s*=\s*{S}",
          "total_bytes", "utilization", "usable_bytes"),
    _rule(rf"model weights take {S}; non_torch_memory takes {S}; PyTorch activation peak memory takes {S}; "
          rf"the rest of the memory reserved for KV Cache is {S}",
          "weight_bytes", "non_torch_bytes", "activation_bytes", "pool_bytes"),
    _rule(rf"total_gpu_memory={S}", "total_bytes"),
    _rule(rf"peak_torch_memory={S}", "peak_torch_bytes"),
    _rule(rf"non_torch_memory={S}", "non_torch_bytes"),
    _rule(rf"kv_cache_size={S}", "pool_bytes"),
    _rule(rf"gpu_memory_utilization['\"]?\s*[=:]\s*{X}", "utilization"),
    _rule(rf"swap_space['\"]?\s*[=:]\s*{X}", "swap_gib"),
    _rule(rf"max seq len \({N}\) is larger than the maximum number of tokens that can be stored in KV cache \({N}\)",
          "max_model_len", "tokens"),
    # vLLM V1
    _rule(rf"GPU KV cache size: {N} tokens", "tokens"),
    _rule(rf"Maximum concurrency for {N} tokens per request: {X}x", "max_model_len", "concurrency"),
    _rule(rf"Available KV cache memory: {S}", "pool_bytes"),
    _rule(rf"max seq len \({N}\),? \(?{S} KV cache is needed, which is larger than the available KV cache memory "
          rf"\({S}\)",
          "max_model_len", "needed_bytes", "pool_bytes"),
    _rule(rf"estimated maximum model length is {N}", "longest_tokens"),
    _rule(rf"(?:Loading model weights took|Model loading took) {S}", "weight_bytes"),
    _rule(rf"Setting attention block size to {N} tokens", "block_tokens"),
    # their settings
    _rule(rf"max_(?:seq_len|model_len)['\"]?\s*[=:]\s*{N}", "max_model_len"),
    _rule(rf"block_size['\"]?\s*[=:]\s*{N}", "block_tokens"),
    _rule(rf"tensor_parallel_size['\"]?\s*[=:]\s*{N}", "tp"),
    _rule(rf"pipeline_parallel_size['\"]?\s*[=:]\s*{N}", "pp"),
    _rule(rf"decode_context_parallel_size['\"]?\s*[=:]\s*{N}", "dcp"),
    _rule(rf"max_num_batched_tokens['\"]?\s*[=:]\s*{N}", "max_num_batched_tokens"),
    # SGLang
    _rule(rf"KV Cache is allocated\..*?#tokens: {N}, K size: {S}, V size: {S}", "tokens", "key_bytes", "value_bytes"),
    _rule(rf"KV Cache is allocated\..*?#tokens: {N}, KV size: {S}", "tokens", "pool_bytes"),
    _rule(rf"Mamba Cache is allocated\. max_mamba_cache_size: {N}, conv_state size: {S}, ssm_state size: {S}",
          "state_slots", "conv_bytes", "state_bytes"),
    _rule(rf"Load weight end\..*?mem usage={S}", "weight_bytes"),
    _rule(rf"max_total_num_tokens={N}", "tokens"),
    _rule(rf"context_len={N}", "max_model_len"),
    _rule(rf"tp_size={N}", "tp"),
    # TensorRT-LLM
    _rule(rf"Allocated {S} for max tokens in paged KV cache \({N}\)", "pool_bytes", "tokens"),
    _rule(rf"Max(?:imum)? (?:KV cache )?(?:pages|blocks)(?: per sequence)?: {N}", "blocks_per_request"),
    _rule(rf"Number of (?:primary )?blocks: {N}", "gpu_blocks"),
    _rule(rf"tokens[_ ]per[_ ]block['\"]?\s*[=:]\s*{N}", "block_tokens"),
    # llama.cpp
    _rule(rf"(?:KV self size|llama_kv_cache\w*: size)\s*=\s*{S}(?: \(\s*{N} cells)?", "pool_bytes", "tokens"),
)  # fmt: skip
SIZES = tuple(name for rule in RULES for name in rule.names if name.endswith("_bytes"))
WORDS = {
    "model": re.compile(r"\bmodel(?:_path)?=['\"]([^'\"\s]{1,200})['\"]"),
    "kv_dtype": re.compile(r"kv_cache_dtype=['\"]?([a-z0-9_]{2,20})"),
}
ENGINES = (
    ("sglang", re.compile(r"KV Cache is allocated|max_total_num_tokens|mem_fraction_static")),
    ("trt-llm", re.compile(r"TensorRT-LLM|paged KV cache|\[TRT")),
    ("llama.cpp", re.compile(r"llama_kv_cache|KV self size")),
    ("vllm-v0", re.compile(r"# (?:GPU|cuda|rocm|xpu|hpu|npu) blocks:", re.IGNORECASE)),
    ("vllm", re.compile(r"GPU KV cache size|Available KV cache memory|KV cache is needed")),
)
ONE_LINE = re.compile(r"GPU KV cache size: [0-9,]+ tokens, Maximum concurrency")  # 0.33 prints the two together


@dataclass
class LogValues:
    """What a log prints; None where it does not. `printed` has the text of each size, to know how it was rounded."""

    engine: str | None = None
    version: str | None = None
    model: str | None = None
    kv_dtype: str | None = None
    total_bytes: float | None = None
    utilization: float | None = None
    usable_bytes: float | None = None
    weight_bytes: float | None = None
    non_torch_bytes: float | None = None
    activation_bytes: float | None = None
    peak_torch_bytes: float | None = None
    pool_bytes: float | None = None
    key_bytes: float | None = None
    value_bytes: float | None = None
    needed_bytes: float | None = None
    conv_bytes: float | None = None
    state_bytes: float | None = None
    state_slots: float | None = None
    gpu_blocks: float | None = None
    cpu_blocks: float | None = None
    tokens: float | None = None
    longest_tokens: float | None = None
    concurrency: float | None = None
    max_model_len: float | None = None
    block_tokens: float | None = None
    blocks_per_request: float | None = None
    max_num_batched_tokens: float | None = None
    swap_gib: float | None = None
    tp: float | None = None
    pp: float | None = None
    dcp: float | None = None
    ranks: list[tuple[float, float]] = field(default_factory=list)
    printed: dict[str, str] = field(default_factory=dict)

    def values(self) -> dict[str, Any]:
        """The figures that were there, without how they were printed."""
        values = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        return {name: value for name, value in values.items() if value not in (None, [], {}) and name != "printed"}

    def empty(self) -> bool:
        """Whether no figure was there, whatever else the lines say."""
        return not set(self.values()) - {"engine", *WORDS, "version"}

    def rounding_bytes(self, name: str) -> float:
        """Half of the last digit that a size was printed with. [bytes]"""
        text = self.printed.get(name, "0.00 GiB")
        number, unit = re.split(r"\s+", text.strip())
        decimals = len(number.partition(".")[2])
        return float(0.5 * 0.1**decimals * UNIT_BYTES[unit.lower()])


def read_log(text: str) -> LogValues:
    """The figures of a log; where a figure comes twice, the last one counts, as with a restart in one file.

    Several lines of blocks are several ranks: all are kept in `ranks`, and the smallest is `gpu_blocks`.
    """
    log = LogValues()
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text[:LONGEST_LOG])
    for engine, pattern in ENGINES:
        if pattern.search(plain):
            log.engine = engine
            break
    for name, pattern in WORDS.items():
        match = pattern.search(plain)
        if match:
            setattr(log, name, match[1])
    version = re.search(
        r"(?:LLM engine|vLLM(?: API server)? version|version) \(?v?([0-9]+\.[0-9]+(?:\.[0-9]+)?)", plain
    )
    log.version = version[1] if version else None
    for rule in RULES:
        for match in rule.pattern.finditer(plain):
            _take(log, rule, match)
    if len(log.ranks) > 1:
        log.gpu_blocks, log.cpu_blocks = (min(values) for values in zip(*log.ranks, strict=True))
    if log.key_bytes is not None and log.value_bytes is not None and log.pool_bytes is None:
        log.pool_bytes = log.key_bytes + log.value_bytes
    if log.engine == "vllm":
        log.engine = generation(log.version, one_line=bool(ONE_LINE.search(plain)))
    return log


def generation(version: str | None, *, one_line: bool) -> str:
    """Which of vLLM's counts a V1 log follows: from 0.21 on tokens are concurrency x max_model_len."""
    parts = [int(part) for part in (version or "0.0").split(".")[:2]]
    return "vllm" if one_line or parts >= [0, 21] else "vllm-v1"


def _take(log: LogValues, rule: Rule, match: re.Match[str]) -> None:
    groups = list(match.groups())
    for name in rule.names:
        text = groups.pop(0)
        unit = groups.pop(0) if name in SIZES else None
        if text is None:
            continue
        value = float(text.replace(",", ""))
        if unit is not None:
            log.printed[name] = f"{text.replace(',', '')} {unit}"
            value *= UNIT_BYTES[unit.lower()]
        setattr(log, name, value)
    if rule.names == ("gpu_blocks", "cpu_blocks"):
        log.ranks.append((log.gpu_blocks or 0.0, log.cpu_blocks or 0.0))
