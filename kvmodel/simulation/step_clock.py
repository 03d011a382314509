"""The clock of a simulated engine in seconds, from :mod:`kvmodel.timing.step_time`.

It is told who joins and leaves the decoding batch, and so knows the KV that a step reads. A stretch of decode steps is
timed at once, the growth of that KV included: its length is a quadratic in the number of steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from functools import lru_cache
from heapq import heappop, heappush
from math import ceil, inf, sqrt

from kvmodel.memory import kv_cache
from kvmodel.recovery import costs, resolve
from kvmodel.recovery.resolve import Inputs
from kvmodel.scheduler.clock import Chunk
from kvmodel.timing import engine_time, step_time
from kvmodel.timing.engine_time import EngineTimes

KEPT = 10_000  # times of step sizes that are remembered


class BoundedTokens:
    """Tokens that a window lets all decoding requests read, as each grows by one a step up to the bound."""

    def __init__(self, bound: float) -> None:
        self.bound = bound
        self.tokens = 0.0
        self.growing = 0
        self._step = 0
        self._full_at: list[int] = []
        self._number_full_at: dict[int, int] = {}

    def join(self, tokens: int) -> None:
        self.tokens += min(tokens, self.bound)
        if tokens < self.bound:
            self.growing += 1
            if self.bound < inf:
                full_at = self._step + int(self.bound) - tokens
                if full_at not in self._number_full_at:
                    heappush(self._full_at, full_at)
                self._number_full_at[full_at] = self._number_full_at.get(full_at, 0) + 1

    def leave(self, tokens: int) -> None:
        self.tokens -= min(tokens, self.bound)
        if tokens < self.bound:
            self.growing -= 1
            if self.bound < inf:
                self._number_full_at[self._step + int(self.bound) - tokens] -= 1

    def steps_alike(self) -> float:
        """Steps during which as many requests grow as now."""
        return self._full_at[0] - self._step if self._full_at else inf

    def advance(self, steps: int) -> None:
        """By no more than :meth:`steps_alike`."""
        self.tokens += steps * self.growing
        self._step += steps
        if self._full_at and self._full_at[0] == self._step:
            self.growing -= self._number_full_at.pop(heappop(self._full_at))


def _bytes_per_token_by_bound(inputs: Inputs) -> dict[float, float]:
    """What a token adds on each GPU in the layers that look back so far."""
    by_bound: dict[float, float] = {}
    for group in inputs.kv_layers:
        per_layer = kv_cache.layer_bytes_per_token(group, bytes_per_value=inputs.bytes_per_value, tp=inputs.tp)
        if group.key_dim:
            by_bound[group.bound_tokens] = by_bound.get(group.bound_tokens, 0.0) + float(group.layers * per_layer)
    return by_bound


class StepTimes:
    """Seconds of an engine with the model, GPU and timing of `inputs`, all of them single numbers."""

    def __init__(self, inputs: Inputs) -> None:
        self.now = self.after_first = self.last = self.recompute = self.stalled = 0.0
        self._inputs = inputs
        self._sequences = 0
        self._engine = EngineTimes(**{field.name: float(getattr(inputs, field.name)) for field in fields(EngineTimes)})
        self._linear = lru_cache(KEPT)(self._linear_s)
        self._attention = lru_cache(KEPT)(self._attention_s)
        self._size_bytes = lru_cache(KEPT)(self._moved_bytes)
        per_byte_s = float(step_time.kv_read_s(1.0, inputs.gpu, beside_chunk=False))
        self._slower_beside_chunk = float(step_time.kv_read_s(1.0, inputs.gpu, beside_chunk=True)) / per_byte_s
        self._state_read_s = per_byte_s * sum(group.layers * group.fixed_bytes for group in inputs.kv_layers)
        self._reads = [
            (BoundedTokens(bound), per_byte_s * bytes_per_token)
            for bound, bytes_per_token in _bytes_per_token_by_bound(inputs).items()
        ]

    def join(self, tokens: int) -> None:
        self._sequences += 1
        for read, _ in self._reads:
            read.join(tokens)

    def leave(self, tokens: int) -> None:
        self._sequences -= 1
        for read, _ in self._reads:
            read.leave(tokens)

    def decode(self, steps: int, until: float) -> int:
        began, steps_done, first = self.now, 0, 0.0
        while not steps_done or (steps_done < steps and self.now < until):
            length, growth, alike = self._decode_step()
            number = int(min(steps - steps_done, alike))
            if self.now + number * (length + growth * number) > until:
                number = min(number, _steps_before(until - self.now, length, growth))
            self.now += number * length + growth * (number * (number - 1) / 2)
            self.last = length + growth * (number - 1)
            first = first or length
            steps_done += number
            for read, _ in self._reads:
                read.advance(number)
        self.after_first = self.now - began - first
        return steps_done

    def _decode_step(self) -> tuple[float, float, float]:
        """Length of a step of decodes alone, by how much the next is longer, and for how many steps that holds."""
        number = self._sequences
        kernels_s = self._linear(number, number) + number * self._state_read_s
        growth, alike = 0.0, inf
        for read, s_per_token in self._reads:
            kernels_s += read.tokens * s_per_token
            growth += read.growing * s_per_token
            alike = min(alike, read.steps_alike())
        growth *= self._engine.engine_factor
        below_host = self._engine.host_step_s - self._engine.engine_factor * kernels_s
        if below_host > 0:  # the host's time hides the kernels' growth
            alike = min(alike, ceil(below_host / growth)) if growth else alike
            growth = 0.0
        return engine_time.decode_step_s(kernels_s, number, self._engine), growth, alike

    def _linear_s(self, tokens: int, sampled: int) -> float:
        """Seconds of a step before attention and KV reads."""
        inputs = self._inputs
        return float(step_time.step_s(tokens, inputs.shape, inputs.gpu, tp=inputs.tp, sampled=sampled))

    def _attention_s(self, new: int, past: int) -> float:
        inputs = self._inputs
        return float(step_time.attention_s(new, past, inputs.shape, inputs.gpu, tp=inputs.tp))

    def step(self, chunks: Sequence[Chunk], *, decodes: bool) -> None:
        length = self._with_chunks(chunks, decodes)
        if any(chunk.again for chunk in chunks):
            first_time = [c._replace(new=c.new - c.again, past=c.past + c.again) for c in chunks]
            self.recompute += length - self._with_chunks(first_time, decodes)
        self.now += length
        self.last, self.after_first = length, 0.0
        if decodes:
            for read, _ in self._reads:
                read.advance(1)

    def _with_chunks(self, chunks: Sequence[Chunk], decodes: bool) -> float:
        decoding = self._sequences if decodes else 0
        new_tokens, sampled = decoding, decoding
        kernels_s = 0.0
        for chunk in chunks:
            if chunk.new:
                new_tokens += chunk.new
                sampled += 1
                kernels_s += self._attention(chunk.new, chunk.past)
        if decoding:
            reads_s = decoding * self._state_read_s
            for read, s_per_token in self._reads:
                reads_s += read.tokens * s_per_token
            kernels_s += reads_s * (self._slower_beside_chunk if sampled > decoding else 1.0)
        kernels_s += self._linear(new_tokens, sampled) if new_tokens else 0.0
        if decoding:
            return engine_time.decode_step_s(kernels_s, decoding, self._engine)
        return engine_time.launched_s(kernels_s, self._engine)

    def pass_empty_step(self) -> None: ...

    def wait_until(self, when: float) -> None:
        self.now = max(self.now, when)

    def copy_out(self, tokens: int) -> float:
        return float(costs.out_s(self._inputs, tokens))

    def copy_in(self, tokens: int) -> float:
        return float(costs.load(self._inputs, tokens).load_s)

    def stall(self, length: float) -> None:
        self.now += length
        self.stalled += length

    def kv_bytes(self, tokens: int) -> float:
        return self._size_bytes(tokens)

    def _moved_bytes(self, tokens: int) -> float:
        return float(resolve.moved_bytes(self._inputs, tokens) * self._inputs.tp)


def _steps_before(room: float, length: float, growth: float) -> int:
    """The fewest steps, one at least, that last `room` or longer; each is longer than the one before by `growth`."""
    if length * length + 2 * growth * room == length * length:  # so little growth that rounding swallows it
        return max(1, ceil(room / length))
    middle = length - growth / 2
    return max(1, ceil((sqrt(middle * middle + 2 * growth * room) - middle) / growth))
