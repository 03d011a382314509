"""KV cache bytes as a function of length: growth per token, plus what stops growing.

A model's layers come as groups; a group is anything with the attributes of
:class:`kvmodel.catalog.KvLayers`: `kind`, `layers`, `kv_heads`, `key_dim`, `value_dim`,
`bound_tokens` (infinite for full attention), `fixed_bytes`, `tokens_per_entry` and `index_dim`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from kvmodel.arrays import Numbers
from kvmodel.catalog import KvLayers

LAYOUTS = ("per-layer-kv", "per-layer", "contiguous")


INDEX_SCALE_GROUP = 128  # 8-bit index keys have one 4-byte scale for so many values


def layer_bytes_per_token(group: KvLayers, *, bytes_per_value: Numbers, tp: Numbers = 1) -> Numbers:
    r"""Bytes that one token adds in one layer on one GPU while the layer still grows.

    .. math:: (\max(1, H_{kv} / tp) \, (D_k + D_v) \, b + \text{index}) / c

    KV heads are split over `tp` GPUs and repeated below one a GPU; an MLA layer holds one vector
    of `key_dim` values, without the factor two, on every GPU. A compressed layer holds an entry every c tokens.

    Source: vLLM 0.33, `AttentionSpec`, `MLAAttentionSpec`, `get_num_kv_heads`.
    """
    values = np.maximum(1.0, group.kv_heads / tp) * (group.key_dim + group.value_dim)
    if group.index_dim:
        return (values * bytes_per_value + index_bytes(group.index_dim, bytes_per_value)) / group.tokens_per_entry
    return values * bytes_per_value / group.tokens_per_entry


def index_bytes(index_dim: int, bytes_per_value: Numbers) -> Numbers:
    """Bytes of one index key of sparse attention: as wide as the cache in 16 bits and above, else 8 bits with scales.

    Source: transformers 5.24 `DynamicIndexedLayer`; vLLM 0.33 `DeepseekV32IndexerCache`, 132 bytes for 128 values,
    which it keeps under a 16-bit cache too: see :func:`kvmodel.memory.as_kept.engine_layers`.
    """
    scales = 4 * np.ceil(index_dim / INDEX_SCALE_GROUP)
    return np.where(np.asarray(bytes_per_value) >= 2, index_dim * np.asarray(bytes_per_value), index_dim + scales)


def kv_bytes(layers: Iterable[KvLayers], tokens: Numbers, *, bytes_per_value: Numbers, tp: Numbers = 1) -> Numbers:
    r"""Bytes of KV that one request of `tokens` tokens needs on each GPU; `tp = 1` gives the whole.

    .. math:: M(n) = \sum_\text{groups} \text{layers} \, (\min(n, w) \, H_{kv} (D_k + D_v) \, b + \text{fixed})

    Parameters
    ----------
    tokens : context length n. [tokens]
    bytes_per_value : 2 for bf16 and fp16, 1 for fp8; never follows the weights. [bytes]
        `tokens`, `bytes_per_value` and `tp` broadcast together; the result has their shape. [bytes]

    Source: vLLM 0.33, `kv_cache_interface.py`, one specification a layer kind; Kwon et al. 2023, section 3.
    """
    return _summed(layers, lambda group: np.minimum(tokens, group.bound_tokens), bytes_per_value, tp)


def kv_bytes_in_blocks(
    layers: Iterable[KvLayers],
    tokens: Numbers,
    *,
    block_tokens: Numbers,
    bytes_per_value: Numbers,
    tp: Numbers = 1,
) -> Numbers:
    """As :func:`kv_bytes`, with every layer's tokens rounded up to whole blocks: what is held and what moves."""

    def block_tokens_of(group: KvLayers) -> Numbers:
        return blocks(np.minimum(tokens, group.bound_tokens), block_tokens) * block_tokens

    return _summed(layers, block_tokens_of, bytes_per_value, tp)


def kv_bytes_hybrid_off(
    layers: Iterable[KvLayers], tokens: Numbers, *, bytes_per_value: Numbers, tp: Numbers = 1
) -> Numbers:
    """As :func:`kv_bytes` for an engine without a hybrid KV manager: window layers keep every token."""
    return _summed(layers, lambda group: tokens, bytes_per_value, tp)


def _summed(
    layers: Iterable[KvLayers],
    held_tokens: Callable[[KvLayers], Numbers],
    bytes_per_value: Numbers,
    tp: Numbers,
) -> Numbers:
    total: Numbers = 0.0
    for group in layers:
        per_token = layer_bytes_per_token(group, bytes_per_value=bytes_per_value, tp=tp)
        total = total + group.layers * (held_tokens(group) * per_token + group.fixed_bytes / tp)
    return total


def growth_bytes_per_token(layers: Iterable[KvLayers], *, bytes_per_value: Numbers, tp: Numbers = 1) -> Numbers:
    """Bytes that a token adds once every window is full: the slope of :func:`kv_bytes` at great length."""
    growth: Numbers = 0.0
    for group in layers:
        if np.isinf(group.bound_tokens):
            growth = growth + group.layers * layer_bytes_per_token(group, bytes_per_value=bytes_per_value, tp=tp)
    return growth


def fixed_bytes(layers: Iterable[KvLayers], *, bytes_per_value: Numbers, tp: Numbers = 1) -> Numbers:
    """Bytes that stop growing with length: full windows and chunks, and state of linear attention."""
    fixed: Numbers = 0.0
    for group in layers:
        bound = 0.0 if np.isinf(group.bound_tokens) else group.bound_tokens
        per_token = layer_bytes_per_token(group, bytes_per_value=bytes_per_value, tp=tp)
        fixed = fixed + group.layers * (bound * per_token + group.fixed_bytes / tp)
    return fixed


def blocks(tokens: Numbers, block_tokens: Numbers) -> Numbers:
    """Blocks that hold `tokens`: the last one may be part-filled. [blocks]"""
    return np.ceil(tokens / block_tokens)


def copies(
    layers: Iterable[KvLayers],
    tokens: Numbers,
    *,
    block_tokens: Numbers,
    layout: str,
    runs_per_block: Numbers = 1,
) -> Numbers:
    """Separate copies that move a request's KV one way.

    A block of a layer group is `2 x layers` pieces in the layout `per-layer-kv` (K and V apart, a layer
    each: vLLM V0), `layers` pieces in `per-layer` (K with V) and one in `contiguous` (all layers of the
    group together). A vector without a V part (MLA) is one piece a layer in either. `runs_per_block` counts
    the pieces again where a block is itself scattered.

    Raises
    ------
    ValueError : an unknown layout.

    Source: vLLM 0.6.6 `swap_blocks`, vLLM 0.33 `swap_blocks_batch`.
    """
    if layout not in LAYOUTS:
        raise ValueError(f"layout: unknown {layout!r}; allowed: {', '.join(LAYOUTS)}")
    total: Numbers = 0.0
    for group in layers:
        if not (group.key_dim or group.fixed_bytes):
            continue  # shared and cross layers keep nothing of a text token
        vectors = 2 if group.value_dim else 1
        pieces = {"per-layer-kv": vectors * group.layers, "per-layer": group.layers, "contiguous": 1}[layout]
        in_blocks = blocks(np.minimum(tokens, group.bound_tokens), block_tokens)
        if group.kind == "state":
            in_blocks = np.minimum(1.0, tokens)
        total = total + pieces * in_blocks
    return total * runs_per_block
