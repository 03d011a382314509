"""vLLM V1's scheduler: exact against runs of the real one, against a plain loop over blocks, and its properties."""

import json
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.helpers import plain_loop
from tests.helpers.scheduler_runs import OneStepCount, least_tokens, requests_of, result_of, settings_of, watched

ORACLE = sorted((Path(__file__).parents[1] / "data" / "oracle").glob("*.json"))
LISTED = 400  # the first so many preemptions and resumes are in the files


def run(config, rows, **options):
    return watched(requests_of(rows), settings_of(config), **options)


def request(prompt, output, arrival=0, priority=0):
    return {"prompt_tokens": prompt, "output_tokens": output, "arrival_step": arrival, "priority": priority}


def config(blocks, **changed):
    return {
        "block_size": 16, "num_blocks": blocks, "max_num_seqs": 256, "max_num_batched_tokens": 2048,
        "prefix_caching": True, "watermark": 0.0, "policy": "fcfs",
    } | changed  # fmt: skip


# --- the real scheduler ---


def test_all_runs_are_here():
    assert len(ORACLE) == 88


@pytest.mark.parametrize("path", ORACLE, ids=lambda path: path.stem)
def test_every_decision_of_the_real_scheduler(path):
    given = json.loads(path.read_text())
    result = result_of(run(given["config"], given["requests"]))
    for key in ("preemptions", "resumes"):
        result[key] = result[key][:LISTED]
    expected = {key: given["result"][key] for key in result}
    assert result == expected


# Runs of vLLM 0.33's scheduler, summed up: block 16, budget 2,048. Columns: preemptions, requests preempted, tokens at
# the resumes, of those in the GPU's cache, tokens computed again, mean and longest wait in steps.
LONG = [request(4096, 200 + 60 * i) for i in range(8)]
SHORT = [request(512, 64 + 16 * i) for i in range(32)]


@pytest.mark.parametrize(
    ("rows", "blocks", "caching", "expected"),
    [
        (LONG, 1060, True, (5, 5, 20740, 19440, 1295, 85, 208)),
        (LONG, 1060, False, (5, 5, 20740, 0, 20735, 83, 206)),
        (SHORT, 700, True, (10, 8, 5270, 3296, 1964, 17, 61)),
        (SHORT, 700, False, (10, 8, 5270, 0, 5260, 17, 61)),
        ([request(1024, 400)] * 4, 266, True, (2, 2, 2465, 1408, 1055, 190, 366)),
        ([request(512, 512)] * 16, 528, True, (8, 8, 5545, 256, 5281, 329, 497)),
    ],
    ids=["8 long", "8 long, no cache", "32 short", "32 short, no cache", "4 alike", "16 in lockstep"],
)
def test_discarding_is_lazy(rows, blocks, caching, expected):
    state = run(config(blocks, prefix_caching=caching), rows)
    resumes = state.log.resumes
    waits = [waited for *_, waited in resumes]
    assert expected == (
        state.log.preemption_events,
        sum(times > 0 for times in state.log.preemptions_of),
        sum(tokens for _, _, tokens, _, _ in resumes),
        sum(cached for *_, cached, _ in resumes),
        sum(state.log.recomputed),
        round(sum(waits) / len(waits)),
        max(waits),
    )


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"watermark": 0.01}, (5, 1021, 869)),
        ({"watermark": 0.02}, (2, 315, 869)),
        ({"watermark": 0.05}, (1, 555, 869)),
        ({"max_num_seqs": 24}, (10, 1964, 869)),
        ({"max_num_seqs": 20}, (9, 1666, 868)),
        ({"max_num_seqs": 16}, (1, 173, 883)),
        ({"max_num_seqs": 12}, (0, 0, 1107)),
        ({"max_num_seqs": 8}, (0, 0, 1475)),
    ],
    ids=str,
)
def test_a_watermark_costs_no_steps_and_fewer_sequences_do(changed, expected):
    """The same 32 short requests: preemptions, tokens computed again, steps."""
    state = run(config(700, **changed), SHORT)
    assert (state.log.preemption_events, sum(state.log.recomputed), state.clock.now) == expected


# --- by hand ---


def test_one_request_by_hand():
    """33 tokens in chunks of 16: two full ones and one token, which samples; then two decodes. 35 blocks of 1 token."""
    state = run(config(35, block_size=1, max_num_batched_tokens=16), [request(33, 3)])
    assert state.log.first_token_at == [3]  # the end of step 2
    assert state.log.finished_at == [5]
    assert state.log.tokens_prefilled + state.log.tokens_decoded == 35  # the last token is never computed


def test_the_last_admitted_is_preempted_and_comes_back_first():
    """Two of 16 + 17 tokens fill 3 blocks of 16 when each needs its second: one has to go, and waits for the other.

    The third would have fitted in the one free block since step 5, but stands behind the victim.
    """
    state = run(config(3), [request(16, 17), request(16, 17), request(16, 1, arrival=5)])
    assert [(step, victim) for step, victim, _ in state.log.preemptions] == [(1, 1)]
    back = state.log.resumes[0][0]
    assert state.log.finished_at[0] == back == state.log.admitted_at[2]


def test_what_can_never_fit_is_named_and_ends_the_run():
    state = run(config(2), [request(16, 18)])
    assert str(state.stuck) == "request 0 needs more blocks than the pool has"


def test_an_engine_left_idle_makes_one_empty_step():
    """Step 0 computes and finishes, step 1 is empty, then the clock jumps to the next arrival."""
    assert run(config(4), [request(4, 1)]).clock.now == 2
    assert run(config(4), [request(4, 1), request(4, 1, arrival=9)]).log.finished_at == [1, 10]


# --- properties ---


@st.composite
def small_runs(draw, policies=("fcfs", "priority")):
    block = draw(st.sampled_from([1, 2, 4, 16]))
    blocks = draw(st.integers(4, 40))
    most = min(blocks * block, 150)
    rows = []
    for _ in range(draw(st.integers(1, 12))):
        prompt = draw(st.integers(1, max(1, most - 1)))
        output = draw(st.integers(1, max(1, most + 1 - prompt)))
        rows.append(request(prompt, output, draw(st.integers(0, 60)), draw(st.integers(0, 3))))
    return config(
        blocks,
        block_size=block,
        max_num_seqs=draw(st.sampled_from([1, 3, 256])),
        max_num_batched_tokens=draw(st.sampled_from([1, 7, 16, 33, 100, 2048])),
        prefix_caching=draw(st.booleans()),
        watermark=draw(st.sampled_from([0.0, 0.05, 0.3])),
        policy=draw(st.sampled_from(policies)),
    ), rows


@settings(max_examples=150, deadline=None)
@given(small_runs())
def test_counting_equals_a_plain_loop_over_blocks(drawn):
    assert result_of(run(*drawn)) == plain_loop.run(*drawn)


def crowded(seed_block, budget):
    """Many requests by priority in a small pool: victims that had their place in the step already."""
    rows = [request(40 + 7 * i % 30, 30 + 11 * i % 50, 3 * i, i * 5 % 4) for i in range(12)]
    return config(20, block_size=seed_block, max_num_batched_tokens=budget, policy="priority"), rows


@pytest.mark.parametrize("block", [4, 8, 16])
@pytest.mark.parametrize("budget", [16, 20, 33, 64])
def test_counting_equals_a_plain_loop_where_victims_lose_their_place(block, budget):
    settings, rows = crowded(block, budget)
    settings["num_blocks"] = 160 // block
    assert result_of(run(settings, rows)) == plain_loop.run(settings, rows)


@settings(max_examples=80, deadline=None)
@given(small_runs())
def test_taking_steps_together_changes_nothing(drawn):
    together, apart = run(*drawn), run(*drawn, clock=OneStepCount())
    assert result_of(together) == result_of(apart)
    assert together.log.gaps.worst == apart.log.gaps.worst
    assert together.log.gaps.tokens_by_bin == apart.log.gaps.tokens_by_bin
    assert together.log.samples == apart.log.samples


@settings(max_examples=80, deadline=None)
@given(small_runs(policies=("fcfs",)))
def test_no_token_is_lost_and_none_computed_twice_without_a_preemption(drawn):
    state = run(*drawn)
    log, requests = state.log, state.requests
    assert log.tokens_prefilled + log.tokens_decoded == least_tokens(requests) + sum(log.recomputed)
    assert all(times or not again for times, again in zip(log.preemptions_of, log.recomputed, strict=True))
    assert sum(log.gaps.tokens_by_bin.values()) == sum(requests.output_tokens) - len(requests.output_tokens)
    assert state.pool.free == state.pool.total


@settings(max_examples=30, deadline=None)
@given(small_runs())
def test_the_same_run_twice_is_the_same(drawn):
    assert result_of(run(*drawn)) == result_of(run(*drawn))


COUNTER_EXAMPLE = [request(20, 9), request(20, 4), request(2, 3, arrival=6)]


def test_more_blocks_can_mean_more_steps():
    """One block more lets the victim run longer before it goes, and then more of it is computed again."""
    small = config(11, block_size=4, max_num_batched_tokens=12, prefix_caching=False)
    fewer, more = run(small, COUNTER_EXAMPLE), run(small | {"num_blocks": 12}, COUNTER_EXAMPLE)
    assert (fewer.clock.now, more.clock.now) == (15, 16)
    assert fewer.log.preemption_events == more.log.preemption_events == 1
    assert sum(fewer.log.recomputed) < sum(more.log.recomputed)


@settings(max_examples=60, deadline=None)
@given(small_runs(), st.integers(1, 20))
@example((config(4, block_size=1), [request(2, 2)]), 1)
def test_blocks_that_nobody_lacks_change_no_step(drawn, more):
    """Where all requests fit at once, further blocks mean the same steps: the claim that does hold."""
    settings, rows = drawn
    enough = sum(-(-(row["prompt_tokens"] + row["output_tokens"]) // settings["block_size"]) for row in rows)
    roomy = settings | {"num_blocks": 2 * enough + 2, "watermark": 0.0}
    wider = roomy | {"num_blocks": 2 * enough + 2 + more}
    assert run(roomy, rows).clock.now == run(wider, rows).clock.now
