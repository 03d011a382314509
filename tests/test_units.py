"""Formats and conversion factors: every expectation is the number rounded by hand."""

import math
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvmodel import units

EXACT = settings(derandomize=True, deadline=None, max_examples=200)


def test_factors_are_what_their_names_say():
    assert (units.KIB, units.MIB, units.GIB) == (1024, 1024 * 1024, 1024 * 1024 * 1024)
    assert (units.KB, units.MB, units.GB, units.TB) == (1e3, 1e6, 1e9, 1e12)
    assert (units.TFLOP, units.US, units.MS) == (1e12, 1e-6, 1e-3)


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        pytest.param(0, 2, "0", id="zero"),
        pytest.param(1234.5, 2, "1,200", id="digits left of the point are zeroed and kept"),
        pytest.param(9.96, 2, "10", id="rounding carries into one more digit"),
        pytest.param(99.6, 2, "100", id="carries across a hundred"),
        pytest.param(0.00999, 2, "0.010", id="carries below one"),
        pytest.param(-0.0344, 2, "-0.034", id="negative"),
        pytest.param(1e-9, 2, "0.0000000010", id="never an exponent"),
        pytest.param(1e15, 3, "1,000,000,000,000,000", id="never an exponent above"),
        pytest.param(math.inf, 2, "–", id="infinite"),
        pytest.param(math.nan, 2, "–", id="not a number"),
    ],
)
def test_significant(value, digits, text):
    assert units.significant(value, digits) == text


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: units.format_seconds(0.0344), "34 ms"),
        (lambda: units.format_seconds(0.99949), "1.0 s"),
        (lambda: units.format_seconds(999.6e-6), "1.0 ms"),
        (lambda: units.format_seconds(0), "0 s"),
        (lambda: units.format_seconds(1e-9), "0.0010 µs"),
        (lambda: units.format_bytes(131072), "128 KiB"),
        (lambda: units.format_bytes(1024**3), "1.00 GiB"),
        (lambda: units.format_bytes(1024**3 * 80), "80.0 GiB"),
        (lambda: units.format_bytes(1023), "1023 B"),
        (lambda: units.format_bytes(5 * 1024**4), "5.00 TiB"),
        (lambda: units.format_gb(536_870_912), "537 MB"),
        (lambda: units.format_gb(80e9), "80.0 GB"),
        (lambda: units.format_rate(25e9), "25 GB/s"),
        (lambda: units.format_rate(4.2e9), "4.2 GB/s"),
        (lambda: units.format_count(7740.4), "7,740"),
        (lambda: units.format_tokens(2048), "2K"),
        (lambda: units.format_tokens(131072), "128K"),
        (lambda: units.format_tokens(1000), "1,000"),
        (lambda: units.format_tokens(1024**2), "1M"),
        (lambda: units.format_ratio(5.43), "5.4x"),
        (lambda: units.format_ratio(math.inf), "–"),
        (lambda: units.format_percent(0.5), "50 %"),
        (lambda: units.format_percent(math.nan), "–"),
    ],
)
def test_formats(call, text):
    assert call() == text


@EXACT
@given(st.floats(1e-12, 1e15), st.integers(1, 4))
def test_significant_is_within_half_of_its_last_digit(value, digits):
    shown = float(units.significant(value, digits).replace(",", ""))
    assert shown == pytest.approx(value, rel=0.5001 * 10 ** (1 - digits))


@EXACT
@given(st.floats(-1e30, 1e30) | st.sampled_from([math.nan, math.inf, -math.inf]))
def test_no_format_raises_or_uses_exponents(value):
    formats = (
        units.format_seconds, units.format_bytes, units.format_gb, units.format_rate, units.format_ratio,
        units.format_percent, units.format_count,
    )  # fmt: skip
    for form in formats:
        text = form(value)
        number = text.split(" ")[0].rstrip("x")
        assert number == "–" or set(number) <= set(string.digits + ",.-")
