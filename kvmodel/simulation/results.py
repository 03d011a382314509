"""What a simulated run comes to: each request's times, the engine second by second, and totals."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import exp
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvmodel.arrays import Floats
from kvmodel.scheduler.gaps import BINS_PER_E
from kvmodel.scheduler.state import State
from kvmodel.words import Later

Whole = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PerRequest:
    """Arrays by request; times in seconds from the start, NaN where it did not get so far."""

    prompt_tokens: Whole
    output_tokens: Whole
    arrival_s: Floats
    admitted_s: Floats  # first scheduled
    first_token_s: Floats
    finished_s: Floats
    worst_gap_s: Floats  # longest wait between two tokens
    preemptions: Whole
    recomputed_tokens: Whole

    @property
    def ttft_s(self) -> Floats:
        return self.first_token_s - self.arrival_s

    @property
    def tpot_s(self) -> Floats:
        """Mean time of a token after the first; NaN for answers of one token."""
        later = np.where(self.output_tokens > 1, self.output_tokens - 1, np.nan)
        return (self.finished_s - self.first_token_s) / later

    @property
    def end_to_end_s(self) -> Floats:
        return self.finished_s - self.arrival_s


@dataclass(frozen=True, eq=False)
class PerSecond:
    """The engine at `time_s`; `preemptions` are those since the sample before."""

    time_s: Floats
    running: Whole
    waiting: Whole
    kv_usage: Floats  # share of blocks held
    preemptions: Whole


@dataclass(frozen=True, eq=False)
class Events:
    """Preemptions and resumes in their order, the first 100,000 of each. Arrays of one length each."""

    preempted_s: Floats
    preempted_request: Whole
    preempted_tokens: Whole
    resumed_s: Floats
    resumed_request: Whole
    resumed_tokens: Whole
    cached_tokens: Whole  # of resumed_tokens, found or loaded
    waited_s: Floats


@dataclass(frozen=True, eq=False)
class Stays:
    """Each time that a request was in the batch, the first 100,000. Arrays of one length.

    It holds KV of `cached_tokens` when it is admitted, of `prefill_tokens` when it begins to decode, of `left_tokens`
    when it finishes or is preempted; times are NaN where it did not get so far.
    """

    request: Whole
    admitted_s: Floats
    decoding_s: Floats
    left_s: Floats
    cached_tokens: Floats
    prefill_tokens: Floats
    left_tokens: Floats


@dataclass(frozen=True, eq=False)
class Results:
    """A run."""

    stuck: Later | None  # why the run could not go on
    requests: PerRequest
    seconds: PerSecond
    events: Events
    stays: Stays
    preemption_events: int
    prefilled_tokens: int
    recompute_gpu_s: float  # by which steps were longer for tokens computed before
    stalled_s: float  # for which the batch waited for copies
    bytes_to_host: float
    bytes_from_host: float
    livelocked: tuple[int, ...]  # requests preempted three times and more at one length
    pool_blocks: int
    gap_s: Floats  # of each bin of 1 %, rising
    gap_tokens: Whole  # tokens that came after such a gap

    @property
    def outcome(self) -> str:
        """ "finished", or why the run could not go on."""
        return str(self.stuck) if self.stuck else "finished"

    @cached_property
    def makespan_s(self) -> float:
        """From the first arrival to the last token."""
        return float(np.nanmax(self.requests.finished_s, initial=0.0) - self.requests.arrival_s.min())

    def gap_percentile_s(self, percent: float) -> float:
        """Time between tokens (ITL) that so many percent of tokens keep to, to 1 %; NaN without a second token."""
        if not len(self.gap_tokens):
            return float("nan")
        place = np.searchsorted(np.cumsum(self.gap_tokens), percent / 100 * self.gap_tokens.sum())
        return float(self.gap_s[min(place, len(self.gap_s) - 1)])

    def meets(self, ttft_s: float, tpot_s: float) -> NDArray[np.bool_]:
        """Which requests had their first token within `ttft_s` and the others within `tpot_s` each."""
        has_finished = np.isfinite(self.requests.finished_s)
        quick = ~(self.requests.tpot_s > tpot_s)  # an answer of one token has no later ones
        return has_finished & (self.requests.ttft_s <= ttft_s) & quick

    def totals(self, *, slo_ttft_s: float, slo_tpot_s: float) -> dict[str, Any]:
        """The run in numbers; NaN where nothing finished."""
        requests, span_s = self.requests, self.makespan_s
        has_finished = np.isfinite(requests.finished_s)
        good = self.meets(slo_ttft_s, slo_tpot_s)
        recomputed_tokens = int(requests.recomputed_tokens.sum())
        return {
            "outcome": self.outcome,
            "livelocked_requests": len(self.livelocked),
            "requests": len(has_finished),
            "finished": int(has_finished.sum()),
            "makespan_s": span_s,
            "requests_per_s": _share(int(has_finished.sum()), span_s),
            "output_tokens_per_s": _share(int(requests.output_tokens[has_finished].sum()), span_s),
            "goodput_requests_per_s": _share(int(good.sum()), span_s),
            "good_share": _share(int(good.sum()), len(has_finished)),
            "preemptions": self.preemption_events,
            "preemptions_per_100": 100 * _share(self.preemption_events, len(has_finished)),
            "preempted_share": _share(int((requests.preemptions > 0).sum()), len(has_finished)),
            "recomputed_tokens": recomputed_tokens,
            "recompute_tax": _share(recomputed_tokens, self.prefilled_tokens),
            "gpu_lost_s": self.recompute_gpu_s + self.stalled_s,
            "link_bytes": self.bytes_to_host + self.bytes_from_host,
            **_spread("ttft_s", requests.ttft_s),
            **_spread("tpot_s", requests.tpot_s),
            **_spread("end_to_end_s", requests.end_to_end_s),
            "itl_s": {"p50": self.gap_percentile_s(50), "p99": self.gap_percentile_s(99)},
            "worst_gap_s": float(np.max(requests.worst_gap_s, initial=0.0)),
            "queue_s": _mean(requests.admitted_s - requests.arrival_s),
            "kv_usage_mean": _mean(self.seconds.kv_usage),
            "running_most": int(np.max(self.seconds.running, initial=0)),
            "waiting_most": int(np.max(self.seconds.waiting, initial=0)),
            "pool_blocks": self.pool_blocks,
        }


def _share(part: float, whole: float) -> float:
    return part / whole if whole else float("nan")


def _mean(values: Floats) -> float:
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else float("nan")


def _spread(name: str, values: Floats) -> dict[str, dict[str, float]]:
    finite = values[np.isfinite(values)]
    p50, p99 = np.percentile(finite, [50, 99]) if len(finite) else (np.nan, np.nan)
    return {name: {"mean": _mean(values), "p50": float(p50), "p99": float(p99)}}


def collect(state: State, overhead_s: float) -> Results:
    """The results of a run that is over. `overhead_s` passes before the scheduler sees a request."""
    log, requests = state.log, state.requests
    gaps = log.gaps.tokens_by_bin if log.gaps else {}
    worst = log.gaps.worst if log.gaps else [float("nan")] * len(log.arrival)
    bins = sorted(gaps)
    samples = np.array(log.samples, np.int64).reshape(-1, 4)
    preemptions = np.array(log.preemptions, float).reshape(-1, 3)
    resumes = np.array(log.resumes, float).reshape(-1, 5)
    stays = np.array(log.stays, float).reshape(-1, 7).T
    return Results(
        stuck=state.stuck,
        requests=PerRequest(
            prompt_tokens=np.array(requests.prompt_tokens),
            output_tokens=np.array(requests.output_tokens),
            arrival_s=np.array(log.arrival) - overhead_s,
            admitted_s=np.array(log.admitted_at),
            first_token_s=np.array(log.first_token_at),
            finished_s=np.array(log.finished_at),
            worst_gap_s=np.array(worst),
            preemptions=np.array(log.preemptions_of),
            recomputed_tokens=np.array(log.recomputed),
        ),
        seconds=PerSecond(
            time_s=np.arange(1, len(samples) + 1, dtype=np.float64) * log.every,
            running=samples[:, 0],
            waiting=samples[:, 1],
            kv_usage=samples[:, 2] / state.pool.total,
            preemptions=np.diff(samples[:, 3], prepend=0),
        ),
        events=Events(
            preempted_s=preemptions[:, 0],
            preempted_request=preemptions[:, 1].astype(np.int64),
            preempted_tokens=preemptions[:, 2].astype(np.int64),
            resumed_s=resumes[:, 0],
            resumed_request=resumes[:, 1].astype(np.int64),
            resumed_tokens=resumes[:, 2].astype(np.int64),
            cached_tokens=resumes[:, 3].astype(np.int64),
            waited_s=resumes[:, 4],
        ),
        stays=Stays(stays[0].astype(np.int64), *stays[1:]),
        preemption_events=log.preemption_events,
        prefilled_tokens=log.tokens_prefilled,
        recompute_gpu_s=state.clock.recompute,
        stalled_s=state.clock.stalled,
        bytes_to_host=log.bytes_out,
        bytes_from_host=log.bytes_in,
        livelocked=tuple(sorted(log.no_progress)),
        pool_blocks=state.pool.total,
        gap_s=np.array([exp((place + 0.5) / BINS_PER_E) for place in bins]),
        gap_tokens=np.array([gaps[place] for place in bins], np.int64),
    )
