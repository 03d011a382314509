r"""Seconds of one engine iteration: prefill chunks and decodes together, prefill alone, marginal cost.

One step with T new tokens on `tp` GPUs is

.. math:: t = \sqrt{\left(\frac{2 P T + 2 V d\, s}{tp\, e\, F}\right)^2 + \left(\frac{W(T)}{tp\, e_w\, B}\right)^2}
          + t_\text{attention} + t_\text{traffic} + t_\text{KV read} + t_\text{all-reduce} + L\, t_\text{launch}

with P active parameters of the layer matrices, W the weight bytes read, s sampled sequences, F the dense
16-bit peak and B the memory rate. The root of the sum of squares is a smooth maximum of compute and weight
read: a free exponent fits at 2.01.

Source: fit on public kernel tables (see `data/assumptions.toml`); every row there names where it is from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kvmodel.arrays import Numbers
from kvmodel.catalog.weights import ACTIVATION_BYTES


@dataclass(frozen=True)
class AttentionGroup:
    """`layers` layers that look back at most `bound_tokens`; `chunked` ones forget at every bound."""

    layers: float
    bound_tokens: float
    chunked: bool = False


@dataclass(frozen=True)
class ModelShape:
    """The numbers of a model that a step's time depends on; counts unless a unit is named.

    `layer_parameters` are those every token passes, without experts; an expert counts over all layers.
    """

    layers: float
    hidden_size: float
    intermediate_size: float  # active experts together
    attention_width: float  # query heads x mean of key and value width
    vocab_size: float
    layer_parameters: float
    weight_bytes_per_parameter: float
    expert_parameters: float = 0.0
    experts: float = 0.0
    experts_per_token: float = 0.0
    expert_weight_bytes_per_parameter: float = 0.0
    attention: tuple[AttentionGroup, ...] = ()


@dataclass(frozen=True)
class GpuRates:
    """What a GPU reaches: peaks from the datasheet, efficiencies from the assumptions. Arrays broadcast."""

    peak_flop_per_s: Numbers
    hbm_bytes_per_s: Numbers
    gemm_efficiency: Numbers
    weight_read_efficiency: Numbers
    attention_efficiency: Numbers
    kv_read_efficiency: Numbers
    kv_read_efficiency_beside_chunk: Numbers
    activation_hbm_efficiency: Numbers
    launch_s_per_layer: Numbers
    all_reduce_start_s: Numbers
    all_reduce_bytes_per_s: Numbers
    all_reduce_large_bytes: Numbers  # from which size on messages get `all_reduce_large_share` of that rate
    all_reduce_large_share: Numbers
    all_reduce_beyond_pair_share: Numbers  # what more than two GPUs get of it
    fp8_peak_flop_per_s: Numbers
    fp8_gemm_efficiency: Numbers


def linear_flop(tokens: Numbers, shape: ModelShape, *, sampled: Numbers = 1) -> Numbers:
    """FLOP of the matrix products of a step: layers for every token, the head once a sampled sequence."""
    active = active_layer_parameters(shape)
    head = shape.vocab_size * shape.hidden_size
    return tokens * (2.0 * active) + sampled * (2.0 * head)


def active_layer_parameters(shape: ModelShape) -> Numbers:
    """Parameters of the layers that one token is multiplied with."""
    return shape.layer_parameters + shape.experts_per_token * shape.expert_parameters


def weight_bytes_read(tokens: Numbers, shape: ModelShape) -> Numbers:
    r"""Weight bytes that a step of `tokens` tokens reads, the head included.

    Experts are read once each if any token picks them: of E experts, k a token, T tokens reach
    :math:`E (1 - (1 - k/E)^T)` distinct ones when choices are even.
    """
    head = shape.vocab_size * shape.hidden_size
    dense_bytes = (shape.layer_parameters + head) * shape.weight_bytes_per_parameter
    if not shape.experts:
        return dense_bytes
    distinct = shape.experts * (1 - (1 - shape.experts_per_token / shape.experts) ** tokens)
    return dense_bytes + distinct * (shape.expert_parameters * shape.expert_weight_bytes_per_parameter)


def compute_s(tokens: Numbers, shape: ModelShape, gpu: GpuRates, *, tp: Numbers = 1, sampled: Numbers = 1) -> Numbers:
    """Seconds of a step's matrix products if weights were there at once; 8-bit weights use the 8-bit peak."""
    flop = linear_flop(tokens, shape, sampled=sampled)
    if _in_8_bits(shape):
        return flop / (tp * gpu.fp8_gemm_efficiency * gpu.fp8_peak_flop_per_s)
    return flop / (tp * gpu.gemm_efficiency * gpu.peak_flop_per_s)


def matrix_peak_flop_per_s(shape: ModelShape, gpu: GpuRates) -> Numbers:
    """The dense peak that a model's matrix products could reach."""
    return gpu.fp8_peak_flop_per_s if _in_8_bits(shape) else gpu.peak_flop_per_s


def _in_8_bits(shape: ModelShape) -> bool:
    """Whether the matrix products take 8-bit values. Narrower weights are widened to 16 bits first."""
    most = shape.expert_weight_bytes_per_parameter if shape.experts else shape.weight_bytes_per_parameter
    return most == 1


def weight_read_s(tokens: Numbers, shape: ModelShape, gpu: GpuRates, *, tp: Numbers = 1) -> Numbers:
    """Seconds in which a step's weights stream in."""
    return weight_bytes_read(tokens, shape) / (tp * gpu.weight_read_efficiency * gpu.hbm_bytes_per_s)


def linear_s(tokens: Numbers, shape: ModelShape, gpu: GpuRates, *, tp: Numbers = 1, sampled: Numbers = 1) -> Numbers:
    """Seconds of a step's matrix products: smooth maximum of compute and weight read."""
    computing_s = compute_s(tokens, shape, gpu, tp=tp, sampled=sampled)
    reading_s = weight_read_s(tokens, shape, gpu, tp=tp)
    return np.sqrt(computing_s * computing_s + reading_s * reading_s)


def attention_flop(new_tokens: Numbers, past_tokens: Numbers, shape: ModelShape) -> Numbers:
    r"""FLOP of causal attention for `new_tokens` after `past_tokens`.

    .. math:: 4 H D L \, (n \, p + n^2 / 2)

    A window bounds how far each token looks back, a chunk where it starts.
    """
    new, past = new_tokens, past_tokens
    flop: Numbers = 0.0
    for group in shape.attention:
        if np.isinf(group.bound_tokens):
            pairs = new * (past + new / 2)
        else:
            pairs = _bounded_pairs(past + new, group) - _bounded_pairs(past, group)
        flop = flop + pairs * (4 * shape.attention_width * group.layers)
    return flop


def _bounded_pairs(position: Numbers, group: AttentionGroup) -> Numbers:
    """Pairs of tokens that see each other among the first `position` tokens, in one bounded layer."""
    if group.chunked:
        whole = np.floor(position / group.bound_tokens)
        rest = position - whole * group.bound_tokens
        return whole * group.bound_tokens**2 / 2 + rest * rest / 2
    span = np.minimum(position, group.bound_tokens)
    return span * position - span * span / 2


def attention_s(
    new_tokens: Numbers, past_tokens: Numbers, shape: ModelShape, gpu: GpuRates, *, tp: Numbers = 1
) -> Numbers:
    """Seconds of prefill attention."""
    return attention_flop(new_tokens, past_tokens, shape) / (tp * gpu.attention_efficiency * gpu.peak_flop_per_s)


def activation_bytes_moved(tokens: Numbers, shape: ModelShape, *, tp: Numbers = 1) -> Numbers:
    """Bytes that activations move over one GPU's memory bus: `L T (4 d + 3 d_ff / tp)` values of 16 bits."""
    values_per_token = shape.layers * (4 * shape.hidden_size + 3 * shape.intermediate_size / tp)
    return tokens * (values_per_token * ACTIVATION_BYTES)


def traffic_s(tokens: Numbers, shape: ModelShape, gpu: GpuRates, *, tp: Numbers = 1) -> Numbers:
    """Seconds in which activations cross the memory bus."""
    rate = gpu.activation_hbm_efficiency * gpu.hbm_bytes_per_s
    return np.asarray(activation_bytes_moved(tokens, shape, tp=tp) / rate)


def all_reduce_s(tokens: Numbers, shape: ModelShape, gpu: GpuRates, *, tp: Numbers = 1) -> Numbers:
    """Seconds of the two ring all-reduces a layer, at the rate of a message's size; nothing on one GPU."""
    if np.ndim(tp) == 0 and tp == 1:
        return 0.0
    share = (tp - 1) / tp
    message_bytes = tokens * (shape.hidden_size * ACTIVATION_BYTES)
    large_share = np.where(message_bytes >= gpu.all_reduce_large_bytes, gpu.all_reduce_large_share, 1.0)
    many_share = np.where(np.greater(tp, 2), gpu.all_reduce_beyond_pair_share, 1.0)
    ring_s = 2 * share * message_bytes / (gpu.all_reduce_bytes_per_s * large_share * many_share)
    return np.where(share > 0, 2 * shape.layers * (gpu.all_reduce_start_s + ring_s), 0.0)


def kv_read_s(kv_bytes_per_gpu: Numbers, gpu: GpuRates, *, beside_chunk: bool) -> Numbers:
    """Seconds in which decoding sequences read their KV: slower on some GPUs while a chunk shares the step."""
    efficiency = gpu.kv_read_efficiency_beside_chunk if beside_chunk else gpu.kv_read_efficiency
    return np.asarray(kv_bytes_per_gpu / (np.asarray(efficiency) * gpu.hbm_bytes_per_s))


def step_s(tokens: Numbers, shape: ModelShape, gpu: GpuRates, *, tp: Numbers = 1, sampled: Numbers = 1) -> Numbers:
    """Seconds of a step of `tokens` new tokens before attention and KV reads; nothing for no tokens."""
    seconds = (
        linear_s(tokens, shape, gpu, tp=tp, sampled=sampled)
        + traffic_s(tokens, shape, gpu, tp=tp)
        + all_reduce_s(tokens, shape, gpu, tp=tp)
        + shape.layers * gpu.launch_s_per_layer
    )
    return seconds * (tokens > 0)


def decode_s(
    sequences: Numbers, kv_bytes_per_gpu: Numbers, shape: ModelShape, gpu: GpuRates, *, tp: Numbers = 1
) -> Numbers:
    """Seconds of a step that decodes one token for each of `sequences`; `kv_bytes_per_gpu` are all of theirs."""
    return step_s(sequences, shape, gpu, tp=tp, sampled=sequences) + kv_read_s(
        kv_bytes_per_gpu, gpu, beside_chunk=False
    )


def prefill_s(
    new_tokens: Numbers,
    past_tokens: Numbers,
    shape: ModelShape,
    gpu: GpuRates,
    *,
    tp: Numbers = 1,
    chunk_tokens: Numbers,
    sequences: Numbers = 1,
) -> Numbers:
    """Seconds of kernels to prefill, alone on the GPU, in chunks.

    Parameters
    ----------
    new_tokens, past_tokens : tokens to compute and tokens already in the cache, of one sequence. [tokens]
    chunk_tokens : most tokens in a step (`max_num_batched_tokens`). [tokens]
    sequences : equal sequences prefilled together.
        All broadcast; the result has their shape. [s]
    """
    total = new_tokens * sequences
    full_chunks, rest = in_chunks(total, chunk_tokens)

    def samples(tokens: Numbers) -> Numbers:
        """Each step samples for the sequences that end in it, and for the one it is in the middle of."""
        alone = np.ndim(sequences) == 0 and sequences == 1
        return 1 if alone else np.maximum(1.0, sequences * tokens / np.maximum(total, 1.0))

    full_s = full_chunks * step_s(chunk_tokens, shape, gpu, tp=tp, sampled=samples(chunk_tokens))
    rest_s = step_s(rest, shape, gpu, tp=tp, sampled=samples(rest))
    return full_s + rest_s + sequences * attention_s(new_tokens, past_tokens, shape, gpu, tp=tp)


def in_chunks(tokens: Numbers, chunk_tokens: Numbers) -> tuple[Numbers, Numbers]:
    """Full chunks of a prefill, and the tokens of the last one that is not full."""
    full_chunks = np.floor(tokens / chunk_tokens)
    return full_chunks, tokens - full_chunks * chunk_tokens


def marginal_prefill_s(
    new_tokens: Numbers,
    past_tokens: Numbers,
    shape: ModelShape,
    gpu: GpuRates,
    *,
    decode_sequences: Numbers,
    decode_kv_bytes_per_gpu: Numbers,
    max_num_batched_tokens: Numbers,
    tp: Numbers = 1,
) -> Numbers:
    """Seconds that a prefill adds to the steps of a running batch: with its chunks less without them.

    Chunks are what the token budget leaves beside the decodes, never one big chunk; with no
    decodes this is the prefill alone.
    """
    new = new_tokens
    decodes = decode_sequences
    room = np.maximum(max_num_batched_tokens - decodes, 1.0)
    full_chunks, rest = in_chunks(new, room)
    decoding_s = step_s(decodes, shape, gpu, tp=tp, sampled=decodes)
    slower_read_s = kv_read_s(decode_kv_bytes_per_gpu, gpu, beside_chunk=True) - kv_read_s(
        decode_kv_bytes_per_gpu, gpu, beside_chunk=False
    )

    def added_s(chunk: Numbers) -> Numbers:
        mixed_s = step_s(decodes + chunk, shape, gpu, tp=tp, sampled=decodes + 1)
        return (mixed_s - decoding_s + slower_read_s) * (chunk > 0)

    chunks_s: Numbers = full_chunks * added_s(room) + added_s(rest)
    return chunks_s + attention_s(new, past_tokens, shape, gpu, tp=tp)


def floor_s(
    new_tokens: Numbers,
    past_tokens: Numbers,
    shape: ModelShape,
    gpu: GpuRates,
    *,
    tp: Numbers = 1,
    sequences: Numbers = 1,
) -> Numbers:
    """Seconds below which no prefill can be: datasheet peak and memory rate, perfectly overlapped."""
    tokens = new_tokens * sequences
    linear_floor_s = linear_flop(tokens, shape, sampled=sequences) / (tp * matrix_peak_flop_per_s(shape, gpu))
    attention_floor_s = sequences * attention_flop(new_tokens, past_tokens, shape) / (tp * gpu.peak_flop_per_s)
    reading_s = weight_bytes_read(tokens, shape) / (tp * gpu.hbm_bytes_per_s)
    return np.where(tokens > 0, np.maximum(linear_floor_s + attention_floor_s, reading_s), 0.0)


def prefill_parts_s(
    new_tokens: Numbers,
    past_tokens: Numbers,
    shape: ModelShape,
    gpu: GpuRates,
    *,
    tp: Numbers = 1,
    chunk_tokens: Numbers,
) -> dict[str, Numbers]:
    """What :func:`prefill_s` is made of, for one sequence; the parts add up to it."""
    new = new_tokens
    full_chunks, rest = in_chunks(new, chunk_tokens)
    has_rest = np.asarray(rest > 0, dtype=float)

    def over_chunks(part_s: Callable[[Numbers], Numbers]) -> Numbers:
        return full_chunks * part_s(chunk_tokens) + has_rest * part_s(rest)

    return {
        "linear": over_chunks(lambda tokens: linear_s(tokens, shape, gpu, tp=tp)),
        "attention": attention_s(new, past_tokens, shape, gpu, tp=tp),
        "activations": over_chunks(lambda tokens: traffic_s(tokens, shape, gpu, tp=tp)),
        "all-reduce": over_chunks(lambda tokens: all_reduce_s(tokens, shape, gpu, tp=tp)),
        "launch": (full_chunks + has_rest) * shape.layers * gpu.launch_s_per_layer,
    }
