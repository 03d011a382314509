"""The pool of a Case as each engine prints it, and what each lever frees: the parts of `capacity` beside the budget."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from kvmodel import assumptions, capacity, catalog, kv_cache, kv_modes, pool_reports, weights
from kvmodel.case import BYTES_PER_VALUE, Case
from kvmodel.catalog import Gpu, Model
from kvmodel.pool_reports import Printed
from kvmodel.units import GIB

FOUR_BIT_BYTES = 0.5 + 2 / 128  # of a parameter of the layers: 4 bits and a 16-bit scale for 128 of them


def prints(
    case: Case,
    pool_bytes: float,
    *,
    max_model_len: int,
    pp: int = 1,
    dcp: int = 1,
    swap_gib: float = 0.0,
    draft_tokens: int = 0,
) -> dict[str, Printed]:
    """One pool in the words of every engine; "vllm-hybrid-off" charges window layers in full."""
    layers = catalog.model(case.model).kv_layers
    held: dict[str, Any] = {"bytes_per_value": BYTES_PER_VALUE[case.kv_dtype], "tp": case.tp, "pp": pp}
    rate = pool_reports.rank_bytes_per_token(layers, **held)
    length: dict[str, Any] = {"max_model_len": max_model_len}
    batched: dict[str, Any] = {**length, "max_num_batched_tokens": case.max_num_batched_tokens, "dcp": dcp}
    hybrid = pool_reports.pages(layers, block_tokens=case.block_tokens, **held)
    plain = pool_reports.pages(layers, block_tokens=case.block_tokens, hybrid=False, **held)
    lines = {
        "vllm": pool_reports.v1(pool_bytes, hybrid, draft_tokens=draft_tokens, **batched),
        "vllm-v1": pool_reports.v1(pool_bytes, hybrid, generation="vllm-v1", draft_tokens=draft_tokens, **batched),
        "vllm-hybrid-off": pool_reports.v1(pool_bytes, plain, draft_tokens=draft_tokens, **batched),
    }
    if rate and not any(group.kind == "state" for group in layers):
        lines |= {
            "vllm-v0": pool_reports.v0(
                pool_bytes, rate, block_tokens=case.block_tokens, swap_bytes=swap_gib * GIB, **length
            ),
            "sglang": pool_reports.sglang(pool_bytes, rate / dcp, **length),
            "trt-llm": pool_reports.trt_llm(pool_bytes, rate, **length),
        }
    return lines


def host_pool(case: Case, host_gib: float | None, *, max_model_len: int, pp: int = 1) -> dict[str, Any]:
    """What an offload pool in host memory holds: each GPU has an equal share of it. Nothing where none is asked for."""
    if host_gib is None:
        return {}
    layers, held = catalog.model(case.model).kv_layers, {"bytes_per_value": BYTES_PER_VALUE[case.kv_dtype]}
    rate = pool_reports.rank_bytes_per_token(layers, **held, tp=case.tp, pp=pp)
    share = host_gib * GIB / (case.tp * pp)
    tokens = pool_reports.host_pool_tokens(share, rate, block_tokens=case.block_tokens)
    return {"host_pool_bytes_per_gpu": share, "host_pool_tokens": tokens, "host_requests": tokens / max_model_len}


def as_rows(lines: dict[str, Printed]) -> dict[str, dict[str, Any]]:
    return {engine: asdict(line) for engine, line in lines.items()}


def fit(layers: tuple[Any, ...], pool_bytes: float, tokens: float, *, bytes_per_value: float, tp: int) -> float:
    """Requests of `tokens` tokens that a pool holds on each GPU, windows and states as they are kept."""
    own = kv_modes.engine_layers(layers, bytes_per_value)
    return float(pool_bytes / kv_cache.kv_bytes(own, tokens, bytes_per_value=bytes_per_value, tp=tp))


def levers(case: Case, *, utilization: float | None = None, tokens: int | None = None) -> list[dict[str, Any]]:
    """What each change alone frees on one GPU, and the requests of `tokens` tokens that fit then.

    `freed_bytes` is what the pool gains; a narrower KV dtype gains nothing there, it halves what a token takes.
    """
    model, gpu = catalog.model(case.model), catalog.gpu(case.gpu)
    share = assumptions.value("memory", "utilization") if utilization is None else utilization
    length = tokens or case.tokens
    now = _pool(model, gpu, case, share)
    width = BYTES_PER_VALUE[case.kv_dtype]
    rows = []

    def add(name: str, pool_bytes: float, *, bytes_per_value: float = width, tp: int = case.tp) -> None:
        fits = fit(model.kv_layers, max(pool_bytes, 0.0), length, bytes_per_value=bytes_per_value, tp=tp)
        rows.append({"lever": name, "freed_bytes": pool_bytes - now, "pool_bytes": pool_bytes, "requests": fits})

    add("as it is", now)
    if width > 1:
        add("kv_dtype fp8", now, bytes_per_value=1)
    add("weights in 4 bits", now + (weights.weight_bytes(model) - four_bit_bytes(model)) / case.tp)
    more = min(1.0, share + 0.05)
    add(f"utilization {more:.2f}", _pool(model, gpu, case, more))
    fewer = max(16, case.max_num_batched_tokens // 2)
    add(f"max_num_batched_tokens {fewer}", _pool(model, gpu, replace(case, max_num_batched_tokens=fewer), share))
    wider = 2 * case.tp
    if wider <= 64 and model.num_attention_heads % wider == 0:
        add(f"tp {wider}", _pool(model, gpu, case, share, tp=wider), tp=wider)
    return rows


def _pool(model: Model, gpu: Gpu, case: Case, utilization: float, *, tp: int | None = None) -> float:
    batched = case.max_num_batched_tokens
    return capacity.memory_budget(
        model, gpu, tp=tp or case.tp, max_num_batched_tokens=batched, utilization=utilization
    ).pool_bytes


def four_bit_bytes(model: Model) -> float:
    """Weights with the layers' matrices in 4 bits, the rest in 16; never more than they are now. [bytes]"""
    layers = weights.layer_matrix_parameters(model) + model.num_experts * weights.expert_parameters(model)
    rest = weights.parameter_count(model) - layers
    return min(weights.weight_bytes(model), layers * FOUR_BIT_BYTES + 2.0 * rest)
