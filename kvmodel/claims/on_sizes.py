"""Claims on the size of the KV cache and on what it takes to copy it. Every function takes the Case of its claim."""

from __future__ import annotations

import numpy as np

from kvmodel import catalog
from kvmodel.claims.numbers import Figures
from kvmodel.curves import curves
from kvmodel.curves.kv_table import article_table
from kvmodel.inputs.case import BYTES_PER_VALUE, Case
from kvmodel.memory import kv_cache
from kvmodel.recovery import break_even, resolve
from kvmodel.recovery.comparison import compare_case
from kvmodel.recovery.resolve import Inputs
from kvmodel.units import MS

BF16_BYTES = BYTES_PER_VALUE["bf16"]


def kv_formula(case: Case) -> Figures:
    """Bytes of a token by the formula, and two models for which counting layers and heads is not enough."""
    latent, windows = catalog.model("deepseek-v3"), catalog.model("gemma-3-27b")
    return {
        "kv_bytes_per_token": _growth(case.model),
        "latent_bytes_per_token": _growth(latent.id),
        "latent_by_heads_bytes_per_token": BF16_BYTES * _values_by_heads(latent),
        "windows_bytes_per_token": _growth(windows.id),
        "windows_by_heads_bytes_per_token": BF16_BYTES * _values_by_heads(windows),
    }


def _growth(model_id: str) -> float:
    return float(kv_cache.growth_bytes_per_token(catalog.model(model_id).kv_layers, bytes_per_value=BF16_BYTES))


def _values_by_heads(model: catalog.Model) -> float:
    """K and V of every layer and KV head, as the plain formula counts them."""
    return model.num_hidden_layers * model.num_key_value_heads * (model.qk_head_dim + model.value_head_dim)


def printed_table(case: Case) -> Figures:
    """How far the article's table is from exact SI, before and after its rounding, and the rates copies reach."""
    table = article_table()
    unrounded_ms = table.printed_mib / np.asarray(table.rates_gb_per_s)[:, None]
    return {
        "unit_share": float((table.exact_one_way_ms / unrounded_ms - 1).max()),
        "rounded_share": float((table.exact_one_way_ms / table.printed_one_way_ms - 1).max()),
        "pcie4_bytes_per_s": catalog.link("pcie4-x16").h2d_bytes_per_s,
        "pcie3_bytes_per_s": catalog.link("pcie3-x16").h2d_bytes_per_s,
    }


def round_trip(case: Case) -> Figures:
    """Out and in of the Case's tokens: as printed, exactly at that rate, at the measured rate, and with V0's copies."""
    table = article_table()
    index = int(np.flatnonzero(table.tokens == case.tokens)[0])
    inputs = compare_case(case).inputs
    return {
        "article_printed_s": 2 * float(table.printed_one_way_ms[0][index]) * MS,
        "exact_s": 2 * float(table.exact_one_way_ms[0][index]) * MS,
        "measured_s": _bytes_only_s(inputs),
        "copies": 2 * float(resolve.copy_count(inputs, case.tokens)),
        "with_copies_s": float(break_even.swap_s(inputs)),
    }


def small_blocks(case: Case) -> Figures:
    """Out and in at the Case's block size: layers copied apart, and a block as one piece, over the bytes alone."""
    result = compare_case(case)
    by_block = curves.cost_by_block(result, kv_cache.LAYOUTS)
    at_block = {
        layout: float(swap_s[by_block.block_tokens == case.block_tokens][0])
        for layout, swap_s in by_block.swap_s.items()
    }
    bytes_s = _bytes_only_s(result.inputs)
    return {
        "apart_s": at_block["per-layer-kv"],
        "apart_ratio": at_block["per-layer-kv"] / bytes_s,
        "smallest_ratio": float(by_block.swap_s["per-layer-kv"][0]) / bytes_s,
        "together_s": at_block["contiguous"],
        "together_ratio": at_block["contiguous"] / bytes_s,
        "block_tokens": case.block_tokens,
    }


def _bytes_only_s(inputs: Inputs) -> float:
    """Out and in without any cost of a copy."""
    size = resolve.moved_bytes(inputs, inputs.tokens)
    return float(size / inputs.d2h_bytes_per_s + size / inputs.h2d_bytes_per_s)
