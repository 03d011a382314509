"""Memory of one GPU: what weights, activations and the engine leave for the KV pool, and how much fits in it.

pool = total x utilization - weights - activation peak - CUDA graphs - the rest. What an engine then prints of the pool
is in :mod:`kvmodel.memory.printouts`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kvmodel.arrays import Floats, Numbers
from kvmodel.catalog import Gpu, KvLayers, Model, assumptions, kv_dtypes, weights
from kvmodel.catalog.weights import ACTIVATION_BYTES
from kvmodel.errors import DoesNotFit
from kvmodel.memory import as_kept, kv_cache, printouts
from kvmodel.units import GIB, format_bytes
from kvmodel.words import say

V0_LEAST_BATCHED_TOKENS = 2048
FEW_SEQUENCES = 256  # vLLM's default of max_num_seqs on smaller GPUs


@dataclass(frozen=True)
class MemoryBudget:
    """Bytes on one GPU; `pool_bytes` is what is left for KV and may be negative."""

    total_bytes: float
    usable_bytes: float
    weight_bytes: float
    activation_bytes: float
    engine_bytes: float

    @property
    def pool_bytes(self) -> float:
        return self.usable_bytes - self.weight_bytes - self.activation_bytes - self.engine_bytes


def activation_bytes(
    batched_tokens: Numbers, *, hidden_size: Numbers, intermediate_size: Numbers, tp: Numbers = 1
) -> Floats:
    """Peak activations of a step of `batched_tokens`: about `3 d + 3 d_ff / tp` values a token. [bytes]

    Source: vLLM issue 10517, where the peak grew by 107 KiB a token for Llama 3.1 8B.
    """
    width_copies = assumptions.value("memory", "activation_width_copies")
    ffn_copies = assumptions.value("memory", "activation_ffn_copies")
    values = width_copies * np.asarray(hidden_size) + ffn_copies * np.asarray(intermediate_size) / np.asarray(tp)
    return np.asarray(batched_tokens * values * ACTIVATION_BYTES)


def unchunked_activation_bytes(
    model: Model, *, max_model_len: int, max_num_seqs: int = 256, tp: int = 1, fused_attention: bool = True
) -> float:
    """Peak of an engine that prefills a whole prompt at once, as vLLM V0 did below 32K tokens. [bytes]

    Its profiling pass runs a prompt of `max_model_len` tokens and samples `max_num_seqs` sequences after it, so the
    peak is the larger of the two: 107 KiB a token, or 39 bytes for each of `max_num_seqs` x vocabulary logits.
    Without a fused kernel all scores of a head exist at once, and the peak grows with the square of the length.

    Source: vLLM issues 10517 and 13882; nlzy/vllm-gfx906 issue 10.
    """
    tokens = max(max_model_len, V0_LEAST_BATCHED_TOKENS)
    widths = {"hidden_size": model.hidden_size, "intermediate_size": active_intermediate_size(model)}
    forward = float(activation_bytes(tokens, **widths, tp=tp))
    if not fused_attention:
        scores = assumptions.value("memory", "score_bytes") * model.num_attention_heads / tp
        forward += scores * max_model_len**2
    sampler = assumptions.value("memory", "sampler_bytes_per_logit") * max_num_seqs * model.need("vocab_size")
    return max(forward, sampler)


def memory_budget(
    model: Model,
    gpu: Gpu,
    *,
    tp: int = 1,
    pp: int = 1,
    max_num_batched_tokens: int,
    utilization: float | None = None,
    peak_bytes: float | None = None,
    loaded_bytes: float | None = None,
) -> MemoryBudget:
    """How one GPU's memory is spent under vLLM's rules. `utilization` defaults to the engine's. [bytes]

    `peak_bytes` stands for the activation peak where that of a step of `max_num_batched_tokens` is not meant,
    `loaded_bytes` for the weights of one GPU where a log says how many were loaded.
    """
    share = assumptions.value("memory", "utilization") if utilization is None else utilization
    engine_gib = assumptions.value("memory", "non_torch_gib") + assumptions.value("memory", "cuda_graphs_gib")
    return MemoryBudget(
        total_bytes=gpu.memory_bytes,
        usable_bytes=share * gpu.memory_bytes,
        weight_bytes=weights.loaded_bytes(model, tp) / (tp * pp) if loaded_bytes is None else loaded_bytes,
        activation_bytes=chunked_activation_bytes(model, max_num_batched_tokens, tp)
        if peak_bytes is None
        else peak_bytes,
        engine_bytes=engine_gib * GIB,
    )


def chunked_activation_bytes(model: Model, max_num_batched_tokens: int, tp: int) -> float:
    """Peak of a step with chunked prefill, as all engines have it now. [bytes]"""
    widths = {"hidden_size": model.hidden_size, "intermediate_size": active_intermediate_size(model)}
    return float(activation_bytes(max_num_batched_tokens, **widths, tp=tp))


def active_intermediate_size(model: Model) -> float:
    """Width of the MLP that a token passes, mean over layers; the active experts of a MoE together."""
    if model.counts:
        return model.counts.mlp_width
    dense_layers = model.num_hidden_layers - model.moe_layers
    dense = dense_layers * model.need("intermediate_size") if dense_layers else 0
    if not model.moe_layers:
        return dense / model.num_hidden_layers
    routed = model.num_experts_per_tok * model.need("moe_intermediate_size")
    moe = model.moe_layers * (routed + model.shared_expert_intermediate_size)
    return (dense + moe) / model.num_hidden_layers


def pool_range_bytes(budget: MemoryBudget, *, sampler_bytes: float = 0.0, loaded: bool = False) -> tuple[float, float]:
    """Lowest and highest pool to expect where the peak is predicted: what start-up logs differ by. [bytes]

    The activation peak is good to a factor of two, or is that of sampling `sampler_bytes`, weights load up to 2.5 %
    larger than they are stored unless they are those that were `loaded`, and the rest of the engine differs by 0.4
    GiB. The lowest pool may be negative: then the engine may not start.
    """
    factor = assumptions.value("memory", "activation_factor")
    spread = assumptions.value("memory", "other_spread_gib") * GIB
    surplus = 0.0 if loaded else assumptions.value("memory", "weight_surplus") * budget.weight_bytes
    peak = max(factor * budget.activation_bytes, sampler_bytes)
    low = budget.pool_bytes - (peak - budget.activation_bytes) - surplus - spread
    return low, budget.pool_bytes + (1 - 1 / factor) * budget.activation_bytes + spread


def sampler_bytes(model: Model, gpu: Gpu, max_num_batched_tokens: int, max_num_seqs: int | None = None) -> float:
    """What vLLM V1's profiling pass takes at most to sample its sequences: all logits, sorted. [bytes]

    Up to 256 sequences are in what is known of the activation peak already: 0 then.

    Source: vLLM issues 27508 and 23278: 7.5 GiB beside gpt-oss-120b's weights, with 1,024 and with 8,192 tokens a step.
    """
    sequences = default_max_num_seqs(gpu, max_num_batched_tokens) if max_num_seqs is None else max_num_seqs
    sequences = min(sequences, max_num_batched_tokens)
    if sequences <= FEW_SEQUENCES:
        return 0.0
    return assumptions.value("memory", "sampler_bytes_per_logit") * sequences * (model.vocab_size or 0)


def default_max_num_seqs(gpu: Gpu, max_num_batched_tokens: int) -> int:
    """vLLM 0.33: 1,024 on GPUs of 70 GiB and more but the A100, else 256, and no more than a step's tokens.

    Source: `arg_utils.py::get_batch_defaults`.
    """
    large = gpu.memory_bytes >= 70 * GIB and "a100" not in gpu.id
    return min(1024 if large else FEW_SEQUENCES, max_num_batched_tokens)


def require_pool(budget: MemoryBudget, model: Model, gpu: Gpu, tp: int) -> float:
    """The pool's bytes. Raises DoesNotFit where the weights leave none."""
    if budget.pool_bytes <= 0:
        spent = budget.weight_bytes + budget.activation_bytes + budget.engine_bytes
        raise DoesNotFit(
            say(
                "model: {model} needs {spent} on each of {tp} {gpu} before any KV (weights {weights}), of which "
                "{usable} may be used, so it does not start: {short} short; allowed: more GPUs (tp), a smaller model "
                "or a larger GPU",
                model=model.name,
                short=format_bytes(-budget.pool_bytes),
                spent=format_bytes(spent),
                tp=tp,
                gpu=gpu.id,
                weights=format_bytes(budget.weight_bytes),
                usable=format_bytes(budget.usable_bytes),
            )
        )
    return budget.pool_bytes


def request_bytes(
    layers: Iterable[KvLayers], tokens: float, *, bytes_per_value: float, block_tokens: int, tp: int = 1, pp: int = 1
) -> float:
    """KV of one request of `tokens` tokens on the fullest GPU, in whole blocks, as an engine keeps it. [bytes]"""
    stage = as_kept.stage_layers(as_kept.engine_layers(layers, bytes_per_value), pp)
    storage: dict[str, Any] = {"block_tokens": block_tokens, "bytes_per_value": bytes_per_value, "tp": tp}
    return float(kv_cache.kv_bytes_in_blocks(stage, tokens, **storage))


def pool_report(
    model: Model,
    gpu: Gpu,
    *,
    tp: int = 1,
    pp: int = 1,
    kv_dtype: str = "bf16",
    block_tokens: int = 16,
    max_num_batched_tokens: int,
    max_model_len: int,
    utilization: float | None = None,
    peak_bytes: float | None = None,
    loaded_bytes: float | None = None,
    max_num_seqs: int | None = None,
) -> dict[str, Any]:
    """Pool in bytes, blocks and tokens, and how many requests of `max_model_len` tokens it holds.

    Raises
    ------
    DoesNotFit : the weights leave no room, or not one request of `max_model_len` fits.
    """
    limits: dict[str, Any] = {"utilization": utilization, "peak_bytes": peak_bytes, "loaded_bytes": loaded_bytes}
    budget = memory_budget(model, gpu, tp=tp, pp=pp, max_num_batched_tokens=max_num_batched_tokens, **limits)
    pool = require_pool(budget, model, gpu, tp)
    kept = kv_dtypes.stored(model.kv_layers, kv_dtype)
    storage: dict[str, Any] = {"bytes_per_value": kept.bytes_per_value, "tp": tp}
    one_request = request_bytes(kept.layers, max_model_len, block_tokens=block_tokens, pp=pp, **storage)
    if one_request > pool:
        kinds = printouts.pages(kept.layers, pp=pp, block_tokens=block_tokens, **storage)
        longest = printouts.longest_request(
            pool, kinds, most=max_model_len, max_num_batched_tokens=max_num_batched_tokens
        )
        raise DoesNotFit(
            say(
                "max_model_len: one request of {tokens:,} tokens needs {need} of KV a GPU, the pool has {pool}; "
                "allowed: up to {longest:,} tokens, more GPUs (tp) or fp8 KV",
                tokens=max_model_len,
                need=format_bytes(one_request),
                pool=format_bytes(pool),
                longest=longest,
            )
        )
    concurrency = pool / one_request
    block = block_tokens * printouts.rank_bytes_per_token(kept.layers, pp=pp, **storage)
    blocks = int(pool // block) if block else 0
    sampled = 0.0 if peak_bytes is not None else sampler_bytes(model, gpu, max_num_batched_tokens, max_num_seqs)
    low, high = pool_range_bytes(budget, sampler_bytes=sampled, loaded=loaded_bytes is not None)
    return {
        "pool_bytes": pool,
        "pool_blocks": blocks,
        "pool_tokens": int(concurrency * max_model_len),
        "max_concurrency": concurrency,
        "total_bytes": budget.total_bytes,
        "usable_bytes": budget.usable_bytes,
        "weight_bytes": budget.weight_bytes,
        "activation_bytes": budget.activation_bytes,
        "engine_bytes": budget.engine_bytes,
        "pool_low_bytes": low,
        "pool_high_bytes": high,
    }
