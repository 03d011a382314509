"""Other engines' ways with a full pool: hand-worked cases, invariants of all, and what separates them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvmodel.recovery import costs, resolve
from kvmodel.scheduler.others import (
    INITIAL_RATIO,
    LEAST_RATIO,
    SGLANG,
    SGLANG_HICACHE,
    TRTLLM_NO_EVICT,
    TRTLLM_SUSPEND,  # fmt: skip
)
from kvmodel.scheduler.state import Requests, Settings
from kvmodel.scheduler.vllm import (
    VLLM_V0,
    VLLM_V0_SWAP,
    VLLM_V1,
    VLLM_V1_FIRST_CHUNK,
    VLLM_V1_OFFLOAD,
    VLLM_V1_OFFLOAD_ALL,
    WAIT,  # fmt: skip
)
from kvmodel.simulation.step_clock import StepTimes
from tests.helpers.scheduler_runs import INPUTS, OneStepTimes, least_tokens, watched

POLICIES = {
    "v1": VLLM_V1, "first chunk": VLLM_V1_FIRST_CHUNK, "offload": VLLM_V1_OFFLOAD, "offload all": VLLM_V1_OFFLOAD_ALL,
    "v0": VLLM_V0, "v0 swap": VLLM_V0_SWAP, "wait": WAIT, "sglang": SGLANG, "hicache": SGLANG_HICACHE,
    "no evict": TRTLLM_NO_EVICT, "suspend": TRTLLM_SUSPEND,
}  # fmt: skip


def engine(blocks, **changed):
    fields = {"block_tokens": 16, "max_num_seqs": 64, "max_num_batched_tokens": 2048, "host_blocks": 4 * blocks}
    return Settings(num_blocks=blocks, **fields | changed)


def crowd(number=60, seed=1, rate=8.0):
    drawn = np.random.default_rng(seed)
    return Requests(
        drawn.integers(50, 900, number).tolist(),
        drawn.integers(100, 900, number).tolist(),
        np.cumsum(drawn.exponential(1 / rate, number)).tolist(),
        [0] * number,
    )


def run(policy, requests, settings, clock=StepTimes):
    return watched(requests, settings, policy, clock(INPUTS))


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_everything_finishes_and_every_token_is_counted(policy):
    state = run(policy, crowd(), engine(400))
    log, requests = state.log, state.requests
    assert not state.stuck
    assert state.pool.free == state.pool.total
    assert np.isfinite(log.finished_at).all()
    assert log.tokens_prefilled + log.tokens_decoded == least_tokens(requests) + sum(log.recomputed)
    assert sum(log.gaps.tokens_by_bin.values()) == sum(requests.output_tokens) - len(requests.output_tokens)
    order = np.array([log.arrival, log.admitted_at, log.first_token_at, log.finished_at])
    assert (np.diff(order, axis=0) >= 0).all()
    if policy is not WAIT:
        assert log.preemption_events > 0


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_priorities_go_with_every_policy(policy):
    requests = crowd()
    urgent = Requests(requests.prompt_tokens, requests.output_tokens, requests.arrival, [i % 3 for i in range(60)])
    log = run(policy, urgent, engine(400, by_priority=True)).log
    assert np.isfinite(log.finished_at).all()
    waits = np.subtract(log.admitted_at, log.arrival)
    assert waits[::3].mean() < waits[2::3].mean()


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_taking_steps_together_changes_nothing(policy):
    together, apart = (run(policy, crowd(), engine(400), clock) for clock in (StepTimes, OneStepTimes))
    assert [event[1:] for event in together.log.preemptions] == [event[1:] for event in apart.log.preemptions]
    assert [event[1:4] for event in together.log.resumes] == [event[1:4] for event in apart.log.resumes]
    for name in ("admitted_at", "first_token_at", "finished_at", "recomputed"):
        assert getattr(together.log, name) == pytest.approx(getattr(apart.log, name)), name
    assert together.log.gaps.worst == pytest.approx(apart.log.gaps.worst)
    assert together.log.samples == apart.log.samples


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1000), st.integers(120, 300), st.sampled_from([WAIT, TRTLLM_NO_EVICT]))
def test_who_reserves_never_preempts(seed, blocks, policy):
    state = run(policy, crowd(30, seed), engine(blocks))
    assert state.log.preemption_events == 0
    assert np.isfinite(state.log.finished_at).all()


def test_reserving_waits_longer_and_keeps_gaps_short():
    v1, wait = run(VLLM_V1, crowd(), engine(400)), run(WAIT, crowd(), engine(400))
    assert max(wait.log.gaps.worst) < max(v1.log.gaps.worst)
    assert max(wait.log.samples)[0] <= max(v1.log.samples)[0]


# --- V0 ---


PAIR = Requests([64, 64], [40, 40], [0.0, 0.0], [0, 0])  # 4 blocks each, both need the fifth in the same step


def test_v0_computes_the_whole_victim_again_in_a_step_of_its_own():
    """9 blocks: at 65 tokens the first takes the ninth, the second goes, and 64 tokens are computed again."""
    state = run(VLLM_V0, PAIR, engine(9))
    assert [event[1:] for event in state.log.preemptions] == [(1, 65)]
    assert state.log.recomputed == [0, 64]
    assert state.log.bytes_out == state.log.bytes_in == 0


def test_a_swap_moves_the_victim_out_and_in_and_computes_nothing_again():
    state = run(VLLM_V0_SWAP, PAIR, engine(9))
    assert state.log.recomputed == [0, 0]
    assert state.log.bytes_out == state.log.bytes_in == resolve.moved_bytes(INPUTS, 64)
    assert state.clock.stalled == pytest.approx(float(costs.out_s(INPUTS, 64) + costs.load(INPUTS, 64).load_s))
    assert state.host.free == 36  # a move: the host's copy is gone


def test_swapping_does_not_lower_the_number_of_preemptions():
    recompute, swap = (run(policy, crowd(), engine(400)).log for policy in (VLLM_V0, VLLM_V0_SWAP))
    assert swap.preemption_events >= 0.8 * recompute.preemption_events > 0


def test_nobody_new_is_admitted_while_anything_is_swapped():
    late = Requests([64, 64, 16], [40, 40, 1], [0.0, 0.0, 0.3], [0, 0, 0])
    log = run(VLLM_V0_SWAP, late, engine(11)).log
    out, back = log.preemptions[0][0], log.resumes[0][0]
    assert out < log.arrival[2] < back <= log.admitted_at[2]


def test_a_full_swap_space_ends_v0():
    state = run(VLLM_V0_SWAP, PAIR, engine(9, host_blocks=3))
    assert str(state.stuck) == "swap space is full: request 1 needs 4 blocks, 3 are free"


def test_v0_prefills_whole_sequences_and_decodes_pause():
    """A prompt of four budgets in one step; the other's decodes wait for it: its worst gap holds the whole prefill."""
    requests = Requests([64, 8192], [400, 1], [0.0, 0.1], [0, 0])
    v0, v1 = (run(policy, requests, engine(2000)) for policy in (VLLM_V0, VLLM_V1))
    prefill_s = v0.log.first_token_at[1] - v0.log.admitted_at[1]
    assert v0.log.gaps.worst[0] > prefill_s > 0.3
    assert v1.log.gaps.worst[0] < 0.5 * v0.log.gaps.worst[0]


# --- offload ---


def test_the_prompt_is_loaded_and_the_generated_part_computed_again():
    """Prompts of 64 tokens are 4 full blocks on the host; prefix caching off, so nothing survives on the GPU."""
    requests = Requests([64, 64], [60, 60], [0.0, 0.0], [0, 0])
    prompt_only, everything = (
        run(policy, requests, engine(13, prefix_caching=False)) for policy in (VLLM_V1_OFFLOAD, VLLM_V1_OFFLOAD_ALL)
    )
    _, victim, tokens = prompt_only.log.preemptions[0]
    assert prompt_only.log.resumes[0][1:4] == (victim, tokens, 64)
    assert prompt_only.log.recomputed[victim] == tokens - 1 - 64
    assert everything.log.resumes[0][3] == (tokens - 1) // 16 * 16 > 64
    assert prompt_only.log.bytes_in == resolve.moved_bytes(INPUTS, 64)
    assert prompt_only.log.bytes_out == resolve.moved_bytes(INPUTS, 128)  # each prompt once


def test_others_run_on_while_a_load_is_under_way():
    slow = StepTimes(INPUTS)
    slow.copy_in = lambda tokens: 1.0
    requests = Requests([64, 64, 64], [60, 60, 300], [0.0, 0.0, 0.0], [0, 0, 0])
    log = watched(requests, engine(20, prefix_caching=False, host_blocks=100), VLLM_V1_OFFLOAD, slow).log
    assert log.preemption_events
    _, victim, _, _, waited = log.resumes[0]
    assert waited > 1.0
    assert min(gap for request, gap in enumerate(log.gaps.worst) if request != victim) < 0.1


def test_a_host_pool_loses_what_was_used_least_recently():
    state = run(VLLM_V1_OFFLOAD, crowd(), engine(400, host_blocks=30, prefix_caching=False))
    assert state.host.free >= 0
    assert sum(state.log.recomputed) > sum(
        run(VLLM_V1_OFFLOAD, crowd(), engine(400, prefix_caching=False)).log.recomputed
    )


# --- SGLang ---


def test_sglang_retracts_the_fewest_generated_then_the_longest_prompt():
    """640 tokens for 160 + 240 and 64 + 240, admitted as less is expected; as old as each other, the longer goes."""
    log = run(SGLANG, Requests([160, 64], [240, 240], [0.0, 0.0], [0, 0]), engine(40)).log
    assert log.preemptions[0][1] == 0
    log = run(SGLANG, Requests([160, 64], [240, 240], [0.0, 0.4], [0, 0]), engine(40)).log
    assert log.preemptions[0][1] == 1  # fewer generated


def test_sglang_expects_less_output_as_it_runs_and_more_after_a_retraction():
    """Ratio 0.7 at the start, less by (0.7 - 0.098) / 600 a step, never below 0.098."""
    alone = run(SGLANG, Requests([64], [101], [0.0], [0]), engine(100))
    assert alone.new_token_ratio == pytest.approx(INITIAL_RATIO - 100 * (INITIAL_RATIO - LEAST_RATIO) / 600)
    long = run(SGLANG, Requests([64], [1500], [0.0], [0]), engine(200))
    assert long.new_token_ratio == pytest.approx(0.098)


def test_sglang_admits_by_expected_output():
    """45 blocks are 720 tokens. One runs: 64 + 0.7 x 200 expected. A second of 64 + 400 fits, of 64 + 600 not yet."""
    for output, waits in ((400, False), (600, True)):
        log = run(SGLANG, Requests([64, 64], [200, output], [0.0, 0.0005], [0, 0]), engine(45)).log
        assert (log.admitted_at[1] > log.first_token_at[0] + 0.1) == waits


# --- TensorRT-LLM ---


def test_a_suspended_request_comes_back_with_all_its_kv():
    state = run(TRTLLM_SUSPEND, crowd(), engine(400))
    assert sum(state.log.recomputed) == 0
    assert state.log.bytes_out == state.log.bytes_in > 0
    assert state.clock.stalled == 0


def test_without_a_host_tier_it_is_paused_and_computed_again():
    state = run(TRTLLM_SUSPEND, crowd(), engine(400, host_blocks=0))
    assert sum(state.log.recomputed) > 0 == state.log.bytes_out


# --- field cases ---


def test_d01_the_queue_and_not_the_preemptions_makes_first_tokens_late():
    """A10G, Qwen2.5 7B, 77,088 tokens of pool, 256 clients: about 72 run, the rest wait, and waiting is the TTFT.

    Source: Tandemn-Labs/tandemn-system issue 11; its requests hold 1,071 tokens on average.
    """
    number, clients = 800, 256
    drawn = np.random.default_rng(3)
    requests = Requests(
        drawn.integers(700, 1150, number).tolist(), drawn.integers(150, 450, number).tolist(),
        [0.0] * number, [0] * number, clients,
    )  # fmt: skip
    settings = engine(77_088 // 16, max_num_seqs=256)
    log = run(VLLM_V1, requests, settings).log
    busy = np.array([sample for sample in log.samples if sample[1] > 100])
    assert np.mean(busy[:, 0]) == pytest.approx(72, rel=0.1)
    assert np.mean(busy[:, 0] + busy[:, 1]) == pytest.approx(clients, rel=0.02)
    assert 0 < 100 * log.preemption_events / number < 30
    ttft, queue = (np.array(times) - np.array(log.arrival) for times in (log.first_token_at, log.admitted_at))
    assert queue.mean() > 0.9 * ttft.mean()


def test_d03_admission_by_the_first_chunk_lives_for_its_own_preemptions():
    """The pool holds 4.44 prompts of 100K. The fifth prefills into the rest, hits the end and starts over; the whole
    sequence in the admission check cures it, and so would a lower max_num_seqs; swap has no part in it.

    Source: vllm-project/vllm issue 37307.
    """
    requests = Requests([100_000] * 5, [2000] * 5, [0.0] * 5, [0] * 5)
    settings = engine(444_000 // 16, prefix_caching=False)
    chunk = run(VLLM_V1_FIRST_CHUNK, requests, settings)
    whole = run(VLLM_V1, requests, settings)
    fewer = run(VLLM_V1_FIRST_CHUNK, requests, engine(444_000 // 16, prefix_caching=False, max_num_seqs=4))
    assert chunk.log.no_progress == {4}
    assert chunk.log.recomputed[4] > 30 * 100_000
    for cured in (whole, fewer):
        assert cured.log.preemption_events == 0
        assert not cured.log.no_progress
    others = [np.mean(np.subtract(log.finished_at, log.first_token_at)[:4]) for log in (chunk.log, whole.log)]
    assert others[0] > 3 * others[1]  # decoding crawls beside a prefill that leads nowhere


def test_d03_lazy_discard_keeps_what_the_fifth_had_prefilled():
    """With the prefix cache on, the same admission finds its blocks again: one preemption, 6 % of a prompt twice."""
    requests = Requests([100_000] * 5, [2000] * 5, [0.0] * 5, [0] * 5)
    log = run(VLLM_V1_FIRST_CHUNK, requests, engine(444_000 // 16)).log
    assert log.preemption_events == 1
    assert sum(log.recomputed) < 6000
