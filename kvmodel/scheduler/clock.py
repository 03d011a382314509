"""What a scheduler asks of a clock, and the clock that counts steps; `kvmodel.simulation.step_clock` has seconds."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import NamedTuple, Protocol


class Chunk(NamedTuple):
    """Part of a prefill in one step: `new` tokens after `past`, of which `again` had been computed before."""

    request: int
    new: int
    past: int
    again: int


class Clock(Protocol):
    """What the scheduler asks of a clock; lengths are in its unit, a step or a second."""

    now: float  # when the next step begins
    after_first: float  # length of the last stretch without its first step
    last: float  # length of its last step
    recompute: float  # by which steps were longer for tokens that had been computed before, in all
    stalled: float  # for which the batch has waited for copies, in all

    def join(self, tokens: int) -> None:
        """A request decodes from the next step on; it holds so many tokens, the last of them not computed."""

    def leave(self, tokens: int) -> None:
        """It no longer does."""

    def decode(self, steps: int, until: float) -> int:
        """At most so many steps of decodes alone, none but the first begun at `until` or after it; how many."""

    def step(self, chunks: Sequence[Chunk], *, decodes: bool) -> None:
        """One step with chunks of prefills, beside the decodes or alone."""

    def pass_empty_step(self) -> None:
        """A step that schedules nothing."""

    def wait_until(self, when: float) -> None:
        """Nothing is done until then."""

    def copy_out(self, tokens: int) -> float:
        """How long a sequence's KV takes to the host."""

    def copy_in(self, tokens: int) -> float:
        """How long it takes to come back."""

    def stall(self, length: float) -> None:
        """The next step begins later, for a copy that the whole batch waits for."""

    def kv_bytes(self, tokens: int) -> float:
        """What a copy of so many tokens moves, on all GPUs together."""


class StepCount:
    """One unit a step, as in runs of the scheduler without a model; a copy lasts until the next step."""

    def __init__(self) -> None:
        self.now: float = 0
        self.after_first: float = 0
        self.last: float = 1
        self.recompute: float = 0
        self.stalled: float = 0

    def join(self, tokens: int) -> None: ...
    def leave(self, tokens: int) -> None: ...
    def stall(self, length: float) -> None: ...

    def decode(self, steps: int, until: float) -> int:
        if until < self.now + steps:
            steps = max(1, ceil(until - self.now))
        self.now += steps
        self.after_first = steps - 1
        return steps

    def step(self, chunks: Sequence[Chunk], *, decodes: bool) -> None:
        self.now += 1
        self.after_first = 0

    def pass_empty_step(self) -> None:
        self.now += 1

    def wait_until(self, when: float) -> None:
        self.now = max(self.now, ceil(when))

    def copy_out(self, tokens: int) -> float:
        return 1

    def copy_in(self, tokens: int) -> float:
        return 1

    def kv_bytes(self, tokens: int) -> float:
        return 0
