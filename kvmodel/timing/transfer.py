"""Copies between GPU and host memory: a cost for every copy and a cost for every byte.

One law serves every method (one driver call a copy, one call for many, a kernel on the GPU) and every kind of host
memory: they differ in its two constants. :mod:`kvmodel.timing.copy_path` says which hold for a Case.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from kvmodel.arrays import Numbers, everywhere, nowhere
from kvmodel.units import GB

FIT_ROUNDS = 100
READING_ERROR = 0.02  # of the measured rates that a law is fitted to


@dataclass(frozen=True)
class SmallLoads:
    """What holds for loads whose pieces are smaller than `cliff_bytes`. `most_bytes_per_s` caps the link's rate."""

    method: str
    cliff_bytes: float
    per_copy_s: float
    most_bytes_per_s: Numbers
    sm_share: float


@dataclass(frozen=True, kw_only=True)
class CopyRates:
    """Rate of a large copy and fixed cost of one copy, each way, and what a copy costs besides. Numbers broadcast.

    GPUs that copy at once share `host_memory_bytes_per_s`. `small_loads` is None where one law serves all sizes;
    `sm_share` is the share of the GPU's multiprocessors that copying occupies, `pin_s_per_byte` what locking host
    memory takes at its first use.
    """

    h2d_bytes_per_s: Numbers
    d2h_bytes_per_s: Numbers
    per_copy_h2d_s: Numbers
    per_copy_d2h_s: Numbers
    host_memory_bytes_per_s: Numbers
    small_loads: SmallLoads | None
    sm_share: Numbers
    pin_s_per_byte: Numbers


@dataclass(frozen=True)
class Transfer:
    """`size_bytes` copied one way by each GPU in `copies` pieces: the cost and the rate that held, and the time."""

    copies: Numbers
    size_bytes: Numbers
    per_copy_s: Numbers
    bytes_per_s: Numbers
    sm_share: Numbers
    is_small: Numbers  # pieces below the cliff: SmallLoads held
    seconds: Numbers

    @property
    def calls_s(self) -> Numbers:
        """The fixed costs of all copies. [s]"""
        return self.copies * self.per_copy_s

    @property
    def gpu_s(self) -> Numbers:
        """GPU time taken from others: the share of its multiprocessors that a copy kernel holds. [s]"""
        return 0.0 if nowhere(self.sm_share) else self.sm_share * self.seconds


def transfer(rates: CopyRates, direction: str, copies: Numbers, size_bytes: Numbers, *, tp: Numbers = 1) -> Transfer:
    """One way of a Case's copies, "h2d" or "d2h", on each of `tp` GPUs that copy at once: the only law of copies."""
    rate = getattr(rates, f"{direction}_bytes_per_s")
    bytes_per_s = shared_rate_bytes_per_s(rate, tp, rates.host_memory_bytes_per_s)
    per_copy_s, sm_share = getattr(rates, f"per_copy_{direction}_s"), rates.sm_share
    small, is_small = rates.small_loads, np.False_
    if small is not None and direction == "h2d":
        is_small = below_cliff(copies, size_bytes, small.cliff_bytes)
        bytes_per_s = np.where(is_small, np.minimum(bytes_per_s, small.most_bytes_per_s), bytes_per_s)
        per_copy_s = np.where(is_small, small.per_copy_s, per_copy_s)
        sm_share = np.where(is_small, small.sm_share, sm_share)
    seconds = copy_s(copies, size_bytes, per_copy_s=per_copy_s, link_bytes_per_s=bytes_per_s)
    return Transfer(copies, size_bytes, per_copy_s, bytes_per_s, sm_share, is_small, seconds)


def copy_s(copies: Numbers, size_bytes: Numbers, *, per_copy_s: Numbers, link_bytes_per_s: Numbers) -> Numbers:
    r"""Seconds to move `size_bytes` one way in `copies` pieces.

    .. math:: t = N \, t_0 + M / B

    Parameters
    ----------
    copies : number of separate copies N; :func:`kvmodel.memory.kv_cache.copies` counts them.
    size_bytes : all bytes together, M. [bytes]
    per_copy_s : fixed cost t0 of one copy. [s]
    link_bytes_per_s : rate B that a large copy reaches in this direction. [bytes/s]
        All broadcast together; the result has their shape. [s]

    Raises
    ------
    ValueError : a negative count, size or cost; a rate not above zero.

    Source: form and fit (1.6 % median error) on the block-size sweep of the vLLM blog, 2026-01-08.

    >>> copy_s(1, 1e9, per_copy_s=0, link_bytes_per_s=25e9).item()
    0.04
    """
    holds = (copies >= 0) & (size_bytes >= 0) & (per_copy_s >= 0) & (link_bytes_per_s > 0)
    if not everywhere(holds):
        raise ValueError(_refusal(copies, size_bytes, per_copy_s, link_bytes_per_s))
    return copies * per_copy_s + size_bytes / link_bytes_per_s


def _refusal(copies: Numbers, size_bytes: Numbers, per_copy_s: Numbers, link_bytes_per_s: Numbers) -> str:
    for name, value in (("copies", copies), ("size_bytes", size_bytes), ("per_copy_s", per_copy_s)):
        if not np.all(value >= 0):
            return f"{name}: {value} given; allowed: 0 or more"
    return f"link_bytes_per_s: {link_bytes_per_s} given; allowed: above 0"


def below_cliff(copies: Numbers, size_bytes: Numbers, cliff_bytes: Numbers) -> Numbers:
    """Whether the pieces are smaller than `cliff_bytes`, on the average of a transfer; no pieces are not.

    Source: one cuMemcpyBatchAsync on an H100 is 6 times slower for loads of pieces under 28 KiB (vLLM PR 42212).
    """
    return size_bytes < copies * cliff_bytes


def staged_bytes_per_s(link_bytes_per_s: Numbers, staging_bytes_per_s: Numbers) -> Numbers:
    r"""Rate of copies that the driver stages through a pinned buffer, as it does for pageable memory. [bytes/s]

    .. math:: B = \frac{1}{1/B_\text{link} + 1/B_\text{staging}}

    The processor's copy and the link's come one after the other.
    """
    return 1 / (1 / link_bytes_per_s + 1 / staging_bytes_per_s)


def effective_bytes_per_s(size_bytes: Numbers, seconds: Numbers) -> Numbers:
    """The rate that a copy reached with everything in it. [bytes/s]"""
    return size_bytes / seconds


def shared_rate_bytes_per_s(link_bytes_per_s: Numbers, tp: Numbers, host_memory_bytes_per_s: Numbers) -> Numbers:
    """Rate that each of `tp` GPUs gets when all copy at once: its own link, or its part of the host's memory.

    A link that one GPU was measured on is not slowed by a host figure below it.
    """
    together = np.maximum(host_memory_bytes_per_s, link_bytes_per_s)
    return np.minimum(link_bytes_per_s, together / tp)


def fit_copy_law(bytes_per_copy: ArrayLike, n_copies: ArrayLike, gb_per_s: ArrayLike) -> tuple[float, float]:
    """Cost of a copy [s] and rate [bytes/s] of the law that explains measured rates best.

    Parameters
    ----------
    bytes_per_copy : size of each of the copies of a measurement. [bytes]
    n_copies : how many were made in it.
    gb_per_s : the rate measured, all of it. [GB/s]
        Arrays of one shape, two different sizes at least.

    Raises
    ------
    ValueError : fewer than two sizes; a size, count or rate not above zero; measurements that no such law explains.

    Least squares on the relative error of the time, linear beyond :data:`READING_ERROR`: one bad reading in a sweep
    does not move the law.

    >>> fit_copy_law([1e4, 1e6], [1000, 1000], [2.0, 40.0])
    (4.8e-06, 49494949494.9...)
    """
    size, copies, rate = (np.asarray(values, float) for values in (bytes_per_copy, n_copies, gb_per_s))
    if np.unique(size).size < 2 or not (size > 0).all() or not (copies > 0).all() or not (rate > 0).all():
        raise ValueError("bytes_per_copy, n_copies and gb_per_s: allowed: above 0, two different sizes at least")
    measured_s = copies * size / (rate * GB)
    parts = np.stack([copies / measured_s, copies * size / measured_s], axis=1)
    weights = np.ones(size.size)
    for _ in range(FIT_ROUNDS):
        root = np.sqrt(weights)
        law = np.linalg.lstsq(parts * root[:, None], root, rcond=None)[0]
        weights = 1 / np.maximum(np.abs(parts @ law - 1), READING_ERROR)
    if law[0] < 0 or law[1] <= 0:
        raise ValueError(
            "gb_per_s: no cost of a copy and rate above 0 explain these; allowed: rates that rise with size"
        )
    return float(law[0]), float(1 / law[1])
