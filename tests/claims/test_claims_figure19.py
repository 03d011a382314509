"""Claims on Figure 19 of the vLLM paper (A10 to A12, P01 to P04, P08, P09), against times solved from the figure.

Per copy 2.0 us in and 3.1 us out, 12.5 GB/s each way, 80 x 256 / B copies of 10,240 B bytes; recompute 44.4 ms,
plotted as 40.0.
"""

import pytest

from kvmodel.claims.ledger import claim

BYTES_ONE_WAY = 256 * 80 * 10240
BLOCK_S = {block: 2 * BYTES_ONE_WAY / 12.5e9 + 80 * 256 / block * 5.1e-6 for block in (1, 8, 16, 64, 256)}
FASTER_S = {block: 2 * BYTES_ONE_WAY / 25e9 + 80 * 256 / block * 5.1e-6 for block in (16, 64, 256)}
CLOSE = {"rel": 0.01}  # the two per-copy costs are solved to two digits


def test_the_hand_worked_times_are_those_read_from_the_figure():
    """137, 46.5, 40.0, 35.2 and 34.0 ms."""
    assert list(BLOCK_S.values()) == pytest.approx([0.137, 0.0465, 0.0400, 0.0352, 0.0340], rel=0.015)


def test_a10_at_most_20_percent_slower():
    entry, numbers = claim("A10"), claim("A10").numbers
    assert entry.verdict == "holds if"
    assert numbers["last_ratio"] == pytest.approx(0.0400 / BLOCK_S[256], **CLOSE) == pytest.approx(1.18, abs=0.01)
    assert numbers["last_ratio"] <= 1.20, "as plotted it holds"
    assert numbers["unscaled_ratio"] == pytest.approx(0.0444 / BLOCK_S[256], **CLOSE) == pytest.approx(1.31, abs=0.01)
    assert numbers["faster_ratio"] == pytest.approx(0.0400 / FASTER_S[256], **CLOSE) == pytest.approx(2.3, abs=0.05)
    assert min(numbers["unscaled_ratio"], numbers["faster_ratio"]) > 1.20, "outside the conditions it does not"


def test_a11_never_reverses():
    entry, numbers = claim("A11"), claim("A11").numbers
    assert entry.verdict == "differs"
    assert numbers["crossing_block"] == 16
    assert numbers["first_ratio"] == pytest.approx(0.0400 / BLOCK_S[1], **CLOSE)
    assert numbers["first_ratio"] < 1 < numbers["last_ratio"], "the order at one end is not that at the other"


def test_a12_recompute_is_faster_in_most_cases():
    """Break-even of other fits: 3.0 to 3.7 GB/s for Llama 3 8B on an A100; copies reach 25 before overheads."""
    entry, numbers = claim("A12"), claim("A12").numbers
    assert entry.verdict == "differs"
    assert 3.0 <= numbers["even_bytes_per_s"] / 1e9 <= 3.9
    assert 18e9 < numbers["here_bytes_per_s"] < 25e9
    assert numbers["over_ratio"] == pytest.approx(numbers["here_bytes_per_s"] / numbers["even_bytes_per_s"])
    assert numbers["over_ratio"] > 1.5, "above one and beyond the two bands of 20 %: recompute is the slower one"
    assert numbers["wins_block"] == 8


def test_p01_small_blocks_do_not_fill_the_link():
    entry, numbers = claim("P01"), claim("P01").numbers
    assert entry.verdict == "holds if"
    assert (numbers["first_s"], numbers["last_s"]) == pytest.approx((BLOCK_S[1], BLOCK_S[256]), **CLOSE)
    assert numbers["first_bytes_per_s"] == pytest.approx(2 * BYTES_ONE_WAY / BLOCK_S[1], **CLOSE)
    assert numbers["first_bytes_per_s"] < 0.25 * 12.5e9
    assert numbers["slower_ratio"] == pytest.approx(4.06, abs=0.05)


def test_p02_recompute_does_not_depend_on_the_block_size():
    """The model's kernels, 36.7 ms by another fit, are below the 40 to 44 ms of a whole server; the band is 20 %."""
    entry, numbers = claim("P02"), claim("P02").numbers
    assert entry.verdict == "holds"
    assert numbers["spread_s"] == 0
    assert numbers["kernels_s"] == pytest.approx(0.0400, rel=0.20)
    assert numbers["swap_ratio"] > 4, "while swap depends on it much"


def test_p03_twenty_percent_of_swapping():
    entry, numbers = claim("P03"), claim("P03").numbers
    assert entry.verdict == "holds if"
    assert 0.20 < numbers["first_ratio"] < numbers["last_ratio"], "taken literally it holds at no block size"
    assert numbers["last_ratio"] <= 1.20 < numbers["unscaled_ratio"], "read as 20 % slower it holds as plotted"


def test_p04_comparable_between_16_and_64():
    entry, numbers = claim("P04"), claim("P04").numbers
    assert entry.verdict == "holds if"
    assert numbers["low_ratio"] == pytest.approx(0.0400 / BLOCK_S[16], **CLOSE) == pytest.approx(1.00, abs=0.01)
    assert numbers["high_ratio"] == pytest.approx(0.0400 / BLOCK_S[64], **CLOSE) == pytest.approx(1.14, abs=0.01)
    assert numbers["faster_low_ratio"] == pytest.approx(0.0400 / FASTER_S[16], **CLOSE) == pytest.approx(1.7, abs=0.05)
    assert numbers["faster_high_ratio"] == pytest.approx(0.0400 / FASTER_S[64], **CLOSE)
    assert numbers["faster_low_ratio"] > 1.5, "on a faster link they are not comparable"


def test_p08_the_factor_of_the_plotting_script():
    entry, numbers = claim("P08"), claim("P08").numbers
    assert entry.verdict == "differs"
    assert numbers["script_factor"] == 0.9
    assert numbers["plotted_s"] == pytest.approx(0.9 * numbers["measured_s"]) == pytest.approx(0.0400, abs=1e-4)
    assert numbers["measured_s"] == pytest.approx(0.0444), "what is said is that the two are the same"
    assert numbers["crossing_unscaled_ratio"] == pytest.approx(0.0444 / BLOCK_S[16], **CLOSE)


def test_p09_recompute_for_small_blocks_swap_for_large_ones():
    """Even where out and in take as long as the recompute: 5.1 us a copy against what the bytes leave of it."""
    entry, numbers = claim("P09"), claim("P09").numbers
    assert entry.verdict == "holds if"
    assert (numbers["wins_block"], numbers["crossing_block"]) == (8, 16)
    assert numbers["here_bytes"] == 16 * 8 * 128 * 2 == 32768
    recompute_s = 0.2675  # 4,096 tokens on an A100: twice the 125 ms measured for 2,048, and attention; +-20 %
    even_bytes = 4096 * 131072 * 5.1e-6 / (recompute_s - 2 * 4096 * 131072 / 25e9)
    assert numbers["even_bytes"] == pytest.approx(even_bytes, rel=0.25)
    assert numbers["even_bytes"] < numbers["here_bytes"], "so a block of 16 is on the side of swap already"
