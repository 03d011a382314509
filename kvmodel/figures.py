"""The numbers of one comparison as strings with units, ready to stand in a sentence; and the formula three ways."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvmodel import break_even, catalog, kv_cache, recovery, step_time
from kvmodel.case import BYTES_PER_VALUE, Case
from kvmodel.comparison import Comparison
from kvmodel.recovery import STRATEGIES
from kvmodel.units import (
    GIB,
    format_bytes,
    format_count,
    format_gb,
    format_percent,
    format_rate,
    format_ratio,
    format_seconds,
)

NONE = "–"


def figures(result: Comparison) -> dict[str, str]:
    """Placeholder name -> text, for the prose of every page."""
    case, inputs = result.case, result.inputs
    size = float(recovery.moved_bytes(inputs, inputs.tokens))
    copies = float(recovery.copy_count(inputs, inputs.tokens))
    pair, best = result.verdict.swap_or_recompute, result.verdict.best
    texts = {
        "model": catalog.model(case.model).label,
        "gpu": catalog.gpu(case.gpu).label,
        "link": catalog.link(case.link_id).label,
        "timing": case.timing,
        "policy": catalog.table("engines")[case.policy]["label"],
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
        "pool": format_bytes(float(np.asarray(inputs.pool_bytes_per_gpu))),
        "d2h_rate": format_rate(float(np.asarray(inputs.d2h_bytes_per_s))),
        "h2d_rate": format_rate(float(np.asarray(inputs.h2d_bytes_per_s))),
        "effective_rate": format_rate(float(break_even.effective_copy_bytes_per_s(inputs))),
        "wait_for_blocks": format_seconds(result.wait_for_blocks_s),
        "floor": format_seconds(float(step_time.floor_s(case.tokens, 0, inputs.shape, inputs.gpu, tp=case.tp))),
        "pair_winner": pair.winner,
        "pair_loser": str(pair.runner_up),
        "pair_factor": _ratio(pair.factor),
        "best": best.winner,
        "best_runner_up": best.runner_up or NONE,
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
    return texts | break_even_figures(result)


def break_even_figures(result: Comparison) -> dict[str, str]:
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


@dataclass(frozen=True)
class Factor:
    """One letter of a formula: its LaTeX symbol, the number put in, and its unit."""

    symbol: str
    value: float
    unit: str


@dataclass(frozen=True)
class Term:
    """A product of factors: the bytes of one group of layers."""

    kind: str
    factors: tuple[Factor, ...]

    @property
    def product(self) -> float:
        return float(np.prod([factor.value for factor in self.factors]))


def kv_terms(case: Case) -> tuple[Term, ...]:
    """KV bytes of the whole request as products, one a group of layers; their sum is the size."""
    return tuple(term for group in catalog.model(case.model).kv_layers for term in _group_terms(group, case))


def _group_terms(group: catalog.KvLayers, case: Case) -> list[Term]:
    layers = Factor("L" if group.kind in ("full", "mla") else rf"L_\text{{{group.kind}}}", group.layers, "layers")
    terms = []
    if group.key_dim:
        bounded = np.isfinite(group.bound_tokens)
        held = Factor(r"\min(n, w)" if bounded else "n", min(case.tokens, group.bound_tokens), "tokens")
        value_bytes = Factor("b", BYTES_PER_VALUE[case.kv_dtype], "bytes")
        if group.kind == "mla":
            widths = [Factor(r"(r_{kv} + d_\text{rope})", group.key_dim, "values")]
        elif group.key_dim == group.value_dim:
            heads = Factor("H_{kv}", group.kv_heads, "KV heads")
            widths = [Factor("2", 2, "K and V"), heads, Factor("D", group.key_dim, "values")]
        else:
            heads = Factor("H_{kv}", group.kv_heads, "KV heads")
            widths = [heads, Factor("(D_k + D_v)", group.key_dim + group.value_dim, "values")]
        terms.append(Term(group.kind, (layers, *widths, held, value_bytes)))
    if group.fixed_bytes:
        terms.append(Term(group.kind, (layers, Factor(r"s", group.fixed_bytes, "bytes of state"))))
    return terms


def latex(terms: tuple[Term, ...]) -> tuple[str, str, str]:
    """The terms three ways: symbols, numbers put in, and the result with its unit."""
    symbols = " + ".join(r" \cdot ".join(factor.symbol for factor in term.factors) for term in terms)
    numbers = " + ".join(r" \cdot ".join(_plain(factor.value) for factor in term.factors) for term in terms)
    total = sum(term.product for term in terms)
    return f"M = {symbols}", f"M = {numbers}", rf"M = {_plain(total)}\ \text{{bytes}} = {_size(total)}"


def _plain(value: float) -> str:
    return f"{value:,.0f}".replace(",", r"{,}")


def _size(size_bytes: float) -> str:
    unit = rf"\text{{{format_bytes(size_bytes)}}}"
    return unit if size_bytes < GIB else rf"{unit} = \text{{{format_gb(size_bytes)}}}"
