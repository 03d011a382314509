"""The pool of a Case as each engine prints it, what a host pool holds, and weights in 4 bits."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from kvmodel.inputs.case import Case
from kvmodel.memory import printouts
from kvmodel.memory.printouts import Printed
from kvmodel.units import GIB


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
    layers = case.stored.layers
    storage: dict[str, Any] = {"bytes_per_value": case.stored.bytes_per_value, "tp": case.tp, "pp": pp}
    rate = printouts.rank_bytes_per_token(layers, **storage)
    length: dict[str, Any] = {"max_model_len": max_model_len}
    batched: dict[str, Any] = {**length, "max_num_batched_tokens": case.max_num_batched_tokens, "dcp": dcp}
    hybrid = printouts.pages(layers, block_tokens=case.block_tokens, **storage)
    plain = printouts.pages(layers, block_tokens=case.block_tokens, hybrid=False, **storage)
    lines = {
        "vllm": printouts.v1(pool_bytes, hybrid, draft_tokens=draft_tokens, **batched),
        "vllm-v1": printouts.v1(pool_bytes, hybrid, generation="vllm-v1", draft_tokens=draft_tokens, **batched),
        "vllm-hybrid-off": printouts.v1(pool_bytes, plain, draft_tokens=draft_tokens, **batched),
    }
    if rate and not any(group.kind == "state" for group in layers):
        lines |= {
            "vllm-v0": printouts.v0(
                pool_bytes, rate, block_tokens=case.block_tokens, swap_bytes=swap_gib * GIB, **length
            ),
            "sglang": printouts.sglang(pool_bytes, rate / dcp, **length),
            "trt-llm": printouts.trt_llm(pool_bytes, rate, **length),
        }
    return lines


def host_pool(case: Case, host_gib: float | None, *, max_model_len: int, pp: int = 1) -> dict[str, Any]:
    """What an offload pool in host memory holds: each GPU has an equal share of it. Nothing where none is asked for."""
    if host_gib is None:
        return {}
    kept = case.stored
    rate = printouts.rank_bytes_per_token(kept.layers, bytes_per_value=kept.bytes_per_value, tp=case.tp, pp=pp)
    share = host_gib * GIB / (case.tp * pp)
    tokens = printouts.host_pool_tokens(share, rate, block_tokens=case.block_tokens)
    return {"host_pool_bytes_per_gpu": share, "host_pool_tokens": tokens, "host_requests": tokens / max_model_len}


def as_rows(lines: dict[str, Printed]) -> dict[str, dict[str, Any]]:
    return {engine: asdict(line) for engine, line in lines.items()}
