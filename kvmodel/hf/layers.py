"""From attention and layer kinds of a config.json to the catalog's groups of layers."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

from kvmodel.catalog import KvLayers
from kvmodel.hf.attention import Attention, Heads
from kvmodel.hf.fields import ConfigRefused, Fields, refusal
from kvmodel.hf.kinds import WINDOW, layer_kinds, window, window_is_off
from kvmodel.hf.states import Mixer, mixer
from kvmodel.words import say

# Two attentions in one decoder layer: the class's own structure, which no key of the file states.
ATTENTIONS_PER_LAYER = {"longcat_flash": 2}


@dataclass(frozen=True)
class Layer:
    """One decoder layer: its kind, the heads of its attention (None without) and its mixer (None without)."""

    kind: str
    heads: Heads | None
    mixer: Mixer | None = None
    keeps: bool = True  # False where it reads the KV of another layer
    index_dim: int = 0


def read_layers(fields: Fields, attention: Attention) -> list[Layer]:
    """One entry a decoder layer, in order. Raises ConfigRefused."""
    count = attention.num_hidden_layers
    kinds = layer_kinds(fields, count)
    if "sliding" in kinds and not window(fields):
        if not window_is_off(fields):
            bound(fields, WINDOW[0])
        kinds = ["full" if kind == "sliding" else kind for kind in kinds]
    has_indexer = index_owners(fields, kinds, attention.latent)
    index_dim = (fields.whole("index_head_dim", "indexer_head_dim") or 0) if any(has_indexer) else 0
    mixers = {kind: mixer(fields, attention.hidden_size, kind) for kind in set(kinds) if holds_state(kind)}
    sharing = shared_layers(fields, count)
    crossing = cross_layers(fields, count)
    layers = []
    for i, kind in enumerate(kinds):
        heads = heads_of(attention, kind, i)
        if heads is None and kind not in ("state", "conv"):
            layers.append(Layer("none", None))
            continue
        layer = Layer("cross" if i in crossing else kind, heads, mixers.get(kind), i not in sharing)
        layers.append(replace(layer, index_dim=index_dim) if has_indexer[i] else layer)
    return layers


def holds_state(kind: str) -> bool:
    return kind in ("state", "conv") or kind.startswith("both")


def heads_of(attention: Attention, kind: str, layer: int) -> Heads | None:
    if kind in ("none", "state", "conv"):
        return None
    if attention.by_layer is not None:
        return attention.by_layer[layer]
    return attention.window if kind in ("sliding", "both-sliding") else attention.full


def index_owners(fields: Fields, kinds: list[str], latent: bool) -> list[bool]:
    """Layers with an indexer of their own (sparse MLA): all, or those that `indexer_types` calls full."""
    if not fields.has("index_head_dim", "indexer_head_dim"):
        return [False] * len(kinds)
    entries = fields.entries("indexer_types")
    if entries is not None:
        if len(entries) != len(kinds) or any(entry not in ("full", "shared") for entry in entries):
            allowed = say("full or shared for each of {layers} layers", layers=len(kinds))
            raise refusal(fields.path + "indexer_types", entries, allowed)
        return [entry == "full" for entry in entries]
    owns = ("indexed", "compressed-4", "full") if latent else ("indexed", "compressed-4")
    return [kind in owns for kind in kinds]


def shared_layers(fields: Fields, count: int) -> set[int]:
    """Layers that read another layer's KV: the last `num_kv_shared_layers`, or all but each n-th (`use_cla`)."""
    last = fields.whole("num_kv_shared_layers", least=0) or 0
    if last:
        if last >= count:
            raise refusal(fields.path + "num_kv_shared_layers", last, say("fewer than the {count} layers", count=count))
        return set(range(count - last, count))
    factor = fields.whole("cla_share_factor") if fields.section.get("use_cla") else None
    return {i for i in range(count) if i % factor} if factor else set()


def cross_layers(fields: Fields, count: int) -> set[int]:
    """Layers whose KV is of an image, not of the text."""
    numbers = set(fields.numbers("cross_attention_layers") or [])
    if numbers and max(numbers) >= count:
        allowed = say("numbers of layers below {count}", count=count)
        raise refusal(fields.path + "cross_attention_layers", sorted(numbers), allowed)
    return numbers


def kv_groups(fields: Fields, layers: list[Layer], *, latent: bool, drafts: int = 0) -> tuple[KvLayers, ...]:
    """Equal layers counted together; the drafts are full layers beside the model's own. Raises ConfigRefused."""
    keys: Counter[tuple[tuple[str, Any], ...]] = Counter()
    for layer in layers:
        for part in cache_parts(fields, layer, latent, drafts):
            keys[tuple(part.items())] += ATTENTIONS_PER_LAYER.get(fields.model_type, 1)
    if drafts:
        full = next((layer for layer in reversed(layers) if layer.kind in ("full", "indexed", "both")), None)
        if full is None:
            raise ConfigRefused(say("draft_layers: given for a model without full attention layers to copy"))
        draft = replace(full, mixer=None, kind="full", keeps=True, index_dim=max(layer.index_dim for layer in layers))
        for part in cache_parts(fields, draft, latent):
            keys[tuple(part.items())] += drafts
    return tuple(KvLayers(layers=count, **dict(key)) for key, count in keys.items())


def cache_parts(fields: Fields, layer: Layer, latent: bool, drafts: int = 0) -> list[dict[str, Any]]:
    """What one layer is of: attention, a state, both, a compressed part with its window, or nothing."""
    nothing = {"kv_heads": 0, "key_dim": 0, "value_dim": 0}
    parts: list[dict[str, Any]] = []
    if layer.kind == "none":
        return parts
    if layer.kind == "cross" or not layer.keeps:
        return [{"kind": "cross" if layer.kind == "cross" else "shared", **nothing}]
    if layer.heads is not None:
        parts += attention_parts(fields, layer, layer.heads, latent)
    if layer.mixer is not None:
        state = {"fixed_bytes": float(layer.mixer.engine_bytes(drafts)), "state_values": layer.mixer.state_values}
        parts.append({"kind": "state", **nothing, **state, "said_bytes": layer.mixer.said_bytes})
    return parts


def bound(fields: Fields, name: str) -> float:
    tokens = fields.bound(name)
    if tokens is None:
        reason = say("{field}: not in the file, though some of its layers need it", field=fields.path + name)
        raise ConfigRefused(reason)
    return float(tokens)


def attention_parts(fields: Fields, layer: Layer, heads: Heads, latent: bool) -> list[dict[str, Any]]:
    widths = {"kv_heads": heads.kv_heads, "key_dim": heads.key_dim, "value_dim": heads.value_dim}
    if layer.index_dim:
        widths["index_dim"] = layer.index_dim
    if layer.kind.startswith("compressed"):
        ratio = int(layer.kind.split("-")[1])
        window_part = {"kind": "sliding", "kv_heads": 1, "key_dim": heads.key_dim, "value_dim": 0}
        window_part["bound_tokens"] = bound(fields, "sliding_window")
        return [{"kind": "compressed", **widths, "value_dim": 0, "tokens_per_entry": ratio}, window_part]
    if layer.kind in ("sliding", "both-sliding"):
        single = {"value_dim": 0} if fields.has("compress_ratios", "o_lora_rank") else {}  # DeepSeek-V4
        return [{"kind": "sliding", **widths, **single, "bound_tokens": float(window(fields) or math.inf)}]
    if layer.kind == "chunked":
        return [{"kind": "chunked", **widths, "bound_tokens": bound(fields, "attention_chunk_size")}]
    return [{"kind": "mla" if latent else "full", **widths}]
