"""Parameters that only one family's layers have, under the keys of config.json that bring them.

Each follows the modelling code of transformers 5.24.
"""

from __future__ import annotations

from kvmodel.hf.fields import Fields
from kvmodel.hf.layers import Layer


def per_layer_inputs(fields: Fields, d: int, layers: int) -> tuple[int, int]:
    """Gemma 3n and 4: a small embedding of every token for each layer. Matrices in the layers, and the table's size."""
    width = fields.size("hidden_size_per_layer_input") or 0
    if not width:
        return 0, 0
    table = (fields.size("vocab_size_per_layer_input") or 0) * layers * width
    return layers * (2 * d * width + d), table + d * layers * width + width


def alternating_updates(fields: Fields, d: int, layers: int) -> int:
    """Gemma 3n: AltUp's predictions and corrections over `altup_num_inputs` streams, and the LAuReL low-rank path."""
    streams = fields.size("altup_num_inputs") or 0
    if not streams:
        return 0
    rank = fields.size("laurel_rank") or 0
    altup = 2 * d + streams**2 + streams**3 + streams * d
    laurel = 2 * rank * d + d
    return layers * (altup + laurel) + 2 * (streams - 1) * d * d


def latent_attention(fields: Fields, d: int, layer: Layer) -> tuple[int, int]:
    """MLA, as `kvmodel.catalog.weights` writes it, and the indexer where the layer owns one. Matrices and small."""
    heads = layer.heads.query_heads if layer.heads else 0
    rank, rope = fields.whole("kv_lora_rank") or 0, fields.whole("qk_rope_head_dim") or 0
    nope = fields.size("qk_nope_head_dim") or 0
    value = fields.size("v_head_dim") or nope
    query_rank = fields.size("q_lora_rank")
    query = heads * (nope + rope)
    matrices = query * d if query_rank is None else d * query_rank + query_rank * query
    matrices += d * (rank + rope) + rank * heads * (nope + value) + heads * value * d
    small = rank + (query_rank or 0)
    if fields.flag("attention_bias"):
        small += (query_rank or 0) + rank + rope + d
    if layer.index_dim:
        index_heads = fields.size("index_n_heads") or 0
        matrices += (query_rank or d) * index_heads * layer.index_dim + d * layer.index_dim + d * index_heads
        small += 2 * layer.index_dim
    return matrices, small


def compressed_attention(fields: Fields, d: int, layer: Layer) -> tuple[int, int]:
    """DeepSeek-V4: one latent vector that is K and V, a grouped low-rank output, and a compressor. Matrices and small.

    A compressor with a ratio of 4 overlaps its windows, so it is twice as wide; only it has an indexer.
    """
    heads = layer.heads.query_heads if layer.heads else 0
    dim = layer.heads.key_dim if layer.heads else 0
    rank, out_rank = fields.size("q_lora_rank") or 0, fields.size("o_lora_rank") or 0
    streams = fields.size("hc_mult") or 1
    width = heads * dim
    groups = fields.size("o_groups") or 1
    matrices = d * rank + rank * width + d * dim + width * out_rank + groups * out_rank * d
    small = heads + rank + dim
    mixing = (2 + streams) * streams
    small += 2 * (mixing * streams * d + mixing + 3)
    if layer.kind.startswith("compressed"):
        ratio = int(layer.kind.split("-")[1])
        wide = 2 * dim if layer.index_dim else dim
        matrices += 2 * d * wide
        small += ratio * wide + dim
        if layer.index_dim:
            index_heads, index_wide = fields.size("index_n_heads") or 0, 2 * layer.index_dim
            matrices += 2 * d * index_wide + rank * index_heads * layer.index_dim + d * index_heads
            small += ratio * index_wide + layer.index_dim
    return matrices, small


def compressed_head(fields: Fields, d: int) -> int:
    """DeepSeek-V4: the streams' mix before the head."""
    streams = fields.size("hc_mult") or 0
    return streams * streams * d + streams + 1 if streams else 0


def block_index(fields: Fields, d: int) -> int:
    """MiniMax-M3: queries and a key that choose blocks, with norms, in the layers `sparse_attention_freq` marks."""
    config = fields.part("sparse_attention_config")
    marks = config.numbers("sparse_attention_freq") or []
    dim, heads = config.whole("sparse_index_dim") or 0, config.whole("sparse_num_index_heads") or 0
    return sum(map(bool, marks)) * (d * dim * (heads + 1) + 2 * dim)
