"""The winner is the cheapest of what the policy has; the factor, "close" and the flips follow from the prices."""

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from kvmodel import catalog
from kvmodel.errors import DoesNotFit
from kvmodel.inputs.case import case_from
from kvmodel.recovery import break_even, resolve, strategies
from kvmodel.recovery.comparison import compare_case
from kvmodel.recovery.costs import at
from kvmodel.recovery.verdict import contest, verdict

CHECKED = settings(
    derandomize=True, deadline=None, max_examples=50, phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.filter_too_much],
)  # fmt: skip
POLICIES = ("vllm-v0", "vllm-v1", "vllm-v1-offload", "lmcache", "sglang", "sglang-hicache", "trtllm-suspend", "ideal")
CASES = st.fixed_dictionaries(
    {
        "model": st.sampled_from(["llama-3-8b", "llama-2-7b", "opt-13b", "gemma-3-12b"]),
        "gpu": st.sampled_from(["a100-sxm4-80gb", "h100-sxm5-80gb"]),
        "tokens": st.integers(16, 20_000),
        "block_tokens": st.sampled_from([1, 16, 256]),
        "layout": st.sampled_from(["per-layer-kv", "contiguous"]),
        "copy_gb_per_s": st.sampled_from([0.5, 3.0, 5.0, 12.5, 50.0]),
        "survival": st.sampled_from([0.0, 0.4]),
        "timing": st.sampled_from(["kernels", "today"]),
        "policy": st.sampled_from(POLICIES),
        "objective": st.sampled_from(["victim-delay", "gpu-time"]),
        "decode_batch": st.sampled_from([0, 8, 3000]),
        "preemptions": st.sampled_from([1, 1, 3]),
    }
)


def judged(choices):
    try:
        return compare_case(case_from(choices))
    except DoesNotFit:
        assume(False)


def cost(result, name):
    price = result.prices[name]
    return float(price.gpu_s if result.inputs.objective == "gpu-time" else price.victim_delay_s)


@CHECKED
@given(CASES)
def test_winner_factor_and_close(choices):
    result = judged(choices)
    best = result.verdict.best
    costs = {name: cost(result, name) for name in result.inputs.available if name != "wait"}
    known = {name: value for name, value in costs.items() if np.isfinite(value)}
    if not known and len(costs) > 1:
        assert (best.winner, best.runner_up, best.factor, best.close) == (None, None, None, False)
        return
    assert best.winner in costs
    assert best.winner not in known or costs[best.winner] == min(known.values())
    assert (best.runner_up is None) == (len(costs) == 1)
    if best.runner_up in known and best.winner in known:
        assert costs[best.runner_up] == sorted(known.values())[1]
        one, other = result.prices[best.winner], result.prices[best.runner_up]
        low = costs[best.runner_up] * (1 - float(other.band))
        high = costs[best.winner] * (1 + float(one.band))
        assert best.close == (low <= high)
        if costs[best.winner] > 0:
            assert best.factor == pytest.approx(costs[best.runner_up] / costs[best.winner])
            assert best.factor >= 1
        else:
            assert best.factor is None
    else:
        assert (best.factor, best.close) == (None, False)


@CHECKED
@given(CASES)
def test_swap_or_recompute_is_between_those_two_whatever_the_policy(choices):
    pair = judged(choices).verdict.swap_or_recompute
    assert {pair.winner, pair.runner_up} == {"swap", "recompute"}


CHANGES = {
    "copy_bytes_per_s": lambda inputs, rate: at(
        inputs,
        h2d_bytes_per_s=rate,
        d2h_bytes_per_s=rate,
        per_copy_h2d_s=0.0,
        per_copy_d2h_s=0.0,
        load_overhead_s=0.0,
        load_s_per_block=0.0,
        next_token_s=0.0,
        small_loads=None,
        host_memory_bytes_per_s=np.inf,
    ),
    "bytes_per_copy": lambda inputs, piece: at(
        inputs,
        runs_per_block=float(resolve.moved_bytes(inputs, inputs.tokens))
        / piece
        / float(resolve.copy_count(at(inputs, runs_per_block=1), inputs.tokens)),
    ),
    "context_tokens": lambda inputs, tokens: at(inputs, tokens=tokens),
    "survival": lambda inputs, share: at(inputs, survival=min(max(share, 0.0), 1.0)),
}


def winner_of(inputs):
    swap, recompute = strategies.swap(inputs).victim_delay_s, strategies.recompute(inputs).victim_delay_s
    return "swap" if swap < recompute else "recompute"


@CHECKED
@given(CASES)
def test_going_past_a_flip_turns_swap_against_recompute(choices):
    """One preemption: break-evens price one."""
    result = judged(choices | {"preemptions": 1, "objective": "victim-delay"})
    now = winner_of(result.inputs)
    for flip in result.verdict.flips:
        assert flip.then == ("recompute" if now == "swap" else "swap")
        assert flip.times >= 1
        past = 1.0002 if flip.what == "context_tokens" else 1.002  # blocks fill: further on the order may turn back
        step = past if flip.at > flip.now else 1 / past
        beyond = 1 - (1 - flip.at) / 1.002 if flip.what == "survival" else flip.at * step
        assert winner_of(CHANGES[flip.what](result.inputs, beyond)) == flip.then, flip


@CHECKED
@given(CASES)
def test_flips_of_the_delay_are_the_break_evens_nearest_first(choices):
    result = judged(choices | {"objective": "victim-delay"})
    flips = {flip.what: flip for flip in result.verdict.flips}
    times = [flip.times for flip in result.verdict.flips]
    assert times == sorted(times)
    for what, flip in flips.items():
        assert flip.at == getattr(result.even, what)
        if what != "survival":
            assert flip.times == pytest.approx(max(flip.at / flip.now, flip.now / flip.at))
    for what in ("copy_bytes_per_s", "bytes_per_copy", "context_tokens"):
        assert (what in flips) == (getattr(result.even, what) is not None)


@CHECKED
@given(CASES)
def test_gpu_time_turns_at_one_copy_rate_and_only_where_the_batch_waits_for_copies(choices):
    result = judged(choices | {"objective": "gpu-time"})
    swap, recompute = result.prices["swap"], result.prices["recompute"]
    if choices["policy"] != "vllm-v0" or not recompute.gpu_s > 0:
        assert result.verdict.flips == ()
        return
    (flip,) = result.verdict.flips
    assert flip.then == ("recompute" if swap.gpu_s < recompute.gpu_s else "swap")
    assert flip.times == pytest.approx(max(swap.gpu_s / recompute.gpu_s, recompute.gpu_s / swap.gpu_s))
    there = strategies.swap(CHANGES[flip.what](result.inputs, flip.at))
    assert there.gpu_s == pytest.approx(float(recompute.gpu_s), rel=1e-3)


def test_a_case_whose_preemptions_differ_in_winner_is_not_told_what_is_false():
    """At 4.0 GB/s recompute wins 2,048 tokens and swap 52,048; together swap: a faster link cannot turn that."""
    result = compare_case(
        case_from(
            {
                "timing": "kernels", "tokens": 2048, "preemptions": 2, "tokens_between": 50_000, "copy_gb_per_s": 4.0,
                "per_copy_us": 0,
            }
        )
    )  # fmt: skip
    assert result.verdict.swap_or_recompute.winner == "swap"
    for flip in result.verdict.flips:
        if flip.what == "copy_bytes_per_s":
            assert (flip.at < flip.now) == (flip.then == "recompute")


@pytest.mark.parametrize("policy", catalog.table("engines"))
def test_the_winner_is_something_the_engine_has(policy):
    result = compare_case(case_from({"policy": policy}))
    available = catalog.table("engines")[policy]["available"]
    assert list(result.inputs.available) == available
    assert result.verdict.best.winner in available
    assert (result.verdict.best.winner == "wait") == (available == ["wait"])


def test_gpu_time_is_another_question():
    """Swap takes 61 ms of the victim's time and none of the others', a kernel's share at most; recompute stops them."""
    by_driver, by_kernel = (
        {objective: compare_case(case_from({"policy": "trtllm-suspend", "copy_method": method, "objective": objective}))
         for objective in ("victim-delay", "gpu-time")}
        for method in ("per-copy", "kernel")
    )  # fmt: skip
    for results in (by_driver, by_kernel):
        for objective, result in results.items():
            assert (result.verdict.objective, result.verdict.best.winner) == (objective, "swap")
    recompute, swap = (by_driver["victim-delay"].prices[name].victim_delay_s for name in ("recompute", "swap"))
    assert by_driver["victim-delay"].verdict.best.factor == pytest.approx(float(recompute / swap))
    assert by_driver["gpu-time"].verdict.best.factor is None  # over nothing
    kernel = by_kernel["gpu-time"].prices
    assert kernel["swap"].gpu_s == pytest.approx(0.09 * 2 * (256 * 0.21e-6 + 2**29 / 24.5e9))
    assert by_kernel["gpu-time"].verdict.best.factor == pytest.approx(
        float(kernel["recompute"].gpu_s / kernel["swap"].gpu_s)
    )
    v0 = compare_case(case_from({"policy": "vllm-v0", "objective": "gpu-time"}))
    assert v0.verdict.best.factor == pytest.approx(
        float(v0.prices["recompute"].gpu_s / v0.prices["swap"].victim_delay_s)
    )


def test_ties_go_to_the_shorter_delay():
    result = compare_case(case_from({"objective": "gpu-time"}))
    swap, offload = result.prices["swap"], result.prices["offload"]
    assert swap.gpu_s == offload.gpu_s == 0
    assert swap.victim_delay_s > offload.victim_delay_s
    assert contest(result.inputs, result.prices, ["swap", "offload"]).winner == "offload"


@pytest.mark.parametrize(("gb_per_s", "close"), [(2.0, False), (3.4, True), (4.6, True), (8.0, False)])
def test_too_close_to_call_near_the_break_even_of_4_gb_per_s(gb_per_s, close):
    """4.0 on the link: 3.8 with the engine's time for a load in it."""
    result = compare_case(case_from({"copy_gb_per_s": gb_per_s}))
    assert result.verdict.swap_or_recompute.close == close
    assert result.verdict.swap_or_recompute.winner == ("recompute" if gb_per_s < 4.0 else "swap")


def test_unknown_prices_have_no_factor():
    inputs = at(resolve.inputs(case_from({"objective": "gpu-time", "policy": "vllm-v0"})), decode_batch=10_000)
    judged_here = verdict(inputs, strategies.price(inputs), break_even.solve(inputs)).best
    assert (judged_here.winner, judged_here.factor, judged_here.close) == ("swap", None, False)
