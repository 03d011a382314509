"""Where the bytes of a KV cache come from: one token's, one request's, and what is moved of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from kvmodel.catalog import KvLayers
from kvmodel.explain.formula import Factor, Line, Term, Trace
from kvmodel.inputs.case import Case
from kvmodel.memory import kv_cache

FactorsOf = Callable[[KvLayers], tuple[Factor, ...]]
ONE_LETTER = ("full", "mla")  # kinds whose layers are plain L


def kv(case: Case) -> Trace:
    """Bytes of one token while every layer grows, of one once the windows are full, and of the request. All GPUs."""
    kept = case.stored
    return *growth(kept.layers, kept.bytes_per_value), request(case)


def growth(layers: Sequence[KvLayers], value_bytes: float) -> Trace:
    """What one token adds: in all layers, and where some of them stop growing in the others."""
    growing = [group for group in layers if np.isinf(group.bound_tokens)]
    token, later = (kv_terms(groups, value_bytes, lambda _: (), with_state=False) for groups in (layers, growing))
    first = Line("kv_token", "m", token, "bytes", "memory.kv_cache.layer_bytes_per_token", headline=True)
    then = Line("kv_growth", "m'", later, "bytes", "memory.kv_cache.growth_bytes_per_token", headline=True)
    return (first, then) if later and len(later) < len(token) else (first,)


def request(case: Case) -> Line:
    """The KV of the whole request."""

    def token_factors(group: KvLayers) -> tuple[Factor, ...]:
        has_bound = np.isfinite(group.bound_tokens)
        return (Factor(r"\min(n, w)" if has_bound else "n", min(case.tokens, group.bound_tokens), "tokens"),)

    kept = case.stored
    terms = kv_terms(kept.layers, kept.bytes_per_value, token_factors)
    return Line("kv_request", "M", terms, "bytes", "memory.kv_cache.kv_bytes", headline=True)


def copy_size(case: Case) -> Line:
    """What one GPU copies one way: every layer's tokens in whole blocks."""

    def token_factors(group: KvLayers) -> tuple[Factor, ...]:
        blocks = float(kv_cache.blocks(min(case.tokens, group.bound_tokens), case.block_tokens))
        return Factor("N_b", blocks, "blocks"), Factor("n_b", case.block_tokens, "tokens")

    kept = case.stored
    terms = kv_terms(kept.layers, kept.bytes_per_value, token_factors, tp=case.tp)
    return Line("moved", "M", terms, "bytes", "memory.kv_cache.kv_bytes_in_blocks")


def kv_terms(
    layers: Iterable[KvLayers], value_bytes: float, token_factors: FactorsOf, *, tp: int = 1, with_state: bool = True
) -> tuple[Term, ...]:
    """Products that add up to the bytes on each of `tp` GPUs, one or two a group of layers."""
    terms = []
    for group in layers:
        count = Factor("L" if group.kind in ONE_LETTER else rf"L_\text{{{group.kind}}}", group.layers, "layers")
        entry = (Factor("c", group.tokens_per_entry, "tokens an entry"),) if group.tokens_per_entry > 1 else ()
        if group.key_dim:
            width = (*_widths(group, count, tp), *token_factors(group), Factor("b", value_bytes, "bytes"))
            terms.append(Term(width, entry, "kv"))
        if group.index_dim:
            index = Factor("i", float(kv_cache.index_bytes(group.index_dim, value_bytes)), "bytes of index")
            terms.append(Term((count, *token_factors(group), index), entry, "kv"))
        if group.fixed_bytes and with_state:
            split = (Factor("tp", tp, "GPUs"),) if tp > 1 else ()
            terms.append(Term((count, Factor("s", group.fixed_bytes, "bytes of state")), split, "kv"))
    return tuple(terms)


def _widths(group: KvLayers, count: Factor, tp: int) -> tuple[Factor, ...]:
    """Values that one token has in the layers of a group on one GPU."""
    if group.kind == "mla":
        return count, Factor(r"(r_{kv} + d_\text{rope})", group.key_dim, "values")
    split = Factor(r"H_{kv} / tp" if tp > 1 else "H_{kv}", max(1.0, group.kv_heads / tp), "KV heads")
    if group.key_dim == group.value_dim:
        return Factor("2", 2, "(K and V)"), count, split, Factor("D", group.key_dim, "values")
    return count, split, Factor("(D_k + D_v)", group.key_dim + group.value_dim, "values")
