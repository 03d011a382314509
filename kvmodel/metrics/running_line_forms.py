"""One line that a running engine prints: vLLM's every 10 s, SGLang's of each batch, TensorRT-LLM's of each step.

Source: vLLM 0.33 `v1/metrics/loggers.py`, 0.6.6 `engine/metrics.py`; SGLang 0.5.23 `metrics_reporter.py`;
TensorRT-LLM 1.2 `py_executor.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from kvmodel.metrics import log_times
from kvmodel.units import MS

NUMBER = r"([0-9]{1,12}(?:\.[0-9]{1,9})?)"
SHARES = ("usage", "host_usage", "hit_rate", "external_hit_rate")


@dataclass(frozen=True)
class Line:
    """One line: the engine's labels and rank, gauges, tokens/s since the line before, and counts of its own."""

    product: str
    labels: tuple[tuple[str, str], ...] = ()
    rank: tuple[int, ...] = ()
    time_s: float | None = None
    gauges: dict[str, float] = field(default_factory=dict)
    rates: dict[str, float] = field(default_factory=dict)
    counts: dict[str, float] = field(default_factory=dict)
    step: int | None = None
    step_s: float = 0.0


def line_of(row: str) -> Line | None:
    """One row of a log as a running line, None where it is none."""
    for marker, reader in READERS:
        if marker in row:
            return reader(row)
    return None


# --- vLLM ---

VLLM = {
    "running": re.compile(r"Running: ([0-9]{1,9}) reqs"),
    "waiting": re.compile(r"(?:Waiting|Pending): ([0-9]{1,9}) reqs"),
    "swapped": re.compile(r"Swapped: ([0-9]{1,9}) reqs"),
    "deferred": re.compile(r"(?:Deferred: |deferred[:= ]{1,2})([0-9]{1,9})"),
    "usage": re.compile(rf"GPU KV cache usage: {NUMBER}%"),
    "host_usage": re.compile(rf"CPU KV cache usage: {NUMBER}%"),
    "hit_rate": re.compile(rf"Prefix cache hit rate: (?:GPU: )?{NUMBER}%"),
    "external_hit_rate": re.compile(rf"External prefix cache hit rate: {NUMBER}%"),
}
VLLM_RATES = {
    "prompt_tokens": re.compile(rf"Avg prompt throughput: {NUMBER} tokens/s"),
    "generation_tokens": re.compile(rf"Avg generation throughput: {NUMBER} tokens/s"),
}
VLLM_COUNTS = {"preemptions": re.compile(r"Preemptions: ([0-9]{1,9})")}
ENGINE = re.compile(r"Engine ([0-9]{1,6}):")


def vllm_line(row: str) -> Line | None:
    """V1: "Engine 000: Avg prompt throughput: ..."; V0 has Swapped and Pending, and no engine."""
    gauges = values(VLLM, row)
    if not {"running", "waiting"} <= gauges.keys():
        return None
    engine = ENGINE.search(row)
    labels = (("engine", str(int(engine[1]))),) if engine else ()
    rates, counts = values(VLLM_RATES, row), values(VLLM_COUNTS, row)
    return Line("vllm", labels, (), log_times.time_of(row), gauges, rates, counts)


# --- SGLang ---

SGLANG = {
    "running": re.compile(r"#running-req: ([0-9]{1,9})"),
    "waiting": re.compile(r"#queue-req: ([0-9]{1,9})"),
}
SGLANG_USAGE = re.compile(rf"(?:token|mamba) usage: {NUMBER}")
SGLANG_RATES = {"generation_tokens": re.compile(rf"gen throughput \(token/s\): {NUMBER}")}
SGLANG_TOKENS = {
    "new_tokens": re.compile(r"#new-token: ([0-9]{1,12})"),
    "cached_tokens": re.compile(r"#cached-token: ([0-9]{1,12})"),
    "new": re.compile(r"#new-seq: ([0-9]{1,9})"),
}
RANKS = {name: re.compile(rf"\b{name}([0-9]{{1,5}})\b") for name in ("DP", "PP", "TP")}


def sglang_line(row: str) -> Line | None:
    """A decode batch has the rate, a prefill batch what it computes and found; its new requests run beside the rest."""
    gauges = values(SGLANG, row)
    if "running" not in gauges:
        return None
    shares = [float(share) for share in SGLANG_USAGE.findall(row)]
    if shares:
        gauges["usage"] = max(shares)
    tokens = values(SGLANG_TOKENS, row)
    gauges["running"] += tokens.get("new", 0.0)
    counts = {}
    if "new_tokens" in tokens:
        cached = tokens.get("cached_tokens", 0.0)
        counts = {"prompt_tokens": tokens["new_tokens"] + cached, "cached_tokens": cached}
        gauges |= {"hit_rate": cached / counts["prompt_tokens"]} if counts["prompt_tokens"] else {}
    head = row[: row.find("batch")]
    ranks = {name: int(match[1]) for name, pattern in RANKS.items() if (match := pattern.search(head))}
    labels = (("dp_rank", str(ranks["DP"])),) if "DP" in ranks else ()
    rank = (ranks.get("PP", 0), ranks.get("TP", 0))
    return Line("sglang", labels, rank, log_times.time_of(row), gauges, values(SGLANG_RATES, row), counts)


# --- TensorRT-LLM ---

TRT = {
    "running": re.compile(r"num_scheduled_requests(?: =|:) ([0-9]{1,9})"),
    "usage": re.compile(rf"kv_cache_util = {NUMBER}"),
}
TRT_COUNTS = {
    "prompt_tokens": re.compile(r"'num_ctx_tokens': ([0-9]{1,12})"),
    "generation_tokens": re.compile(r"'num_generation_tokens': ([0-9]{1,12})"),
}
TRT_STEP = re.compile(r"\biter = ([0-9]{1,15})")
TRT_RANK = re.compile(r"\brank = ([0-9]{1,6})")
TRT_HOST = re.compile(rf"(?:host_step_time|elapsed_time) = {NUMBER}(ms|s)")


def trt_line(row: str) -> Line | None:
    """One step of the PyTorch backend; how many requests wait it does not print."""
    gauges, step = values(TRT, row), TRT_STEP.search(row)
    if "running" not in gauges or step is None:
        return None
    rank, host = TRT_RANK.search(row), TRT_HOST.search(row)
    host_s = float(host[1]) * (MS if host[2] == "ms" else 1.0) if host else 0.0
    time_s = log_times.time_of(row[max(row.find("timestamp ="), 0) :])
    ranks = (int(rank[1]),) if rank else (0,)
    return Line("tensorrt-llm", (), ranks, time_s, gauges, {}, values(TRT_COUNTS, row), int(step[1]), host_s)


READERS: tuple[tuple[str, Callable[[str], Line | None]], ...] = (
    ("reqs, ", vllm_line), ("Decode batch", sglang_line), ("Prefill batch", sglang_line), ("iter = ", trt_line),
)  # fmt: skip


def values(patterns: dict[str, re.Pattern[str]], row: str) -> dict[str, float]:
    """What each pattern finds in a row; percent becomes a share of one."""
    matches = {word: pattern.search(row) for word, pattern in patterns.items()}
    return {
        word: float(match[1]) / (100 if word in SHARES and match[0].endswith("%") else 1)
        for word, match in matches.items()
        if match
    }
