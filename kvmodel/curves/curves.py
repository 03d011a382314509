"""Series for the charts: the same prices as everywhere, over a range of one or two inputs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from kvmodel import catalog
from kvmodel.arrays import Floats
from kvmodel.catalog import kv_dtypes
from kvmodel.memory import kv_cache
from kvmodel.recovery import break_even, resolve, strategies
from kvmodel.recovery.comparison import Comparison
from kvmodel.recovery.costs import at
from kvmodel.recovery.strategies import STRATEGIES

LENGTH_POINTS = 161
MAP_POINTS = 81
SHORTEST_TOKENS, LONGEST_TOKENS = 128, 131072
BLOCK_SIZES: Floats = np.exp2(np.arange(11, dtype=float))
SLOWEST_COPY_BYTES_PER_S, FASTEST_COPY_BYTES_PER_S = 0.5e9, 500e9
SHOWN_PREEMPTIONS = 10


@dataclass(frozen=True)
class CostCurves:
    """Victim delay of each strategy over `x` with its band, and the chosen point."""

    x: Floats
    likely_s: dict[str, Floats]
    low_s: dict[str, Floats]
    high_s: dict[str, Floats]
    chosen_x: float
    crossing_x: float | None


def cost_by_length(result: Comparison) -> CostCurves:
    """Cost of one preemption against context length, up to what the pool holds."""
    inputs = result.inputs
    case_tokens = float(inputs.tokens)
    longest = min(max(LONGEST_TOKENS, case_tokens), break_even.most_tokens(inputs))
    tokens = _lengths(case_tokens, longest, LENGTH_POINTS)
    prices = strategies.price(at(inputs, tokens=tokens, preemptions=1))
    return _curves(tokens, prices, case_tokens, result.even.context_tokens)


@dataclass(frozen=True)
class KvCurves:
    """KV bytes of one request on each GPU, by model label, against context length."""

    tokens: Floats
    kv_bytes: dict[str, Floats]
    chosen_label: str
    chosen_tokens: float


def kv_by_length(result: Comparison, others: Iterable[str] = ()) -> KvCurves:
    """The chosen model's KV against length, and that of other models in the same KV dtype on one GPU each."""
    case = result.case
    model = catalog.model(case.model)
    tokens = _lengths(float(case.tokens), float(max(LONGEST_TOKENS, case.tokens)), LENGTH_POINTS)
    kept = case.stored
    sizes = {model.label: kv_cache.kv_bytes(kept.layers, tokens, bytes_per_value=kept.bytes_per_value, tp=case.tp)}
    for other in map(catalog.model, others):
        same = kv_dtypes.stored(other.kv_layers, case.kv_dtype)
        sizes.setdefault(other.label, kv_cache.kv_bytes(same.layers, tokens, bytes_per_value=same.bytes_per_value))
    return KvCurves(tokens, sizes, model.label, float(case.tokens))


@dataclass(frozen=True)
class BlockCurves:
    """Out-and-in cost over block sizes for every layout, bytes a copy, and recompute to compare with. [s], [bytes]

    `low_s` and `high_s` are the ranges of swap in the chosen layout and of recompute, by strategy, over block sizes.
    """

    block_tokens: Floats
    swap_s: dict[str, Floats]
    bytes_per_copy: dict[str, Floats]
    low_s: dict[str, Floats]
    high_s: dict[str, Floats]
    recompute_s: float
    chosen_block_tokens: float
    chosen_layout: str


def cost_by_block(result: Comparison, layouts: tuple[str, ...]) -> BlockCurves:
    """Swap of one preemption against block size, a curve a layout."""
    one = at(result.inputs, block_tokens=BLOCK_SIZES, preemptions=1)
    swap_s, per_copy = {}, {}
    for layout in layouts:
        laid_out = at(one, layout=layout)
        swap_s[layout] = strategies.swap(laid_out).victim_delay_s
        size, copies = resolve.moved_bytes(laid_out, one.tokens), resolve.copy_count(laid_out, one.tokens)
        per_copy[layout] = size / copies
    prices = {"swap": strategies.swap(one), "recompute": strategies.recompute(at(result.inputs, preemptions=1))}
    return BlockCurves(
        block_tokens=BLOCK_SIZES,
        swap_s=swap_s,
        bytes_per_copy=per_copy,
        low_s={name: np.broadcast_to(price.low_s, BLOCK_SIZES.shape) for name, price in prices.items()},
        high_s={name: np.broadcast_to(price.high_s, BLOCK_SIZES.shape) for name, price in prices.items()},
        recompute_s=float(prices["recompute"].victim_delay_s),
        chosen_block_tokens=result.case.block_tokens,
        chosen_layout=result.case.layout,
    )


@dataclass(frozen=True)
class WinnerMap:
    """Recompute over swap for every length (columns) and effective copy rate (rows), and the break-even rate.

    `clear_factor` is, by winner, from which factor on its range and the loser's no longer overlap.
    """

    tokens: Floats
    copy_bytes_per_s: Floats
    recompute_over_swap: Floats
    break_even_bytes_per_s: Floats
    clear_factor: dict[str, float]
    chosen_tokens: float
    chosen_bytes_per_s: float


def winner_map(result: Comparison) -> WinnerMap:
    """Who wins where, with copies at an effective rate (their overheads in it)."""
    inputs = result.inputs
    case_tokens = float(inputs.tokens)
    longest = min(max(LONGEST_TOKENS, case_tokens), break_even.most_tokens(inputs))
    tokens = _lengths(case_tokens, longest, MAP_POINTS)
    rates = np.geomspace(SLOWEST_COPY_BYTES_PER_S, FASTEST_COPY_BYTES_PER_S, MAP_POINTS)
    equal = break_even.copy_rate_of_equal_cost(at(inputs, tokens=tokens))
    return WinnerMap(
        tokens=tokens,
        copy_bytes_per_s=rates,
        recompute_over_swap=rates[:, None] / equal[None, :],
        break_even_bytes_per_s=equal,
        clear_factor={
            "swap": float((1 + inputs.copy_band) / (1 - inputs.prefill_band)),
            "recompute": float((1 + inputs.prefill_band) / (1 - inputs.copy_band)),
        },
        chosen_tokens=case_tokens,
        chosen_bytes_per_s=float(break_even.effective_copy_bytes_per_s(inputs)),
    )


def cost_by_preemptions(result: Comparison) -> CostCurves:
    """Cumulative cost after each preemption, the context growing in between. Waiting is paid once."""
    number = np.arange(1, max(SHOWN_PREEMPTIONS, result.case.preemptions) + 1, dtype=float)
    once = strategies.price(strategies.each_preemption(result.inputs, number.size))
    sums = {name: replace(price, victim_delay_s=np.cumsum(price.victim_delay_s)) for name, price in once.items()}
    sums["wait"] = strategies.wait(result.inputs)
    return _curves(number, sums, float(result.case.preemptions), result.even.preemptions)


def _lengths(case_tokens: float, longest: float, points: int) -> Floats:
    """Whole context lengths, evenly apart on a log axis, the chosen one among them."""
    return np.union1d(np.rint(np.geomspace(min(SHORTEST_TOKENS, case_tokens), longest, points)), [case_tokens])


def _curves(x: Floats, prices: dict[str, strategies.Price], case_x: float, crossing: float | None) -> CostCurves:
    def spread(values: Floats) -> Floats:
        return np.broadcast_to(values, x.shape)

    return CostCurves(
        x=x,
        likely_s={name: spread(prices[name].victim_delay_s) for name in STRATEGIES},
        low_s={name: spread(prices[name].low_s) for name in STRATEGIES},
        high_s={name: spread(prices[name].high_s) for name in STRATEGIES},
        chosen_x=case_x,
        crossing_x=crossing,
    )
