"""Histograms as Prometheus counts them: cumulative counts by upper bound, their increase, and quantiles."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from kvmodel.words import say

SLACK = 0.01  # of what was observed, and one observation: buckets are read one after the other


class Contradiction(ValueError):
    """Counts or a sum that no observations can have; the message says what is wrong."""


@dataclass(frozen=True)
class Histogram:
    """`counts[i]` observations were at most `bounds[i]`; bounds ascend, and the last may be infinite."""

    bounds: tuple[float, ...]
    counts: tuple[float, ...]
    total: float | None  # sum of what was observed
    count: float

    @property
    def mean(self) -> float | None:
        """Mean of the observed values, None where there are none or the sum is not reported."""
        return self.total / self.count if self.total is not None and self.count > 0 else None


def histogram(buckets: dict[float, float], total: float | None, count: float | None) -> Histogram | None:
    """From cumulative counts by bound; the count may be missing where the infinite bucket is there, and the reverse.

    Raises Contradiction. Counts that fall by no more than buckets read at different moments do are raised.
    """
    if count is None:
        count = buckets.get(math.inf)
    if count is None:
        return None
    bounds = tuple(sorted(buckets))
    return possible(Histogram(bounds, tuple(buckets[bound] for bound in bounds), total, count))


def possible(observed: Histogram) -> Histogram:
    """The histogram with counts that do not fall. Raises Contradiction where no observations give such numbers."""
    slack = SLACK * observed.count + 1
    raised = tuple(itertools.accumulate(observed.counts, max))
    if any(most - count > slack for most, count in zip(raised, observed.counts, strict=True)):
        raise Contradiction(say("a bucket counts less than one of a lower bound"))
    if raised and raised[-1] > observed.count + slack:
        raise Contradiction(say("a bucket counts more than there are observations"))
    if raised and observed.bounds[-1] == math.inf and raised[-1] < observed.count - slack:
        raise Contradiction(say("its last bucket counts less than there are observations"))
    if observed.total is not None:
        least, most = sums(observed.bounds, raised, observed.count)
        within = SLACK * observed.total + SLACK
        if not least - within <= observed.total <= most + within:
            raise Contradiction(say("its sum cannot be that of its buckets"))
    return replace(observed, counts=raised)


def sums(bounds: tuple[float, ...], counts: tuple[float, ...], count: float) -> tuple[float, float]:
    """The least and the most that observations in these buckets can add up to."""
    least, most, low, below = 0.0, 0.0, 0.0, 0.0
    for bound, at_most in zip(bounds, counts, strict=True):
        inside = at_most - below
        least += inside * low
        most += inside * bound if inside else 0.0
        low, below = bound, at_most
    above = count - below
    return least + max(above, 0.0) * (low if low < math.inf else 0.0), math.inf if above > 0 else most


def quantile(share: float, observed: Histogram) -> float | None:
    """The value below which a share of the observations lies, linear within its bucket as `histogram_quantile` does.

    None without observations or without buckets. What lies above the last finite bound counts as that bound.

    >>> quantile(0.5, Histogram((1.0, 2.0, math.inf), (4.0, 8.0, 8.0), 9.0, 8.0))
    1.0
    """
    finite = [(bound, count) for bound, count in zip(observed.bounds, observed.counts, strict=True) if bound < math.inf]
    if not finite or observed.count <= 0:
        return None
    target = share * max(observed.count, finite[-1][1])
    low, below = 0.0, 0.0
    for bound, count in finite:
        if count >= target and count > below:
            return low + (bound - low) * (target - below) / (count - below)
        low, below = bound, count
    return finite[-1][0]


def share_of_largest(number: float, observed: Histogram) -> float | None:
    """The most that the `number` largest observations can be of the sum of all; None without a sum or buckets.

    Each counts as its bucket's upper bound, and all as no more than what the least of the others leave.

    >>> share_of_largest(2, Histogram((1.0, 4.0, math.inf), (6.0, 10.0, 10.0), 15.0, 10.0))
    0.5333333333333333
    """
    if not observed.bounds or not observed.total or observed.count <= 0:
        return None
    lows, highs = (0.0, *observed.bounds[:-1]), observed.bounds
    inside = [now - below for now, below in zip(observed.counts, (0.0, *observed.counts[:-1]), strict=True)]
    left, most, others = number, 0.0, 0.0
    for low, high, count in sorted(zip(lows, highs, inside, strict=True), reverse=True):
        taken = min(left, count)
        left -= taken
        most += taken * high if taken else 0.0
        others += (count - taken) * low
    return min(most, max(observed.total - others, 0.0)) / observed.total


def increase(before: Histogram | None, after: Histogram) -> Histogram:
    """What was observed between two readings, in the buckets that both have; all of the later one without a former.

    Raises Contradiction.
    """
    if before is None:
        return after
    early, late = (dict(zip(each.bounds, each.counts, strict=True)) for each in (before, after))
    counts = {bound: count - early[bound] for bound, count in late.items() if bound in early}
    have_totals = after.total is not None and before.total is not None
    total = after.total - before.total if have_totals else None  # type: ignore[operator]
    return possible(Histogram(tuple(counts), tuple(counts.values()), total, after.count - before.count))


def fell(before: Histogram, after: Histogram) -> bool:
    """Whether the later reading is below the former in any of its numbers, as only another process makes it."""
    early = dict(zip(before.bounds, before.counts, strict=True))
    counts = zip(after.bounds, after.counts, strict=True)
    return (
        after.count < before.count
        or (after.total is not None and before.total is not None and after.total < before.total)
        or any(count < early.get(bound, 0.0) for bound, count in counts)
    )


def together(parts: Iterable[Histogram]) -> Histogram | None:
    """One histogram of several engines; only bounds that all have are kept. None for none."""
    histograms = list(parts)
    if not histograms:
        return None
    shared = set(histograms[0].bounds).intersection(*(part.bounds for part in histograms))
    by_bound = dict.fromkeys(shared, 0.0)
    for part in histograms:
        for bound, count in zip(part.bounds, part.counts, strict=True):
            if bound in shared:
                by_bound[bound] += count
    totals = [part.total for part in histograms]
    total = None if None in totals else math.fsum(value for value in totals if value is not None)
    return histogram(by_bound, total, math.fsum(part.count for part in histograms))
