"""Conversion factors and number formats: the only place that holds either.

Inside the model everything is in base units: bytes, s, FLOP, FLOP/s, bytes/s, tokens.
GB is 10^9 bytes and GiB is 2^30; memory is shown in GiB, rates in GB/s.
"""

import functools
import math
from typing import SupportsFloat

from kvmodel.words import say

KIB, MIB, GIB = 2**10, 2**20, 2**30
KB, MB, GB, TB = 10**3, 10**6, 10**9, 10**12
BILLION = 10**9  # of parameters
TFLOP = 10**12
US, MS = 1e-6, 1e-3
LEAST_CARRIED = 0.9  # nothing below it is one when rounded, to however few digits
SECONDS = ((1.0, "s"), (MS, "ms"), (US, "µs"))  # units that a time is written in
MINUTE, HOUR, DAY = 60, 3600, 86400
NONE = "–"  # in place of a number that does not exist


def significant(value: float, digits: int) -> str:
    """`value` rounded to `digits` significant digits, thousands separated, never in exponent form.

    Digits left of the decimal point are kept from 1,000 on: `significant(6860, 2)` is "6,900".

    >>> significant(0.01236, 2), significant(34.4, 2), significant(6860, 2), significant(0, 2)
    ('0.012', '34', '6,900', '0')
    """
    if not math.isfinite(value):
        return NONE
    if value == 0:
        return "0"
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    rounded = round(value, decimals)
    if rounded != 0:  # rounding may carry into one more digit: 9.96 -> 10
        decimals = digits - 1 - math.floor(math.log10(abs(rounded)))
    return f"{rounded:,.{max(decimals, 0)}f}"


@functools.lru_cache(maxsize=4096)  # charts and tables write most of their numbers again at every change of an input
def _scaled(value: float, steps: tuple[tuple[float, str], ...], digits: int) -> str:
    """In the largest unit of `steps` (descending) that leaves at least one once rounded, else in the smallest."""
    if not math.isfinite(value):
        return NONE
    *larger, (smallest, smallest_unit) = steps
    for factor, unit in larger:
        if abs(value) < LEAST_CARRIED * factor:
            continue
        text = significant(value / factor, digits)
        if text.lstrip("-")[0] != "0":
            return f"{text} {unit}"
    return f"{significant(value / smallest, digits)} {smallest_unit}"


def format_seconds(seconds: float, digits: int = 2) -> str:
    """Two significant digits by default: the model's times are good to about 20 %.

    >>> format_seconds(0.0344), format_seconds(3.1e-6), format_seconds(2.31), format_seconds(0.9996)
    ('34 ms', '3.1 µs', '2.3 s', '1.0 s')
    """
    if seconds == 0:
        return "0 s"
    return _scaled(seconds, SECONDS, digits)


def format_bytes(size_bytes: float, digits: int = 3) -> str:
    """Binary units, as memory is bought: 131,072 bytes are "128 KiB".

    >>> format_bytes(131072), format_bytes(512 * MIB), format_bytes(10), format_bytes(1.5 * GIB)
    ('128 KiB', '512 MiB', '10 B', '1.50 GiB')
    """
    if 0 <= size_bytes < KIB:
        return f"{size_bytes:.0f} B"
    return _scaled(size_bytes, ((2**40, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB"), (1, "B")), digits)


def format_gb(size_bytes: float, digits: int = 3) -> str:
    """Decimal units, as links count: 536,870,912 bytes are "537 MB"."""
    return _scaled(size_bytes, ((TB, "TB"), (GB, "GB"), (MB, "MB"), (KB, "kB"), (1, "B")), digits)


def format_rate(bytes_per_s: float, digits: int = 2) -> str:
    """A copy rate.

    >>> format_rate(25e9), format_rate(4.234e9), format_rate(0.5e9)
    ('25 GB/s', '4.2 GB/s', '0.50 GB/s')
    """
    return f"{significant(bytes_per_s / GB, digits)} GB/s"


def format_count(count: float) -> str:
    """A whole number with thousands separated; a fraction is rounded.

    >>> format_count(4096), format_count(7740.4)
    ('4,096', '7,740')
    """
    return f"{count:,.0f}" if math.isfinite(count) else NONE


def format_tokens(tokens: float) -> str:
    """A short axis label: 2,048 is "2K", 131,072 is "128K", 1,500 stays "1,500".

    >>> format_tokens(512), format_tokens(2048), format_tokens(1500), format_tokens(2**20)
    ('512', '2K', '1,500', '1M')
    """
    if tokens >= MIB and tokens % MIB == 0:
        return f"{tokens / MIB:.0f}M"
    if tokens >= KIB and tokens % KIB == 0:
        return f"{tokens / KIB:.0f}K"
    return format_count(tokens)


def format_ratio(ratio: float, digits: int = 2) -> str:
    """How many times: two digits, "5.4x"; from 100 on no decimals are claimed.

    >>> format_ratio(5.432), format_ratio(1.18), format_ratio(143.0)
    ('5.4x', '1.2x', '140x')
    """
    return say("{number}x", number=significant(ratio, digits)) if math.isfinite(ratio) else NONE


def format_percent(share: float, digits: int = 2) -> str:
    """A share of one: 0.5 is "50 %"."""
    return f"{significant(100 * share, digits)} %" if math.isfinite(share) else NONE


def finite_or_none(value: SupportsFloat) -> float | None:
    """A float for JSON, which knows neither infinity nor NaN: None in their place."""
    number = float(value)
    return number if math.isfinite(number) else None
