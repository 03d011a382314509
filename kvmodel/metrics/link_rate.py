"""The rate at which a server's KV copies ran, from what its counters gained in a window: bytes over the time they took.

It is the rate of one GPU's copies while they run: engines count a copy's time alone, without the wait before it, and
bytes and times of several GPUs add up alike. Sources: vllm-0.33 (kv_offload_*), sglang-0.5.23 (load_back_*,
hicache_backup_*). TensorRT-LLM counts bytes and no time.
"""

from __future__ import annotations

import math
from typing import Literal

from kvmodel.metrics.server_state import Engine, first

Way = Literal["load", "store", "tier_read", "tier_write"]


def rate_bytes_per_s(increase: Engine, way: Way, kv_bytes_per_token: float | None = None) -> float | None:
    """Bytes per second of loads to the GPU ("load"), of stores, or of the tier behind the host; None: not reported.

    `increase` is that of a window. SGLang before its byte counters tells tokens alone: they count where the KV bytes of
    a token on one GPU are given.
    """
    moved, seconds = moved_bytes(increase, way, kv_bytes_per_token), copy_s(increase, way)
    if not moved or not seconds:
        return None
    rate = moved / seconds
    return rate if math.isfinite(rate) else None


def moved_bytes(increase: Engine, way: Way, kv_bytes_per_token: float | None = None) -> float | None:
    """Bytes that were copied in a window."""
    tokens = increase.counters.get(f"{way}_tokens")
    from_tokens = tokens * kv_bytes_per_token if tokens is not None and kv_bytes_per_token else None
    return first(increase.counters.get(f"{way}_bytes"), from_tokens)


def copy_s(increase: Engine, way: Way) -> float | None:
    """Seconds that copies took in a window: a counter of vLLM, the sum of a histogram of SGLang."""
    observed = increase.histograms.get(f"{way}_time")
    return first(increase.counters.get(f"{way}_time"), observed.total if observed is not None else None)
