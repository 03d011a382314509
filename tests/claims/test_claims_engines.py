"""Claims on engines and operation (A21, A23 to A28, A30, A31, P06): releases, memory arithmetic, one counted run."""

import pytest

from kvmodel.catalog import releases
from kvmodel.claims.ledger import claim
from kvmodel.claims.on_engines import place
from kvmodel.units import GIB


def test_a21_v0_used_swap_more():
    entry = claim("A21")
    assert entry.verdict == "differs"
    assert place("vllm-v0").keeps == "dropped", "what is said is that its KV went to the host"
    assert "group" in place("vllm-v0").goes.text
    assert entry.numbers["versions"] == "0.2.7 to 0.10.2"


def test_a23_the_two_flags_of_v0():
    """4 GiB over 131,072 bytes a token are 32,768 tokens."""
    entry, numbers = claim("A23"), claim("A23").numbers
    assert entry.verdict == "dated"
    assert (numbers["mode_gone"], numbers["space_gone"]) == ("0.11.0", "0.18.0")
    assert numbers["space_tokens"] == 4 * GIB / 131072 == 32768
    assert numbers["space_default"].startswith("4 GiB"), "a default, so not needed"
    assert not releases.exists("--preemption-mode", "vllm", "0.33.0")
    assert not releases.exists("--swap-space", "vllm", "0.33.0")


def test_a24_swap_needs_no_kv_between_processes():
    """4,096 / 16 blocks; two numbers of 8 bytes each are 4 KiB beside 512 MiB."""
    entry, numbers = claim("A24"), claim("A24").numbers
    assert entry.verdict == "differs"
    assert numbers["block_pairs"] == 256
    assert numbers["kv_bytes"] / (16 * numbers["block_pairs"]) > 100_000, (
        "the message is not what a swap would wait for"
    )


def test_a25_sglang_recomputes_but_for_decode_servers():
    entry = claim("A25")
    assert entry.verdict == "holds if"
    assert (place("sglang").keeps, place("sglang-decode").keeps) == ("dropped", "host")
    assert "fewest generated" in entry.numbers["victim"]


def test_a26_engines_do_not_converge_on_recompute():
    entry, numbers = claim("A26"), claim("A26").numbers
    assert entry.verdict == "differs"
    keeps = [row.keeps for row in releases.places()]
    assert numbers["with_host_copy"] == keeps.count("host") > 0, "what is said is that none is left"
    assert numbers["engines"] == len(keeps) == numbers["with_host_copy"] + numbers["without_copy"] + keeps.count("none")


def test_a27_a_few_percent():
    """5 in 100 requests: 0.05 x 4,096 tokens again for every 3,072 of prompts; measured elsewhere 10 to 23 %."""
    entry, numbers = claim("A27"), claim("A27").numbers
    assert entry.verdict == "rule of thumb"
    assert numbers["lost_share"] == pytest.approx(204.8 / (3072 + 204.8))
    assert (numbers["measured_low_share"], numbers["measured_high_share"]) == (0.10, 0.23)
    assert numbers["delay_s"] == pytest.approx(0.30, rel=0.20)


def test_a28_above_ten_percent():
    entry, numbers = claim("A28"), claim("A28").numbers
    assert entry.verdict == "rule of thumb"
    assert numbers["lost_share"] == pytest.approx(409.6 / (3072 + 409.6))


def test_a30_the_order_of_remedies():
    """An A100 of 79.15 GiB: 5 % of it is 4.0 GiB on a pool of about 55 GiB, 3 % is 2.4 GiB."""
    entry, numbers = claim("A30"), claim("A30").numbers
    assert entry.verdict == "dated"
    assert (numbers["default_share"], numbers["old_default"], numbers["changed_in"]) == (0.92, "0.90", "0.20.0")
    assert numbers["article_gain_share"] == pytest.approx(0.05 * 79.15 / 55, rel=0.05)
    assert numbers["gain_share"] == pytest.approx(0.03 * 79.15 / 56.5, rel=0.05)
    assert numbers["gain_share"] < numbers["article_gain_share"]
    assert numbers["fp8_ratio"] == 2


def test_a31_the_first_signal():
    """10 events over 10 finished requests half-way, over 32 at the end, when 8 of the 32 had been hit."""
    entry, numbers = claim("A31"), claim("A31").numbers
    assert entry.verdict == "holds"
    assert (numbers["since"], numbers["histogram_since"]) == ("0.4.3", "0.30.0")
    assert (numbers["early_share"], numbers["end_share"], numbers["hit_share"]) == (1.0, 10 / 32, 8 / 32)
    assert releases.exists("vllm:num_preemptions_total", "vllm", "0.33.0")


def test_p06_swap_space_is_bounded_by_the_pool():
    """0.92 x 79.15 GiB less 15.0 GiB of weights and about 1.3 GiB leaves 56.5 GiB; the default space was 4 GiB."""
    entry, numbers = claim("P06"), claim("P06").numbers
    assert entry.verdict == "holds if"
    assert numbers["pool_bytes"] / GIB == pytest.approx(0.92 * 79.15 - 16.06e9 / GIB - 1.3, rel=0.02)
    assert numbers["space_bytes"] == 4 * GIB
    assert numbers["pool_ratio"] == pytest.approx(numbers["pool_bytes"] / (4 * GIB))
