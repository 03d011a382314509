"""What is found of one figure of a start-up log, and what a log's figures mean together."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from kvmodel.catalog import KvLayers
from kvmodel.memory import printouts
from kvmodel.startup_log.log_reader import LogValues
from kvmodel.units import GIB, format_count, format_percent
from kvmodel.words import say

BLOCK_TOKENS = {"vllm-v0": 16, "vllm-v1": 16, "vllm": 16, "trt-llm": 64}


@dataclass(frozen=True)
class Finding:
    """One figure: what was printed, what it should be, what it means.

    `agrees` is False only where no version of an engine could print it, None where nothing checks it or a difference
    is not explained.
    """

    figure: str
    printed: str
    means: str
    expected: str = ""
    agrees: bool | None = None


@dataclass(frozen=True)
class Named:
    """The model that a log is held against: its layers, the width of a KV value, and its weights on one GPU."""

    layers: tuple[KvLayers, ...]
    bytes_per_value: float
    label: str = "the model"
    weight_bytes: float | None = None


def rank_rate(log: LogValues, model: Named, *, stages: int | None = None) -> float:
    """Bytes of a token on one rank of the server that the log is of, in the fullest of its `stages`. [bytes]"""
    layers, pp = model.layers, int(stages or log.pp or 1)
    if stages is None and log.partition:
        layers, pp = partition_layers(log.partition, layers), 1
    return printouts.rank_bytes_per_token(
        layers, bytes_per_value=model.bytes_per_value, tp=attention_tp(log), pp=pp, dcp=int(log.dcp or 1)
    )


def attention_tp(log: LogValues) -> int:
    """Ranks that share a layer's KV heads: fewer than `tp` where each data-parallel rank has attention of its own.

    Source: SGLang 0.5.23, attention tp = tp / dp; TensorRT-LLM, attention DP over all ranks.
    """
    tp = int(log.tp or 1)
    if log.attention_dp is None:
        return tp
    return max(1, tp // int(log.dp or tp))


def partition_layers(partition: str, layers: tuple[KvLayers, ...]) -> tuple[KvLayers, ...]:
    """Layers of the largest stage of an uneven partition such as "23,23,24,22"."""
    counts = [int(count) for count in partition.split(",")]
    share = max(counts) / max(1, sum(counts))
    return tuple(replace(group, layers=max(1, math.ceil(round(group.layers * share, 9)))) for group in layers)


def has_plain_layers(model: Named | None, engine: str | None = None) -> bool:
    """Whether all layers that keep KV grow alike: then bytes per token say everything. SGLang keeps states apart."""
    apart = ("state",) if engine == "sglang" else ()
    allowed = ("full", "mla", "shared", "cross", *apart)
    return model is not None and all(group.kind in allowed for group in model.layers)


def block_size(log: LogValues) -> int:
    return int(log.block_tokens or BLOCK_TOKENS.get(log.engine or "", 1))


def pool_tokens(log: LogValues) -> float | None:
    """Tokens of the pool: as printed, or blocks x block size."""
    if log.tokens is not None:
        return log.tokens
    return None if log.gpu_blocks is None else log.gpu_blocks * block_size(log)


def implied_bytes_per_token(log: LogValues) -> tuple[float, float] | None:
    """Lowest and highest bytes of a token on one rank that fit the printed pool and tokens; None without both. [bytes]

    The pool is rounded, and less than one more block would have fitted (TensorRT-LLM: the last block is part-filled).
    From 0.21 on vLLM's tokens are concurrency x length, where the last block of each request is part-filled.
    """
    tokens = pool_tokens(log)
    if log.pool_bytes is None or not tokens or log.pool_bytes <= 0:
        return None
    slack = log.rounding_bytes("pool_bytes")
    if log.key_bytes is not None:
        slack = log.rounding_bytes("key_bytes") + log.rounding_bytes("value_bytes")
    fewer = tokens - block_size(log) if log.engine == "trt-llm" else tokens
    more = tokens + (0 if log.engine == "trt-llm" else block_size(log))
    if log.engine == "vllm" and log.max_model_len:
        more *= math.ceil(log.max_model_len / block_size(log)) * block_size(log) / log.max_model_len
    return max(log.pool_bytes - slack, 0.0) / more, (log.pool_bytes + slack) / max(fewer, 1)


def unexplained(found: float, expected: float) -> str:
    """A difference with its size, and no cause."""
    share = format_percent(abs(found - expected) / expected) if expected else "–"
    if found > expected:
        return say("not explained: {share} more than the model's", share=share)
    return say("not explained: {share} less than the model's", share=share)


def gib(size_bytes: float) -> str:
    return f"{size_bytes / GIB:.2f} GiB"


def count_range(least: float, most: float) -> str:
    return say("{least} to {most}", least=format_count(least), most=format_count(most))
