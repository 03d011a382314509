"""Where the mean request's time goes, from its arrival to its last token: what the reader of a dashboard asks first."""

from __future__ import annotations

from kvmodel.metrics.server_rates import Rates

QUEUE, PREFILL, REST, PREFILL_AND_REST, GENERATING, PREEMPTED = PARTS = (
    "queue", "prefill", "the rest", "prefill and the rest", "generating", "preempted, at most",
)  # fmt: skip


def request_times(rates: Rates, of_stream: float | None = None) -> dict[str, float] | None:
    """Seconds of each of PARTS that is known, in order; None without a mean time to the first token.

    `of_stream`: share of the time from the first token to the last that streams stand still at most, being preempted.
    The parts are means of their own histograms, some over requests that started, some over those that ended: the rest
    is no less than 0.
    """
    first_token, queue, prefill = (mean(times) for times in (rates.ttft_s, rates.queue_time_s, rates.prefill_time_s))
    if first_token is None:
        return None
    parts = {QUEUE: queue, PREFILL: prefill}
    rest = max(first_token - (queue or 0.0) - (prefill or 0.0), 0.0)
    parts[REST if prefill is not None else PREFILL_AND_REST] = rest
    if (stream := stream_s(rates)) is not None:
        preempted = stream * min(of_stream or 0.0, 1.0)
        parts |= {GENERATING: stream - preempted, PREEMPTED: preempted or None}
    return {name: seconds for name, seconds in parts.items() if seconds is not None}


def stream_s(rates: Rates) -> float | None:
    """From a request's first token to its last: as measured, else its tokens by the mean time between them."""
    measured, gap_s, tokens = mean(rates.decode_time_s), mean(rates.itl_s), rates.output_tokens_per_request
    if measured is not None:
        return measured
    return None if gap_s is None or tokens is None else max(tokens - 1, 0.0) * gap_s


def mean(times_s: dict[str, float] | None) -> float | None:
    """The mean of a time, None where it is not reported."""
    return None if times_s is None else times_s.get("mean")
