"""Claims on sizes and copies (A01 to A04): hand-worked numbers beside what the article prints."""

import numpy as np
import pytest

from kvmodel.claims.ledger import claim
from kvmodel.curves.kv_table import article_table

SIZE_4096_BYTES = 4096 * 131072  # 512 MiB


def test_a01_kv_bytes_of_a_token():
    """2 x 32 x 8 x 128 values of 2 bytes; DeepSeek V3 keeps 61 x (512 + 64), Gemma 3 grows in 10 of 62 layers."""
    entry, numbers = claim("A01"), claim("A01").numbers
    assert entry.verdict == "holds"
    assert numbers["kv_bytes_per_token"] == 2 * 32 * 8 * 128 * 2 == 131072
    assert numbers["latent_bytes_per_token"] == 61 * (512 + 64) * 2 == 70272
    assert numbers["latent_by_heads_bytes_per_token"] > 70 * 70272
    assert numbers["windows_bytes_per_token"] == 10 * 2 * 16 * 128 * 2 == 81920
    assert numbers["windows_by_heads_bytes_per_token"] == 62 * 2 * 16 * 128 * 2 == 507904


def test_a02_the_printed_table():
    """Every printed cell, and how far exact SI is from it: 2**20 / 10**6 - 1 = 4.9 %; 2.24 ms was printed as 2."""
    entry, table = claim("A02"), article_table()
    assert entry.verdict == "holds"
    assert table.printed_mib.tolist() == [64, 128, 256, 512, 1024]
    assert table.printed_one_way_ms.tolist() == [[2, 4, 9, 17, 34], [4, 9, 17, 34, 68]]
    exact_ms = np.array([[2.2, 4.5, 8.9, 17.9, 35.8], [4.5, 8.9, 17.9, 35.8, 71.6]])
    assert table.exact_one_way_ms == pytest.approx(exact_ms, abs=0.05)
    assert entry.numbers["unit_share"] == pytest.approx(2**20 / 1e6 - 1)
    assert entry.numbers["rounded_share"] == pytest.approx(64 * 2**20 / 30e9 * 1000 / 2 - 1)
    assert (entry.numbers["pcie4_bytes_per_s"], entry.numbers["pcie3_bytes_per_s"]) == (25e9, 12.5e9)


def test_a03_round_trip_of_4096_tokens():
    """17 + 17 ms as printed; 2 x 537 MB at 30 and 25 GB/s; V0's 64 copies a block each way, 2.0 and 3.1 us."""
    entry, numbers = claim("A03"), claim("A03").numbers
    assert entry.verdict == "holds"
    assert numbers["article_printed_s"] == pytest.approx(0.034)
    assert numbers["exact_s"] == pytest.approx(2 * SIZE_4096_BYTES / 30e9) == pytest.approx(0.0358, abs=5e-5)
    assert numbers["measured_s"] == pytest.approx(2 * SIZE_4096_BYTES / 25e9) == pytest.approx(0.0429, abs=5e-5)
    assert numbers["copies"] == 2 * 64 * 256 == 32768
    assert numbers["with_copies_s"] == pytest.approx(numbers["measured_s"] + 16384 * 5.1e-6, rel=0.01)


def test_a04_small_blocks():
    """16,384 x (2.0 + 3.1) us on 42.9 ms of bytes; single tokens 16 times as many copies; one a block: 256."""
    entry, numbers = claim("A04"), claim("A04").numbers
    assert entry.verdict == "holds if"
    bytes_s = 2 * SIZE_4096_BYTES / 25e9
    assert numbers["apart_ratio"] == pytest.approx(1 + 16384 * 5.1e-6 / bytes_s, rel=0.01)
    assert numbers["smallest_ratio"] == pytest.approx(1 + 16 * 16384 * 5.1e-6 / bytes_s, rel=0.01)
    assert numbers["together_ratio"] == pytest.approx(1 + 256 * 5.1e-6 / bytes_s, rel=0.01)
    assert numbers["together_ratio"] < 1.05 < 2 < numbers["apart_ratio"], "the condition separates the two"
