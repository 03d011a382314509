"""Claims on engines, their flags and metrics: the numbers come from the table of releases and the memory budget."""

from __future__ import annotations

from kvmodel import catalog
from kvmodel.catalog import releases
from kvmodel.catalog.assumptions import value
from kvmodel.catalog.releases import Place
from kvmodel.claims.numbers import Figures, quoted
from kvmodel.claims.on_recovery import lost_work
from kvmodel.inputs.case import BYTES_PER_VALUE, Case
from kvmodel.memory import kv_cache
from kvmodel.memory.gpu_memory import memory_budget
from kvmodel.recovery.comparison import compare_case
from kvmodel.recovery.resolve import moved_bytes

V0_VERSION = "0.6.6"  # the V0 release that the table was read from


def place(place_id: str) -> Place:
    """One engine's row of where a preempted request's KV goes."""
    return next(row for row in releases.places() if row.id == place_id)


def keeps_in_v0(case: Case) -> Figures:
    """What V0 does with a victim's KV."""
    v0 = place("vllm-v0")
    return {"versions": v0.victim.version, "goes": v0.goes.text}


def removed_flags(case: Case) -> Figures:
    """When V0's two flags went, and what the default swap space held."""
    tokens = quoted("swap_space_bytes") / float(
        kv_cache.kv_bytes(case.stored.layers, 1, bytes_per_value=case.stored.bytes_per_value)
    )
    return {
        "mode_gone": releases.gone("--preemption-mode", "vllm"),
        "space_gone": releases.gone("--swap-space", "vllm"),
        "space_default": releases.default("--swap-space", "vllm", V0_VERSION),
        "space_tokens": tokens,
    }


def step_message(case: Case) -> Figures:
    """What a swap has to tell the worker: pairs of block numbers; the KV itself does not pass between processes."""
    inputs = compare_case(case).inputs
    return {
        "block_pairs": float(kv_cache.blocks(case.tokens, case.block_tokens)),
        "kv_bytes": float(moved_bytes(inputs, case.tokens)),
    }


def retraction(case: Case) -> Figures:
    """What SGLang does with a victim's KV, on a server of its own and on a disaggregated decode server."""
    alone, decode = place("sglang"), place("sglang-decode")
    return {"victim": alone.victim.text, "goes": alone.goes.text, "decode_goes": decode.goes.text}


def destinations(case: Case) -> Figures:
    """How many of the engines in the table keep a copy on the host."""
    rows = releases.places()
    return {
        "engines": len(rows),
        "with_host_copy": sum(row.keeps == "host" for row in rows),
        "without_copy": sum(row.keeps in ("dropped", "gpu") for row in rows),
    }


def few_preemptions(case: Case) -> Figures:
    """Share of prefilled tokens lost at a few preemptions in a hundred requests, beside a measured case."""
    result = compare_case(case)
    return {
        "per_100": 100 * quoted("few_share"),
        "lost_share": lost_work(case, quoted("few_share")),
        "delay_s": float(result.prices["recompute"].victim_delay_s),
        "wait_s": result.wait_for_blocks_s,
        "measured_low_share": quoted("lost_low_share"),
        "measured_high_share": quoted("lost_high_share"),
    }


def some_preemptions(case: Case) -> Figures:
    """The same at the article's bound for tuning."""
    return {"per_100": 100 * quoted("tune_share"), "lost_share": lost_work(case, quoted("tune_share"))}


def pool_levers(case: Case) -> Figures:
    """KV pool at the article's shares of memory and the default, and with fp8 KV. [tokens]"""
    model, gpu = catalog.model(case.model), catalog.gpu(case.gpu)

    def pool_tokens(utilization: float, kv_dtype: str) -> float:
        budget = memory_budget(
            model, gpu, tp=case.tp, max_num_batched_tokens=case.max_num_batched_tokens, utilization=utilization
        )
        per_token = kv_cache.growth_bytes_per_token(
            model.kv_layers, bytes_per_value=BYTES_PER_VALUE[kv_dtype], tp=case.tp
        )
        return float(budget.pool_bytes / per_token)

    default = value("memory", "utilization")
    before, after = quoted("utilization_before"), quoted("utilization_after")
    default_tokens = pool_tokens(default, "bf16")
    return {
        "default_share": default,
        "old_default": releases.default("--gpu-memory-utilization", "vllm", V0_VERSION),
        "changed_in": releases.periods("--gpu-memory-utilization", "vllm")[0].gone,
        "watermark_since": releases.periods("--watermark", "vllm")[0].since,
        "offload_since": releases.periods("--kv-offloading-size", "vllm")[0].since,
        "article_gain_share": pool_tokens(after, "bf16") / pool_tokens(before, "bf16") - 1,
        "gain_share": pool_tokens(after, "bf16") / default_tokens - 1,
        "fp8_ratio": pool_tokens(default, "fp8") / default_tokens,
        "held_tokens": default_tokens,
    }


def counter(case: Case) -> Figures:
    """One run of the real scheduler: events a finished request while it runs and at its end, and requests hit."""
    requests = quoted("run_requests")
    return {
        "since": releases.periods("vllm:num_preemptions_total", "vllm")[0].since,
        "early_share": quoted("run_events") / quoted("run_finished_early"),
        "end_share": quoted("run_events") / requests,
        "hit_share": quoted("run_hit") / requests,
        "histogram_since": releases.periods("vllm:request_num_preemptions", "vllm")[0].since,
    }


def swap_bound(case: Case) -> Figures:
    """KV pool of the GPU, which bounds what a swap can hold, and vLLM's default swap space."""
    pool = float(compare_case(case).inputs.pool_bytes_per_gpu)
    return {
        "pool_bytes": pool,
        "space_bytes": quoted("swap_space_bytes"),
        "pool_ratio": pool / quoted("swap_space_bytes"),
    }
