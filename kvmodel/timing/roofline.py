"""The roofline: what a device attains at a given arithmetic intensity.

Source: Williams, Waterman, Patterson 2009, "Roofline: an insightful visual performance model".
"""

from __future__ import annotations

import numpy as np

from kvmodel.arrays import Floats, Numbers


def ridge_flop_per_byte(peak_flop_per_s: Numbers, hbm_bytes_per_s: Numbers) -> Floats:
    """Intensity at which a kernel turns from memory bound to compute bound. [FLOP/byte]

    >>> ridge_flop_per_byte(312e12, 2.0e12).item()
    156.0
    """
    return np.asarray(np.divide(peak_flop_per_s, hbm_bytes_per_s))


def attainable_flop_per_s(
    intensity_flop_per_byte: Numbers, *, peak_flop_per_s: Numbers, hbm_bytes_per_s: Numbers
) -> Floats:
    """The ceiling: memory rate times intensity, up to the peak. [FLOP/s]"""
    return np.minimum(peak_flop_per_s, np.multiply(intensity_flop_per_byte, hbm_bytes_per_s))


def intensity_flop_per_byte(flop: Numbers, moved_bytes: Numbers) -> Floats:
    """Work done for each byte that crosses the memory bus. [FLOP/byte]"""
    return np.asarray(np.divide(flop, moved_bytes))
