"""The formula of the KV size three ways: symbols, the numbers put in, and the result with its unit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvmodel import catalog
from kvmodel.case import BYTES_PER_VALUE, Case
from kvmodel.units import GIB, format_bytes, format_gb


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
