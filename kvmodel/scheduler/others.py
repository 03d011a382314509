"""SGLang and TensorRT-LLM as policies over the loop of :mod:`kvmodel.scheduler.loop`, as far as a full KV cache goes.

Sources: SGLang 0.5.23 `srt/managers/schedule_batch.py`, `schedule_policy.py`, `new_token_ratio_tracker.py`;
TensorRT-LLM 1.4 `_torch/pyexecutor/scheduler/scheduler_v2.py`.
"""

from __future__ import annotations

from kvmodel.scheduler.state import Policy, State
from kvmodel.scheduler.vllm import (
    WAIT,
    find_in_cache,
    find_or_load,
    leave_in_cache,
    load,
    preempt_in_turn,
    store_prompt,
    whole_sequence_fits,
)

# --- SGLang: expects that running requests use a share of the output they may still make ---

INITIAL_RATIO = 0.7  # SGLANG_INIT_NEW_TOKEN_RATIO
LEAST_RATIO = 0.14 * INITIAL_RATIO
RATIO_LOSS_PER_STEP = (INITIAL_RATIO - LEAST_RATIO) / 600
MOST_TOKENS_EXPECTED = 4096  # of a request, SGLANG_CLIP_MAX_NEW_TOKENS_ESTIMATION
STEPS_AFTER_RETRACTION = 20  # SGLANG_RETRACT_DECODE_STEPS


def tokens_of(state: State, request: int) -> int:
    base = state.decoding.get(request)
    return state.tokens[request] if base is None else base + state.decode_steps


def expected_output_fits(state: State, request: int, budget: int) -> bool:
    """Its tokens and all its output fit beside the expected output of those that run; of new ones, all of theirs."""
    if not state.running:
        state.new_token_ratio = INITIAL_RATIO
    room = room_beside(state, request)
    if room <= 0:
        return False
    last, steps, decoding = state.last_token, state.decode_steps, state.decoding
    remaining_tokens = sum([min(last[other] - base - steps, MOST_TOKENS_EXPECTED) for other, base in decoding.items()])
    prefilling = [other for other in state.running if other not in decoding]
    new = sum([min(last[other] - state.tokens[other], MOST_TOKENS_EXPECTED) for other in prefilling])
    return remaining_tokens * state.new_token_ratio + new < room


def room_beside(state: State, request: int) -> int:
    """Free tokens of the pool that it would leave with all its output; they only get fewer until something finishes."""
    need = state.tokens[request] + min(state.last_token[request] - state.tokens[request], MOST_TOKENS_EXPECTED)
    return state.pool.free * state.settings.block_tokens - need


def fits_once_less_is_expected(state: State, request: int) -> bool:
    return room_beside(state, request) > 0


def expect_less(state: State, steps: int) -> None:
    state.new_token_ratio = max(LEAST_RATIO, state.new_token_ratio - steps * RATIO_LOSS_PER_STEP)


def retract(state: State) -> None:
    """The fewest generated tokens go first, of those the longest prompt, until the next step fits."""
    place = state.decode_steps % len(state.due)
    while state.due[place] > state.pool.free and not state.stuck:
        newest_last = reversed(state.decoding)
        state.preempt(min(newest_last, key=lambda request: _generated_and_prompt(state, request)), scheduled=False)
    state.pool.take(state.due[place])
    output_tokens = sum(_generated_and_prompt(state, request)[0] for request in state.decoding)
    most = sum(state.requests.output_tokens[request] for request in state.decoding)
    state.new_token_ratio = min(1.0, (output_tokens + STEPS_AFTER_RETRACTION * len(state.decoding)) / (most + 1))


def _generated_and_prompt(state: State, request: int) -> tuple[int, int]:
    prompt = state.requests.prompt_tokens[request]
    return tokens_of(state, request) - prompt, -prompt


def keep_prompt_in_cache(state: State, request: int, covered_tokens: int, held_blocks: int) -> None:
    """Its prompt is in the prefix tree, what it generated is not; it goes to the end of the line."""
    prompt = min(covered_tokens, state.requests.prompt_tokens[request])
    state.pool.release(request, held_blocks, prompt // state.settings.block_tokens, returns=True)
    if state.settings.by_priority:
        state.put_back(request)
    else:
        state.waiting.append(request)


SGLANG = Policy(
    fits=expected_output_fits,
    make_room=retract,
    park=keep_prompt_in_cache,
    recall=find_in_cache,
    decoded=expect_less,
    prefill_alone=True,
    may_fit_later=fits_once_less_is_expected,
)
SGLANG_HICACHE = Policy(
    fits=expected_output_fits,
    make_room=retract,
    park=keep_prompt_in_cache,
    recall=find_or_load,
    stored=store_prompt,
    decoded=expect_less,
    prefill_alone=True,
    may_fit_later=fits_once_less_is_expected,
)

# --- TensorRT-LLM ---

TRTLLM_NO_EVICT = WAIT  # GUARANTEED_NO_EVICT


def suspend(state: State, request: int, covered_tokens: int, held_blocks: int) -> None:
    """Its blocks move to the host tier; where that is full, it is paused and computed again."""
    if not state.host.keep(request, held_blocks):
        leave_in_cache(state, request, covered_tokens, held_blocks)
        return
    state.pool.release(request, held_blocks, 0, returns=False)
    state.log.bytes_out += state.clock.kv_bytes(state.computed[request])
    state.parked.appendleft(request)  # the newest goes first, so the oldest is in front


def resume_suspended(state: State) -> None:
    """Oldest first, before anybody new; others run on while it loads."""
    while state.parked and whole_sequence_fits(state, state.parked[0], 0):
        request = state.parked.popleft()
        state.host.drop(request)
        state.pool.take(state.blocks(state.tokens[request]))
        load(state, request, loaded=state.computed[request], computed=state.computed[request])


TRTLLM_SUSPEND = Policy(
    fits=whole_sequence_fits,
    make_room=preempt_in_turn,
    park=suspend,
    recall=find_in_cache,
    return_parked=resume_suspended,
)
