"""The questions of the command line that are smaller than a comparison: size, capacity, prefill, copy.

Each takes a Case and `numbers`: the Case's numeric fields and the question's own. In size, prefill and copy
they may be arrays that broadcast together (tp may not), and then so are the results.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from kvmodel import catalog
from kvmodel.catalog import assumptions, kv_dtypes
from kvmodel.inputs.case import Case
from kvmodel.memory import gpu_memory, kv_cache, levers, pool_plan, printed_by_engine
from kvmodel.recovery import resolve
from kvmodel.timing import engine_time, step_time, transfer
from kvmodel.timing.copy_path import as_measured, copy_path

if TYPE_CHECKING:
    from kvmodel.hf.config_file import Reading

Numbers = Mapping[str, Any]


def size(case: Case, numbers: Numbers) -> dict[str, Any]:
    """KV of one request: whole, on each GPU, held in blocks, and without a hybrid KV manager. [bytes]"""
    layers, width, tokens, tp = case.stored.layers, case.stored.bytes_per_value, numbers["tokens"], case.tp
    return {
        "kv_bytes": kv_cache.kv_bytes(layers, tokens, bytes_per_value=width),
        "kv_bytes_per_gpu": kv_cache.kv_bytes(layers, tokens, bytes_per_value=width, tp=tp),
        "growth_bytes_per_token": kv_cache.growth_bytes_per_token(layers, bytes_per_value=width),
        "fixed_bytes": kv_cache.fixed_bytes(layers, bytes_per_value=width),
        "kv_bytes_hybrid_off": kv_cache.kv_bytes_hybrid_off(layers, tokens, bytes_per_value=width),
        "kv_bytes_in_blocks": kv_cache.kv_bytes_in_blocks(
            layers, tokens, block_tokens=numbers["block_tokens"], bytes_per_value=width, tp=tp
        ),
    }


def fields_used(case: Case, reading: Reading | None = None) -> dict[str, Any]:
    """The figures that a model's KV size follows from: of its row, or the keys of its config.json."""
    model = catalog.model(case.model)
    if reading is not None:
        return dict(reading.used) | {
            "section": reading.section,
            **stored(case),
        }
    names = ["num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim"]
    if model.kv_lora_rank:
        names = ["num_hidden_layers", "kv_lora_rank", "qk_rope_head_dim"]
    return {name: getattr(model, name) for name in names} | {
        **stored(case),
    }


def kv_notes(case: Case) -> dict[str, Any]:
    """What to know of the KV dtype for this model's sizes; nothing where all is ordinary."""
    sentences = kv_dtypes.size_notes(catalog.model(case.model).kv_layers, case.kv_dtype)
    return {"kv_notes": list(sentences)} if sentences else {}


def stored(case: Case) -> dict[str, Any]:
    """How wide a value is in the Case's dtype, and the layers as they are kept in it: the factors of its size."""
    kept = case.stored
    return {
        "kv_dtype": case.kv_dtype,
        "bytes_per_value": kept.bytes_per_value,
        "kv_layers": [asdict(group) for group in kept.layers],
    }


def config_answer(reading: Reading | None) -> dict[str, Any]:
    """What a config.json says beside the KV: assumptions, parameters, weights; nothing for a catalog's model."""
    if reading is None:
        return {}
    parameters = reading.parameters
    return {
        "assumed": reading.assumed,
        "notes": list(reading.notes),
        "parameters": parameters.total if parameters else None,
        "active_parameters": parameters.active if parameters else None,
        "weight_bytes": reading.model.counts.weight_bytes if reading.model.counts else None,
        "fixed_state_bytes_transformers": reading.fixed_bytes_transformers,
    }


def pool(case: Case, numbers: Numbers) -> dict[str, Any]:
    """The KV pool of one GPU, the requests it holds, and how each engine prints it. Raises DoesNotFit."""
    settings = (
        "max_model_len",
        "utilization",
        "pp",
        "dcp",
        "swap_gib",
        "draft_tokens",
        "unchunked",
        "max_num_seqs",
        "weight_gib",
    )
    startup = pool_plan.Startup(case=case, **{name: numbers[name] for name in settings})
    report = gpu_memory.pool_report(
        catalog.model(case.model),
        catalog.gpu(case.gpu),
        tp=case.tp,
        kv_dtype=case.kv_dtype,
        block_tokens=case.block_tokens,
        max_num_batched_tokens=case.max_num_batched_tokens,
        max_model_len=startup.longest,
        utilization=startup.utilization,
        pp=startup.pp,
        peak_bytes=pool_plan.unchunked_peak_bytes(startup) if startup.unchunked else None,
        loaded_bytes=startup.loaded_bytes,
        max_num_seqs=startup.max_num_seqs,
    )
    host = printed_by_engine.host_pool(case, numbers["offload_gib"], max_model_len=startup.longest, pp=startup.pp)
    lines = printed_by_engine.as_rows(pool_plan.plan(startup).printed)
    return (
        {"max_model_len": startup.longest}
        | report
        | kv_notes(case)
        | host
        | {"printed": lines, "levers": levers.as_rows(levers.levers(startup))}
    )


def prefill(case: Case, numbers: Numbers) -> dict[str, Any]:
    """Seconds to prefill with the GPU to itself, their band and floor, and the share of the peak that is used.

    `bound` is the larger of all computing and all moving of weights and activations. Whether the weights fit is
    not asked here: see :func:`require_weights_fit`.
    """
    shape = resolve.model_shape(catalog.model(case.model))
    gpu = resolve.case_rates(case)
    new, past, sequences = (np.asarray(numbers[name], float) for name in ("tokens", "past", "batch"))
    chunk = np.minimum(numbers["max_num_batched_tokens"], new * sequences)
    seconds = engine_time.prefill_s(
        new, past, shape, gpu, resolve.case_engine(case), tp=case.tp, chunk_tokens=chunk, sequences=sequences
    )
    band = assumptions.value("band", resolve.prefill_band_kind(case.gpu, case.timing))
    attention_flop = sequences * step_time.attention_flop(new, past, shape)
    flop = step_time.linear_flop(new * sequences, shape, sampled=sequences) + attention_flop
    computing_s = step_time.compute_s(new * sequences, shape, gpu, tp=case.tp, sampled=sequences)
    computing_s = computing_s + sequences * step_time.attention_s(new, past, shape, gpu, tp=case.tp)
    reads_s = np.ceil(new * sequences / chunk) * step_time.weight_read_s(chunk, shape, gpu, tp=case.tp)
    moving_s = reads_s + step_time.traffic_s(new * sequences, shape, gpu, tp=case.tp)
    return {
        "prefill_s": seconds,
        "low_s": seconds * (1 - band),
        "high_s": seconds * (1 + band),
        "floor_s": step_time.floor_s(new, past, shape, gpu, tp=case.tp, sequences=sequences),
        "bound": np.where(computing_s >= moving_s, "compute", "memory"),
        "mfu": flop / (seconds * case.tp * np.asarray(gpu.peak_flop_per_s)),
    }


def prefill_parts(case: Case, numbers: Numbers) -> dict[str, Any] | None:
    """What the kernels of one sequence's prefill are made of; None for several together."""
    if numbers["batch"] != 1:
        return None
    parts = step_time.prefill_parts_s(
        numbers["tokens"],
        numbers["past"],
        resolve.model_shape(catalog.model(case.model)),
        resolve.case_rates(case),
        tp=case.tp,
        chunk_tokens=case.max_num_batched_tokens,
    )
    return {f"{name.replace('-', '_')}_s": seconds for name, seconds in parts.items()}


def copy(case: Case, numbers: Numbers) -> dict[str, Any]:
    """Seconds for copies of one size, one way, over one GPU's link; `wire_s` is the part the bytes take.

    `gpu_s` is GPU time that a copy kernel takes from others, `pin_s` what locking the host memory takes, once.
    """
    path = copy_path(replace(case, copy_gb_per_s=None, per_copy_us=None))
    rates = as_measured(path, numbers["copy_gb_per_s"], numbers["per_copy_us"])
    size_bytes = np.multiply(numbers["copies"], numbers["bytes_per_copy"])
    transfers = transfer.transfer(rates, numbers["direction"], numbers["copies"], size_bytes, tp=case.tp)
    small = path.small_loads
    return {
        "copy_s": transfers.seconds,
        "effective_bytes_per_s": transfer.effective_bytes_per_s(size_bytes, transfers.seconds),
        "wire_s": transfer.copy_s(0, size_bytes, per_copy_s=0, link_bytes_per_s=transfers.bytes_per_s),
        "per_copy_s": transfers.per_copy_s,
        "link_bytes_per_s": transfers.bytes_per_s,
        "total_bytes": size_bytes,
        "method": np.where(transfers.is_small, small.method, path.method) if small else path.method,
        "gpu_s": transfers.gpu_s,
        "pin_s": path.pin_s_per_byte * size_bytes,
    }
