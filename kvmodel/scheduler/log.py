"""What happened in a run: times of each request, preemptions and resumes, a sample of the engine every second."""

from __future__ import annotations

from math import inf, nan

from kvmodel.scheduler.gaps import TokenGaps

MOST_EVENTS = 100_000  # of each kind that are kept one by one
MOST_SAMPLES = 200_000  # even: an idle gap of a trace may last for years
TIMES_WITHOUT_PROGRESS = 3  # preemptions of a request at the same length


class Log:
    """Lists are by request; times are the clock's. With `every`, the time between samples, gaps are kept too."""

    def __init__(self, number: int, every: float = inf) -> None:
        self.arrival = [nan] * number
        self.admitted_at = [nan] * number
        self.first_token_at = [nan] * number
        self.finished_at = [nan] * number
        self.preemptions_of = [0] * number
        self.recomputed = [0] * number
        self.preemption_events = 0
        self.tokens_decoded = self.tokens_prefilled = 0
        self.bytes_out = self.bytes_in = 0.0
        self.preemptions: list[tuple[float, int, int]] = []  # when, request, tokens
        self.resumes: list[tuple[float, int, int, int, float]] = []  # when, request, tokens, cached, waited
        self.stays: list[list[float]] = []  # in the batch: see Stays of kvmodel.simulation_results
        self.no_progress: set[int] = set()  # preempted again and again without a token between
        self.gaps = TokenGaps(number) if every < inf else None
        self.every = self.next_mark = every
        self.samples: list[tuple[int, int, int, int]] = []  # running, waiting, used blocks, preemptions so far
        self._stay_of: dict[int, list[float]] = {}
        self._preempted_at: dict[int, float] = {}
        self._preempted_with: dict[int, tuple[int, int]] = {}  # tokens, how many times

    def admitted(self, request: int, now: float, tokens: int, cached: int) -> None:
        if self.gaps and len(self.stays) < MOST_EVENTS:
            self._stay_of[request] = stay = [request, now, nan, nan, cached, tokens, nan]
            self.stays.append(stay)
        if request in self._preempted_at:
            waited = now - self._preempted_at.pop(request)
            if len(self.resumes) < MOST_EVENTS:
                self.resumes.append((now, request, tokens, cached, waited))
        else:
            self.admitted_at[request] = now

    def sampled(self, request: int, now: float) -> None:
        """A prefill has ended with a token."""
        self._preempted_with.pop(request, None)
        self.decodes_from(request, now)
        if self.first_token_at[request] != self.first_token_at[request]:
            self.first_token_at[request] = now
            if self.gaps:
                self.gaps.first_token(request, now)
        elif self.gaps:
            self.gaps.later_token(request, now)

    def decodes_from(self, request: int, now: float) -> None:
        """Its prefill is over, or there was none."""
        if request in self._stay_of:
            self._stay_of[request][2] = now

    def left(self, request: int, now: float, tokens: int) -> None:
        """It is out of the batch: finished or preempted."""
        stay = self._stay_of.pop(request, None)
        if stay is not None:
            stay[3], stay[6] = now, tokens

    def finished(self, request: int, now: float, tokens: int) -> None:
        self.finished_at[request] = now
        self.left(request, now, tokens)

    def preempted(self, request: int, now: float, tokens: int) -> None:
        self.left(request, now, tokens)
        self.preemption_events += 1
        self.preemptions_of[request] += 1
        if len(self.preemptions) < MOST_EVENTS:
            self.preemptions.append((now, request, tokens))
        self._preempted_at[request] = now
        before, times = self._preempted_with.get(request, (0, 0))
        times = times + 1 if before == tokens else 1
        self._preempted_with[request] = tokens, times
        if times >= TIMES_WITHOUT_PROGRESS:
            self.no_progress.add(request)

    def sample(self, now: float, running: int, waiting: int, used_blocks: int) -> None:
        """Take the samples that are due; where a run gets long, every other one is dropped and fewer are taken."""
        while now >= self.next_mark:
            if len(self.samples) >= MOST_SAMPLES:
                del self.samples[::2]
                self.every *= 2
                self.next_mark = self.every * (len(self.samples) + 1)
                continue
            self.samples.append((running, waiting, used_blocks, self.preemption_events))
            self.next_mark += self.every
