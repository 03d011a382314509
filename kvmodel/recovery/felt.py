"""Whether preemptions matter to those who wait: their share of the time that a request waits for its first token."""

from __future__ import annotations


def preemption_s(events: float, finished: float, recompute_s: float) -> float:
    """GPU time that preemptions cost a finished request, shared out over all. [s]"""
    return events / finished * recompute_s


def share_of_wait(events: float, finished: float, recompute_s: float, wait_s: float) -> float:
    """That time over how long a request waits; above a half preemptions are the cause and not the queue."""
    return preemption_s(events, finished, recompute_s) / wait_s
