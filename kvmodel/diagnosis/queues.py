"""What those that wait wait for: KV, a seat in the batch, the prefill of those before them, a load, or entry.

A scrape does not say what the seat limit is (`--max-num-seqs`), so without it a seat is named as one of two causes.
"""

from __future__ import annotations

from math import inf

from kvmodel.diagnosis import moments
from kvmodel.diagnosis.thresholds import limit
from kvmodel.metrics.server_rates import Rates
from kvmodel.metrics.server_window import Window
from kvmodel.units import format_count, significant
from kvmodel.words import say

KV, SEAT, PREFILL, LOAD, UNKNOWN = "KV", "a seat", "prefill", "a load", "a cause not known"
ENTRY, WAKING = "entry", "a wake-up"


def is_queueing(window: Window) -> bool:
    """Whether a large part of the requests waits, on average over the window and still at its end."""
    waits, runs = window.mean.get("waiting"), window.mean.get("running")
    if not waits or not window.engine.gauges.get("waiting"):
        return False
    return waits / (waits + (runs or 0.0)) >= limit("queue", "waiting_share")


def is_asleep(window: Window) -> bool:
    """Whether requests are at an engine that was put to sleep, or paused: it runs none of them until it is woken."""
    return window.engine.gauges.get("awake") == 0 and moments.under_way(window) >= 1


def is_capped(rates: Rates) -> bool:
    """Whether a large part of the requests is turned away at admission, so that few that wait say nothing."""
    turned_away, finished = sum(rates.rejected.values()), rates.finished or 0.0
    every = turned_away + finished
    return every >= limit("data", "least_finished") and turned_away / every >= limit("queue", "waiting_share")


def is_full(window: Window) -> bool:
    """Whether the pool is full at the window's end: a burst fills it within the window."""
    return (window.engine.usage or 0.0) >= limit("usage", "high")


def computed_per_s(rates: Rates) -> float | None:
    """Prompt tokens a second that are prefilled: not found in a cache, nor sent by another engine. [tokens/s]"""
    prompt, computed = rates.prompt_tokens_per_s, rates.computed_share
    return prompt if prompt is None or computed is None else prompt * computed


def computed_per_generated(window: Window, rates: Rates) -> float | None:
    """Prompt tokens prefilled for each generated one, which needs no time between two scrapes; infinite without any."""
    prompt, made = (window.increase.counters.get(word) for word in ("prompt_tokens", "generation_tokens"))
    if not prompt or made is None:
        return None
    computed = prompt * (1.0 if rates.computed_share is None else rates.computed_share)
    return computed / made if made else inf


def prefill_over_decode(window: Window, rates: Rates) -> float | None:
    """How many times as long as decoding the GPU prefills, at least.

    A decoding step that reads the weights takes as long as the prefill of some hundred tokens, whatever the model: the
    GPU's FLOP over its bandwidth. So many generated tokens come of it as requests run.
    """
    for_each = computed_per_generated(window, rates)
    if for_each is None:
        return None
    return for_each * max(window.mean.get("running", 1.0), 1.0) / limit("prefill", "tokens_of_a_step")


def is_prefill_bound(window: Window, rates: Rates) -> bool:
    """Whether prompts take most of the GPU's time, and are far more than what is generated: neither seats nor KV."""
    times = prefill_over_decode(window, rates)
    if times is None or times < 1:
        return False
    return (computed_per_generated(window, rates) or 0.0) >= limit("prefill", "prompt_per_generated")


def next_does_not_fit(window: Window, rates: Rates) -> bool:
    """Whether a mean prompt is longer than what is free of the pool."""
    pool, usage, prompt = window.engine.pool_tokens, window.engine.usage, rates.prompt_tokens_per_request
    return pool is not None and usage is not None and prompt is not None and prompt > pool * (1 - usage)


def waits_for(window: Window, rates: Rates, seats: float | None) -> str:
    """The cause that the metrics bear out, one of the constants above."""
    gauges = window.engine.gauges
    usage = window.engine.usage
    if is_asleep(window):
        return WAKING
    if is_capped(rates) and not is_queueing(window):
        return ENTRY
    if gauges.get("deferred", 0.0) >= max(gauges.get("waiting", 0.0) / 2, 1.0):
        return LOAD
    if is_prefill_bound(window, rates):
        return PREFILL
    if usage is not None and usage >= limit("usage", "high"):
        return KV
    if next_does_not_fit(window, rates):
        return KV
    return SEAT if seats is not None and gauges.get("running", 0.0) >= seats else UNKNOWN


def reason(window: Window, rates: Rates, cause: str, seats: float | None) -> str:
    """How many wait and for what, with what shows it; and that more would wait, where some are turned away."""
    text = cause_text(window, rates, cause, seats)
    if not any(rates.rejected.values()):
        return text
    limits = ", ".join(f"{format_count(count)} {name}" for name, count in rates.rejected.items() if count)
    return say(
        "{text}; others were turned away at admission ({limits}), so the load is more than what waits",
        text=text,
        limits=limits,
    )


def cause_text(window: Window, rates: Rates, cause: str, seats: float | None) -> str:
    """How many wait, and for what."""
    if cause == WAKING:
        return say("{waits}, and the engine sleeps: it runs nothing until it is woken", waits=moments.waiting(window))
    values = {"waits": moments.waiting(window), "usage": moments.usage(window)}
    if cause == ENTRY:
        return say("{waits}, as many as are let in, and the pool is {usage} full", **values)
    if window.engine.usage is None:
        return say("{waits}; the use of the pool is not reported", **values)
    if cause == KV and window.engine.usage >= limit("usage", "high"):
        return say("{waits}, and the pool is {usage} full: they wait for KV", **values)
    if cause == KV:
        return say(
            "{waits}, and the pool is {usage} full: a mean prompt of {prompt} tokens needs more KV than is free",
            **values,
            prompt=format_count(rates.prompt_tokens_per_request or 0.0),
        )
    if cause == LOAD:
        deferred = format_count(window.engine.gauges["deferred"])
        return say(
            "{waits}, the pool {usage} full: {deferred} are deferred, by a load of KV or a budget",
            **values,
            deferred=deferred,
        )
    if cause == PREFILL and rates.prompt_tokens_per_s is None:
        for_each = computed_per_generated(window, rates) or 0.0
        return say(
            "{waits}, and the pool is {usage} full: the GPU is busy with prefill, {ratio} prompt tokens computed for "
            "each that is generated, so they wait for neither KV nor a seat",
            **values,
            ratio=format_count(for_each),
        )
    if cause == PREFILL:
        return say(
            "{waits}, and the pool is {usage} full: the GPU is busy with prefill, {prompt} prompt tokens/s "
            "computed against {made} generated, so they wait for neither KV nor a seat",
            **values,
            prompt=format_count(computed_per_s(rates) or 0.0),
            made=significant(rates.generated_tokens_per_s or 0.0, 2),
        )
    if cause == SEAT:
        return say(
            "{waits}, the limit of {seats} seats, and the pool is only {usage} full: they wait for a seat in the "
            "batch, not for KV",
            **values,
            seats=format_count(seats or 0.0),
        )
    if seats is not None:
        return say(
            "{waits}, fewer than the {seats} seats, and the pool is only {usage} full: what they wait for these "
            "metrics do not tell",
            **values,
            seats=format_count(seats),
        )
    return say(
        "{waits}, but the pool is only {usage} full: they wait for a seat in the batch, if {running} is the seat "
        "limit, or the next one needs more KV than is free",
        **values,
        running=format_count(window.engine.gauges.get("running", 0.0)),
    )
