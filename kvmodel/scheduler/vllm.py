"""vLLM's ways with a full KV cache, and reserving, as policies over one loop (:mod:`kvmodel.scheduler.loop`).

SGLang's and TensorRT-LLM's are in :mod:`kvmodel.scheduler.others`.
Sources: vLLM 0.33 `v1/core/sched/scheduler.py` and `v1/kv_offload`; vLLM 0.6.6 `core/scheduler.py`.
"""

from __future__ import annotations

from heapq import heappush

from kvmodel.scheduler.loop import filling_need
from kvmodel.scheduler.state import Policy, State
from kvmodel.words import Later

# --- V1: the last admitted goes, and what it computed stays until its blocks are needed ---


def whole_sequence_fits(state: State, request: int, budget: int) -> bool:
    """Blocks for all its tokens are free, and the watermark beside what runs. Since vLLM 0.19."""
    watermark = state.watermark_blocks if state.running else 0
    return -(-state.tokens[request] // state.settings.block_tokens) + watermark <= state.pool.free


def first_chunk_fits(state: State, request: int, budget: int) -> bool:
    """Blocks for its next chunk are free: vLLM up to 0.18."""
    cached_tokens = state.pool.cached(request) * state.settings.block_tokens
    watermark = state.watermark_blocks if state.running else 0
    return state.blocks(min(state.tokens[request], cached_tokens + budget)) + watermark <= state.pool.free


def preempt_in_turn(state: State) -> None:
    """In the order of admission each takes the block it needs; where none is free, victims go until one is."""
    block = state.settings.block_tokens
    scheduled: set[int] = set()
    for request in list(state.running):
        if request not in state.running:
            continue
        if request == state.filling:
            need = filling_need(state, request, len(scheduled))
        else:
            held_in_full = (state.decoding[request] + state.decode_steps - 1) % block == 0
            need = int(held_in_full)
        while need > state.pool.free:
            victim = last_in_line(state)
            state.preempt(victim, scheduled=victim in scheduled)
            scheduled.discard(victim)
            if victim == request:
                break
        else:
            state.pool.take(need)
            scheduled.add(request)


def last_in_line(state: State) -> int:
    """The last admitted; by priority the least urgent, ties to the last arrived."""
    if state.settings.by_priority:
        return max(state.running, key=state.rank)
    return next(reversed(state.running))


def leave_in_cache(state: State, request: int, covered_tokens: int, held_blocks: int) -> None:
    """Its full blocks can be found again until somebody takes them."""
    cached = covered_tokens // state.settings.block_tokens if state.settings.prefix_caching else 0
    state.pool.release(request, held_blocks, cached, returns=True)
    state.put_back(request)


def find_in_cache(state: State, request: int) -> int:
    """Tokens of the blocks that survived; the last token is always computed, for the next one to be sampled."""
    block = state.settings.block_tokens
    return state.pool.reuse(request, (state.tokens[request] - 1) // block) * block


# --- a host tier: full blocks are copied out as they are computed, and loaded where the GPU has lost them ---


def store_prompt(state: State, request: int, computed: int) -> None:
    """vLLM's default since 0.23: blocks of the prompt alone."""
    store_all(state, request, min(computed, state.requests.prompt_tokens[request]))


def store_all(state: State, request: int, computed: int) -> None:
    """Counted when a chunk, a stay in the batch or the request ends: not block by block while it decodes."""
    block = state.settings.block_tokens
    upto = computed // block
    new = state.host.store(request, upto)
    if new:
        state.log.bytes_out += state.clock.kv_bytes(upto * block) - state.clock.kv_bytes((upto - new) * block)


def leave_in_cache_and_store(state: State, request: int, covered_tokens: int, held_blocks: int) -> None:
    store_all(state, request, state.computed[request])
    leave_in_cache(state, request, covered_tokens, held_blocks)


def find_or_load(state: State, request: int) -> int | None:
    """Where the host has more of it than the GPU, take all its blocks and load; others run on meanwhile."""
    block = state.settings.block_tokens
    most = (state.tokens[request] - 1) // block
    cached = state.pool.reuse(request, most)
    on_host = min(state.host.find(request), most)
    if on_host <= cached:
        return cached * block
    state.pool.take(state.blocks(state.tokens[request]) - cached)
    load(state, request, loaded=(on_host - cached) * block, computed=on_host * block)
    return None


def load(state: State, request: int, *, loaded: int, computed: int) -> None:
    """Copy `loaded` tokens in, after the loads under way; then it goes on from `computed`."""
    state.computed[request] = computed
    state.link_free_at = max(state.clock.now, state.link_free_at) + state.clock.copy_in(loaded)
    state.log.bytes_in += state.clock.kv_bytes(loaded)
    heappush(state.loading, (state.link_free_at, request))


# --- V0: prefills in steps of their own; recompute, or swap as a move ---


def fits_above_watermark(state: State, request: int, budget: int) -> bool:
    return state.blocks(state.tokens[request]) + state.watermark_blocks <= state.pool.free


def drop(state: State, request: int, covered_tokens: int, held_blocks: int) -> None:
    state.pool.release(request, held_blocks, 0, returns=False)
    state.put_back(request)


def nothing_kept(state: State, request: int) -> int:
    return 0


def swap_out(state: State, request: int, covered_tokens: int, held_blocks: int) -> None:
    """The step waits for the copy. Where the swap space is full, V0 ends with an error."""
    if not state.host.keep(request, held_blocks):
        numbers = (("request", request), ("held", held_blocks), ("free", state.host.free))
        state.stuck = Later("swap space is full: request {request} needs {held:,} blocks, {free:,} are free", numbers)
    state.pool.release(request, held_blocks, 0, returns=False)
    state.log.bytes_out += state.clock.kv_bytes(state.computed[request])
    state.clock.stall(state.clock.copy_out(state.computed[request]))
    state.parked.append(request)


def swap_in(state: State) -> None:
    """First swapped out, first back; the host's copy is given up, and the step waits for the copy."""
    while state.parked and len(state.running) < state.settings.max_num_seqs:
        request = state.parked[0]
        if not fits_above_watermark(state, request, 0):
            return
        state.parked.popleft()
        state.host.drop(request)
        state.pool.take(state.blocks(state.tokens[request]))
        state.log.bytes_in += state.clock.kv_bytes(state.computed[request])
        state.clock.stall(state.clock.copy_in(state.computed[request]))
        state.decode_again(request)


# --- reserving: nobody starts who could not finish ---


def output_fits_too(state: State, request: int, budget: int) -> bool:
    """Prompt and output of everybody who runs, and of this one, fit in the pool."""
    return state.reserved_blocks + state.blocks(state.last_token[request] - 1) <= state.pool.total


def reserve(state: State, request: int) -> int:
    blocks = state.blocks(state.last_token[request] - 1)
    state.reservation[request] = blocks
    state.reserved_blocks += blocks
    return 0


def never(state: State) -> None:
    raise AssertionError("blocks were reserved and are not there")


def never_parked(state: State, request: int, covered_tokens: int, held_blocks: int) -> None:
    never(state)


VLLM_V1 = Policy(fits=whole_sequence_fits, make_room=preempt_in_turn, park=leave_in_cache, recall=find_in_cache)
VLLM_V1_FIRST_CHUNK = Policy(
    fits=first_chunk_fits, make_room=preempt_in_turn, park=leave_in_cache, recall=find_in_cache
)
VLLM_V1_OFFLOAD = Policy(
    fits=whole_sequence_fits, make_room=preempt_in_turn, park=leave_in_cache, recall=find_or_load, stored=store_prompt
)
VLLM_V1_OFFLOAD_ALL = Policy(
    fits=whole_sequence_fits,
    make_room=preempt_in_turn,
    park=leave_in_cache_and_store,
    recall=find_or_load,
    stored=store_all,
)
VLLM_V0 = Policy(
    fits=fits_above_watermark,
    make_room=preempt_in_turn,
    park=drop,
    recall=nothing_kept,
    prefill_alone=True,
    whole_prefills=True,
)
VLLM_V0_SWAP = Policy(
    fits=fits_above_watermark,
    make_room=preempt_in_turn,
    park=swap_out,
    recall=nothing_kept,
    return_parked=swap_in,
    prefill_alone=True,
    whole_prefills=True,
)
WAIT = Policy(fits=output_fits_too, make_room=never, park=never_parked, recall=reserve)
