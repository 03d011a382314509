"""Heads and widths of the attention that a config.json describes, under all the names these have."""

from __future__ import annotations

from dataclasses import dataclass

from kvmodel.hf.fields import WIDEST_HEAD, ConfigRefused, Fields, refusal, wrong_length
from kvmodel.words import say

LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "layer_num")
DECODER_LAYERS = ("decoder_layers", "num_decoder_layers", *LAYERS)  # of encoder-decoders: only the decoder keeps KV
WIDTH = ("hidden_size", "n_embd", "n_embed", "d_model", "embed_dim", "model_dim", "dim_model")
HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads", "decoder_attention_heads", "attention_heads")
DECODER_HEADS = ("decoder_attention_heads", "num_decoder_attention_heads", *HEADS)
KV_HEADS = (
    "num_key_value_heads", "num_kv_heads", "n_head_kv", "n_kv_heads", "head_num_kv", "multi_query_group_num",
    "num_attention_groups", "num_query_groups",
)  # fmt: skip
HEAD_DIM = ("attention_head_dim", "head_dim", "kv_channels", "attention_head_size", "d_kv")
MOST_LAYERS = 500
DOUBLE_WIDTH = ("zamba", "zamba2")  # their shared block attends over the embedding beside the hidden state: 2 d wide


@dataclass(frozen=True)
class Heads:
    """What one layer keeps of a token: `kv_heads * (key_dim + value_dim)` values."""

    kv_heads: int
    key_dim: int
    value_dim: int
    query_heads: int


@dataclass(frozen=True)
class Attention:
    """Heads of full layers and of window layers; `by_layer` where the file lists KV heads layer by layer (0: none)."""

    num_hidden_layers: int
    hidden_size: int
    full: Heads
    window: Heads
    head_dim: int
    latent: bool = False
    by_layer: tuple[Heads | None, ...] | None = None


def attention(fields: Fields) -> Attention:
    """Raises ConfigRefused where a head's width or a number of heads is neither given nor follows from others."""
    from_decoder = fields.has("decoder_layers", "num_decoder_layers") or fields.has("decoder_attention_heads")
    layers = number_of_layers(fields, DECODER_LAYERS if from_decoder else LAYERS)
    hidden_size = fields.dimension("the model's width", *WIDTH)
    if is_latent(fields):
        return latent_attention(fields, layers, hidden_size)
    heads = query_heads(fields, DECODER_HEADS if from_decoder else HEADS)
    head_dim = width_of_head(fields, hidden_size, heads)
    value_dim = fields.whole("v_head_dim", least=0) or head_dim
    by_layer = listed_heads(fields, layers, heads, head_dim, value_dim)
    kv_heads = 1 if by_layer else key_value_heads(fields, heads)
    full = Heads(kv_heads, head_dim, value_dim, heads)
    window = window_heads(fields, full)
    return Attention(layers, hidden_size, full_heads(fields, full), window, head_dim, by_layer=by_layer)


def number_of_layers(fields: Fields, names: tuple[str, ...]) -> int:
    """As the file says, or as many as its list of layer kinds has (Nemotron-H may give only that)."""
    if not fields.has(*names):
        for name in ("hybrid_override_pattern", "layers_block_type", "layer_types", "block_configs"):
            entries = fields.section.get(name)
            if isinstance(entries, str | list) and entries:
                fields.note(name, say("{count} entries", count=len(entries)))
                return len(entries)
    return fields.dimension("the number of layers", *names, most=MOST_LAYERS)


def query_heads(fields: Fields, names: tuple[str, ...]) -> int:
    if isinstance(fields.section.get("num_query_heads"), list):  # OpenELM: heads by layer
        return max(fields.numbers("num_query_heads", least=1) or [1])
    if fields.model_type.startswith(("rwkv", "mamba", "falcon_mamba")):  # no attention at all
        return fields.whole(*names) or 1
    return fields.dimension("the number of attention heads", *names)


def width_of_head(fields: Fields, hidden_size: int, heads: int) -> int:
    """`head_dim` where it is given, else hidden_size / heads where that is whole. Raises ConfigRefused."""
    head_dim = fields.optional_dimension(*HEAD_DIM)
    if head_dim is not None:
        return head_dim
    width = fields.whole("attention_hidden_size") or hidden_size * (2 if fields.model_type in DOUBLE_WIDTH else 1)
    if width % heads:
        raise ConfigRefused(
            say(
                "{field}: not in the file, and hidden_size {width:,} does not divide by {heads:,} heads",
                field=f"{fields.path}head_dim",
                width=width,
                heads=heads,
            )
        )
    if width // heads > WIDEST_HEAD:
        named = next(name for name in WIDTH if fields.has(name))
        allowed = say("at most {most:,} for each of {heads:,} heads", most=WIDEST_HEAD, heads=heads)
        raise refusal(fields.path + named, width, allowed)
    return width // heads


def key_value_heads(fields: Fields, heads: int) -> int:
    """KV heads of a layer: as given, one under `multi_query`, else as many as query heads.

    Falcon's files may say `multi_query` and `new_decoder_architecture` both: then the given number stands.
    """
    config = fields.part("attn_config")  # MPT and DBRX
    if config.section:
        inner = config.whole("kv_n_heads")
        kind = config.section.get("attn_type")
        if inner is not None:
            return divided(config, inner, heads, "kv_n_heads")
        if kind == "multiquery_attention":
            config.note("attn_type", kind)
            return 1
    grouped = fields.has("new_decoder_architecture") and fields.flag("new_decoder_architecture")
    if not grouped and not fields.has("multi_query_group_num") and fields.flag("multi_query"):
        return 1
    kv_heads = fields.optional_dimension(*KV_HEADS)
    return heads if kv_heads is None else divided(fields, kv_heads, heads)


def divided(fields: Fields, kv_heads: int, heads: int, name: str = "") -> int:
    """Raises ConfigRefused where query heads cannot be shared out evenly over the KV heads."""
    if kv_heads > heads or heads % kv_heads:
        name = name or next((name for name in KV_HEADS if fields.has(name)), "num_key_value_heads")
        allowed = say("a number that divides the {heads:,} attention heads", heads=heads)
        raise refusal(fields.path + name, kv_heads, allowed)
    return kv_heads


def full_heads(fields: Fields, plain: Heads) -> Heads:
    """Gemma 4: full layers have a width of their own and, where K is V, KV heads; that does not halve the cache."""
    if fields.has("per_layer_config"):
        return plain
    width = fields.optional_dimension("global_head_dim")
    shared = fields.section.get("attention_k_eq_v", True)
    named = "num_global_key_value_heads"
    kv_heads = divided(fields, (fields.whole(named) if shared else None) or plain.kv_heads, plain.query_heads, named)
    return Heads(kv_heads, width or plain.key_dim, width or plain.value_dim, plain.query_heads)


def window_heads(fields: Fields, plain: Heads) -> Heads:
    """Window layers with heads of their own: `swa_*` keys (MiMo-V2) or `attention_other_setting` (Step 3)."""
    other = fields.part("attention_other_setting")
    if other.section:
        heads = other.whole("num_attention_heads") or plain.query_heads
        kv_heads = divided(other, other.whole("num_attention_groups", "num_key_value_heads") or plain.kv_heads, heads)
        width = other.whole("head_dim") or plain.key_dim
        return Heads(kv_heads, width, width, heads)
    key_dim = fields.whole("swa_head_dim") or plain.key_dim
    value_dim = fields.whole("swa_v_head_dim") or (plain.value_dim if key_dim == plain.key_dim else key_dim)
    heads = fields.whole("swa_num_attention_heads") or plain.query_heads
    named = "swa_num_key_value_heads"
    kv_heads = divided(fields, fields.size(named) or plain.kv_heads, heads, named)
    return Heads(kv_heads, key_dim, value_dim, heads)


def listed_heads(
    fields: Fields, layers: int, heads: int, head_dim: int, value_dim: int
) -> tuple[Heads | None, ...] | None:
    """KV heads layer by layer: lists (OpenELM) or blocks that may keep none (Nemotron NAS). Raises ConfigRefused."""
    if fields.has("per_layer_config"):
        return overridden_heads(fields, layers, heads, head_dim)
    blocks = fields.entries("block_configs")
    if blocks is not None:
        counts = [block_kv_heads(fields, block, heads) for block in blocks]
    else:
        name = next((name for name in KV_HEADS if isinstance(fields.section.get(name), list)), None)
        if name is None:
            return None
        counts = fields.numbers(name) or []
    if len(counts) != layers:
        raise wrong_length(f"{fields.path}KV heads", len(counts), layers)
    queries = fields.numbers("num_query_heads") if isinstance(fields.section.get("num_query_heads"), list) else None
    by_layer = queries if queries and len(queries) == layers else [heads] * layers
    return tuple(
        Heads(divided(fields, count, query), head_dim, value_dim, query) if count else None
        for count, query in zip(counts, by_layer, strict=True)
    )


def overridden_heads(fields: Fields, layers: int, heads: int, head_dim: int) -> tuple[Heads | None, ...]:
    """`per_layer_config` of transformers 5: a layer's own keys by its number."""
    kv_heads = key_value_heads(fields, heads)
    parts = fields.part("per_layer_config")
    names = {int(name): name for name in parts.section if name.isdecimal() and len(name) < 9 and int(name) < layers}
    by_layer = []
    for layer in range(layers):
        inner = parts.part(names[layer]) if layer in names else Fields({}, "")
        width = inner.whole("head_dim") or head_dim
        own = divided(inner, inner.whole("num_key_value_heads") or kv_heads, heads)
        by_layer.append(Heads(own, width, width, heads))
    return tuple(by_layer)


def block_kv_heads(fields: Fields, block: object, heads: int) -> int:
    """Of one entry of `block_configs`; 0 where the block has no attention."""
    inner = block.get("attention") if isinstance(block, dict) else None
    if not isinstance(inner, dict):
        raise refusal(fields.path + "block_configs", block, say("a list of blocks with their attention"))
    if inner.get("no_op") or inner.get("replace_with_linear"):
        return 0
    per_group, kv_heads = inner.get("n_heads_in_group"), inner.get("num_key_value_heads")
    if isinstance(kv_heads, int) and not isinstance(kv_heads, bool) and kv_heads > 0:
        return divided(fields, kv_heads, heads)
    if isinstance(per_group, bool) or not isinstance(per_group, int) or per_group < 1 or heads % per_group:
        allowed = say("a divisor of {heads} heads", heads=heads)
        raise refusal(fields.path + "block_configs.attention.n_heads_in_group", per_group, allowed)
    return heads // per_group


def is_latent(fields: Fields) -> bool:
    """Whether a token is kept as one latent vector (MLA)."""
    if fields.section.get("use_mla") is False:
        return False
    if "kv_lora_rank" in fields.section:
        return fields.section["kv_lora_rank"] not in (None, 0)
    return fields.defaults.get("kv_lora_rank") is not None


def latent_attention(fields: Fields, layers: int, hidden_size: int) -> Attention:
    """MLA: one vector of `kv_lora_rank + qk_rope_head_dim`, no factor two for V, whatever the number of heads."""
    rank = fields.dimension("the latent's rank", "kv_lora_rank")
    rope = fields.dimension("the latent's part with positions", "qk_rope_head_dim")
    heads = fields.whole(*HEADS) or 1
    latent = Heads(1, rank + rope, 0, heads)
    nope = fields.whole("qk_nope_head_dim") or 0
    return Attention(layers, hidden_size, latent, window_heads(fields, latent), nope + rope, latent=True)
