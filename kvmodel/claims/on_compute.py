"""Claims on how fast prefill runs: ridge point, short steps, marginal cost, attention's square."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kvmodel import catalog
from kvmodel.arrays import Numbers
from kvmodel.catalog import assumptions
from kvmodel.claims.numbers import Figures
from kvmodel.curves import roofline_points
from kvmodel.inputs.case import Case
from kvmodel.recovery import break_even, costs
from kvmodel.recovery.comparison import compare_case
from kvmodel.recovery.costs import at
from kvmodel.timing import roofline, step_time


def ridge(case: Case) -> Figures:
    """Dense 16-bit peak over memory rate, from the datasheets."""
    return {
        "a100_80_flop_per_byte": _ridge(case.gpu),
        "a100_40_flop_per_byte": _ridge("a100-sxm4-40gb"),
        "article_flop_per_byte": assumptions.value("article", "ridge_flop_per_byte"),
    }


def _ridge(gpu_id: str) -> float:
    gpu = catalog.gpu(gpu_id)
    return float(roofline.ridge_flop_per_byte(gpu.peak_flop_per_s, gpu.hbm_bytes_per_s))


def short_prefill(case: Case) -> Figures:
    """Work per byte of weights in a prefill of the Case's length, and the length at which it meets the ridge."""
    shape, edge = compare_case(case).inputs.shape, _ridge(case.gpu)

    def intensity(tokens: Numbers) -> Numbers:
        flop = step_time.linear_flop(tokens, shape) + step_time.attention_flop(tokens, 0, shape)
        return flop / step_time.weight_bytes_read(tokens, shape)

    return {
        "ridge_flop_per_byte": edge,
        "intensity_flop_per_byte": float(intensity(case.tokens)),
        "tokens": case.tokens,
        "short_flop_per_byte": float(intensity(SHORT_TOKENS)),
        "short_tokens": SHORT_TOKENS,
        "ridge_about_tokens": break_even.bisect(lambda tokens: intensity(tokens) - edge, 1.0, break_even.MOST_TOKENS),
    }


SHORT_TOKENS = 64  # well under every ridge


def short_step(case: Case) -> Figures:
    """A step shorter than the ridge: what its FLOPs alone would take, the floor of reading the weights, the model."""
    inputs = compare_case(case).inputs
    shape, gpu = inputs.shape, inputs.gpu
    flop_s = float(step_time.linear_flop(case.tokens, shape) / gpu.peak_flop_per_s)
    floor_s = float(step_time.floor_s(case.tokens, 0, shape, gpu, tp=case.tp))
    model_s = float(costs.prefill_alone_s(inputs, case.tokens, 0.0))
    return {
        "tokens": case.tokens,
        "flop_s": flop_s,
        "floor_s": floor_s,
        "model_s": model_s,
        "floor_ratio": floor_s / flop_s,
        "model_ratio": model_s / flop_s,
    }


def marginal(case: Case) -> Figures:
    """What a recompute adds to the running batch, as time and as a share of its time alone; a GPU where it is dear."""
    result = compare_case(case)
    inputs = result.inputs
    lengths = np.array([case.tokens, 128, 512, 2048])
    added_s = costs.prefill_marginal_s(inputs, lengths, 0.0)
    share = added_s / costs.prefill_alone_s(inputs, lengths, 0.0)
    knee = roofline_points.step_curve(result).knee_tokens
    beside_kv = at(compare_case(replace(case, gpu="rtx-4090", decode_batch=1)).inputs, **CROWDED)
    return {
        "tokens": case.tokens,
        "added_s": float(added_s[0]),
        "added_share": float(share[0]),
        "added_512_s": float(added_s[2]),
        "added_512_share": float(share[2]),
        "added_2048_s": float(added_s[3]),
        "added_2048_share": float(share[3]),
        "decodes": case.decode_batch,
        "room_about_tokens": None if knee is None else knee - case.decode_batch,
        "beside_kv_s": float(costs.prefill_marginal_s(beside_kv, FEW_TOKENS, 0.0)),
        "few_tokens": FEW_TOKENS,
    }


FEW_TOKENS = 16
CROWDED = {"decode_batch": 64, "decode_context": 1024, "pool_bytes_per_gpu": np.inf}  # as measured, kernels alone


def attention_square(case: Case) -> Figures:
    """Length at which attention does as much work as the matrix products, and its share at the Case's length."""
    shape = compare_case(case).inputs.shape

    def excess(tokens: Numbers) -> Numbers:
        return step_time.attention_flop(tokens, 0, shape) - step_time.linear_flop(tokens, shape)

    attention = float(step_time.attention_flop(case.tokens, 0, shape))
    return {
        "equal_about_tokens": break_even.bisect(excess, 1.0, break_even.MOST_TOKENS),
        "tokens": case.tokens,
        "attention_share": attention / (attention + float(step_time.linear_flop(case.tokens, shape))),
    }
