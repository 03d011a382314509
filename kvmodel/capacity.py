"""Memory of one GPU: what weights, activations and the engine leave for the KV pool, and how much fits in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kvmodel import assumptions, kv_cache, weights
from kvmodel.arrays import Floats, Numbers
from kvmodel.case import BYTES_PER_VALUE, DoesNotFit
from kvmodel.catalog import Gpu, Model
from kvmodel.step_time import ACTIVATION_BYTES
from kvmodel.units import GIB, format_bytes


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


def memory_budget(
    model: Model, gpu: Gpu, *, tp: int = 1, max_num_batched_tokens: int, utilization: float | None = None
) -> MemoryBudget:
    """How one GPU's memory is spent under vLLM's rules. `utilization` defaults to the engine's. [bytes]"""
    share = assumptions.value("memory", "utilization") if utilization is None else utilization
    engine_gib = assumptions.value("memory", "non_torch_gib") + assumptions.value("memory", "cuda_graphs_gib")
    return MemoryBudget(
        total_bytes=gpu.memory_bytes,
        usable_bytes=share * gpu.memory_bytes,
        weight_bytes=weights.weight_bytes(model) / tp,
        activation_bytes=float(
            activation_bytes(
                max_num_batched_tokens,
                hidden_size=model.hidden_size,
                intermediate_size=active_intermediate_size(model),
                tp=tp,
            )
        ),
        engine_bytes=engine_gib * GIB,
    )


def active_intermediate_size(model: Model) -> float:
    """Width of the MLP that a token passes, mean over layers; the active experts of a MoE together."""
    dense_layers = model.num_hidden_layers - model.moe_layers
    dense = dense_layers * model.need("intermediate_size") if dense_layers else 0
    if not model.moe_layers:
        return dense / model.num_hidden_layers
    routed = model.num_experts_per_tok * model.need("moe_intermediate_size")
    moe = model.moe_layers * (routed + model.shared_expert_intermediate_size)
    return (dense + moe) / model.num_hidden_layers


def require_pool(budget: MemoryBudget, model: Model, gpu: Gpu, tp: int) -> float:
    """The pool's bytes. Raises DoesNotFit where the weights leave none."""
    if budget.pool_bytes <= 0:
        spent = budget.weight_bytes + budget.activation_bytes + budget.engine_bytes
        raise DoesNotFit(
            f"model: {model.id} needs {format_bytes(spent)} on each of {tp} {gpu.id} before any KV "
            f"(weights {format_bytes(budget.weight_bytes)}), of which {format_bytes(budget.usable_bytes)} may be used; "
            f"allowed: more GPUs (tp), a smaller model or a larger GPU"
        )
    return budget.pool_bytes


def pool_report(
    model: Model,
    gpu: Gpu,
    *,
    tp: int = 1,
    kv_dtype: str = "bf16",
    block_tokens: int = 16,
    max_num_batched_tokens: int,
    max_model_len: int,
    utilization: float | None = None,
) -> dict[str, Any]:
    """Pool in bytes, blocks and tokens, and how many requests of `max_model_len` tokens it holds.

    Raises
    ------
    DoesNotFit : the weights leave no room, or not one request of `max_model_len` fits.
    """
    budget = memory_budget(model, gpu, tp=tp, max_num_batched_tokens=max_num_batched_tokens, utilization=utilization)
    pool = require_pool(budget, model, gpu, tp)
    held = {"bytes_per_value": BYTES_PER_VALUE[kv_dtype], "tp": tp}
    one_request = float(kv_cache.kv_bytes_in_blocks(model.kv_layers, max_model_len, block_tokens=block_tokens, **held))
    if one_request > pool:
        raise DoesNotFit(
            f"max_model_len: one request of {max_model_len:,} tokens needs {format_bytes(one_request)} of KV a GPU, "
            f"the pool has {format_bytes(pool)}; allowed: shorter requests, more GPUs (tp) or fp8 KV"
        )
    concurrency = pool / one_request
    block = float(kv_cache.kv_bytes_hybrid_off(model.kv_layers, block_tokens, **held)) if one_request else 0.0
    blocks = int(pool // block) if block else 0
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
    }
