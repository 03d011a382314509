"""Gaps between a request's tokens: the longest of each, and how many tokens came after a gap of what length.

All decoding requests gain a token in every decode step, so the gap before a token is the same for all of them but
those that have just joined. The longest of a request's gaps is then the longest since it joined, and of all gaps so far
only those matter that no later one exceeds.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection
from math import floor, log

BINS_PER_E = 100  # of the histogram: bins of 1 %


class TokenGaps:
    """Lists are by request, lengths in the clock's unit."""

    def __init__(self, number: int) -> None:
        self.worst = [0.0] * number
        self.tokens_by_bin: dict[int, int] = {}
        self._last_token_at = [0.0] * number
        self._joined = [0] * number  # decode steps when it began to decode
        self._fresh: list[int] = []  # began to decode since the last decode step
        self._decoded_at = 0.0  # end of the last decode step
        self._longest_steps: list[int] = []  # decode steps whose gap no later one exceeds
        self._longest: list[float] = []

    def first_token(self, request: int, now: float) -> None:
        self._last_token_at[request] = now

    def later_token(self, request: int, now: float) -> None:
        """A token that a recompute ends with."""
        self._own(request, now - self._last_token_at[request])
        self._last_token_at[request] = now

    def joined(self, request: int, decode_steps: int) -> None:
        """Its next token comes with the next decode step."""
        self._joined[request] = decode_steps
        self._fresh.append(request)

    def decoded(
        self, now: float, steps: int, after_first: float, last: float, step: int, batch: Collection[int]
    ) -> None:
        """`steps` decode steps have ended at `now`; `step` is the number of the first, `last` how long the last was."""
        first_end, old = now - after_first, len(batch)
        if self._fresh:
            for request in self._fresh:
                if request in batch:
                    self._own(request, first_end - self._last_token_at[request])
                    old -= 1
            self._fresh.clear()
        if old:
            self._count(first_end - self._decoded_at, old)
            self._shared(step, first_end - self._decoded_at)
        if steps > 1:
            self._count(after_first / (steps - 1), len(batch) * (steps - 1))
            self._shared(step + steps - 1, last)
        self._decoded_at = now

    def left(self, request: int) -> None:
        """It decodes no more: it has finished, or was preempted."""
        place = bisect_right(self._longest_steps, self._joined[request])
        if place < len(self._longest) and self._longest[place] > self.worst[request]:
            self.worst[request] = self._longest[place]
        self._last_token_at[request] = max(self._last_token_at[request], self._decoded_at)

    def _own(self, request: int, gap: float) -> None:
        self._count(gap, 1)
        if gap > self.worst[request]:
            self.worst[request] = gap

    def _shared(self, step: int, gap: float) -> None:
        steps, longest = self._longest_steps, self._longest
        while longest and longest[-1] <= gap:
            longest.pop()
            steps.pop()
        steps.append(step)
        longest.append(gap)

    def _count(self, gap: float, tokens: int) -> None:
        place = floor(log(gap) * BINS_PER_E)
        self.tokens_by_bin[place] = self.tokens_by_bin.get(place, 0) + tokens
