"""What engines print of a KV pool: blocks, tokens, requests at full length. Each generation has arithmetic of its own.

vLLM V0 counts blocks over all layers. V1 to 0.20 puts layers of one kind into groups of equal size that share blocks,
and prints the tokens that every group could hold at once. From 0.21 on the tokens are concurrency x max_model_len.
SGLang prints tokens, TensorRT-LLM tokens and whole blocks. "GB" in their lines is GiB.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kvmodel.catalog import KvLayers
from kvmodel.errors import CaseError
from kvmodel.memory import as_kept, kv_cache
from kvmodel.words import say

NEARLY_EQUAL = {"vllm-v1": 1.25, "vllm": 1.5}  # below it, all groups are as large as the largest kind of layers
STATE_BLOCKS = 2  # of one request and state group, with prefix caching; one more for each draft token
STATE_BLOCKS_UNCACHED = 1  # without prefix caching, as hybrids ran up to vLLM 0.11 and run with it switched off
TRT_BLOCK_TOKENS = 64


@dataclass(frozen=True)
class Printed:
    """One engine's lines. `blocks` is None for SGLang; `cpu_blocks` only V0 has; `groups` counts V1's layer groups."""

    blocks: int | None
    tokens: int
    concurrency: float
    cpu_blocks: int | None = None
    groups: int = 1
    blocks_per_request: int = 0
    block_tokens: int = 16


@dataclass(frozen=True)
class Pages:
    """Layers of one kind as a V1 engine pages them: `page_bytes` of one layer's block of `block_tokens`."""

    kind: str
    layers: int
    page_bytes: float
    block_tokens: int
    bound_tokens: float = math.inf


def rank_bytes_per_token(
    layers: Iterable[KvLayers], *, bytes_per_value: float, tp: int = 1, pp: int = 1, dcp: int = 1
) -> float:
    """Bytes that a token takes on one rank while all layers still grow. [bytes]

    Decode context parallel (`dcp`) spreads tokens over that many of the ranks.
    """
    stage = as_kept.stage_layers(as_kept.engine_layers(layers, bytes_per_value), pp)
    per_layer = (
        group.layers * kv_cache.layer_bytes_per_token(group, bytes_per_value=bytes_per_value, tp=tp) for group in stage
    )
    return float(sum(per_layer)) / dcp


def v0(
    pool_bytes: float | Sequence[float],
    bytes_per_token: float,
    *,
    block_tokens: int = 16,
    max_model_len: int,
    swap_bytes: float = 0.0,
) -> Printed:
    """vLLM V0: "# GPU blocks", "# CPU blocks" and concurrency; of several pools, one a rank, the smallest counts."""
    block = require_block(bytes_per_token * block_tokens)
    blocks = max(0, int(min(np.atleast_1d(pool_bytes)) // block))
    tokens = blocks * block_tokens
    return Printed(
        blocks, tokens, tokens / max_model_len, int(swap_bytes // block), 1, math.ceil(max_model_len / block_tokens),
        block_tokens,
    )  # fmt: skip


def sglang(pool_bytes: float, bytes_per_token: float, *, max_model_len: int, page_tokens: int = 1) -> Printed:
    """SGLang: "#tokens", in whole pages."""
    tokens = max(0, int(pool_bytes // require_block(bytes_per_token))) // page_tokens * page_tokens
    return Printed(None, tokens, tokens / max_model_len, block_tokens=page_tokens)


def trt_llm(
    pool_bytes: float, bytes_per_token: float, *, max_model_len: int, block_tokens: int = TRT_BLOCK_TOKENS
) -> Printed:
    """TensorRT-LLM: tokens first, then the blocks that hold them, the last one part-filled."""
    tokens = max(0, int(pool_bytes // require_block(bytes_per_token)))
    blocks = math.ceil(tokens / block_tokens)
    return Printed(blocks, tokens, tokens / max_model_len, block_tokens=block_tokens)


def require_block(size_bytes: float) -> float:
    if not size_bytes > 0:
        raise CaseError(
            say("model: keeps no KV per token; allowed: a model with attention layers for a pool of blocks")
        )
    return size_bytes


def pages(
    layers: Iterable[KvLayers],
    *,
    bytes_per_value: float,
    tp: int = 1,
    pp: int = 1,
    block_tokens: int = 16,
    hybrid: bool = True,
) -> tuple[Pages, ...]:
    """A V1 engine's kinds of layers with one page size for all.

    Full layers of any geometry are one kind. The block of attention grows until its page holds a whole state
    (Qwen3.5: 784 tokens); a kind with a smaller page takes a longer block; what is left is padding. Without the
    `hybrid` manager, window layers are full ones.

    Source: vLLM 0.33 `kv_cache_planning.py`, `platforms/interface.py`.
    """
    kinds: dict[tuple[str, float], list[KvLayers]] = {}
    for group in as_kept.stage_layers(as_kept.engine_layers(layers, bytes_per_value), pp):
        if group.kind in ("shared", "cross"):
            continue
        kind = group.kind if group.kind in ("sliding", "chunked", "state") else "full"
        kind = "full" if kind in ("sliding", "chunked") and not hybrid else kind
        kinds.setdefault((kind, group.bound_tokens if kind in ("sliding", "chunked") else math.inf), []).append(group)
    kind_list = [kind_pages(*key, groups, bytes_per_value, tp, block_tokens) for key, groups in kinds.items()]
    return one_page_size(kind_list, block_tokens)


def kind_pages(
    kind: str, bound: float, groups: list[KvLayers], bytes_per_value: float, tp: int, block_tokens: int
) -> Pages:
    """Layers of one kind; where their widths differ, one page holds the sum of all, as if they were one layer."""
    if kind == "state":
        return Pages(kind, sum(group.layers for group in groups), max(g.fixed_bytes for g in groups) / tp, block_tokens)
    rates = [float(kv_cache.layer_bytes_per_token(g, bytes_per_value=bytes_per_value, tp=tp)) for g in groups]
    if len(set(rates)) == 1:
        return Pages(kind, sum(group.layers for group in groups), rates[0] * block_tokens, block_tokens, bound)
    whole = sum(group.layers * rate for group, rate in zip(groups, rates, strict=True))
    return Pages(kind, 1, whole * block_tokens, block_tokens, bound)


def one_page_size(kinds: list[Pages], block_tokens: int) -> tuple[Pages, ...]:
    """The same kinds with pages of one size: that of the largest, which holds a whole state where there is one."""
    attention = [kind for kind in kinds if kind.kind != "state"]
    if len(kinds) <= 1 or not attention:
        return tuple(kinds)
    largest = max(kind.page_bytes for kind in attention)
    state = max((kind.page_bytes for kind in kinds if kind.kind == "state"), default=0.0)
    page = largest * max(1, math.ceil(state / largest))

    def fitted(kind: Pages) -> Pages:
        longer = 1 if kind.kind == "state" else int(page // kind.page_bytes)
        return replace(kind, page_bytes=page, block_tokens=kind.block_tokens * longer)

    return tuple(fitted(kind) for kind in kinds)


def v1(
    pool_bytes: float | Sequence[float],
    kinds: Sequence[Pages],
    *,
    max_model_len: int,
    max_num_batched_tokens: int,
    generation: str = "vllm",
    dcp: int = 1,
    draft_tokens: int = 0,
    state_blocks: int = STATE_BLOCKS,
) -> Printed:
    """vLLM V1: "GPU KV cache size" and "Maximum concurrency" of one generation, group by group.

    A kind of n layers fills `ceil(n / size)` groups of `size` layers, the last one with padding; all groups take
    blocks from one pool. Several pools are ranks, of which the smallest counts.
    """
    block = require_block(block_bytes(kinds, generation))
    size = group_size([kind.layers for kind in kinds], NEARLY_EQUAL[generation])
    number = [math.ceil(kind.layers / size) for kind in kinds]
    blocks = max(0, int(min(np.atleast_1d(pool_bytes)) // block))
    kind_blocks = [
        request_blocks(
            kind, max_model_len, max_num_batched_tokens, dcp=dcp, draft_tokens=draft_tokens, state_blocks=state_blocks
        )
        for kind in kinds
    ]
    per_request = sum(count * blocks_of_one for count, blocks_of_one in zip(number, kind_blocks, strict=True))
    concurrency = blocks / per_request
    least = min((kind.block_tokens for kind in kinds if kind.kind != "state"), default=kinds[0].block_tokens)
    in_every_group = blocks // sum(number) * least * dcp
    tokens = in_every_group if generation == "vllm-v1" else int(concurrency * max_model_len)
    return Printed(blocks, tokens, concurrency, None, sum(number), per_request, least)


def block_bytes(kinds: Sequence[Pages], generation: str = "vllm") -> float:
    """Bytes of one block of a group of layers; 0 where nothing is kept. [bytes]"""
    size = group_size([kind.layers for kind in kinds], NEARLY_EQUAL[generation]) if kinds else 0
    return max((kind.page_bytes for kind in kinds), default=0.0) * size


def group_size(counts: Sequence[int], nearly: float) -> int:
    """Layers in one group: the smallest kind's, or the largest's where all are nearly as many."""
    return max(counts) if max(counts) < nearly * min(counts) else min(counts)


def request_blocks(
    kind: Pages, tokens: int, batched: int, *, dcp: int = 1, draft_tokens: int = 0, state_blocks: int = STATE_BLOCKS
) -> int:
    """Blocks of one group that a request of `tokens` may hold; a window holds what is in flight too, and one more."""
    if kind.kind == "state":
        return state_blocks + draft_tokens
    if kind.kind == "sliding":
        return math.ceil(min(kind.bound_tokens - 1 + batched, tokens) / kind.block_tokens) + 1
    if kind.kind == "chunked":
        return math.ceil(min(kind.bound_tokens + batched, tokens) / kind.block_tokens)
    return math.ceil(tokens / (kind.block_tokens * dcp))


def longest_request(
    pool_bytes: float,
    kinds: Sequence[Pages],
    *,
    most: int,
    max_num_batched_tokens: int,
    dcp: int = 1,
    draft_tokens: int = 0,
) -> int:
    """The most tokens that one request may have in the pool, up to `most`; 0 where not one fits."""

    def fits(tokens: int) -> bool:
        return v1(
            pool_bytes, kinds, max_model_len=tokens, max_num_batched_tokens=max_num_batched_tokens, dcp=dcp,
            draft_tokens=draft_tokens,
        ).concurrency >= 1  # fmt: skip

    if not fits(1):
        return 0
    low, high = 1, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def host_pool_tokens(host_bytes: float, bytes_per_token: float, *, block_tokens: int = 16) -> int:
    """Tokens that one rank's share of host memory holds, in whole blocks: V0's swap space, or an offload pool."""
    return int(host_bytes // require_block(bytes_per_token * block_tokens)) * block_tokens
