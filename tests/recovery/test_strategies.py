"""Prices by hand: copies from bytes and counts typed here, prefill from step_time (tested apart), then sums."""

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from kvmodel.errors import DoesNotFit
from kvmodel.inputs.case import case_from
from kvmodel.recovery import costs, resolve, strategies
from kvmodel.recovery.costs import at
from kvmodel.recovery.strategies import Price, price
from kvmodel.timing import step_time

CHECKED = settings(
    derandomize=True, deadline=None, max_examples=40, phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.filter_too_much],
)  # fmt: skip
PER_TOKEN = 131_072  # bytes of KV of Llama 3 8B in bf16: 2 x 32 layers x 8 heads x 128 x 2
ACTING = ("recompute", "swap", "offload", "both")


def inputs_of(**choices):
    return resolve.inputs(case_from(choices))


def toy(**changed):
    """Llama 3 8B, 1,000 tokens in blocks of 16 (63 of them, 1,008 tokens), round rates that differ by direction."""
    base = at(
        inputs_of(tokens=1000, generated_tokens=300, timing="kernels"),
        h2d_bytes_per_s=20e9, d2h_bytes_per_s=10e9, per_copy_h2d_s=1e-5, per_copy_d2h_s=3e-5,
        host_memory_bytes_per_s=np.inf, prefill_band=0.2, copy_band=0.1,
    )  # fmt: skip
    return at(base, **changed)


def out_s(tokens, copies):
    return copies * 3e-5 + tokens * PER_TOKEN / 10e9


def in_s(tokens, copies):
    return copies * 1e-5 + tokens * PER_TOKEN / 20e9


def prefill_s(inputs, new, past=0):
    return step_time.prefill_s(new, past, inputs.shape, inputs.gpu, tp=inputs.tp, chunk_tokens=2048)


# swap


def test_swap_copies_whole_blocks_out_and_in():
    swap = strategies.swap(toy())
    assert swap.out_s == pytest.approx(out_s(1008, 63))
    assert swap.in_s == pytest.approx(in_s(1008, 63))
    assert swap.victim_delay_s == pytest.approx(out_s(1008, 63) + in_s(1008, 63))
    assert swap.link_s == swap.victim_delay_s
    assert swap.link_bytes == 2 * 1008 * PER_TOKEN
    assert swap.host_bytes == 1008 * PER_TOKEN
    assert swap.recomputed_tokens == 0
    assert swap.gpu_s == 0


@pytest.mark.parametrize(("layout", "pieces"), [("per-layer-kv", 64), ("per-layer", 32), ("contiguous", 1)])
def test_swap_counts_copies_by_layout_and_runs(layout, pieces):
    inputs = toy(layout=layout)
    assert resolve.copy_count(inputs, 1000) == 63 * pieces
    assert strategies.swap(inputs).out_s == pytest.approx(out_s(1008, 63 * pieces))
    assert strategies.swap(at(inputs, runs_per_block=3)).in_s == pytest.approx(in_s(1008, 3 * 63 * pieces))


def test_swap_on_the_compute_stream_stops_the_batch():
    swap = strategies.swap(toy(swap_on_compute_stream=True))
    assert swap.gpu_s == pytest.approx(out_s(1008, 63) + in_s(1008, 63))


def test_infinite_link_leaves_the_cost_of_copies_and_free_copies_leave_bytes_over_rate():
    endless = strategies.swap(toy(h2d_bytes_per_s=np.inf, d2h_bytes_per_s=np.inf))
    assert (endless.out_s, endless.in_s) == pytest.approx((63 * 3e-5, 63 * 1e-5))
    free = strategies.swap(toy(per_copy_h2d_s=0, per_copy_d2h_s=0))
    assert (free.out_s, free.in_s) == pytest.approx((1008 * PER_TOKEN / 10e9, 1008 * PER_TOKEN / 20e9))


def test_an_engine_adds_its_overhead_to_each_load_and_not_to_writes():
    swap = strategies.swap(toy(load_overhead_s=0.01, preemptions=2, tokens_between=0))
    assert swap.in_s == pytest.approx(2 * (in_s(1008, 63) + 0.01))
    assert swap.out_s == pytest.approx(2 * out_s(1008, 63))
    assert costs.load(toy(load_overhead_s=0.01), 0).in_s == 0


def test_tensor_parallel_shards_copy_side_by_side():
    two = strategies.swap(toy(tp=2))
    assert two.out_s == pytest.approx(63 * 3e-5 + 1008 * PER_TOKEN / 2 / 10e9)
    assert two.link_bytes == 2 * 1008 * PER_TOKEN
    assert two.host_bytes == 1008 * PER_TOKEN
    narrow = strategies.swap(toy(tp=2, host_memory_bytes_per_s=12e9))
    assert narrow.out_s == pytest.approx(63 * 3e-5 + 1008 * PER_TOKEN / 2 / 6e9)


def test_one_gpu_alone_reaches_its_links_measured_rate():
    """GH200: 342-346 GB/s in, 295 out over NVLink-C2C: the host's memory has to be faster than that."""
    inputs = inputs_of(gpu="gh200-96gb", timing="kernels", per_copy_us=0)
    swap = strategies.swap(inputs)
    assert swap.in_s == pytest.approx(4096 * PER_TOKEN / 345e9)
    assert swap.out_s == pytest.approx(4096 * PER_TOKEN / 295e9)


def test_swap_at_three_preemptions_pays_three_longer_round_trips():
    swap = strategies.swap(toy(preemptions=3, tokens_between=100))
    held = [(1008, 63), (1104, 69), (1200, 75)]  # 1,000, 1,100 and 1,200 tokens in blocks of 16
    assert swap.out_s == pytest.approx(sum(out_s(*blocks) for blocks in held))
    assert swap.in_s == pytest.approx(sum(in_s(*blocks) for blocks in held))
    assert swap.link_bytes == 2 * (1008 + 1104 + 1200) * PER_TOKEN
    assert swap.host_bytes == 1200 * PER_TOKEN  # freed at each swap-in


# recompute


def test_recompute_is_a_prefill():
    inputs = toy()
    recompute = strategies.recompute(inputs)
    assert recompute.victim_delay_s == pytest.approx(prefill_s(inputs, 1000))
    assert recompute.recomputed_tokens == 1000
    assert (recompute.link_bytes, recompute.link_s, recompute.host_bytes) == (0, 0, 0)


def test_recompute_through_an_engine():
    inputs = toy(engine_factor=1.5, request_overhead_s=0.02)
    assert strategies.recompute(inputs).victim_delay_s == pytest.approx(1.5 * prefill_s(inputs, 1000) + 0.02)


def test_what_survives_is_not_recomputed():
    inputs = toy(survival=0.25)
    recompute = strategies.recompute(inputs)
    assert recompute.victim_delay_s == pytest.approx(prefill_s(inputs, 750, 250))
    assert recompute.recomputed_tokens == 750
    everything = strategies.recompute(toy(survival=1.0, request_overhead_s=0.02))
    assert (everything.victim_delay_s, everything.gpu_s, everything.recomputed_tokens) == (0, 0, 0)


def test_recompute_takes_gpu_time_at_its_marginal_cost():
    inputs = toy(engine_factor=1.5, request_overhead_s=0.02, decode_batch=8, decode_context=100)
    marginal_s = step_time.marginal_prefill_s(
        1000, 0, inputs.shape, inputs.gpu, decode_sequences=8, decode_kv_bytes_per_gpu=8 * 112 * PER_TOKEN,
        max_num_batched_tokens=2048,
    )  # fmt: skip
    assert strategies.recompute(inputs).gpu_s == pytest.approx(1.5 * marginal_s)


def test_recompute_at_three_preemptions_prefills_longer_contexts():
    inputs = toy(preemptions=3, tokens_between=100, survival=0.5)
    recompute = strategies.recompute(inputs)
    assert recompute.victim_delay_s == pytest.approx(
        prefill_s(inputs, 500, 500) + prefill_s(inputs, 550, 550) + prefill_s(inputs, 600, 600)
    )
    assert recompute.recomputed_tokens == 500 + 550 + 600
    assert strategies.last_context(inputs) == 1200


# offload


def test_offload_loads_and_writes_off_the_critical_path():
    offload = strategies.offload(toy())
    assert offload.victim_delay_s == pytest.approx(in_s(1008, 63))
    assert offload.out_s == pytest.approx(out_s(1008, 63))
    assert offload.link_s == pytest.approx(out_s(1008, 63) + in_s(1008, 63))
    assert offload.link_bytes == 2 * 1008 * PER_TOKEN
    assert (offload.gpu_s, offload.recomputed_tokens) == (0, 0)


def test_offload_at_three_preemptions_writes_once_and_loads_thrice():
    offload = strategies.offload(toy(preemptions=3, tokens_between=100))
    assert offload.victim_delay_s == pytest.approx(in_s(1008, 63) + in_s(1104, 69) + in_s(1200, 75))
    assert offload.out_s == pytest.approx(out_s(1200, 75))
    assert offload.link_bytes == (1008 + 1104 + 1200 + 1200) * PER_TOKEN
    assert offload.host_bytes == 1200 * PER_TOKEN


def test_offload_of_the_prompt_alone_recomputes_what_was_generated():
    inputs = toy(offload_prompt_only=True)
    offload = strategies.offload(inputs)  # 700 of the 1,000 tokens are prompt: 44 blocks, 704 tokens
    assert offload.victim_delay_s == pytest.approx(in_s(704, 44) + prefill_s(inputs, 300, 700))
    assert offload.recomputed_tokens == 300
    assert offload.host_bytes == 704 * PER_TOKEN
    assert offload.gpu_s > 0
    twice = strategies.offload(at(inputs, preemptions=2, tokens_between=100))
    assert twice.recomputed_tokens == 300 + 400
    assert twice.host_bytes == 704 * PER_TOKEN


def test_offload_does_not_load_what_survives():
    inputs = toy(survival=0.25)
    assert strategies.offload(inputs).victim_delay_s == pytest.approx(in_s(752, 47))  # 750 tokens in 47 blocks
    prompt_only = strategies.offload(at(inputs, offload_prompt_only=True))
    assert prompt_only.in_s == pytest.approx(in_s(464, 29))  # 700 less 250: 450 tokens in 29 blocks
    assert prompt_only.recomputed_tokens == 300
    most = strategies.offload(at(inputs, offload_prompt_only=True, survival=0.9))
    assert (most.in_s, most.recomputed_tokens) == (0, pytest.approx(100))


def test_everything_generated_leaves_nothing_to_offload():
    inputs = toy(offload_prompt_only=True, generated_tokens=5000)
    offload, recompute = strategies.offload(inputs), strategies.recompute(inputs)
    assert offload.victim_delay_s == recompute.victim_delay_s
    assert (offload.host_bytes, offload.link_bytes) == (0, 0)


# both


def best_split_s(inputs):
    """By trying every whole block, nothing and all."""
    past = inputs.survival * inputs.tokens
    missing = inputs.tokens - past
    splits = np.append(np.arange(0, missing, inputs.block_tokens), missing)
    return np.maximum(costs.prefill_alone_s(inputs, splits, past), costs.load(inputs, missing - splits).in_s).min()


def test_both_splits_where_prefill_meets_load():
    inputs = toy(h2d_bytes_per_s=2e9)
    both = strategies.both(inputs)
    split = float(both.recomputed_tokens)
    assert split % 16 == 0
    assert 0 < split < 1000
    rest = 1008 - split
    assert both.victim_delay_s == pytest.approx(
        max(prefill_s(inputs, split), rest / 16 * 1e-5 + rest * PER_TOKEN / 2e9)
    )
    assert both.victim_delay_s == pytest.approx(best_split_s(inputs), rel=0.02)
    assert both.host_bytes == 1008 * PER_TOKEN
    assert both.link_bytes == (1008 + rest) * PER_TOKEN
    assert both.out_s == pytest.approx(out_s(1008, 63))
    assert both.gpu_s > 0


def test_both_on_a_dead_link_recomputes_and_on_a_fast_one_loads():
    slow = strategies.both(toy(h2d_bytes_per_s=1e5))
    assert slow.recomputed_tokens == 1000
    assert slow.victim_delay_s == strategies.recompute(toy()).victim_delay_s
    fast = strategies.both(toy(h2d_bytes_per_s=1e13))
    assert (fast.recomputed_tokens, fast.gpu_s) == (0, 0)


# waiting


def test_wait_for_blocks_by_hand():
    """8 requests of 500 tokens finish every 40 steps: 1,000 tokens are free after 1,000 x 40 / 4,000 = 10 steps."""
    inputs = toy(decode_batch=8, decode_context=500, remaining_output=40)
    kv_bytes = 8 * 512 * PER_TOKEN
    step_s = step_time.decode_s(8, kv_bytes, inputs.shape, inputs.gpu)
    assert costs.decode_step_s(inputs) == pytest.approx(step_s)
    assert costs.wait_for_blocks_s(inputs) == pytest.approx(10 * step_s)
    assert strategies.wait(inputs).victim_delay_s == pytest.approx(1040 * 40 / (8 * 540) * step_s)


def test_a_decode_step_has_the_hosts_part():
    inputs = toy(
        decode_batch=8,
        decode_context=500,
        engine_factor=1.5,
        decode_overhead_s=0.04,
        decode_overhead_s_per_sequence=1e-3,
    )
    step_s = step_time.decode_s(8, 8 * 512 * PER_TOKEN, inputs.shape, inputs.gpu)
    assert costs.decode_step_s(inputs) == pytest.approx(1.5 * step_s + 0.048)


def test_no_batch_or_one_that_exceeds_the_pool_gives_no_estimate():
    for changed in ({"decode_batch": 0}, {"decode_batch": 10_000}):
        inputs = toy(**changed)
        assert np.isnan(costs.wait_for_blocks_s(inputs))
        assert np.isnan(strategies.wait(inputs).victim_delay_s)
        assert np.isfinite(strategies.recompute(inputs).victim_delay_s)
    assert np.isnan(strategies.recompute(toy(decode_batch=10_000)).gpu_s)
    assert np.isfinite(strategies.recompute(toy(decode_batch=0)).gpu_s)


# bands, arrays, properties


def test_bands():
    prices = price(toy())
    bands = {name: float(one.band) for name, one in prices.items()}
    assert bands == {"wait": 0.2, "recompute": 0.2, "swap": 0.1, "offload": 0.1, "both": 0.2}
    assert strategies.offload(toy(offload_prompt_only=True)).band == 0.2
    for one in prices.values():
        assert one.low_s == pytest.approx(one.victim_delay_s * (1 - one.band))
        assert one.high_s == pytest.approx(one.victim_delay_s * (1 + one.band))


NUMBERS = [field.name for field in fields(Price)]


def assert_same(together, alone, where):
    for name, one in together.items():
        for number in NUMBERS:
            value = np.broadcast_to(getattr(one, number), where[0])[where[1]]
            assert value == pytest.approx(float(getattr(alone[name], number)), rel=1e-9, nan_ok=True), (name, number)


@pytest.mark.parametrize("prompt_only", [False, True])
@pytest.mark.parametrize("layout", ["per-layer-kv", "contiguous"])
def test_an_array_of_cases_equals_its_scalars(prompt_only, layout):
    rng = np.random.default_rng(7)
    size = 24
    arrays = {
        "tokens": rng.integers(1, 20_000, size),
        "generated_tokens": rng.integers(0, 4000, size),
        "block_tokens": rng.choice([1, 16, 64, 256], size),
        "preemptions": rng.integers(1, 5, size),
        "tokens_between": rng.integers(0, 700, size),
        "survival": rng.choice([0.0, 0.3, 0.97, 1.0], size),
        "tp": rng.choice([1, 2, 4, 8, 16], size),
        "h2d_bytes_per_s": 10 ** rng.uniform(8, 11.5, size),
        "d2h_bytes_per_s": 10 ** rng.uniform(8, 11.5, size),
        "per_copy_h2d_s": rng.uniform(0, 1e-5, size),
        "per_copy_d2h_s": rng.uniform(0, 1e-5, size),
        "host_memory_bytes_per_s": rng.uniform(50e9, 500e9, size),
        "runs_per_block": rng.integers(1, 4, size),
        "bytes_per_value": rng.choice([1, 2], size),
        "decode_batch": rng.choice([0, 1, 32, 3000], size),
        "decode_context": rng.integers(1, 4000, size),
        "remaining_output": rng.integers(1, 500, size),
        "max_num_batched_tokens": rng.choice([256, 2048, 8192], size),
        "engine_factor": rng.uniform(1, 1.5, size),
        "request_overhead_s": rng.uniform(0, 0.03, size),
        "load_overhead_s": rng.uniform(0, 0.02, size),
        "pool_bytes_per_gpu": rng.uniform(10e9, 60e9, size),
    }
    base = at(inputs_of(model="gemma-3-12b"), offload_prompt_only=prompt_only, layout=layout)
    together = price(at(base, **arrays))
    waits = costs.wait_for_blocks_s(at(base, **arrays))
    for i in range(size):
        one = at(base, **{name: values[i].item() for name, values in arrays.items()})
        assert_same(together, price(one), ((size,), i))
        assert waits[i] == pytest.approx(float(costs.wait_for_blocks_s(one)), nan_ok=True)


def test_a_grid_of_lengths_by_rates_equals_its_scalars():
    lengths, rates = np.array([[64], [4096], [50_000]]), np.array([1e9, 25e9])
    together = price(toy(tokens=lengths, h2d_bytes_per_s=rates, d2h_bytes_per_s=rates))
    for row in range(3):
        for column in range(2):
            rate = float(rates[column])
            alone = price(toy(tokens=int(lengths[row, 0]), h2d_bytes_per_s=rate, d2h_bytes_per_s=rate))
            assert_same(together, alone, ((3, 2), (row, column)))


def test_nothing_to_recompute_costs_nothing_even_beside_a_batch_that_does_not_fit():
    """The same in an array as alone: a case with nothing to recompute takes no GPU time, whatever its neighbours do."""
    too_many = toy(decode_batch=10_000)
    assert costs.prefill_marginal_s(too_many, 0, 1000) == 0
    assert costs.prefill_marginal_s(too_many, np.array([0, 100]), 1000)[0] == 0


MODELS = ("llama-3-8b", "llama-2-7b", "opt-13b", "gemma-3-12b", "mixtral-8x7b", "deepseek-v2-lite", "gpt-oss-20b")
CASES = st.fixed_dictionaries(
    {
        "model": st.sampled_from(MODELS),
        "gpu": st.sampled_from(["a100-sxm4-80gb", "h100-sxm5-80gb", "h200-sxm-141gb", "mi300x", "rtx-pro-6000-bse"]),
        "tokens": st.integers(1, 30_000),
        "block_tokens": st.sampled_from([1, 16, 64, 256, 1024]),
        "layout": st.sampled_from(["per-layer-kv", "per-layer", "contiguous"]),
        "copy_gb_per_s": st.sampled_from([0.5, 2.0, 5.0, 12.5, 25.0, 50.0, 150.0]),
        "preemptions": st.integers(1, 3),
        "generated_tokens": st.sampled_from([0, 100, 3000]),
        "survival": st.sampled_from([0.0, 0.0, 0.3, 0.9, 1.0]),
        "timing": st.sampled_from(["kernels", "today", "2023"]),
        "policy": st.sampled_from(["ideal", "vllm-v0", "vllm-v1-offload", "lmcache"]),
        "decode_batch": st.sampled_from([0, 1, 8]),
    }
)


def fitting(choices):
    try:
        return inputs_of(**choices)
    except DoesNotFit:
        assume(False)


@CHECKED
@given(CASES)
def test_both_is_never_slower_than_loading_all_or_recomputing_all(choices):
    inputs = replace(fitting(choices), offload_prompt_only=False)
    prices = price(inputs)
    best = min(prices["recompute"].victim_delay_s, prices["offload"].victim_delay_s)
    assert prices["both"].victim_delay_s <= best * (1 + 1e-12)
    assert 0 <= prices["both"].recomputed_tokens <= prices["recompute"].recomputed_tokens


@settings(CHECKED, max_examples=120)
@given(CASES)
def test_both_takes_the_best_whole_block(choices):
    inputs = at(fitting(choices), preemptions=1)
    assert strategies.both(inputs).victim_delay_s <= best_split_s(inputs) * 1.01


@CHECKED
@given(CASES)
def test_low_likely_high_and_nothing_negative(choices):
    for name, one in price(fitting(choices)).items():
        if name != "wait" or choices["decode_batch"]:
            assert 0 <= one.low_s <= one.victim_delay_s <= one.high_s
        for number in NUMBERS:
            assert not getattr(one, number) < 0
        assert one.in_s <= one.link_s
        assert one.recomputed_tokens <= 3 * (30_000 + 512)


@CHECKED
@given(CASES, st.floats(1.0, 50.0))
def test_more_bandwidth_never_slows_a_copy(choices, times):
    """Exactly for swap and offload; `both` at its best whole-block split (within the 1 % that the split is good to)."""
    inputs = fitting(choices)
    faster = at(
        inputs, h2d_bytes_per_s=np.multiply(inputs.h2d_bytes_per_s, times),
        d2h_bytes_per_s=np.multiply(inputs.d2h_bytes_per_s, times),
    )  # fmt: skip
    before, after = price(inputs), price(faster)
    for name, slack in (("swap", 1e-12), ("offload", 1e-12), ("both", 0.01)):
        assert after[name].victim_delay_s <= before[name].victim_delay_s * (1 + slack), name
        assert after[name].link_s <= before[name].link_s * (1 + 1e-12) or name == "both"
    assert after["recompute"].victim_delay_s == before["recompute"].victim_delay_s


@CHECKED
@given(CASES, st.integers(1, 3000))
def test_a_longer_context_never_delays_less(choices, more):
    """Recompute rises with every token, copies by whole blocks; `both` within the 1 % that its split is good to.

    The survival is a share of the context, so more survives of a longer one, but never all that was added.
    """
    inputs = fitting(choices)
    here, longer = price(inputs), price(at(inputs, tokens=inputs.tokens + more))
    for name, slack in (("recompute", 1e-12), ("swap", 1e-12), ("offload", 1e-12), ("both", 0.01)):
        assert longer[name].victim_delay_s >= here[name].victim_delay_s * (1 - slack), name
    assert longer["recompute"].gpu_s >= here["recompute"].gpu_s * (1 - 1e-12)
    if choices["survival"] < 1 and choices["timing"] != "2023":  # a short step is as long as its host takes
        assert longer["recompute"].victim_delay_s > here["recompute"].victim_delay_s


@CHECKED
@given(CASES, st.floats(0, 1))
def test_more_survival_never_delays_more(choices, more):
    inputs = fitting(choices)
    share = inputs.survival + more * (1 - inputs.survival)
    before, after = price(inputs), price(at(inputs, survival=share))
    for name, slack in (("recompute", 1e-9), ("offload", 1e-9), ("both", 0.01)):
        assert after[name].victim_delay_s <= before[name].victim_delay_s * (1 + slack), name
    assert after["swap"].victim_delay_s == before["swap"].victim_delay_s


@CHECKED
@given(CASES)
def test_each_preemption_adds(choices):
    """At least as much as the first, whose context is the shortest.

    Not so where only the prompt has a host copy and a share of the context survives: of a longer context that share
    covers more of the prompt, and less is loaded.
    """
    inputs = at(fitting(choices), offload_prompt_only=False)
    once, thrice = price(at(inputs, preemptions=1)), price(at(inputs, preemptions=3))
    for name in ACTING:
        assert thrice[name].victim_delay_s >= 3 * once[name].victim_delay_s * (1 - (0.01 if name == "both" else 1e-9))
    assert thrice["swap"].out_s >= 3 * once["swap"].out_s * (1 - 1e-9)
    assert thrice["offload"].out_s <= costs.out_s(inputs, inputs.tokens + 2 * inputs.tokens_between) * (1 + 1e-9)


@pytest.mark.parametrize("policy", ["ideal", "vllm-v0", "vllm-v1", "vllm-v1-offload", "sglang-hicache"])
def test_many_preemptions_of_a_case_cost_what_they_cost_in_turn(monkeypatch, policy):
    inputs = inputs_of(policy=policy, preemptions=40, tokens_between=33, survival=0.3, tp=2)
    at_once = strategies.price(inputs)
    monkeypatch.setattr(strategies, "MOST_IN_TURN", 40)
    in_turn = strategies.price(inputs)
    for name, turns in in_turn.items():
        assert {key: float(value) for key, value in vars(at_once[name]).items()} == pytest.approx(vars(turns), rel=1e-9)


@pytest.mark.parametrize("at_once", [50_000, 70])
def test_many_preemptions_of_few_cases_cost_what_they_cost_in_turn(monkeypatch, at_once):
    varied = {"tokens": np.array([100.0, 5000.0, 9000.0]), "preemptions": np.array([1.0, 40.0, 23.0])}
    inputs = at(inputs_of(policy="vllm-v1-offload", tokens_between=33, survival=0.3, decode_batch=2), **varied)
    monkeypatch.setattr(strategies, "AT_ONCE", at_once)  # 70: twenty-three together, then the rest
    together = strategies.price(inputs)
    monkeypatch.setattr(strategies, "MOST_IN_TURN", 40)
    for name, turns in strategies.price(inputs).items():
        for key, value in vars(turns).items():
            assert np.allclose(getattr(together[name], key), value, rtol=1e-9), (name, key)
