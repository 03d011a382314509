"""A reader's measurement against the model: what it implies, when it cannot be, and the way back to the same time."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvmodel.errors import CaseError
from kvmodel.evidence import calibration
from kvmodel.evidence.calibration import Point
from kvmodel.inputs.case import Case
from kvmodel.recovery import resolve
from kvmodel.recovery.comparison import compare_case

CHECKED = settings(derandomize=True, deadline=None, max_examples=40)
H100 = Case(model="llama-3.1-8b", gpu="h100-sxm5-80gb", tokens=10_000)
CASES = st.builds(
    Case,
    model=st.sampled_from(["llama-3-8b", "llama-2-7b", "mixtral-8x7b", "gemma-3-27b"]),
    gpu=st.sampled_from(["h100-sxm5-80gb", "a100-sxm4-80gb", "h200-sxm-141gb"]),
    timing=st.sampled_from(["kernels", "today"]),
    tp=st.sampled_from([2, 4]),
)
LONG = st.integers(2_000, 30_000)  # long enough for matrix products to set the time


# By hand.


def test_mfu_of_a_prefill_by_hand():
    """2 FLOP for each of the 6,979,321,856 weights of the layers, and the triangle of attention; one head."""
    reading = calibration.read_prefill(H100, Point(10_000, 0.3))
    linear = 2 * 6_979_321_856 * 10_000 + 2 * 128_256 * 4_096
    attention = 2 * 32 * 4_096 * 10_000 * 10_001  # 32 layers, 2 products of 2 FLOP, half of the square
    assert reading.mfu == pytest.approx((linear + attention) / (0.3 * 989e12), rel=2e-3)
    assert not reading.impossible


def test_a_copy_by_hand():
    """10,000 tokens of 131,072 B are 1.31 GB: in 100 ms that is 13.1 GB/s, and the wire's 63 GB/s need 20.8 ms."""
    reading = calibration.read_copy(H100, "d2h", Point(10_000, 0.1))
    assert reading.effective_bytes_per_s == pytest.approx(10_000 * 131_072 / 0.1)
    assert reading.floor_s == pytest.approx(10_000 * 131_072 / 63e9, rel=1e-3)
    per_copy_s = 625 * 3.5e-6  # 10,000 tokens are 625 blocks of 16, each a copy of 3.5 us
    assert reading.copy_gb_per_s == pytest.approx(10_000 * 131_072 / (0.1 - per_copy_s) / 1e9, rel=1e-3)


def test_a_time_below_the_floor_is_impossible_and_replaces_nothing():
    floor_s = calibration.read_prefill(H100, Point(10_000, 1.0)).floor_s
    assert calibration.read_prefill(H100, Point(10_000, 0.99 * floor_s)).impossible
    kernels = replace(H100, timing="kernels")  # a whole engine's own time alone is more than the floor leaves
    assert not calibration.read_prefill(kernels, Point(10_000, 1.1 * floor_s)).impossible
    wire_s = calibration.read_copy(H100, "h2d", Point(10_000, 1.0)).floor_s
    prefill = calibration.read_prefill(H100, Point(10_000, floor_s / 2))
    copied = calibration.read_copy(H100, "h2d", Point(10_000, wire_s / 2))
    assert (prefill.impossible, copied.impossible) == (True, True)
    assert calibration.case_fields(prefill, copied) == {}
    assert prefill.gemm_efficiency is prefill.request_overhead_ms is copied.copy_gb_per_s is None


def test_a_second_point_below_its_floor_is_impossible_too():
    assert calibration.read_prefill(H100, Point(1_000, 1.0), Point(100_000, 1.1)).impossible
    assert calibration.read_copy(H100, "d2h", Point(1_000, 0.1), Point(100_000, 0.11)).impossible


# The way back: a time of the model's own.


@CHECKED
@given(CASES, LONG)
def test_the_models_own_prefill_gives_its_own_share(case, tokens):
    own_s = calibration.prefill_s(case, tokens)
    reading = calibration.read_prefill(case, Point(tokens, own_s))
    assert reading.modelled_s == pytest.approx(own_s)
    share = float(np.asarray(resolve.case_rates(case).gemm_efficiency))
    assert reading.gemm_efficiency == pytest.approx(share, rel=1e-6)


@CHECKED
@given(CASES, LONG, st.floats(0.3, 0.95), st.floats(0, 80))
def test_two_prefills_give_share_and_overhead_back(case, tokens, share, overhead_ms):
    calibrated = replace(case, gemm_efficiency=share, request_overhead_ms=overhead_ms)
    points = [Point(n, calibration.prefill_s(calibrated, n)) for n in (tokens, 2 * tokens)]
    for given_points in (points, points[::-1]):
        reading = calibration.read_prefill(case, *given_points)
        assert reading.gemm_efficiency == pytest.approx(share, rel=1e-5)
        assert reading.request_overhead_ms == pytest.approx(overhead_ms, abs=1e-3)


@CHECKED
@given(CASES, st.sampled_from(["h2d", "d2h"]), LONG, st.floats(2, 25))
def test_one_copy_and_two_copies_give_the_rate_back(case, direction, tokens, rate):
    calibrated = replace(case, copy_gb_per_s=rate)
    points = [Point(n, calibration.copy_s(calibrated, direction, n)) for n in (tokens, 2 * tokens)]
    assert calibration.read_copy(case, direction, points[0]).copy_gb_per_s == pytest.approx(rate, rel=1e-5)
    assert calibration.read_copy(case, direction, *points).copy_gb_per_s == pytest.approx(rate, rel=1e-5)


@CHECKED
@given(CASES, LONG, st.floats(1.02, 3))
def test_a_slower_prefill_is_a_smaller_share(case, tokens, slower):
    own_s = calibration.prefill_s(case, tokens)
    share = calibration.read_prefill(case, Point(tokens, own_s)).gemm_efficiency
    reading = calibration.read_prefill(case, Point(tokens, slower * own_s))
    assert reading.gemm_efficiency < share
    assert reading.mfu == pytest.approx(calibration.read_prefill(case, Point(tokens, own_s)).mfu / slower)


def test_what_replaces_the_models_figures_makes_it_say_the_same():
    prefill, copied = Point(10_000, 0.4), Point(10_000, 0.05)
    readings = calibration.read_prefill(H100, prefill), calibration.read_copy(H100, "h2d", copied)
    calibrated = replace(H100, **calibration.case_fields(*readings))
    prices = compare_case(calibrated).prices
    assert float(prices["recompute"].victim_delay_s) == pytest.approx(0.4, rel=1e-3)  # four digits
    assert float(prices["swap"].in_s) == pytest.approx(0.05, rel=1e-3)


def test_one_prefill_leaves_the_overhead_to_the_model():
    """None clears an overhead that an earlier measurement had put in."""
    reading = calibration.read_prefill(H100, Point(10_000, 0.4))
    assert calibration.case_fields(reading, None) == {
        "gemm_efficiency": float(f"{reading.gemm_efficiency:.4g}"),
        "request_overhead_ms": None,
    }
    changed = replace(H100, gemm_efficiency=0.5, request_overhead_ms=3.0, copy_gb_per_s=9.0, per_copy_us=1.0)
    assert calibration.model_alone(changed) == replace(H100, per_copy_us=1.0)


def test_a_share_above_the_peak_and_a_rate_above_the_wire_are_said_to_be():
    """Both times leave less than the model's own fixed cost for what it says of the rest."""
    tight = Case(model="llama-3-8b", gpu="a100-sxm4-80gb", tokens=4_096)
    assert calibration.read_copy(tight, "h2d", Point(4_096, 0.030)).beyond
    assert not calibration.read_copy(tight, "h2d", Point(4_096, 0.060)).beyond
    quick = calibration.read_prefill(replace(tight, request_overhead_ms=100), Point(4_096, 0.32))
    assert quick.beyond  # 220 ms are left where the floor is 197
    assert not calibration.read_prefill(tight, Point(4_096, 0.5)).beyond


# What cannot be taken is one sentence.


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param((1_000, 0.1), (1_000, 0.2), id="the same length"),
        pytest.param((10_000, 0.5), (20_000, 0.5), id="no longer for twice the tokens"),
        pytest.param((20_000, 0.8), (10_000, 1.2), id="the shorter takes longer"),
    ],
)
def test_contradictory_points_are_one_sentence(first, second):
    with pytest.raises(CaseError, match=r"^second prefill: .* given beside .*; allowed: another length"):
        calibration.read_prefill(H100, Point(*first), Point(*second))
    with pytest.raises(CaseError, match=r"^second copy: .* given beside .*; allowed: another length"):
        calibration.read_copy(H100, "h2d", Point(*first), Point(*second))


def test_a_time_that_no_share_explains_is_one_sentence():
    with pytest.raises(CaseError, match=r"^measured time: 10,000 tokens in 9000 s given; allowed: .* 0.001 to 1.5"):
        calibration.read_prefill(H100, Point(10_000, 9000.0))
    with pytest.raises(CaseError, match=r"^measured time: .* rate in GB/s from 0.001"):
        calibration.read_copy(H100, "h2d", Point(1_000, 9000.0))
