"""Figure 19a of the vLLM paper: times reconstructed from readings of the figure (two readers), to 2 %."""

import numpy as np
import pytest

from kvmodel.claims.figure19 import figure19, swap_s

BLOCKS = [1, 2, 4, 8, 16, 32, 64, 128, 256]
READ_MS = [137, 85, 59, 46.5, 40.0, 36.8, 35.2, 34.4, 34.0]


def test_nine_swap_times():
    figure = figure19()
    assert figure.block_tokens.tolist() == BLOCKS
    assert figure.swap_s * 1000 == pytest.approx(READ_MS, rel=0.02)


def test_swap_by_hand():
    """80 x 256 / B copies and 256 x 800 KiB each way: K and V of 40 layers of 5,120 in fp16."""
    size = 256 * 2 * 40 * 5120 * 2
    assert size == 80 * 256 * 10_240
    for block in BLOCKS:
        copies = 80 * 256 // block
        assert swap_s(block) == pytest.approx(2 * size / 12.5e9 + copies * (2.0e-6 + 3.1e-6))


def test_a_part_filled_block_is_copied_whole():
    assert swap_s(200) == pytest.approx(2 * 400 * 819_200 / 12.5e9 + 160 * 5.1e-6)


def test_ratio_and_crossing():
    figure = figure19()
    assert figure.ratio[-1] == pytest.approx(1.18, abs=0.01)  # the "20 %" of the paper
    assert figure.ratio_measured[-1] == pytest.approx(1.31, abs=0.01)
    assert figure.recompute_plotted_s == pytest.approx(0.040, rel=0.01)
    assert figure.recompute_measured_s == pytest.approx(figure.recompute_plotted_s / 0.9)
    assert figure.crossing_plotted_block_tokens == 16
    assert np.all((figure.ratio > 1) == (figure.block_tokens > 16))


def test_the_crossing_is_where_the_curves_meet():
    figure = figure19()
    size_s, copies = 2 * 256 * 819_200 / 12.5e9, 80 * 256 / figure.crossing_block_tokens
    assert size_s + copies * 5.1e-6 == pytest.approx(figure.recompute_plotted_s, rel=1e-3)
    assert figure.crossing_block_tokens == pytest.approx(16, abs=0.5)


def test_the_same_code_on_todays_pcie_4():
    """At 25 GB/s the plotted ratio is 2.3 at block 256 and 1.7 at 16: the 20 % is a property of that host."""
    plotted_s = figure19().recompute_plotted_s
    assert plotted_s / swap_s(256, link="pcie4-x16") == pytest.approx(2.3, abs=0.1)
    assert plotted_s / swap_s(16, link="pcie4-x16") == pytest.approx(1.7, abs=0.1)


def test_an_array_equals_its_scalars():
    assert swap_s(np.array(BLOCKS)).tolist() == [swap_s(block) for block in BLOCKS]
