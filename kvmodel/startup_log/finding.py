"""What is found of one figure of a start-up log, and what a log's figures mean together."""

from __future__ import annotations

from dataclasses import dataclass

from kvmodel.catalog import KvLayers
from kvmodel.memory import printouts
from kvmodel.startup_log.log_reader import LogValues
from kvmodel.units import GIB

BLOCK_TOKENS = {"vllm-v0": 16, "vllm-v1": 16, "vllm": 16, "trt-llm": 64}


@dataclass(frozen=True)
class Finding:
    """One figure: what was printed, what it should be, what it means; `agrees` is None where nothing checks it."""

    figure: str
    printed: str
    means: str
    expected: str = ""
    agrees: bool | None = None


@dataclass(frozen=True)
class Named:
    """The model that a log is held against: its layers and the width of a KV value."""

    layers: tuple[KvLayers, ...]
    bytes_per_value: float
    label: str = "the model"


def rank_rate(log: LogValues, model: Named) -> float:
    """Bytes of a token on one rank of the server that the log is of. [bytes]"""
    return printouts.rank_bytes_per_token(
        model.layers,
        bytes_per_value=model.bytes_per_value,
        tp=int(log.tp or 1),
        pp=int(log.pp or 1),
        dcp=int(log.dcp or 1),
    )


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
    """
    tokens = pool_tokens(log)
    if log.pool_bytes is None or not tokens or log.pool_bytes <= 0:
        return None
    slack = log.rounding_bytes("pool_bytes")
    if log.key_bytes is not None:
        slack = log.rounding_bytes("key_bytes") + log.rounding_bytes("value_bytes")
    fewer = tokens - block_size(log) if log.engine == "trt-llm" else tokens
    more = tokens + (0 if log.engine == "trt-llm" else block_size(log))
    return (log.pool_bytes - slack) / more, (log.pool_bytes + slack) / max(fewer, 1)


def gib(size_bytes: float) -> str:
    return f"{size_bytes / GIB:.2f} GiB"
