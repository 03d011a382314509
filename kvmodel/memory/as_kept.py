"""The same layers as an engine keeps them: 8-bit index keys, a stage's share, latents written out, windows' slack."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from kvmodel import catalog
from kvmodel.catalog import KvLayers
from kvmodel.catalog.rows import FULL_BYTES
from kvmodel.inputs.case import Case
from kvmodel.memory import kv_cache

EXACT, HYBRID_OFF = "exact", "hybrid-off"
STATE_BYTES = 2  # of a recurrent value in the dtype of a 16-bit model
WHOLE_INDEX_BYTES = 2  # of a value; below it :func:`kvmodel.memory.kv_cache.index_bytes` has 8 bits by itself


def engine_layers(layers: Iterable[KvLayers], bytes_per_value: float) -> tuple[KvLayers, ...]:
    """Groups as vLLM keeps them: index keys in 8 bits whatever the cache's width, states in the model's 16 bits."""

    def widened(group: KvLayers) -> KvLayers:
        index = float(kv_cache.index_bytes(group.index_dim, 1))
        return replace(group, index_dim=0, key_dim=group.key_dim + round(index / bytes_per_value))

    wide = bytes_per_value >= WHOLE_INDEX_BYTES
    return tuple(widened(group) if group.index_dim and wide else group for group in vllm_states(layers))


def vllm_states(layers: Iterable[KvLayers], value_bytes: int = STATE_BYTES) -> tuple[KvLayers, ...]:
    """Groups with recurrent states of that width where neither file nor flag says how wide they are.

    Source: vLLM 0.33 `MambaStateDtypeCalculator`: the model's dtype, of 16 bits.
    """
    return tuple(group if group.said_bytes else with_state_bytes(group, value_bytes) for group in layers)


def with_state_bytes(group: KvLayers, value_bytes: int) -> KvLayers:
    """A group whose recurrent states take so many bytes a value, because a flag or a log says so."""
    if not group.state_values:
        return group
    was = group.said_bytes or FULL_BYTES
    fixed = group.fixed_bytes + group.state_values * (value_bytes - was)
    return replace(group, fixed_bytes=fixed, said_bytes=value_bytes)


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
    kept = case.stored
    storage: dict[str, Any] = {"bytes_per_value": kept.bytes_per_value, "tp": case.tp}
    layers = {
        EXACT: kept.layers,
        "in-flight": with_window_slack(kept.layers, case.max_num_batched_tokens),
        "index-8-bit": engine_layers(kept.layers, kept.bytes_per_value),
    }
    if kept.layers == model.kv_layers:  # no engine that expands latents has records of them
        layers["expanded"] = expanded_latent(model.kv_layers, model.num_attention_heads, model.qk_head_dim)
    rows = [
        Kept(
            mode,
            float(kv_cache.kv_bytes(groups, case.tokens, **storage)),
            float(kv_cache.growth_bytes_per_token(groups, **storage)),
        )
        for mode, groups in layers.items()
    ]
    none, one, all_tokens = (
        float(kv_cache.kv_bytes_hybrid_off(kept.layers, tokens, **storage)) for tokens in (0, 1, case.tokens)
    )
    rows.insert(1, Kept(HYBRID_OFF, all_tokens, one - none))
    return [way for way in rows if way.mode == EXACT or way.kv_bytes != rows[0].kv_bytes]
