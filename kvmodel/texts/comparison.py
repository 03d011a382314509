"""The numbers of a comparison as strings with units, ready to stand in a sentence."""

from __future__ import annotations

from collections.abc import Callable

from kvmodel import catalog
from kvmodel.catalog import assumptions
from kvmodel.claims.figure19 import Figure19
from kvmodel.curves.roofline_points import Roofline, StepCurve
from kvmodel.inputs.case import Case
from kvmodel.memory import kv_cache
from kvmodel.recovery import break_even, costs, resolve
from kvmodel.recovery.comparison import Comparison
from kvmodel.recovery.strategies import STRATEGIES
from kvmodel.recovery.verdict import Flip
from kvmodel.texts.answers import FLIPS
from kvmodel.timing import roofline, step_time
from kvmodel.units import (
    MS,
    NONE,
    TB,
    TFLOP,
    US,
    format_bytes,
    format_count,
    format_gb,
    format_percent,
    format_rate,
    format_ratio,
    format_seconds,
    significant,
)
from kvmodel.words import say


def comparison_texts(result: Comparison) -> dict[str, str]:
    """Placeholder name -> text: the case, its prices and what turns them."""
    return case_texts(result) | price_texts(result) | break_even_texts(result)


def case_texts(result: Comparison) -> dict[str, str]:
    """The inputs of a case and what follows from them without a price."""
    case, inputs = result.case, result.inputs
    size = float(resolve.moved_bytes(inputs, inputs.tokens))
    copies = float(resolve.copy_count(inputs, inputs.tokens))
    return {
        "model": catalog.model(case.model).label,
        "gpu": catalog.gpu(case.gpu).label,
        "link": say(catalog.link(case.link_id).label),
        "timing": case.timing,
        "policy": say(catalog.table("engines")[case.policy]["label"]),
        "tp": format_count(case.tp),
        "tokens": format_count(case.tokens),
        "preemptions": format_count(case.preemptions),
        "tokens_between": format_count(case.tokens_between),
        "decode_batch": format_count(case.decode_batch),
        "decode_context": format_count(case.decode_context),
        "generated_tokens": format_count(min(case.generated_tokens, case.tokens)),
        "block_tokens": format_count(case.block_tokens),
        "survival": format_percent(case.survival),
        "kv_mib": format_bytes(size),
        "kv_mb": format_gb(size),
        "blocks": format_count(float(kv_cache.blocks(case.tokens, case.block_tokens))),
        "copies": format_count(copies),
        "bytes_per_copy": format_bytes(size / copies),
        "pool": format_bytes(float(inputs.pool_bytes_per_gpu)),
        "d2h_rate": format_rate(float(inputs.d2h_bytes_per_s)),
        "h2d_rate": format_rate(float(inputs.h2d_bytes_per_s)),
        "effective_rate": format_rate(float(break_even.effective_copy_bytes_per_s(inputs))),
        "wait_for_blocks": format_seconds(result.wait_for_blocks_s),
        "floor": format_seconds(float(step_time.floor_s(case.tokens, 0, inputs.shape, inputs.gpu, tp=case.tp))),
    }


def price_texts(result: Comparison) -> dict[str, str]:
    """Every strategy's price, and who wins."""
    pair, best = result.verdict.swap_or_recompute, result.verdict.best
    texts = {
        "pair_winner": say(pair.winner or NONE),
        "pair_loser": say(str(pair.runner_up)),
        "pair_factor": _ratio(pair.factor),
        "best": say(best.winner or NONE),
        "best_runner_up": say(best.runner_up or NONE),
        "best_factor": _ratio(best.factor),
    }
    for name in STRATEGIES:
        price = result.prices[name]
        texts[f"{name}_delay"] = format_seconds(float(price.victim_delay_s))
        texts[f"{name}_low"] = format_seconds(float(price.low_s))
        texts[f"{name}_high"] = format_seconds(float(price.high_s))
        texts[f"{name}_gpu"] = format_seconds(float(price.gpu_s))
    texts["swap_out"] = format_seconds(float(result.prices["swap"].out_s))
    texts["swap_in"] = format_seconds(float(result.prices["swap"].in_s))
    return texts


def break_even_texts(result: Comparison) -> dict[str, str]:
    """The break-evens as text, a dash where there is none."""
    even = result.even
    return {
        "even_rate": format_rate(even.copy_bytes_per_s) if even.copy_bytes_per_s else NONE,
        "even_bytes_per_copy": format_bytes(even.bytes_per_copy, digits=2) if even.bytes_per_copy else NONE,
        "even_tokens": format_count(even.context_tokens) if even.context_tokens else NONE,
        "even_survival": format_percent(even.survival) if even.survival is not None else NONE,
        "even_preemptions": format_count(even.preemptions) if even.preemptions else NONE,
    }


def _ratio(factor: float | None) -> str:
    return format_ratio(factor) if factor is not None else NONE


def flip_texts(flip: Flip) -> dict[str, str]:
    """One thing that turns the answer: where, what it is now, and how far away."""
    as_text = FLIPS[flip.what][1]
    return {"at": as_text(flip.at), "now": as_text(flip.now), "times": format_ratio(flip.times), "then": say(flip.then)}


def kv_texts(result: Comparison) -> dict[str, str]:
    """Sizes of the KV page: the whole request, one GPU's part, growth, and what does not grow."""
    case = result.case
    layers, value_bytes = case.stored.layers, case.stored.bytes_per_value
    whole = float(kv_cache.kv_bytes(layers, case.tokens, bytes_per_value=value_bytes))
    per_gpu = float(kv_cache.kv_bytes(layers, case.tokens, bytes_per_value=value_bytes, tp=case.tp))
    hybrid_off = float(kv_cache.kv_bytes_hybrid_off(layers, case.tokens, bytes_per_value=value_bytes))
    growth = float(kv_cache.growth_bytes_per_token(layers, bytes_per_value=value_bytes))
    return {
        "kv_dtype": case.kv_dtype,
        "kv_total": format_bytes(whole),
        "kv_total_gb": format_gb(whole),
        "kv_per_gpu": format_bytes(per_gpu),
        "growth": f"{format_count(growth)} B ({format_bytes(growth)})",
        "fixed": format_bytes(float(kv_cache.fixed_bytes(layers, bytes_per_value=value_bytes))),
        "hybrid_off": format_bytes(hybrid_off),
    }


def calibrated_texts(case: Case) -> dict[str, str]:
    """Figures of the reader's that stand in place of the model's, by Case field."""
    texts: dict[str, Callable[[float], str]] = {
        "gemm_efficiency": lambda share: format_percent(share, 3),
        "request_overhead_ms": lambda overhead_ms: format_seconds(overhead_ms * MS),
        "copy_gb_per_s": lambda rate: f"{significant(rate, 3)} GB/s",
        "per_copy_us": lambda cost_us: format_seconds(cost_us * US),
    }
    return {field: text(value) for field, text in texts.items() if (value := getattr(case, field)) is not None}


def has_fixed_part(result: Comparison) -> bool:
    """Whether some layers of the model stop growing."""
    return bool(kv_cache.fixed_bytes(catalog.model(result.case.model).kv_layers, bytes_per_value=1) > 0)


SHORT_STEP_TOKENS = 32


def roofline_texts(result: Comparison, line: Roofline, step: StepCurve) -> dict[str, str]:
    """Ridge, points and knee of the Roofline page, and what the article says of an A100."""
    shape, gpu, case = result.inputs.shape, result.inputs.gpu, result.case
    short = SHORT_STEP_TOKENS
    texts = {
        "ridge": significant(line.ridge_flop_per_byte, 3),
        "peak": f"{significant(line.peak_flop_per_s / TFLOP, 3)} TFLOP/s",
        "hbm": f"{significant(line.hbm_bytes_per_s / TB, 3)} TB/s",
        "knee": significant(step.knee_tokens, 3) if step.knee_tokens else NONE,
        "weight_read": format_seconds(float(step_time.weight_read_s(short, shape, gpu, tp=case.tp))),
        "short_step": format_seconds(float(step_time.step_s(short, shape, gpu, tp=case.tp))),
        "short_compute": format_seconds(float(step_time.compute_s(short, shape, gpu, tp=case.tp))),
        "batch_kv": format_bytes(float(costs.batch_kv_bytes(result.inputs)) * case.tp),
        "article_ridge": significant(assumptions.value("article", "ridge_flop_per_byte"), 3),
        "gemm": format_percent(float(gpu.gemm_efficiency)),
        "attention": format_percent(float(gpu.attention_efficiency)),
        "weight_share": format_percent(float(gpu.weight_read_efficiency)),
        "basis": say(assumptions.assumption("gemm_efficiency", case.gpu).basis),
    }
    for name, gpu_id in (("a100_80", "a100-sxm4-80gb"), ("a100_40", "a100-sxm4-40gb")):
        row = catalog.gpu(gpu_id)
        texts[name] = significant(float(roofline.ridge_flop_per_byte(row.peak_flop_per_s, row.hbm_bytes_per_s)), 3)
    for point in line.points:
        texts[f"{point.name}_intensity"] = significant(point.intensity_flop_per_byte, 2)
        texts[f"{point.name}_rate"] = f"{significant(point.attained_flop_per_s / TFLOP, 2)} TFLOP/s"
        texts[f"{point.name}_share"] = format_percent(point.attained_flop_per_s / line.peak_flop_per_s)
    return texts


def figure19_texts(figure: Figure19) -> dict[str, str]:
    """Crossing and ratios of the vLLM paper's Figure 19."""
    return {
        "crossing": format_count(figure.crossing_plotted_block_tokens),
        "ratio": format_ratio(float(figure.ratio[-1]), 3),
        "ratio_measured": format_ratio(float(figure.ratio_measured[-1]), 3),
    }
