"""Break-evens put back into the prices make the two sides equal; where there is none, a scan finds none either.

Prices move in steps: copies by whole blocks, prefill by whole chunks (a new chunk reads the weights again). Where the
solved value lies on such a step the two sides cannot be equal: they then change order across it, and that is checked.
"""

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from kvmodel.errors import DoesNotFit
from kvmodel.inputs.case import case_from
from kvmodel.recovery import break_even, costs, resolve, strategies
from kvmodel.recovery.costs import at

CHECKED = settings(
    derandomize=True, deadline=None, max_examples=50, phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.filter_too_much],
)  # fmt: skip
CASES = st.fixed_dictionaries(
    {
        "model": st.sampled_from(
            ["llama-3-8b", "llama-2-7b", "opt-13b", "gemma-3-12b", "mixtral-8x7b", "deepseek-v2-lite"]
        ),
        "gpu": st.sampled_from(["a100-sxm4-80gb", "h100-sxm5-80gb", "h200-sxm-141gb", "mi300x"]),
        "tokens": st.integers(16, 30_000),
        "block_tokens": st.sampled_from([1, 16, 64, 256]),
        "layout": st.sampled_from(["per-layer-kv", "per-layer", "contiguous"]),
        "copy_gb_per_s": st.sampled_from([0.2, 1.0, 3.0, 6.0, 12.5, 25.0, 50.0]),
        "per_copy_us": st.sampled_from([0.0, 2.0, 20.0]),
        "survival": st.sampled_from([0.0, 0.0, 0.4]),
        "timing": st.sampled_from(["kernels", "today", "2023"]),
        "tokens_between": st.sampled_from([0, 256, 1024]),
    }
)


def fitting(choices):
    try:
        return resolve.inputs(case_from(choices))
    except DoesNotFit:
        assume(False)


def swap_s(inputs, **changed):
    return strategies.swap(at(inputs, preemptions=1, **changed)).victim_delay_s


def recompute_s(inputs, **changed):
    return strategies.recompute(at(inputs, preemptions=1, **changed)).victim_delay_s


@CHECKED
@given(CASES)
def test_copy_rate_put_back_makes_the_two_equal(choices):
    inputs = fitting(choices)
    rate = break_even.copy_bytes_per_s(inputs)
    without_overheads = {
        "h2d_bytes_per_s": rate, "d2h_bytes_per_s": rate, "per_copy_h2d_s": 0.0, "per_copy_d2h_s": 0.0,
        "load_overhead_s": 0.0, "load_s_per_block": 0.0, "next_token_s": 0.0, "small_loads": None,
        "host_memory_bytes_per_s": np.inf,
    }  # fmt: skip
    assert swap_s(inputs, **without_overheads) == pytest.approx(float(recompute_s(inputs)), rel=1e-3)


@CHECKED
@given(CASES)
def test_the_effective_rate_is_above_the_break_even_exactly_where_swap_wins(choices):
    inputs = fitting(choices)
    effective = break_even.effective_copy_bytes_per_s(inputs)
    assert effective <= inputs.h2d_bytes_per_s * (1 + 1e-9)
    assert (effective > break_even.copy_bytes_per_s(inputs)) == (swap_s(inputs) < recompute_s(inputs))


def test_copy_rate_over_an_array_equals_its_scalars():
    inputs = resolve.inputs(case_from({"timing": "kernels"}))
    lengths = np.array([1, 64, 2048, 2049, 50_000])
    together = break_even.copy_rate_of_equal_cost(at(inputs, tokens=lengths))
    assert together.tolist() == [break_even.copy_bytes_per_s(at(inputs, tokens=int(n))) for n in lengths]


def test_copy_rate_by_hand():
    """1,000 tokens are 63 blocks of 2 MiB; twice that over the prefill's time."""
    inputs = resolve.inputs(case_from({"timing": "kernels", "tokens": 1000}))
    seconds = float(costs.prefill_alone_s(inputs, 1000, 0))
    assert break_even.copy_bytes_per_s(inputs) == pytest.approx(2 * 63 * 2 * 2**20 / seconds)


def test_nothing_to_recompute_has_no_break_even_rate():
    inputs = resolve.inputs(case_from({"survival": 1.0}))
    assert break_even.copy_bytes_per_s(inputs) is None
    assert break_even.bytes_per_copy(inputs) is None
    assert break_even.context_tokens(inputs) is None


@CHECKED
@given(CASES)
def test_bytes_per_copy_put_back_makes_the_two_equal(choices):
    inputs = fitting(choices)
    size_bytes = float(resolve.moved_bytes(inputs, inputs.tokens))
    one_run = float(resolve.copy_count(at(inputs, runs_per_block=1), inputs.tokens))

    def swap_of_pieces_s(piece_bytes):
        return swap_s(inputs, runs_per_block=size_bytes / piece_bytes / one_run)

    even = break_even.bytes_per_copy(inputs)
    pieces = np.geomspace(1.0, size_bytes, 200)
    if even is None:
        slower = swap_of_pieces_s(pieces) > recompute_s(inputs)
        assert slower.all() or not slower.any()
    else:
        assert 0 < even <= size_bytes
        assert swap_of_pieces_s(even) == pytest.approx(float(recompute_s(inputs)), rel=1e-3)
        assert swap_of_pieces_s(even / 1.01) > recompute_s(inputs)


@CHECKED
@given(CASES)
def test_context_put_back_makes_the_two_equal_or_is_where_they_change_order(choices):
    inputs = fitting(choices)
    even = break_even.context_tokens(inputs)

    def ahead_s(tokens):
        return swap_s(inputs, tokens=tokens) - recompute_s(inputs, tokens=tokens)

    if even is None:
        lengths = np.unique(np.rint(np.geomspace(1, break_even.most_tokens(inputs), 150)))
        signs = np.sign(ahead_s(lengths))
        assert np.all(signs == signs[0])
    else:
        assert 1 <= even <= break_even.most_tokens(inputs) * 1.001
        equal = float(swap_s(inputs, tokens=even)) == pytest.approx(float(recompute_s(inputs, tokens=even)), rel=1e-3)
        assert equal or ahead_s(even * 0.9998) * ahead_s(even * 1.0002) <= 0


@CHECKED
@given(CASES)
def test_no_context_means_none_even_between_the_points_of_the_search(choices):
    """Every length up to 3,000, where steps of blocks and chunks weigh most."""
    inputs = fitting(choices)
    if break_even.context_tokens(inputs) is None:
        lengths = np.arange(1.0, min(3000.0, break_even.most_tokens(inputs)))
        signs = np.sign(swap_s(inputs, tokens=lengths) - recompute_s(inputs, tokens=lengths))
        assert np.all(signs == signs[0])


def test_most_tokens_is_what_the_pool_holds():
    inputs = resolve.inputs(case_from({}))
    most = break_even.most_tokens(inputs)
    assert most == pytest.approx(inputs.pool_bytes_per_gpu / 131_072, rel=1e-3)
    assert break_even.most_tokens(at(inputs, pool_bytes_per_gpu=1e15)) == 1e7


@CHECKED
@given(CASES)
def test_survival_put_back_makes_the_two_equal_or_is_where_they_change_order(choices):
    inputs = fitting(choices)
    even = break_even.survival(inputs)
    whole_tokens = np.arange(inputs.tokens)  # at least one token is missing: all of it surviving is no recompute
    if even is None:
        slower = recompute_s(inputs, survival=whole_tokens / inputs.tokens) > swap_s(inputs)
        assert slower.all() or not slower.any()
    else:
        assert 0 < even < 1
        equal = float(recompute_s(inputs, survival=even)) == pytest.approx(float(swap_s(inputs)), rel=1e-3)
        below, above = (recompute_s(inputs, survival=even + step) - swap_s(inputs) for step in (-2e-4, 2e-4))
        assert equal or (below >= 0 >= above)
        assert even <= 1 - 1 / inputs.tokens


@pytest.mark.parametrize("tokens", [64, 256])
def test_a_short_context_over_a_fast_link_has_no_survival_that_helps(tokens):
    """Recomputing one token already reads all weights (10 ms), longer than both copies: no share below one helps."""
    inputs = resolve.inputs(case_from({"timing": "kernels", "tokens": tokens}))
    assert recompute_s(inputs, survival=1 - 1 / tokens) > swap_s(inputs)
    assert break_even.survival(inputs) is None


@CHECKED
@given(CASES, st.sampled_from(["ideal", "vllm-v1-offload"]), st.sampled_from([0, 1000]))
def test_preemptions_is_the_first_number_at_which_offload_with_its_write_is_cheaper(choices, policy, generated):
    inputs = fitting(choices | {"policy": policy, "generated_tokens": generated})

    def offload_is_cheaper(number):
        here = at(inputs, preemptions=number)
        offload = strategies.offload(here)
        return offload.victim_delay_s + offload.out_s < strategies.recompute(here).victim_delay_s

    even = break_even.preemptions(inputs)
    if even is None:
        assert not any(offload_is_cheaper(number) for number in (1, 2, 10))
    else:
        assert even >= 1
        if even <= 12:
            assert offload_is_cheaper(even)
            assert not any(offload_is_cheaper(number) for number in range(1, even))


def test_a_slow_write_pays_off_after_some_preemptions():
    inputs = at(resolve.inputs(case_from({"timing": "kernels", "tokens_between": 0})), d2h_bytes_per_s=0.5e9)
    write_s, load_s = costs.out_s(inputs, 4096), costs.load(inputs, 4096).in_s
    recompute = float(recompute_s(inputs))
    assert break_even.preemptions(inputs) == int(np.floor(write_s / (recompute - load_s))) + 1


def test_solve_gives_all_five():
    inputs = resolve.inputs(case_from({}))
    even = break_even.solve(inputs)
    assert even.copy_bytes_per_s == break_even.copy_bytes_per_s(inputs)
    assert even.bytes_per_copy == break_even.bytes_per_copy(inputs)
    assert even.context_tokens == break_even.context_tokens(inputs)
    assert even.survival == break_even.survival(inputs)
    assert even.preemptions == break_even.preemptions(inputs)


@pytest.mark.parametrize("rising", [1, -1])
def test_bisect(rising):
    root = break_even.bisect(lambda x: rising * (x - 3.7), 1.0, 100.0)
    assert root == pytest.approx(3.7, rel=2e-4)
