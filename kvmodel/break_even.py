"""The point at which recompute and a copy cost the victim the same: solved one input at a time, all else as it is.

Every function takes the :class:`kvmodel.resolve.Inputs` of one case (scalars) and gives None where there is no such
point. Solved to 0.1 % or better.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kvmodel import recovery
from kvmodel.recovery import at
from kvmodel.resolve import Inputs
from kvmodel.step_time import Floats

TOLERANCE = 1e-4
MOST_PREEMPTIONS = 1000
GRID_POINTS = 400


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


def copy_bytes_per_s(inputs: Inputs) -> float | None:
    """Effective rate, overheads in it, at which copying out and in takes as long as recomputing alone.

    Below it recompute is faster. On each GPU's own link under tensor parallel.
    """
    return _or_none(copy_rate_of_equal_cost(inputs))


def copy_rate_of_equal_cost(inputs: Inputs) -> Floats:
    """As :func:`copy_bytes_per_s`, over arrays; infinite where nothing is recomputed."""
    one = at(inputs, preemptions=1)
    recompute_s = recovery.recompute(one).victim_delay_s
    with np.errstate(divide="ignore"):
        return 2 * recovery.moved_bytes(one, one.tokens) / recompute_s


def effective_copy_bytes_per_s(inputs: Inputs) -> Floats:
    """The rate that this case's copies reach out and in together, overheads included: compare it with the break-even."""
    one = at(inputs, preemptions=1)
    return 2 * recovery.moved_bytes(one, one.tokens) / recovery.swap(one).victim_delay_s


def bytes_per_copy(inputs: Inputs) -> float | None:
    """Size of a copy at which out and in take as long as recomputing alone: smaller ones lose to recompute."""
    one = at(inputs, preemptions=1)
    size = recovery.moved_bytes(one, one.tokens)
    per_copy_s = np.add(one.per_copy_d2h_s, one.per_copy_h2d_s)
    copying_s = recovery.swap(one).victim_delay_s
    without_copies_s = copying_s - recovery.copy_count(one, one.tokens) * per_copy_s
    left_s = recovery.recompute(one).victim_delay_s - without_copies_s
    if left_s <= 0 or per_copy_s <= 0:
        return None
    equal_bytes = float(size * per_copy_s / left_s)
    return equal_bytes if equal_bytes <= size else None


def context_tokens(inputs: Inputs) -> float | None:
    """Length at which swap and recompute cost the same, the nearest one where there are several.

    Searched from one token to what the pool holds.
    """

    def difference_s(tokens: Floats) -> Floats:
        one = at(inputs, tokens=tokens, preemptions=1)
        return recovery.swap(one).victim_delay_s - recovery.recompute(one).victim_delay_s

    grid = np.unique(np.rint(np.geomspace(1, most_tokens(inputs), GRID_POINTS)))
    signs = np.sign(difference_s(grid))
    turns = np.flatnonzero(signs[:-1] * signs[1:] < 0)
    if not turns.size:
        return None
    roots = [bisect(lambda n: float(difference_s(np.asarray(n))), grid[i], grid[i + 1]) for i in turns]
    return min(roots, key=lambda root: abs(np.log(root / float(np.asarray(inputs.tokens)))))


def most_tokens(inputs: Inputs) -> float:
    """Longest context whose KV the pool of a GPU holds, up to ten million tokens."""

    def excess(tokens: float) -> float:
        return float(recovery.moved_bytes(inputs, tokens) - inputs.pool_bytes_per_gpu)

    limit = 1e7
    return limit if excess(limit) <= 0 else bisect(excess, 1.0, limit)


def survival(inputs: Inputs) -> float | None:
    """Share still in the GPU's prefix cache at which recompute equals swap; None where recompute wins without any."""

    def difference_s(share: float) -> float:
        one = at(inputs, survival=share, preemptions=1)
        return float(recovery.recompute(one).victim_delay_s - recovery.swap(one).victim_delay_s)

    if difference_s(0.0) <= 0 or difference_s(1.0) >= 0:
        return None
    return bisect(difference_s, 0.0, 1.0)


def preemptions(inputs: Inputs) -> int | None:
    """Least number of preemptions from which one write and n loads cost less than n recomputes, up to 1,000."""
    index = np.arange(MOST_PREEMPTIONS)
    later = np.multiply(index, inputs.tokens_between)
    each = at(
        inputs,
        tokens=np.asarray(inputs.tokens, float) + later,
        generated_tokens=np.asarray(inputs.generated_tokens) + later,
        preemptions=1,
    )
    offloaded = recovery.offload(each)
    offload_s = np.cumsum(offloaded.victim_delay_s) + offloaded.out_s
    recompute_s = np.cumsum(recovery.recompute(each).victim_delay_s)
    cheaper = np.flatnonzero(offload_s < recompute_s)
    return int(cheaper[0]) + 1 if cheaper.size else None


def bisect(difference: Callable[[float], float], low: float, high: float) -> float:
    """Where `difference` changes sign between `low` and `high`."""
    rises = difference(high) > 0
    while high - low > TOLERANCE * max(abs(high), TOLERANCE):
        middle = (low + high) / 2
        if (difference(middle) > 0) == rises:
            high = middle
        else:
            low = middle
    return (low + high) / 2


def _or_none(value: Floats) -> float | None:
    return float(value) if np.isfinite(value) and value > 0 else None
