"""The roofline by hand, and at its two ends."""

import numpy as np
import pytest

from kvmodel import catalog
from kvmodel.timing import roofline


@pytest.mark.parametrize(
    ("gpu", "ridge"),
    [("a100-sxm4-80gb", 312 / 2.039), ("a100-sxm4-40gb", 312 / 1.555), ("h100-sxm5-80gb", 989.4 / 3.35)],
)
def test_ridge_of_a_gpu(gpu, ridge):
    row = catalog.gpu(gpu)
    assert roofline.ridge_flop_per_byte(row.peak_flop_per_s, row.hbm_bytes_per_s) == pytest.approx(ridge, rel=1e-3)


def test_attainable_is_memory_bound_left_of_the_ridge_and_the_peak_right_of_it():
    device = {"peak_flop_per_s": 300.0, "hbm_bytes_per_s": 2.0}
    assert roofline.attainable_flop_per_s(10, **device) == 20
    assert roofline.attainable_flop_per_s(150, **device) == 300
    assert roofline.attainable_flop_per_s(1e6, **device) == 300
    assert roofline.attainable_flop_per_s(0, **device) == 0


def test_intensity_of_a_16_bit_matrix_times_t_tokens_is_about_t():
    parameters, tokens = 7e9, 128
    assert roofline.intensity_flop_per_byte(2 * parameters * tokens, 2 * parameters) == tokens


def test_an_array_equals_its_scalars():
    intensity, peak, rate = np.array([1.0, 100.0, 1000.0]), np.array([10.0, 300.0, 40.0]), np.array([1.0, 2.0, 3.0])
    together = roofline.attainable_flop_per_s(intensity, peak_flop_per_s=peak, hbm_bytes_per_s=rate)
    assert together.tolist() == [
        roofline.attainable_flop_per_s(i, peak_flop_per_s=p, hbm_bytes_per_s=r)
        for i, p, r in zip(intensity, peak, rate, strict=True)
    ]
    assert roofline.ridge_flop_per_byte(peak, rate).tolist() == [10.0, 150.0, 40 / 3]
    assert roofline.intensity_flop_per_byte(peak, rate).tolist() == [10.0, 150.0, 40 / 3]
