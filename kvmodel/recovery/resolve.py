"""From a Case to plain numbers: the one place where catalog rows and assumptions are unpacked.

Everything to the right of this module computes on an :class:`Inputs`, whose numbers may be arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

import numpy as np

from kvmodel import catalog
from kvmodel.arrays import Numbers
from kvmodel.catalog import Gpu, KvLayers, Model, assumptions, weights
from kvmodel.errors import DoesNotFit
from kvmodel.inputs.case import Case
from kvmodel.memory import gpu_memory, kv_cache
from kvmodel.timing.copy_path import as_measured, copy_path
from kvmodel.timing.engine_time import EngineTimes, decode_step_s, engine_times
from kvmodel.timing.step_time import AttentionGroup, GpuRates, ModelShape, decode_s
from kvmodel.timing.transfer import CopyRates
from kvmodel.units import GB, MIB, MS, US, format_bytes
from kvmodel.words import say


@dataclass(frozen=True, kw_only=True)
class Inputs(EngineTimes, CopyRates):
    """What the prices depend on, in base units: the engine's times and the rates of copies among them.

    Numbers may be arrays that broadcast.
    """

    shape: ModelShape
    gpu: GpuRates
    kv_layers: tuple[KvLayers, ...]
    layout: str
    tp: Numbers
    bytes_per_value: Numbers
    tokens: Numbers
    generated_tokens: Numbers
    block_tokens: Numbers
    runs_per_block: Numbers
    load_s_per_block: Numbers
    next_token_s: Numbers
    preemptions: Numbers
    tokens_between: Numbers
    survival: Numbers
    decode_batch: Numbers
    decode_context: Numbers
    remaining_output: Numbers
    max_num_batched_tokens: Numbers
    pool_bytes_per_gpu: Numbers
    prefill_band: Numbers
    copy_band: Numbers
    swap_on_compute_stream: bool
    offload_prompt_only: bool
    available: tuple[str, ...]
    objective: str


def inputs(case: Case) -> Inputs:
    """The numbers of a Case. Raises DoesNotFit where the weights or the request's KV exceed the GPU's memory."""
    model, gpu = catalog.model(case.model), catalog.gpu(case.gpu)
    budget = gpu_memory.memory_budget(model, gpu, tp=case.tp, max_num_batched_tokens=case.max_num_batched_tokens)
    pool_bytes = gpu_memory.require_pool(budget, model, gpu, case.tp)
    policy = catalog.table("engines")[case.policy]
    copies = copy_path(case)
    shape, rates, engine = model_shape(model), case_rates(case), case_engine(case)
    kept = case.stored
    numbers = Inputs(
        shape=shape,
        gpu=rates,
        kv_layers=kept.layers,
        layout=case.layout,
        tp=case.tp,
        bytes_per_value=kept.bytes_per_value,
        tokens=case.tokens,
        generated_tokens=case.generated_tokens,
        block_tokens=case.block_tokens,
        runs_per_block=case.runs_per_block,
        **{field.name: getattr(copies, field.name) for field in fields(CopyRates)},
        load_s_per_block=assumptions.value(f"load.{case.timing}", "per_block_us", "copies") * US,
        next_token_s=next_token_s(case, shape, rates, engine),
        preemptions=case.preemptions,
        tokens_between=case.tokens_between,
        survival=case.survival,
        decode_batch=case.decode_batch,
        decode_context=case.decode_context,
        remaining_output=case.remaining_output,
        max_num_batched_tokens=case.max_num_batched_tokens,
        pool_bytes_per_gpu=pool_bytes,
        **vars(engine),
        prefill_band=assumptions.value("band", prefill_band_kind(gpu.id, case.timing)),
        copy_band=assumptions.value("band", copies.band_kind),
        swap_on_compute_stream=policy["swap_on_compute_stream"],
        offload_prompt_only=policy["offload_prompt_only"],
        available=tuple(policy["available"]),
        objective=case.objective,
    )
    require_request_fits(case, numbers)
    return numbers


LEAST_REQUEST = {"tokens": 1, "preemptions": 1, "tokens_between": 0, "block_tokens": 1, "max_num_batched_tokens": 16}


def over(case: Case, numbers: Mapping[str, Numbers]) -> Inputs:
    """Inputs of many cases that share their ids: `numbers` are arrays by Case field in place of the Case's own.

    The pool stays that of the Case, and whether each request fits in it is not asked. Raises DoesNotFit where the
    weights do not fit.
    """
    base = inputs(replace(case, **LEAST_REQUEST))  # type: ignore[arg-type]
    case_values = {name: getattr(case, name) for name in LEAST_REQUEST}
    arrays = {name: value for name, value in (case_values | dict(numbers)).items() if hasattr(base, name)}
    return as_measured(replace(base, **arrays), numbers.get("copy_gb_per_s"), numbers.get("per_copy_us"))


def next_token_s(case: Case, shape: ModelShape, gpu: GpuRates, engine: EngineTimes) -> Numbers:
    """Seconds of the step that gives a loaded request its next token: a recompute's prefill gives it by itself."""
    steps = assumptions.value(f"load.{case.timing}", "next_token_steps", "copies")
    return steps * decode_step_s(decode_s(1, 0.0, shape, gpu, tp=case.tp), 1, engine) if steps else 0.0


def require_request_fits(case: Case, numbers: Inputs) -> None:
    """Raises DoesNotFit where the request's KV at its last preemption exceeds the pool of a GPU."""
    last = case.tokens + (case.preemptions - 1) * case.tokens_between
    need_bytes = moved_bytes(numbers, last)
    if need_bytes > numbers.pool_bytes_per_gpu:
        raise DoesNotFit(
            say(
                "tokens: {tokens:,} tokens of {model} need {need} of KV on each GPU, {gpu} at tp {tp} has {pool} left "
                "for it; allowed: fewer tokens, more GPUs (tp), fp8 KV or a larger GPU",
                tokens=last,
                model=catalog.model(case.model).name,
                need=format_bytes(float(need_bytes)),
                gpu=case.gpu,
                tp=case.tp,
                pool=format_bytes(float(np.max(numbers.pool_bytes_per_gpu))),
            )
        )


def model_shape(model: Model) -> ModelShape:
    """The numbers of a catalog row that a step's time depends on."""
    attention = tuple(
        AttentionGroup(group.layers, group.bound_tokens, chunked=group.kind == "chunked")
        for group in model.kv_layers
        if group.kind not in ("state", "cross")
    )
    expert_rate = model.expert_weight_bytes_per_parameter or model.weight_bytes_per_parameter
    return ModelShape(
        layers=model.num_hidden_layers,
        hidden_size=model.hidden_size,
        intermediate_size=gpu_memory.active_intermediate_size(model),
        attention_width=model.num_attention_heads * (model.qk_head_dim + model.value_head_dim) / 2,
        vocab_size=model.need("vocab_size"),
        layer_parameters=weights.layer_matrix_parameters(model),
        weight_bytes_per_parameter=model.weight_bytes_per_parameter,
        expert_parameters=weights.expert_parameters(model),
        experts=model.num_experts,
        experts_per_token=model.num_experts_per_tok,
        expert_weight_bytes_per_parameter=expert_rate,
        attention=attention,
    )


def case_rates(case: Case) -> GpuRates:
    """What the GPU of a Case reaches, with the reader's own share of the peak where there is one."""
    rates = gpu_rates(catalog.gpu(case.gpu), case.timing)
    if case.gemm_efficiency is None:
        return rates
    return replace(rates, gemm_efficiency=case.gemm_efficiency, fp8_gemm_efficiency=case.gemm_efficiency)


def case_engine(case: Case) -> EngineTimes:
    """What the engine of a Case adds to its kernels; the reader's own overhead of a request in place of the model's."""
    engine = engine_times(case.gpu, case.timing)
    overhead_ms = case.request_overhead_ms
    return engine if overhead_ms is None else replace(engine, request_overhead_s=overhead_ms * MS)


def gpu_rates(gpu: Gpu, timing: str) -> GpuRates:
    """What a GPU reaches under a timing: its datasheet, and the assumptions for it or their defaults."""
    gemm = "gemm_efficiency_2023" if timing == "2023" else "gemm_efficiency"
    return GpuRates(
        peak_flop_per_s=gpu.peak_flop_per_s,
        hbm_bytes_per_s=gpu.hbm_bytes_per_s,
        gemm_efficiency=assumptions.value(gemm, gpu.id),
        weight_read_efficiency=assumptions.value("weight_read_efficiency", gpu.id),
        attention_efficiency=assumptions.value("attention_efficiency", gpu.id),
        kv_read_efficiency=assumptions.value("kv_read_efficiency", gpu.id),
        kv_read_efficiency_beside_chunk=assumptions.value("kv_read_efficiency_beside_chunk", gpu.id),
        activation_hbm_efficiency=assumptions.value("kernels", "activation_hbm_efficiency"),
        launch_s_per_layer=assumptions.value("kernels", "launch_us_per_layer") * US,
        **all_reduce_rates(gpu, timing),
        fp8_peak_flop_per_s=gpu.fp8_peak_flop_per_s if gpu.fp8_dense_tflop_per_s else gpu.peak_flop_per_s,
        fp8_gemm_efficiency=assumptions.value("fp8_gemm_efficiency" if gpu.fp8_dense_tflop_per_s else gemm, gpu.id),
    )


def all_reduce_rates(gpu: Gpu, timing: str) -> dict[str, float]:
    """How fast GPUs add up their parts: over NVLink a share of its rate, over PCIe what was measured."""
    old = "all_reduce_2023" if timing == "2023" else "all_reduce"
    pair_bytes_per_s = assumptions.value("all_reduce", "pcie_pair_gb_per_s") * GB
    large_share, beyond_pair_share = (
        1.0,
        assumptions.value("all_reduce", "pcie_beyond_pair_gb_per_s") * GB / pair_bytes_per_s,
    )
    if gpu.nvlink_bytes_per_s:
        pair_bytes_per_s = assumptions.value(old, "nvlink_share") * gpu.nvlink_bytes_per_s
        large_share, beyond_pair_share = assumptions.value(old, "nvlink_large_share"), 1.0
    return {
        "all_reduce_start_s": assumptions.value("all_reduce", "start_us") * US,
        "all_reduce_bytes_per_s": pair_bytes_per_s,
        "all_reduce_large_bytes": assumptions.value("all_reduce", "large_mib") * MIB,
        "all_reduce_large_share": large_share,
        "all_reduce_beyond_pair_share": beyond_pair_share,
    }


def prefill_band_kind(gpu_id: str, timing: str) -> str:
    """Which measured rows are nearest to a prefill: their 90th percentile of error is its range."""
    if timing == "2023":
        return "prefill_2023"
    has_rows = assumptions.assumption("gemm_efficiency", gpu_id).basis == "measured"
    return "prefill" if has_rows else "prefill_other_gpu"


def require_weights_fit(case: Case) -> None:
    """Raises DoesNotFit where the weights leave no KV pool."""
    model, gpu = catalog.model(case.model), catalog.gpu(case.gpu)
    budget = gpu_memory.memory_budget(model, gpu, tp=case.tp, max_num_batched_tokens=case.max_num_batched_tokens)
    gpu_memory.require_pool(budget, model, gpu, case.tp)


def require_sequence_fits(case: Case, numbers: Numbers) -> None:
    """Raises DoesNotFit where weights, or the KV of one sequence with its past, exceed the GPU's memory."""
    require_weights_fit(case)
    inputs(replace(case, tokens=int(numbers["tokens"] + numbers["past"]), preemptions=1))


def moved_bytes(inputs: Inputs, tokens: Numbers) -> Numbers:
    """Bytes of whole blocks that one GPU copies for `tokens`."""
    return kv_cache.kv_bytes_in_blocks(
        inputs.kv_layers,
        tokens,
        block_tokens=inputs.block_tokens,
        bytes_per_value=inputs.bytes_per_value,
        tp=inputs.tp,
    )


def copy_count(inputs: Inputs, tokens: Numbers) -> Numbers:
    """Copies that each GPU makes one way for `tokens`."""
    return kv_cache.copies(
        inputs.kv_layers,
        tokens,
        block_tokens=inputs.block_tokens,
        layout=inputs.layout,
        runs_per_block=inputs.runs_per_block,
    )
