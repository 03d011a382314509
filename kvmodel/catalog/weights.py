"""Parameters and weight bytes of a model, added up from its shapes.

Letters: L layers, d hidden_size, f the width of an MLP, H heads, H_kv KV heads, D head_dim, V vocabulary, E experts.
A catalog row's total is tested to equal the published one, so a wrong shape cannot stay unseen.
"""

import math

from kvmodel.catalog import Model, assumptions

MXFP4_BYTES = 0.5 + 1 / 32  # 4 bits of a parameter, and a byte for 32 of them
ACTIVATION_BYTES = 2  # bf16 and fp16 activations

FOUR_BIT_BYTES = 0.5 + 2 / 128  # of a parameter of the layers: 4 bits and a 16-bit scale for 128 of them


def _mlp_matrices(model: Model, width: int) -> int:
    """3 d f with a gate (up, gate, down), else 2 d f."""
    return (3 if model.gated_mlp else 2) * model.hidden_size * width


def _mlp_biases(model: Model, width: int) -> int:
    if not model.mlp_bias:
        return 0
    return (2 if model.gated_mlp else 1) * width + model.hidden_size


def _attention_matrices(model: Model) -> int:
    """Of one layer: d H D + 2 d H_kv D + H D d; for MLA

    d r_q + r_q H (n + p), or d H (n + p) without a query rank; + d (r_kv + p) + r_kv H (n + v) + H v d,
    with n and p the widths of a query head without and with positions, v that of a value head.
    """
    d, heads = model.hidden_size, model.num_attention_heads
    query_width, output_width = heads * model.qk_head_dim, heads * model.value_head_dim
    if model.kv_lora_rank is None:
        kv_width = model.num_key_value_heads * (model.head_dim + model.value_head_dim)
        return d * query_width + d * kv_width + output_width * d
    rank = model.q_lora_rank
    query = d * query_width if rank is None else d * rank + rank * query_width
    down = d * (model.kv_lora_rank + model.qk_rope_head_dim)
    up = model.kv_lora_rank * heads * (model.qk_nope_head_dim + model.value_head_dim)
    return query + down + up + output_width * d


def layer_matrix_parameters(model: Model) -> int:
    """Matrices in the layers that every token passes, experts left out.

    L attention + dense layers x MLP + MoE layers x (router d E + shared experts).
    """
    if model.counts:
        return model.counts.layer_matrices
    total = model.num_hidden_layers * _attention_matrices(model)
    dense_layers = model.num_hidden_layers - model.moe_layers
    if dense_layers:
        total += dense_layers * _mlp_matrices(model, model.need("intermediate_size"))
    router = model.hidden_size * model.num_experts
    return total + model.moe_layers * (router + _mlp_matrices(model, model.shared_expert_intermediate_size))


def expert_parameters(model: Model) -> int:
    """Matrices of one routed expert, summed over the MoE layers: 3 d f L_moe with a gate. 0 for a dense model."""
    if model.counts:
        return model.counts.expert
    return model.moe_layers * _mlp_matrices(model, model.need("moe_intermediate_size")) if model.moe_layers else 0


def head_parameters(model: Model) -> int:
    """V d: the output head, whether or not it shares its weights with the embedding."""
    return model.need("vocab_size") * model.hidden_size


def embedding_parameters(model: Model) -> int:
    """V d for the input, as much again for an untied head, and a learned position's row each."""
    tables = 1 if model.tie_word_embeddings else 2
    return tables * head_parameters(model) + model.learned_positions * model.hidden_size


def small_parameters(model: Model) -> int:
    """Norms and biases, the final norm included, and what the row lists as extra. Not quantised, hardly any FLOP."""
    layers, d = model.num_hidden_layers, model.hidden_size
    per_layer = model.norms_per_layer * d * (2 if model.norm_bias else 1) + model.extra_parameters_per_layer
    if model.qk_norm:
        per_layer += 2 * model.head_dim
    if model.qkv_bias:
        kv_width = model.num_key_value_heads * (model.head_dim + model.value_head_dim)
        per_layer += model.num_attention_heads * model.head_dim + kv_width
    if model.attention_out_bias:
        per_layer += d
    if model.kv_lora_rank is not None:
        per_layer += model.kv_lora_rank + (model.q_lora_rank or 0)  # norms inside the latent projections
    total = layers * per_layer + d * (2 if model.norm_bias else 1) + model.extra_parameters
    if model.mlp_bias:
        dense_layers = layers - model.moe_layers
        if dense_layers:
            total += dense_layers * _mlp_biases(model, model.need("intermediate_size"))
        if model.moe_layers:
            total += model.moe_layers * model.num_experts * _mlp_biases(model, model.need("moe_intermediate_size"))
    return total


def parameter_count(model: Model) -> int:
    """All parameters: layer matrices + E experts + embeddings and head + norms, biases and extras.

    Raises CatalogError where the row lacks a shape this needs (`vocab_size`, `intermediate_size`).
    """
    if model.counts:
        return model.counts.layer_matrices + model.num_experts * model.counts.expert + model.counts.other
    return (
        layer_matrix_parameters(model)
        + model.num_experts * expert_parameters(model)
        + embedding_parameters(model)
        + small_parameters(model)
    )


def weight_bytes(model: Model) -> float:
    """Weights in GPU memory, as the checkpoint ships them, before any tensor parallel split. [bytes]

    Parameters x `weight_bytes_per_parameter`, the experts' matrices x `expert_weight_bytes_per_parameter`.
    """
    if model.counts:
        return model.counts.weight_bytes
    experts = model.num_experts * expert_parameters(model)
    rate = model.weight_bytes_per_parameter
    expert_rate = model.expert_weight_bytes_per_parameter or rate
    return (parameter_count(model) - experts) * rate + experts * expert_rate


def loaded_bytes(model: Model, tp: int = 1) -> float:
    """As :func:`weight_bytes`, as vLLM loads them over `tp` GPUs: MXFP4 experts padded to its kernels' tiles. [bytes]

    Source: vLLM `mxfp4_round_up_hidden_size_and_intermediate_size` for Marlin; issue 23278, 65.97 GiB of gpt-oss-120b.
    """
    width, rate = model.moe_intermediate_size, model.expert_weight_bytes_per_parameter
    if rate != MXFP4_BYTES or not width:
        return weight_bytes(model)
    sides = (model.hidden_size, width / tp)
    tiles = (assumptions.value("memory", "mxfp4_hidden_tile"), assumptions.value("memory", "mxfp4_width_tile"))
    padded = math.prod(math.ceil(side / tile) * tile / side for side, tile in zip(sides, tiles, strict=True))
    return weight_bytes(model) + model.num_experts * expert_parameters(model) * rate * (padded - 1)


def four_bit_bytes(model: Model) -> float:
    """Weights with the layers' matrices in 4 bits, the rest in 16; never more than they are now. [bytes]"""
    layers = layer_matrix_parameters(model) + model.num_experts * expert_parameters(model)
    rest = parameter_count(model) - layers
    return min(weight_bytes(model), layers * FOUR_BIT_BYTES + 2.0 * rest)
