"""The state of a scheduler under way: queues, running batch and blocks, and what moves a request between them.

Every decoding request gains one token in every step in which decodes run, so one count of such steps stands for all
of them: a request's tokens are `decoding[request] + decode_steps`, and its blocks follow from its tokens.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from kvmodel.scheduler.clock import Chunk, Clock
from kvmodel.scheduler.log import Log
from kvmodel.scheduler.pools import BlockPool, HostPool
from kvmodel.words import Later


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What an engine is started with. `watermark` is the share of blocks that admission leaves free."""

    num_blocks: int
    block_tokens: int
    max_num_seqs: int
    max_num_batched_tokens: int
    watermark: float = 0.0
    prefix_caching: bool = True
    by_priority: bool = False  # a smaller number is more urgent; ties by arrival
    host_blocks: int = 0  # of swap space or of a host tier


@dataclass(frozen=True)
class Requests:
    """Requests by index. Arrivals are in the clock's unit: steps or seconds.

    With `clients`, only so many arrive by themselves; each further one arrives `think` after another has finished.
    """

    prompt_tokens: list[int]
    output_tokens: list[int]
    arrival: list[float]
    priority: list[int]
    clients: int | None = None
    think: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Policy:
    """What engines do differently, as functions of the state and, where one is meant, of a request."""

    fits: Callable[[State, int, int], bool]  # may it be admitted, with so many tokens of budget left?
    make_room: Callable[[State], None]  # the running ones need more blocks than are free
    park: Callable[[State, int, int, int], None]  # what becomes of a victim, its covered tokens and its held blocks
    recall: Callable[[State, int], int | None]  # computed tokens that an admitted one starts with; None: it loads first
    return_parked: Callable[[State], None] | None = None  # bring back from the host what there is room for
    stored: Callable[[State, int, int], None] | None = None  # a request has computed so many of its tokens
    decoded: Callable[[State, int], None] | None = None  # so many steps have decoded
    prefill_alone: bool = False  # decodes pause while anything prefills
    whole_prefills: bool = False  # a sequence is never cut into chunks
    may_fit_later: Callable[[State, int], bool] | None = None  # although it does not now, and before anything finishes


class State:
    """A run under way. Lists are by request."""

    def __init__(self, requests: Requests, settings: Settings, policy: Policy, clock: Clock, log: Log) -> None:
        number, block = len(requests.prompt_tokens), settings.block_tokens
        self.requests, self.settings, self.policy, self.clock, self.log = requests, settings, policy, clock, log
        self.pool = BlockPool(settings.num_blocks)
        self.host = HostPool(settings.host_blocks)
        self.watermark_blocks = int(settings.watermark * (settings.num_blocks + 1))
        self.tokens = list(requests.prompt_tokens)  # of those that are not decoding
        self.last_token = [p + o for p, o in zip(requests.prompt_tokens, requests.output_tokens, strict=True)]
        self.computed = [0] * number  # of those that are not decoding
        self.lost = [0] * number  # computed tokens at the last preemption
        self.running: dict[int, int] = {}  # in the order of admission, with the number of the admission
        self.admissions = 0
        self.filling: int | None = None  # in the middle of its prefill: always the last admitted
        self.filling_blocks = 0  # it holds
        self.filling_new = 0  # tokens it gets in this step
        self.decode_steps = 0
        self.decoding: dict[int, int] = {}  # tokens less decode_steps
        self.due = [0] * block  # decoding ones that need a block when decode_steps is this modulo the block
        self.finishing: list[tuple[int, int, int]] = []  # last decode step, number of the admission, request
        self.waiting: deque[int] = deque()
        self.ranked: list[tuple[int, float, int]] = []  # those waiting, where priorities count
        self.parked: deque[int] = deque()  # on the host, in the order in which they return
        self.loading: list[tuple[float, int]] = []  # blocks taken, copy under way until then
        self.loaded: deque[int] = deque()
        self.reserved_blocks = 0  # by policies that reserve
        self.reservation: dict[int, int] = {}
        self.link_free_at = 0.0  # to the GPU
        self.new_token_ratio = 0.0  # of SGLang
        self.finished_something = False
        self.stuck: Later | None = None  # why nothing can go on
        first = number if requests.clients is None else min(requests.clients, number)
        self.arrivals = [(requests.arrival[i], i) for i in range(first)]
        self.unsent = deque(range(first, number))
        heapify(self.arrivals)

    # --- queues ---

    def arrive(self) -> None:
        """Add everybody who has arrived by now, and those whose copy has come in."""
        now = self.clock.now
        while self.arrivals and self.arrivals[0][0] <= now:
            at, request = heappop(self.arrivals)
            self.log.arrival[request] = at
            if self.settings.by_priority:
                heappush(self.ranked, self.rank(request))
            else:
                self.waiting.append(request)
        while self.loading and self.loading[0][0] <= now:
            self.loaded.append(heappop(self.loading)[1])

    def sample(self) -> None:
        """Give the log what it samples, arrivals up to now among it."""
        self.arrive()
        waiting = len(self.waiting) + len(self.ranked) + len(self.parked) + len(self.loading) + len(self.loaded)
        self.log.sample(self.clock.now, len(self.running), waiting, self.pool.total - self.pool.free)

    def rank(self, request: int) -> tuple[int, float, int]:
        return self.requests.priority[request], self.log.arrival[request], request

    def head(self) -> int | None:
        """Who is next to be admitted."""
        if self.settings.by_priority:
            return self.ranked[0][2] if self.ranked else None
        return self.waiting[0] if self.waiting else None

    def pop_head(self) -> None:
        if self.settings.by_priority:
            heappop(self.ranked)
        else:
            self.waiting.popleft()

    def put_back(self, request: int) -> None:
        """A victim waits again: first in the line, or by its rank."""
        if self.settings.by_priority:
            heappush(self.ranked, self.rank(request))
        else:
            self.waiting.appendleft(request)

    def is_empty(self) -> bool:
        return not (self.running or self.waiting or self.ranked or self.loaded or self.loading or self.parked)

    # --- a request's way through the batch ---

    def blocks(self, tokens: int) -> int:
        return -(-tokens // self.settings.block_tokens)

    def start(self, request: int, cached: int, new: int, held_blocks: int) -> Chunk:
        """Admit a request that has `held_blocks` blocks: `cached` tokens are there, `new` are computed in this step."""
        self.admissions += 1
        self.running[request] = self.admissions
        self.computed[request] = cached
        if cached + new < self.tokens[request]:
            self.filling = request
            self.filling_blocks = held_blocks
        self.log.admitted(request, self.clock.now, self.tokens[request], cached)
        return self.chunk(request, new)

    def chunk(self, request: int, new: int) -> Chunk:
        past = self.computed[request]
        lost_tokens = self.lost[request]
        return Chunk(request, new, past, min(lost_tokens - past, new) if lost_tokens > past else 0)

    def advance(self, chunk: Chunk) -> None:
        """A chunk has been computed; if it was the last, a token was sampled."""
        request, new, past, again = chunk
        self.computed[request] = done = past + new
        self.log.tokens_prefilled += new
        if again:
            self.log.recomputed[request] += again
        if self.policy.stored is not None:
            self.policy.stored(self, request, done)
        if done < self.tokens[request]:
            return
        if request == self.filling:
            self.filling = None
        self.lost[request] = 0
        self.tokens[request] += 1
        self.log.sampled(request, self.clock.now)
        if self.tokens[request] == self.last_token[request]:
            self.finish(request)
        else:
            self.join(request)

    def join(self, request: int) -> None:
        """From the next decode step on it gains a token in each: all its tokens but the last are computed."""
        base = self.tokens[request] - self.decode_steps
        self.decoding[request] = base
        self.due[(1 - base) % len(self.due)] += 1
        heappush(self.finishing, (self.last_token[request] - 1 - base, self.running[request], request))
        self.clock.join(self.tokens[request])
        if self.log.gaps:
            self.log.gaps.joined(request, self.decode_steps)

    def decode_again(self, request: int) -> None:
        """Admit a request with all its KV in blocks of the GPU: it decodes in the step that follows."""
        self.admissions += 1
        self.running[request] = self.admissions
        self.lost[request] = 0
        self.log.admitted(request, self.clock.now, self.tokens[request], self.tokens[request] - 1)
        self.log.decodes_from(request, self.clock.now)
        self.join(request)

    def leave(self, request: int) -> None:
        """It decodes no more. What it leaves in `finishing` is recognised by the number of its admission."""
        base = self.decoding.pop(request)
        self.due[(1 - base) % len(self.due)] -= 1
        self.tokens[request] = base + self.decode_steps
        self.clock.leave(self.tokens[request])
        if self.log.gaps:
            self.log.gaps.left(request)

    def preempt(self, request: int, *, scheduled: bool) -> None:
        """Take a running request's blocks; `scheduled`: it had its place in this step already, and loses it."""
        if request in self.decoding:
            self.leave(request)
            self.computed[request] = self.tokens[request] - 1
            covered_tokens = self.computed[request] + scheduled
            held_blocks = self.blocks(covered_tokens)
        else:
            covered_tokens, held_blocks = self.computed[request], self.filling_blocks
            self.filling = None
        del self.running[request]
        self.lost[request] = max(self.lost[request], self.computed[request])
        self.log.preempted(request, self.clock.now, self.tokens[request])
        self.policy.park(self, request, covered_tokens, held_blocks)
        if not self.running and self.pool.free == self.pool.total:
            self.stuck = Later("request {request} needs more blocks than the pool has", (("request", request),))

    def finish(self, request: int) -> None:
        """Its last token has been sampled, and is never computed."""
        if request in self.decoding:
            self.leave(request)
        computed = self.last_token[request] - 1
        block = self.settings.block_tokens
        if self.policy.stored is not None:
            self.policy.stored(self, request, computed)
        del self.running[request]
        cached = computed // block if self.settings.prefix_caching else 0
        self.pool.release(request, -(-computed // block), cached, returns=False)
        self.reserved_blocks -= self.reservation.pop(request, 0)
        self.finished_something = True
        self.log.finished(request, self.clock.now, computed)
        if self.unsent:
            heappush(self.arrivals, (self.clock.now + self.requests.think, self.unsent.popleft()))
