"""The same layers as an engine keeps them: 8-bit index keys, a stage's share, latents written out, windows' slack."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from kvmodel import catalog
from kvmodel.catalog import KvLayers
from kvmodel.inputs.case import BYTES_PER_VALUE, Case
from kvmodel.memory import kv_cache

EXACT, HYBRID_OFF = "exact", "hybrid-off"


def engine_layers(layers: Iterable[KvLayers], bytes_per_value: float) -> tuple[KvLayers, ...]:
    """Groups as engines keep them: index keys in 8 bits whatever the cache's width, written as values of that width."""

    def widened(group: KvLayers) -> KvLayers:
        index = float(kv_cache.index_bytes(group.index_dim, 1))
        return replace(group, index_dim=0, key_dim=group.key_dim + round(index / bytes_per_value))

    return tuple(widened(group) if group.index_dim else group for group in layers)


def stage_layers(layers: Iterable[KvLayers], pp: int) -> tuple[KvLayers, ...]:
    """Layers of the fullest of `pp` pipeline stages."""
    return tuple(replace(group, layers=math.ceil(group.layers / pp)) for group in layers)


def expanded_latent(layers: Iterable[KvLayers], heads: int, head_dim: int) -> tuple[KvLayers, ...]:
    """MLA before engines had kernels for it: K and V of every head, padded to the next power of two.

    Source: vLLM issue 10927, DeepSeek-V2-Lite: 27 layers x 16 heads x 2 x 256 for a `head_dim` of 192.
    """
    padded = 2 ** math.ceil(math.log2(head_dim))

    def full(group: KvLayers) -> KvLayers:
        return replace(group, kind="full", kv_heads=heads, key_dim=padded, value_dim=padded, index_dim=0)

    return tuple(full(group) if group.kind == "mla" else group for group in layers)


def with_window_slack(layers: Iterable[KvLayers], tokens: int) -> tuple[KvLayers, ...]:
    """Windows with the tokens that are in flight: an engine drops what left the window only after a micro-batch.

    Source: ollama issue 16958: window + 512; vLLM 0.33 `SlidingWindowSpec`: window - 1 + max_num_batched_tokens.
    """
    return tuple(
        replace(group, bound_tokens=group.bound_tokens + tokens) if group.kind in ("sliding", "chunked") else group
        for group in layers
    )


@dataclass(frozen=True)
class Kept:
    """A request of the Case's tokens on each GPU in one mode, and what a further token adds at great length. [bytes]"""

    mode: str
    kv_bytes: float
    growth_bytes_per_token: float


def sizes(case: Case) -> list[Kept]:
    """The exact size first, then each way that gives another number for this model.

    "in-flight" adds a step's tokens to each window (vLLM 0.33, `SlidingWindowSpec`), "hybrid-off" keeps all tokens in
    window layers, "index-8-bit" has index keys of 132 bytes, "expanded" is MLA without kernels for it (vLLM up to 0.6).
    """
    model = catalog.model(case.model)
    width = BYTES_PER_VALUE[case.kv_dtype]
    storage: dict[str, Any] = {"bytes_per_value": width, "tp": case.tp}
    layers = {
        EXACT: model.kv_layers,
        "in-flight": with_window_slack(model.kv_layers, case.max_num_batched_tokens),
        "index-8-bit": engine_layers(model.kv_layers, width),
        "expanded": expanded_latent(model.kv_layers, model.num_attention_heads, model.qk_head_dim),
    }
    rows = [
        Kept(
            mode,
            float(kv_cache.kv_bytes(groups, case.tokens, **storage)),
            float(kv_cache.growth_bytes_per_token(groups, **storage)),
        )
        for mode, groups in layers.items()
    ]
    none, one, all_tokens = (
        float(kv_cache.kv_bytes_hybrid_off(model.kv_layers, tokens, **storage)) for tokens in (0, 1, case.tokens)
    )
    rows.insert(1, Kept(HYBRID_OFF, all_tokens, one - none))
    return [way for way in rows if way.mode == EXACT or way.kv_bytes != rows[0].kv_bytes]
