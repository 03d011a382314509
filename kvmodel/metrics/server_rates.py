"""Ratios, rates and quantiles of a server's window: preemptions per 100 finished requests, waiting share, latencies."""

from __future__ import annotations

import math
from dataclasses import dataclass

from kvmodel.metrics import histogram
from kvmodel.metrics.server_state import MOST_SHARE, Engine, first
from kvmodel.metrics.server_window import Window

LEAST_OBSERVED = 0.01  # requests: what `increase` of a Prometheus extrapolates is a fraction, but no less than that
COMPUTED = "computed"
GIVEN_UP = ("abort", "error")  # reasons of a finished request
QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


@dataclass(frozen=True)
class Rates:
    """Ratios and rates of a window; None is "not reported". Shares are of one."""

    finished: float | None
    ended: (
        float | None
    )  # of those finished, less what was aborted or failed; of a rank alone unknown, that of all ranks
    preemptions: float | None
    preemptions_per_100: float | None
    waiting_share: float | None
    prefix_hit_share: float | None
    finished_per_s: float | None
    generated_tokens_per_s: float | None
    prompt_tokens_per_s: float | None
    prompt_tokens_per_request: float | None
    output_tokens_per_request: float | None
    hit_share: tuple[float, float] | None  # of finished requests, preempted at least once: least and most
    hit_twice_share: float | None
    ttft_s: dict[str, float] | None
    itl_s: dict[str, float] | None
    queue_time_s: dict[str, float] | None
    prefill_time_s: dict[str, float] | None
    decode_time_s: dict[str, float] | None  # from a request's first token to its last
    prefill_share: float | None  # of the time that a request runs
    preempted_for: dict[str, float]  # preemptions by their reason, where the engine tells it
    prompt_by_source: dict[str, float]  # prompt tokens: computed, and found, by the engine's names of where
    computed_share: float | None  # of prompt tokens: the others were found in a cache or came from elsewhere
    external_hit_share: float | None  # of the tokens looked up behind the GPU's own cache
    rejected: dict[str, float]  # requests turned away at admission, by the limit that did it
    failed: float | None
    stores_failed: float | None
    dropped_tokens: float | None


def rates(window: Window) -> Rates:
    """The ratios of a window."""
    counters, observed = window.increase.counters, window.increase.histograms
    finished, preemptions = counters.get("finished"), counters.get("preemptions")
    return Rates(
        finished=finished,
        ended=ended(window.increase),
        preemptions=preemptions,
        preemptions_per_100=share(preemptions, finished, 100),
        waiting_share=waiting_share(window.mean),
        prefix_hit_share=first(prefix_hit_share(window.increase), window.engine.gauges.get("hit_rate")),
        finished_per_s=share(finished, window.seconds),
        generated_tokens_per_s=share(counters.get("generation_tokens"), window.seconds),
        prompt_tokens_per_s=share(counters.get("prompt_tokens"), window.seconds),
        prompt_tokens_per_request=mean_length(window.increase, "prompt_length", "prompt_tokens"),
        output_tokens_per_request=mean_length(window.increase, "output_length", "generation_tokens"),
        hit_share=hit_share(observed.get("preempted_times")),
        hit_twice_share=hit_twice_share(observed.get("preempted_times")),
        ttft_s=quantiles(observed.get("ttft")),
        itl_s=quantiles(observed.get("itl")),
        queue_time_s=quantiles(observed.get("queue_time")),
        prefill_time_s=quantiles(observed.get("prefill_time")),
        decode_time_s=quantiles(observed.get("decode_time")),
        prefill_share=prefill_share(observed.get("prefill_time"), observed.get("decode_time")),
        preempted_for=by_reason(window.increase, "preempted_for"),
        prompt_by_source=prompt_by_source(window.increase),
        computed_share=computed_share(window.increase),
        external_hit_share=first(
            part_of_all(counters.get("external_hits"), counters.get("external_queries")),
            window.engine.gauges.get("external_hit_rate"),
        ),
        rejected=by_reason(window.increase, "rejected"),
        failed=counters.get("failed"),
        stores_failed=counters.get("stores_failed"),
        dropped_tokens=counters.get("dropped_tokens"),
    )


def ended(increase: Engine) -> float | None:
    """Requests that came to their own end: clients that give up, and failures, are no sign that anything moves."""
    finished = increase.counters.get("finished")
    if finished is None:
        return None
    given_up = sum(increase.counters.get(f"finished.{reason}", 0.0) for reason in GIVEN_UP)
    return max(finished - given_up, 0.0)


def by_reason(increase: Engine, word: str) -> dict[str, float]:
    """A counter that the engine keeps apart by reason: the increase of each."""
    start = f"{word}."
    return {name.removeprefix(start): count for name, count in increase.counters.items() if name.startswith(start)}


def prefill_share(prefill: histogram.Histogram | None, decode: histogram.Histogram | None) -> float | None:
    """Prefill of the time that finished requests ran, None where it is not reported."""
    if prefill is None or decode is None or not prefill.total or decode.total is None:
        return None
    return prefill.total / (prefill.total + decode.total)


def share(part: float | None, of: float | None, times: float = 1.0) -> float | None:
    """`part` of `of`, None where either is not reported or there is nothing to divide by."""
    if part is None or not of:
        return None
    ratio = times * part / of
    return ratio if math.isfinite(ratio) else None  # a count next to nothing is a broken one


def part_of_all(part: float | None, of: float | None) -> float | None:
    """As :func:`share`, None where the part is more than the whole: the two were not counted over the same time."""
    ratio = share(part, of)
    return None if ratio is None or ratio > MOST_SHARE else min(ratio, 1.0)


def waiting_share(gauges: dict[str, float]) -> float | None:
    """Waiting requests among all that are waiting or running."""
    waiting, running = gauges.get("waiting"), gauges.get("running")
    if waiting is None or running is None:
        return None
    return waiting / (waiting + running) if waiting else 0.0


def prefix_hit_share(increase: Engine) -> float | None:
    """Tokens found in the prefix cache among those looked up; preempted requests' lookups are in neither (vLLM)."""
    counters = increase.counters
    if "prefix_queries" in counters:
        return part_of_all(counters.get("prefix_hits"), counters["prefix_queries"])
    cached = first(counters.get("cached_tokens"), counters.get("prompt_from.local_cache_hit"))
    return part_of_all(cached, counters.get("prompt_tokens"))


def prompt_by_source(increase: Engine) -> dict[str, float]:
    """Prompt tokens by where their KV came from: those computed, then those found, as the engine names the places."""
    if sources := by_reason(increase, "prompt_from"):
        return {COMPUTED: sources.pop("local_compute", 0.0), **sources}
    prompt, cached = increase.counters.get("prompt_tokens"), increase.counters.get("cached_tokens")
    if prompt is None or cached is None:
        return {}
    found = by_reason(increase, "cached_tokens") or {"cached": cached}
    return {COMPUTED: max(prompt - cached, 0.0), **found}


def computed_share(increase: Engine) -> float | None:
    """Prompt tokens that were prefilled among all; None where nothing tells it.

    Counted once a request, where the source is told; lookups count a waiting request at each try to admit it.
    """
    if by_source := prompt_by_source(increase):
        return share(by_source[COMPUTED], sum(by_source.values()))
    counters = increase.counters
    found = share(counters.get("prefix_hits", 0.0) + counters.get("external_hits", 0.0), counters.get("prefix_queries"))
    return None if found is None else 1 - min(found, 1.0)


def mean_length(increase: Engine, lengths: str, tokens: str) -> float | None:
    """Tokens of a request: of those that finished where a histogram has them, else tokens counted by those finished.

    The second is too high while many requests are still running, and too low after many have ended at once.
    """
    observed = increase.histograms.get(lengths)
    from_lengths = observed.mean if observed is not None else None
    return first(from_lengths, share(increase.counters.get(tokens), increase.counters.get("finished")))


def quantiles(observed: histogram.Histogram | None) -> dict[str, float] | None:
    """Quantiles and mean of a histogram, None where nothing was observed."""
    if observed is None or observed.count <= 0:
        return None
    values = {name: histogram.quantile(part, observed) for name, part in QUANTILES.items()} | {"mean": observed.mean}
    return {name: value for name, value in values.items() if value is not None} or None


def hit_share(times: histogram.Histogram | None) -> tuple[float, float] | None:
    """Least and most share of finished requests that were preempted at least once.

    With a bucket below 1 it is read off. vLLM's own first bucket is 1, which mixes none and one; but the sum of all
    times less those of the requests in higher buckets leaves the requests with exactly one.
    """
    if times is None or times.count <= 0 or not times.bounds:
        return None
    below_one = [count for bound, count in zip(times.bounds, times.counts, strict=True) if bound < 1]
    if times.count < LEAST_OBSERVED:
        return None
    if below_one:
        exact = of_one(1 - below_one[-1] / times.count)
        return exact, exact
    if times.total is None or 1.0 not in times.bounds:
        return None
    at_most = dict(zip(times.bounds, times.counts, strict=True))
    several = times.count - at_most[1.0]
    fewest, most, lower = 0.0, 0.0, 1.0
    for bound, count in zip(times.bounds, times.counts, strict=True):
        if bound > 1:
            inside = count - at_most[lower]
            fewest += inside * (math.floor(lower) + 1)
            most += inside * bound if inside else 0.0
            lower = bound
    once_most = min(max(times.total - fewest, 0.0), at_most[1.0])
    once_least = min(max(times.total - most, 0.0), once_most)
    return of_one((several + once_least) / times.count), of_one((several + once_most) / times.count)


def of_one(share: float) -> float:
    """A share within 0 and 1, also where a bucket says more than the count."""
    return min(max(share, 0.0), 1.0)


def hit_twice_share(times: histogram.Histogram | None) -> float | None:
    """Share of finished requests that were preempted at least twice."""
    if times is None or times.count < LEAST_OBSERVED or 1.0 not in times.bounds:
        return None
    return of_one(1 - times.counts[times.bounds.index(1.0)] / times.count)
