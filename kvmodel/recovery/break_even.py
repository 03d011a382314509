"""The point at which recompute and a copy cost the victim the same: solved one input at a time, all else as it is.

Every function takes the :class:`kvmodel.recovery.resolve.Inputs` of one case (scalars), prices one preemption, and
gives None where there is no such point. Solved to 0.1 % or better.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kvmodel.arrays import Numbers
from kvmodel.recovery import costs, resolve, strategies
from kvmodel.recovery.costs import at
from kvmodel.recovery.resolve import Inputs

TOLERANCE = 1e-4
MOST_PREEMPTIONS = 1000
GRID_POINTS = 400
SECTIONS = 64
MOST_TOKENS = 1e7


@dataclass(frozen=True)
class BreakEven:
    """Where recompute equals swap (`preemptions`: where offload gets cheaper than recompute); None where nowhere."""

    copy_bytes_per_s: float | None
    bytes_per_copy: float | None
    context_tokens: float | None
    survival: float | None
    preemptions: int | None


def solve(inputs: Inputs) -> BreakEven:
    """All five for one case."""
    return BreakEven(
        copy_bytes_per_s=copy_bytes_per_s(inputs),
        bytes_per_copy=bytes_per_copy(inputs),
        context_tokens=context_tokens(inputs),
        survival=survival(inputs),
        preemptions=preemptions(inputs),
    )


def recompute_s(inputs: Inputs) -> Numbers:
    """Recomputing once, alone on the GPU."""
    past = np.multiply(inputs.survival, inputs.tokens)
    return costs.prefill_alone_s(inputs, inputs.tokens - past, past)


def swap_s(inputs: Inputs) -> Numbers:
    """Copying once out and in, into host memory locked for it where that is still to do."""
    pinned_s = costs.pin_s(inputs, inputs.tokens)
    return pinned_s + costs.out_s(inputs, inputs.tokens) + costs.load(inputs, inputs.tokens).in_s


def copy_bytes_per_s(inputs: Inputs) -> float | None:
    """Effective rate, overheads in it, at which copying out and in takes as long as recomputing alone.

    Below it recompute is faster. On each GPU's own link under tensor parallel.
    """
    rate = float(copy_rate_of_equal_cost(inputs))
    return rate if np.isfinite(rate) else None


def copy_rate_of_equal_cost(inputs: Inputs) -> Numbers:
    """As :func:`copy_bytes_per_s`, over arrays; infinite where nothing is recomputed."""
    with np.errstate(divide="ignore"):
        return 2 * resolve.moved_bytes(inputs, inputs.tokens) / recompute_s(inputs)


def effective_copy_bytes_per_s(inputs: Inputs) -> Numbers:
    """The rate that out and in reach together, overheads included: compare it with the break-even."""
    return 2 * resolve.moved_bytes(inputs, inputs.tokens) / swap_s(inputs)


def bytes_per_copy(inputs: Inputs) -> float | None:
    """Size of a copy at which out and in take as long as recomputing alone: smaller ones lose to recompute.

    The cliff itself where copies win just above it and lose below.
    """
    small = inputs.small_loads
    equal_bytes = _equal_bytes(at(inputs, small_loads=None))
    if small is not None and equal_bytes <= small.cliff_bytes:
        slower = np.minimum(inputs.h2d_bytes_per_s, small.most_bytes_per_s)
        below = at(inputs, small_loads=None, per_copy_h2d_s=small.per_copy_s, h2d_bytes_per_s=slower)
        equal_bytes = min(_equal_bytes(below), small.cliff_bytes)
    return equal_bytes if 1 <= equal_bytes <= float(resolve.moved_bytes(inputs, inputs.tokens)) else None


def _equal_bytes(inputs: Inputs) -> float:
    """As :func:`bytes_per_copy` under one law for all sizes: 0 where any size wins, infinite where none does."""
    per_copy_s = np.add(inputs.per_copy_d2h_s, inputs.per_copy_h2d_s)
    without_copies_s = swap_s(inputs) - resolve.copy_count(inputs, inputs.tokens) * per_copy_s
    left_s = recompute_s(inputs) - without_copies_s
    return float(resolve.moved_bytes(inputs, inputs.tokens) * per_copy_s / left_s) if left_s > 0 else np.inf


def context_tokens(inputs: Inputs) -> float | None:
    """Length at which swap and recompute cost the same, the nearest one where there are several.

    Searched from one token to what the pool holds.
    """

    def difference_s(tokens: Numbers) -> Numbers:
        one = at(inputs, tokens=tokens)
        return swap_s(one) - recompute_s(one)

    grid = np.unique(np.rint(np.geomspace(1, most_tokens(inputs), GRID_POINTS)))
    swap_dearer = difference_s(grid) > 0
    turns = np.flatnonzero(swap_dearer[:-1] != swap_dearer[1:])
    if not turns.size:
        return None
    case_tokens = float(inputs.tokens)
    nearest = min(turns, key=lambda turn: abs(np.log(grid[turn] / case_tokens)))
    return bisect(difference_s, grid[nearest], grid[nearest + 1])


def most_tokens(inputs: Inputs) -> float:
    """Longest context whose KV the pool of a GPU holds, up to ten million tokens."""

    def excess(tokens: Numbers) -> Numbers:
        return resolve.moved_bytes(inputs, tokens) - inputs.pool_bytes_per_gpu

    return MOST_TOKENS if excess(MOST_TOKENS) <= 0 else bisect(excess, 1.0, MOST_TOKENS)


def survival(inputs: Inputs) -> float | None:
    """Share still in the GPU's prefix cache at which recompute equals swap.

    None where recompute wins without any, and where it loses even with a single token left to compute.
    """

    def difference_s(share: Numbers) -> Numbers:
        return recompute_s(at(inputs, survival=share)) - swap_s(inputs)

    all_but_one = 1 - 1 / float(inputs.tokens)
    if difference_s(0.0) <= 0 or difference_s(all_but_one) >= 0:
        return None
    return bisect(difference_s, 0.0, all_but_one)


def preemptions(inputs: Inputs) -> int | None:
    """Least number of preemptions from which one write and n loads cost less than n recomputes, up to 1,000."""
    each = strategies.each_preemption(inputs, MOST_PREEMPTIONS)
    price = strategies.offload(each)
    offload_s = np.cumsum(price.victim_delay_s) + price.out_s
    cheaper = np.flatnonzero(offload_s < np.cumsum(recompute_s(each)))
    return int(cheaper[0]) + 1 if cheaper.size else None


def bisect(difference: Callable[[Numbers], Numbers], low: float, high: float) -> float:
    """Where `difference`, a function over arrays, changes sign between `low` and `high`.

    Each round looks at 64 sections at once and keeps the first that the sign changes in.
    """
    while high - low > TOLERANCE * max(abs(high), TOLERANCE):
        points = np.linspace(low, high, SECTIONS + 1)
        positive = np.asarray(difference(points)) > 0
        turn = int(np.argmax(positive != positive[0])) or SECTIONS
        low, high = float(points[turn - 1]), float(points[turn])
    return (low + high) / 2
