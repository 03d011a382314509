"""Parameters of the model that a config.json describes, counted layer by layer as its class builds them.

Counted as transformers counts the language model's parameters: a tied head once, buffers (DeepSeek's routing
corrections) and vision towers not.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, replace
from typing import Any

from kvmodel import catalog
from kvmodel.hf.attention import Attention, Heads
from kvmodel.hf.experts import Experts, experts, mlp_width
from kvmodel.hf.families import (
    alternating_updates,
    block_index,
    compressed_attention,
    compressed_head,
    latent_attention,
    per_layer_inputs,
)
from kvmodel.hf.fields import Fields, wrong_length
from kvmodel.hf.layers import ATTENTIONS_PER_LAYER, Layer

VOCABULARY = ("vocab_size", "padded_vocab_size")


@dataclass
class Parameters:
    """By the part of the model they are in; `expert` is one routed expert, summed over the layers that have them."""

    attention: int = 0
    mlp: int = 0
    router: int = 0
    expert: int = 0
    experts: int = 0
    experts_per_token: int = 0
    expert_width: int = 0
    embedding: int = 0
    head: int = 0
    small: int = 0
    mlp_width: float = 0.0
    by_layer: list[int] = field(default_factory=list)

    @property
    def layer_matrices(self) -> int:
        return self.attention + self.mlp + self.router

    @property
    def total(self) -> int:
        return self.layer_matrices + self.experts * self.expert + self.embedding + self.head + self.small

    @property
    def active(self) -> int:
        """Of one token: all but the experts it is not sent to."""
        return self.total - (self.experts - self.experts_per_token) * self.expert


@functools.cache
def class_facts(model_type: str) -> dict[str, Any]:
    row = catalog.table("hf_classes").get(model_type)
    return dict(row) if isinstance(row, dict) else {}


def checked(model_type: str) -> bool:
    """Whether the count for this class was held against transformers' own."""
    return model_type in catalog.table("hf_classes")["checked"]


def has_encoder(fields: Fields) -> bool:
    """Whether an encoder is beside the layers that keep KV."""
    class_has = fields.defaults.get("is_encoder_decoder", False)
    return (
        fields.has("decoder_layers", "num_decoder_layers")
        or fields.section.get("is_encoder_decoder", class_has) is True
    )


def parameters(fields: Fields, attention: Attention, layers: list[Layer]) -> Parameters | None:
    """None where the vocabulary, the MLP's width or the class's layers are not known, or an encoder is beside them.

    Raises ConfigRefused for a bad value.
    """
    if fields.model_type in catalog.table("hf_classes")["uncounted"] or has_encoder(fields):
        return None
    vocabulary = fields.size(*VOCABULARY)
    moe = experts(fields, attention, layers)
    width = mlp_width(fields, attention.hidden_size)
    if vocabulary is None or (width is None and not all(map(max, moe.layers, moe.no_mlp))):
        return None
    if isinstance(width, list) and len(width) != len(layers):
        raise wrong_length(f"{fields.path}intermediate_size", len(width), len(layers))
    facts = class_facts(fields.model_type)
    totals = Parameters(experts=moe.count, experts_per_token=moe.per_token, expert_width=moe.width)
    embeddings(fields, totals, facts, attention.hidden_size, vocabulary)
    widths = 0.0
    for i, layer in enumerate(layers):
        add_attention(fields, totals, facts, attention, layer)
        widths += add_mlp(fields, totals, facts, attention.hidden_size, layer, moe, width, i)
    totals.mlp_width = widths / len(layers)
    inputs, table = per_layer_inputs(fields, attention.hidden_size, len(layers))
    totals.attention += block_index(fields, attention.hidden_size)
    totals.attention += inputs + alternating_updates(fields, attention.hidden_size, len(layers))
    totals.embedding += table
    totals.small += compressed_head(fields, attention.hidden_size) if fields.has("o_lora_rank") else 0
    return totals


def says(fields: Fields, facts: dict[str, Any], name: str, key: str | None = None) -> bool:
    """A fact that is true, false, or the key of config.json that says which."""
    fact = facts.get(name, key or False)
    return fields.flag(fact) if isinstance(fact, str) else bool(fact)


def embeddings(fields: Fields, totals: Parameters, facts: dict[str, Any], d: int, vocabulary: int) -> None:
    """Tables for tokens and positions, the head unless it is tied, the final norm."""
    inner = fields.whole("word_embed_proj_dim") or d
    totals.embedding = (vocabulary + facts.get("rows_beyond", 0)) * inner + (2 * inner * d if inner != d else 0)
    tied = fields.tied()
    totals.head = 0 if tied else vocabulary * inner
    if says(fields, facts, "head_bias"):
        totals.small += vocabulary
    norm = 2 * d if facts.get("norm_bias") else d
    totals.small += norm if facts.get("final_norm", True) else 0
    totals.small += norm if facts.get("embedding_norm") else 0
    if "positions" in facts:
        key, beyond = facts["positions"]
        totals.embedding += ((fields.size(key) or 0) + beyond) * d


def add_attention(fields: Fields, totals: Parameters, facts: dict[str, Any], shape: Attention, layer: Layer) -> None:
    d = shape.hidden_size
    if layer.mixer is not None:
        totals.attention += layer.mixer.matrices
        totals.small += layer.mixer.small
    if layer.heads is None:
        return
    if shape.latent:
        for _ in range(ATTENTIONS_PER_LAYER.get(fields.model_type, 1)):
            add(totals, latent_attention(fields, d, layer))
        return
    if fields.has("o_lora_rank"):
        add(totals, compressed_attention(fields, d, layer))
        return
    heads = layer.heads if layer.keeps else replace(layer.heads, kv_heads=0)
    queries, keys, values = (
        heads.query_heads * heads.key_dim,
        heads.kv_heads * heads.key_dim,
        heads.kv_heads * heads.value_dim,
    )
    if layer.kind == "full" and fields.section.get("attention_k_eq_v"):
        values = 0  # Gemma 4: full layers take V from K
    output = heads.query_heads * heads.value_dim
    gate = queries if says(fields, facts, "query_gate") else 0
    totals.attention += d * (queries + gate + keys + values) + output * d
    totals.attention += d * heads.query_heads if says(fields, facts, "head_gate") else 0
    if says(fields, facts, "qkv_bias", "attention_bias"):
        totals.small += queries + keys + values
    if says(fields, facts, "out_bias", "attention_bias"):
        totals.small += d
    totals.small += query_key_norms(fields, facts, heads)
    sinks = facts.get("window_sinks" if layer.kind == "sliding" and "window_sinks" in facts else "sinks", False)
    if fields.flag(sinks) if isinstance(sinks, str) else sinks:
        totals.small += heads.query_heads
    if layer.kind == "cross":
        totals.small += 2 * heads.key_dim + 2  # Mllama: norms of queries and keys, two gates


def add(totals: Parameters, sizes: tuple[int, int]) -> None:
    """Matrices and small parameters of one attention."""
    totals.attention += sizes[0]
    totals.small += sizes[1]


def query_key_norms(fields: Fields, facts: dict[str, Any], heads: Heads) -> int:
    norm = facts.get("qk_norm", "")
    if norm.startswith("yes if "):
        if not fields.flag(norm.removeprefix("yes if ")):
            return 0
        norm = "head" if fields.model_type == "glm4_moe" else "width"
    return {
        "": 0,
        "head": (2 if heads.kv_heads else 1) * heads.key_dim,
        "head with bias": 4 * heads.key_dim,
        "width": (heads.query_heads + heads.kv_heads) * heads.key_dim,
    }[norm]


def dense_beside_experts(
    fields: Fields, totals: Parameters, facts: dict[str, Any], d: int, moe: Experts, width: int | list[int] | None
) -> int:
    """MLPs in a layer that has experts too (Gemma 4 one, LongCat two); their width together."""
    number = int(facts.get("dense_beside_experts", 0))
    dense_width = number * width if isinstance(width, int) else 0
    totals.mlp += 3 * d * dense_width
    vectors = int(facts.get("beside_norms", 0))
    totals.small += vectors * d + (moe.count if vectors else 0)
    totals.router += d * (fields.whole("zero_expert_num", least=0) or 0)
    return dense_width


def norms(fields: Fields, facts: dict[str, Any]) -> int:
    """Of hidden_size, in one layer; a layer that runs attention and MLP side by side may need one only."""
    if fields.model_type == "falcon" and not fields.flag("new_decoder_architecture"):
        return 1 if fields.flag("parallel_attn") else 2
    if fields.model_type == "falcon":
        return fields.whole("num_ln_in_parallel_attn") or 2
    if fields.model_type == "stablelm" and fields.flag("use_parallel_residual"):
        return 1
    return int(facts.get("norms", 2))


def add_mlp(
    fields: Fields,
    totals: Parameters,
    facts: dict[str, Any],
    d: int,
    layer: Layer,
    moe: Experts,
    width: int | list[int] | None,
    i: int,
) -> float:
    """MLP or experts, and the layer's norms; the width of the MLP that a token passes here."""
    matrices = 2 if facts.get("mlp", "gated") == "plain" else 3
    norm = (2 if facts.get("norm_bias") else 1) * d
    empty = fields.has("block_configs") and layer.heads is None  # then there is no norm before it either
    totals.small += (norms(fields, facts) - (1 if empty else 0)) * norm + int(facts.get("extra_per_layer", 0))
    if moe.layers[i]:
        totals.expert += matrices * (moe.latent or d) * moe.width
        totals.mlp += 2 * d * moe.latent
        totals.router += d * moe.count
        totals.mlp += matrices * d * moe.shared_width
        totals.small += d if facts.get("shared_gate") and moe.shared_width else 0
        totals.small += moe.count if facts.get("router_bias") else 0
        if facts.get("expert_bias"):
            totals.small += moe.count * ((matrices - 1) * moe.width + d)
        beside = dense_beside_experts(fields, totals, facts, d, moe, width)
        return float(moe.per_token * moe.width + moe.shared_width + beside)
    dense_width = width[i] if isinstance(width, list) else int(width or 0)
    if moe.no_mlp[i]:
        return 0.0
    dense_width *= 2 if fields.section.get("use_double_wide_mlp") and not layer.keeps else 1
    totals.mlp += matrices * d * dense_width
    if says(fields, facts, "mlp_bias", "mlp_bias"):
        totals.small += (matrices - 1) * dense_width + d
    return float(dense_width)
