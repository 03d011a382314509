"""Servers that get nothing done: stuck, one request at the head of the line, or a livelock.

These are looked for before any ratio, as a ratio needs requests that finish.
"""

from __future__ import annotations

from kvmodel.diagnosis import moments
from kvmodel.diagnosis.thresholds import limit
from kvmodel.metrics.server_rates import Rates
from kvmodel.metrics.server_window import Window
from kvmodel.units import format_count, significant
from kvmodel.words import say


def lasted(window: Window, seconds: float) -> bool:
    """Whether a window between two moments of one process is known to be that long."""
    return not window.lifetime and not window.restarted and (window.seconds or 0.0) >= seconds


def tokens_per_s_per_request(window: Window, rates: Rates) -> float | None:
    """Generated tokens a second for each running request. [tokens/s]"""
    if rates.generated_tokens_per_s is None:
        return None
    return rates.generated_tokens_per_s / max(window.mean.get("running", 1.0), 1.0)


def is_livelock(window: Window, rates: Rates) -> bool:
    """Whether a full pool brings forth next to nothing all through the window, as requests lose their KV."""
    per_request = tokens_per_s_per_request(window, rates)
    return (
        lasted(window, limit("data", "least_seconds"))
        and per_request is not None
        and window.least.get("running", 0.0) >= 1
        and window.least_usage >= limit("usage", "full")
        and per_request < limit("livelock", "tokens_per_s_per_request")
        and rates.preemptions != 0
    )


def livelock_reason(window: Window, rates: Rates) -> str:
    """Full pool, running requests, no output."""
    return say(
        "the pool is full ({usage}) and {running} requests run, yet only {made} tokens/s "
        "come out: requests are admitted, fill the pool and lose their KV before they get anywhere",
        usage=moments.usage(window),
        running=format_count(window.engine.gauges["running"]),
        made=significant(rates.generated_tokens_per_s or 0.0, 2),
    )


def nothing_runs(window: Window) -> bool:
    """Whether requests wait and none runs, at every moment that was looked at; not for a load of KV or the like.

    Two moments that are close say no more than one.
    """
    gauges = window.engine.gauges
    lasts = window.lifetime or window.seconds is None or window.seconds >= limit("data", "least_seconds")
    none_runs = gauges.get("running") == 0 and window.mean.get("running") == 0
    held = gauges.get("deferred", 0.0) >= max(gauges.get("waiting", 0.0), 1.0)
    return lasts and none_runs and not held and left_waiting(window) >= 1


def left_waiting(window: Window) -> float:
    """Requests that wait, or are swapped out (V0), at every moment that was looked at."""
    return window.least.get("waiting", 0.0) + window.least.get("swapped", 0.0)


def moves(window: Window, rates: Rates) -> bool | None:
    """Whether anything was finished, prefilled or (next to nothing aside) generated; None where no counter says so."""
    counters = window.increase.counters
    words = ("finished", "prompt_tokens", "generation_tokens")
    if not set(words) & set(counters):
        return None
    if rates.ended or counters.get("prompt_tokens"):
        return True
    per_request = tokens_per_s_per_request(window, rates)
    if per_request is None:
        return counters.get("generation_tokens", 0.0) > 0
    return per_request >= limit("stuck", "tokens_per_s_per_request")


def is_stuck(window: Window, rates: Rates) -> bool:
    """Whether requests wait or run and nothing comes of it.

    None running beside a queue is no state of a working scheduler, which admits in its next step: one scrape shows it.
    A running request may be in a long prefill, so it takes a longer window to say that it stands still.
    """
    if nothing_runs(window):
        alive = not window.lifetime and moves(window, rates)
        return not alive
    at_work = max(window.least.get("running", 0.0), left_waiting(window)) >= 1
    return at_work and lasted(window, limit("stuck", "least_seconds")) and moves(window, rates) is False


def stuck_reason(window: Window, rates: Rates) -> str:
    """What stands still, and for how long."""
    waits, made = moments.waiting(window), window.increase.counters.get("generation_tokens")
    if window.lifetime:
        return say("{waits}: nothing is worked on; a second scrape a minute later proves it", waits=waits)
    time = say("between the scrapes") if window.seconds is None else say("in {s:,.0f} s", s=window.seconds)
    if rates.finished:
        values = {"waits": waits, "time": time, "count": format_count(rates.finished)}
        return say("{waits}, and {time} no request came to its own end: {count} were aborted or failed", **values)
    if made:
        values = {"waits": waits, "time": time, "tokens": format_count(made)}
        return say("{waits}, and {time} no request finished and only {tokens} tokens came out", **values)
    if rates.finished is None:
        return say("{waits}, and {time} not one token came out", waits=waits, time=time)
    return say("{waits}, and {time} no request finished and not one token came out", waits=waits, time=time)


def is_head_of_line(window: Window, rates: Rates) -> bool:
    """Whether one request runs all through the window, others wait, and none ends."""
    return (
        lasted(window, limit("stuck", "least_seconds"))
        and window.mean.get("running") == 1
        and window.least.get("running") == 1
        and window.least.get("waiting", 0.0) >= 1
        and not rates.ended
    )


def head_of_line_reason(window: Window, rates: Rates, seats: float | None) -> str:
    """Who holds the pool, and what those behind it can be waiting for."""
    text = head_text(window, rates)
    if seats == 1:
        return say("{text}: the seat limit is 1", text=text)
    if window.engine.usage is None:
        return say("{text}: the next one needs more KV than is free, or the seat limit is 1", text=text)
    values = {"text": text, "usage": moments.usage(window), "free": moments.percent(1 - window.engine.usage)}
    if seats:
        return say("{text}; the pool is {usage} full: the next one needs more than the {free} that are free", **values)
    return say(
        "{text}; the pool is {usage} full: the next one needs more than the {free} that are free, "
        "or the seat limit is 1",
        **values,
    )


def head_text(window: Window, rates: Rates) -> str:
    """That one ran while others waited, and that none finished where that is reported."""
    values = {
        "time": say("{s:,.0f} s", s=window.seconds or 0.0),
        "speed": "–" if rates.generated_tokens_per_s is None else significant(rates.generated_tokens_per_s, 2),
        "waiting": format_count(window.least["waiting"]),
    }
    if rates.finished is None:
        return say("one request ran all {time} at {speed} tokens/s while {waiting} waited", **values)
    return say("one request ran all {time} at {speed} tokens/s while {waiting} waited, and none finished", **values)
