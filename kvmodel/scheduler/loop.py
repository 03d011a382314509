"""The loop of vLLM V1's scheduler: who gets tokens, who is preempted, who is admitted; other engines by their policies.

It decides; a clock (:mod:`kvmodel.scheduler.clock`) says how long steps last and so who has arrived by the next one.
Steps in which nothing can happen are taken at once, up to the next arrival, finish, copy or shortage of blocks.

Source: vLLM 0.33, `v1/core/sched/scheduler.py`.
"""

from __future__ import annotations

from heapq import heappop
from math import inf

from kvmodel.scheduler.clock import Chunk, Clock
from kvmodel.scheduler.log import Log
from kvmodel.scheduler.state import Policy, Requests, Settings, State
from kvmodel.words import Later


def run(requests: Requests, settings: Settings, policy: Policy, clock: Clock, log: Log) -> State:
    """Until everything has finished, or nothing can go on: then `stuck` of the state says why."""
    state = State(requests, settings, policy, clock, log)
    while not state.stuck and turn(state):
        pass
    return state


def turn(state: State) -> bool:
    """One step and those after it in which nothing happens. False: there is nothing left to do."""
    now = state.clock.now
    if state.loading or (state.arrivals and state.arrivals[0][0] <= now):
        state.arrive()
    if not state.running and state.is_empty():
        return _idle(state)
    state.finished_something = False
    chunks = _prefills_or_decodes(state) if state.policy.prefill_alone else _mixed(state)
    for chunk in chunks:
        state.advance(chunk)
    if state.clock.now >= state.log.next_mark:
        state.sample()
    return True


def _idle(state: State) -> bool:
    if state.finished_something:
        state.finished_something = False
        state.clock.pass_empty_step()
        return True
    if not state.arrivals:
        return False
    state.clock.wait_until(state.arrivals[0][0])
    return True


def _mixed(state: State) -> list[Chunk]:
    """Decodes first, then chunks of prefills with the tokens that are left; nobody is admitted beside a preemption."""
    preempted = _take_blocks(state)
    chunks = [] if state.filling is None else [_unfinished(state, state.filling)]
    if not preempted:
        if state.parked and state.policy.return_parked is not None:
            state.policy.return_parked(state)
        _admit(state, chunks, len(state.decoding))
    if chunks:
        state.clock.step(chunks, decodes=True)
        _decoded(state, 1)
    else:
        _decode(state, preempted)
    return chunks


def _prefills_or_decodes(state: State) -> list[Chunk]:
    """While anything can prefill, nothing decodes; who is on the host comes back beside decodes."""
    chunks = []
    if state.filling is not None:
        state.pool.take(filling_need(state, state.filling, 0))
        chunks.append(_unfinished(state, state.filling))
    _admit(state, chunks, 0)
    if chunks:
        state.clock.step(chunks, decodes=False)
        return chunks
    preempted, parked = _take_blocks(state), bool(state.parked)
    if parked and not preempted and state.policy.return_parked is not None:
        state.policy.return_parked(state)
    _decode(state, preempted, one_step=parked and not state.parked)  # the next step may admit
    return []


def _take_blocks(state: State) -> bool:
    """Blocks for the step's decodes and for the unfinished prefill; whether that took a preemption."""
    need = state.due[state.decode_steps % len(state.due)]
    if state.filling is not None:
        need += filling_need(state, state.filling, len(state.decoding))
    if need <= state.pool.free:
        if need:
            state.pool.take(need)
        return False
    before = state.log.preemption_events
    state.policy.make_room(state)
    return state.log.preemption_events > before


def filling_need(state: State, request: int, decodes: int) -> int:
    """Give the unfinished prefill the tokens that so many decodes leave; the blocks it needs for them."""
    past = state.computed[request]
    state.filling_new = min(state.tokens[request] - past, state.settings.max_num_batched_tokens - decodes)
    return max(0, state.blocks(past + state.filling_new) - state.filling_blocks)


def _unfinished(state: State, request: int) -> Chunk:
    """The next chunk of who is in the middle of its prefill; its blocks are taken."""
    covered_tokens = state.computed[request] + state.filling_new
    state.filling_blocks = max(state.filling_blocks, state.blocks(covered_tokens))
    return state.chunk(request, state.filling_new)


def _admit(state: State, chunks: list[Chunk], decodes: int) -> None:
    """Add the first chunks of who is admitted. The first in line who does not fit ends it."""
    policy, settings = state.policy, state.settings
    budget = settings.max_num_batched_tokens - decodes - (chunks[0].new if chunks else 0)
    while budget > 0 and len(state.running) < settings.max_num_seqs:
        if state.loaded:
            request = state.loaded.popleft()
            cached, held_blocks = state.computed[request], state.blocks(state.tokens[request])
            new = min(state.tokens[request] - cached, budget)
        else:
            head = state.head()
            if head is None or state.parked or not policy.fits(state, head, budget):
                break
            request, whole = head, state.tokens[head]
            if policy.whole_prefills and chunks and whole > budget:
                break
            state.pop_head()
            tokens_on_hand = policy.recall(state, request)
            if tokens_on_hand is None:
                continue
            cached = tokens_on_hand
            new = whole - cached if policy.whole_prefills else min(whole - cached, budget)
            held_blocks = state.blocks(cached + new)
            state.pool.take(held_blocks - state.blocks(cached))
        chunks.append(state.start(request, cached, new, held_blocks))
        budget -= new


def _decode(state: State, preempted: bool, *, one_step: bool = False) -> None:
    """A step of decodes alone, its blocks taken, and those after it up to the next thing that can happen."""
    if not state.decoding:
        _nothing_runs(state, preempted)
        return
    finishing, running, first = state.finishing, state.running, state.decode_steps
    while running.get(finishing[0][2]) != finishing[0][1]:
        heappop(finishing)  # preempted since
    most = finishing[0][0] - first + 1
    if preempted or one_step or _may_admit_soon(state):
        most = 1
    if most > 1:
        most = 1 + _steps_with_blocks(state, first + 1, most - 1)
    steps = state.clock.decode(most, _next_event(state))
    if steps > 1:
        state.pool.take(_blocks_due(state, first + 1, steps - 1))
    _decoded(state, steps)


def _may_admit_soon(state: State) -> bool:
    """Whether the head of the line may fit before anything finishes."""
    if state.policy.may_fit_later is None:
        return False
    head = state.head()
    return head is not None and state.policy.may_fit_later(state, head)


def _nothing_runs(state: State, preempted: bool) -> None:
    """Wait for a copy or an arrival; with neither, who waits will wait for ever."""
    if preempted:
        state.clock.pass_empty_step()
    elif state.loading or state.arrivals:
        state.clock.wait_until(_next_event(state, every=True))
    else:
        first = state.parked[0] if state.parked else state.head()
        state.stuck = Later("request {request} does not fit although nothing runs", (("request", first),))


def _next_event(state: State, *, every: bool = False) -> float:
    """When somebody arrives who could be admitted, a copy comes in, or the log wants a sample."""
    event = state.loading[0][0] if state.loading else inf
    if state.arrivals and (every or not state.waiting):
        event = min(event, state.arrivals[0][0])
    return event if every else min(event, state.log.next_mark)


def _steps_with_blocks(state: State, first: int, most: int) -> int:
    """The most decode steps from `first` on that the free blocks allow."""
    due, free, decoding = state.due, state.pool.free, len(state.decoding)
    if decoding * (most // len(due) + 1) <= free:
        return most
    rounds = free // decoding  # of one block for everybody
    steps, free = rounds * len(due), free % decoding
    while steps < most:
        free -= due[(first + steps) % len(due)]
        if free < 0:
            return steps
        steps += 1
    return most


def _blocks_due(state: State, first: int, steps: int) -> int:
    due = state.due
    rounds, rest = divmod(steps, len(due))
    start = first % len(due)
    blocks = rounds * len(state.decoding) + sum(due[start : start + rest])
    return blocks + sum(due[: max(0, start + rest - len(due))])


def _decoded(state: State, steps: int) -> None:
    """So many steps have decoded a token for each; those whose last it was are finished, in order of admission."""
    log, clock = state.log, state.clock
    log.tokens_decoded += steps * len(state.decoding)
    if log.gaps:
        log.gaps.decoded(clock.now, steps, clock.after_first, clock.last, state.decode_steps, state.decoding)
    state.decode_steps += steps
    if state.policy.decoded is not None:
        state.policy.decoded(state, steps)
    finishing = state.finishing
    while finishing and finishing[0][0] < state.decode_steps:
        _, admission, request = heappop(finishing)
        if state.running.get(request) == admission:
            state.finish(request)
