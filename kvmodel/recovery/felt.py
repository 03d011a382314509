"""Whether preemptions matter to those who wait: what share they have of the times that a reader feels.

Each preempted request is taken to cost one prefill of its context, shared out over the requests that finish.
"""

from __future__ import annotations

from dataclasses import dataclass

from kvmodel.catalog import assumptions

HARDLY, IN_PART, YES = "hardly", "in part", "yes"


@dataclass(frozen=True)
class Felt:
    """Shares of one that preemptions have at most; None where it is not known.

    Of the mean time to the first token and of its 99th percentile, of the time from the first token to the last, and of
    the GPU's time: a request that waits in the queue waits through that share of it.
    """

    of_first_token: float | None = None
    of_first_token_p99: float | None = None
    of_stream: float | None = None
    of_gpu_time: float | None = None

    @property
    def most(self) -> float | None:
        """The largest share that is known."""
        shares = (self.of_first_token, self.of_first_token_p99, self.of_stream, self.of_gpu_time)
        return max((share for share in shares if share is not None), default=None)


def felt(
    events: float,
    finished: float,
    recompute_s: float,
    *,
    first_token_s: float | None = None,
    first_token_p99_s: float | None = None,
    stream_s: float | None = None,
    of_gpu_time: float | None = None,
) -> Felt:
    """The shares of `events` preemptions while `finished` requests finished; each recomputes for `recompute_s`."""
    each_s = preemption_s(events, finished, recompute_s)
    of_first, of_p99, of_stream = (
        each_s / time_s if time_s else None for time_s in (first_token_s, first_token_p99_s, stream_s)
    )
    return Felt(of_first, of_p99, of_stream, of_gpu_time)


def preemption_s(events: float, finished: float, recompute_s: float) -> float:
    """GPU time that preemptions cost a finished request, shared out over all. [s]"""
    return events / finished * recompute_s


def matter(shares: Felt) -> str | None:
    """Whether preemptions matter, in a word; None where no share is known."""
    if shares.most is None:
        return None
    part, most = (assumptions.value("felt", name, file="diagnosis") for name in ("part", "most"))
    return YES if shares.most > most else IN_PART if shares.most >= part else HARDLY
