"""Copies between GPU and host memory: a cost for every copy and a cost for every byte."""

from __future__ import annotations

import numpy as np

from kvmodel.arrays import Numbers, everywhere


def copy_s(copies: Numbers, size_bytes: Numbers, *, per_copy_s: Numbers, link_bytes_per_s: Numbers) -> Numbers:
    r"""Seconds to move `size_bytes` one way in `copies` pieces.

    .. math:: t = N \, t_0 + M / B

    Parameters
    ----------
    copies : number of separate copies N; :func:`kvmodel.kv_cache.copies` counts them.
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


def effective_bytes_per_s(size_bytes: Numbers, seconds: Numbers) -> Numbers:
    """The rate that a copy reached with everything in it. [bytes/s]"""
    return size_bytes / seconds


def shared_rate_bytes_per_s(link_bytes_per_s: Numbers, tp: Numbers, host_memory_bytes_per_s: Numbers) -> Numbers:
    """Rate that each of `tp` GPUs gets when all copy at once: its own link, or its part of the host's memory.

    A link that one GPU was measured on is not slowed by a host figure below it.
    """
    together = np.maximum(host_memory_bytes_per_s, link_bytes_per_s)
    return np.minimum(link_bytes_per_s, together / tp)
