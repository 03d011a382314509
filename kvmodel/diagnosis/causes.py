"""What is wrong at a server, asked in an order: does anything move, is the pool full, what do those that wait wait for.

Only then come ratios, which need requests that finish, and last of all "too little data". The limits are rules of thumb
(data/diagnosis.toml), and what speaks against one is said beside it.
"""

from __future__ import annotations

from dataclasses import dataclass

from kvmodel.diagnosis import moments, queues, standstill
from kvmodel.diagnosis.thresholds import limit
from kvmodel.metrics.server_rates import Rates
from kvmodel.metrics.server_window import Window
from kvmodel.units import format_count, significant
from kvmodel.words import say

HEALTHY, QUEUEING, PRESSURE, LIVELOCK, TOO_LITTLE = (
    "healthy", "queueing", "preemption pressure", "livelock", "too little data",
)  # fmt: skip
STUCK, HEAD_OF_LINE, BY_DECISION = "stuck", "head of the line", "preemption by priority or reset"
WORST_FIRST = (STUCK, LIVELOCK, HEAD_OF_LINE, PRESSURE, BY_DECISION, QUEUEING, HEALTHY, TOO_LITTLE)
OTHER_REASONS = ("priority", "reset")  # words in the reasons of preemptions that are not for want of KV


@dataclass(frozen=True)
class Diagnosis:
    """A verdict, the sentence for it, and what those that wait wait for, where the verdict is that they do."""

    verdict: str
    reason: str
    waits_for: str | None = None


def diagnose(window: Window, rates: Rates, seats: float | None = None) -> Diagnosis:
    """The verdict on a window; `seats` is the limit of requests that run at a time, where it is known."""
    still = standing_still(window, rates, seats)
    if still is not None:
        return still
    if rates.finished is None or rates.preemptions is None or rates.finished < limit("data", "least_finished"):
        return without_ratio(window, rates, seats)
    ratio = ratio_text(rates)
    for_kv = for_want_of_kv(rates) or 0.0
    if 100 * for_kv / rates.finished >= limit("band", "tune"):
        return Diagnosis(PRESSURE, say("{ratio}: running requests lose their KV and compute it again", ratio=ratio))
    if (rates.preemptions_per_100 or 0.0) >= limit("band", "tune"):
        return Diagnosis(BY_DECISION, by_decision_reason(rates))
    if queues.is_queueing(window) or queues.is_capped(rates):
        queue = queueing(window, rates, seats)
        not_for = f"{queue.reason}; {ratio}"  # of the whole life: all preemptions may be of the last hour
        if not window.lifetime:
            not_for = say("{waits}; {ratio}, so preemption is not what they wait for", waits=queue.reason, ratio=ratio)
        return Diagnosis(QUEUEING, not_for, queue.waits_for)
    return Diagnosis(HEALTHY, f"{ratio}; {moments.waiting(window)}")


def standing_still(window: Window, rates: Rates, seats: float | None) -> Diagnosis | None:
    """The verdicts on a server that gets nothing, or one request, done; one that sleeps is no such server."""
    if queues.is_asleep(window):
        return queueing(window, rates, seats)
    if standstill.is_livelock(window, rates):
        return Diagnosis(LIVELOCK, standstill.livelock_reason(window, rates))
    if standstill.is_stuck(window, rates):
        return Diagnosis(STUCK, standstill.stuck_reason(window, rates))
    if standstill.is_head_of_line(window, rates):
        return Diagnosis(HEAD_OF_LINE, standstill.head_of_line_reason(window, rates, seats))
    return None


def queueing(window: Window, rates: Rates, seats: float | None) -> Diagnosis:
    cause = queues.waits_for(window, rates, seats)
    return Diagnosis(QUEUEING, queues.reason(window, rates, cause, seats), cause)


def without_ratio(window: Window, rates: Rates, seats: float | None) -> Diagnosis:
    """The verdict where the ratio is not reported or too few finished for one: gauges and bare counts."""
    for_kv = for_want_of_kv(rates)
    if not window.lifetime and for_kv and queues.is_full(window):
        seen = (rates.finished or 0.0) + window.engine.gauges.get("running", 0.0)
        if 100 * for_kv >= limit("band", "tune") * seen:
            return Diagnosis(PRESSURE, full_pool_reason(window, rates))
    lasts = window.least.get("waiting", 0.0) > 0 and not (window.lifetime and rates.preemptions)
    if (lasts and queues.is_queueing(window)) or queues.is_capped(rates):
        queue = queueing(window, rates, seats)
        if (missing := missing_text(rates)) is not None:
            reason = say(
                "{waits}; {missing} are not reported, so pressure cannot be ruled out",
                waits=queue.reason,
                missing=missing,
            )
            return Diagnosis(QUEUEING, reason, queue.waits_for)
        return Diagnosis(QUEUEING, f"{queue.reason}; {ratio_text(rates)}", queue.waits_for)
    if rates.preemptions and not for_kv and rates.finished is not None:
        return Diagnosis(BY_DECISION, by_decision_reason(rates))
    return unknown(window, rates)


def unknown(window: Window, rates: Rates) -> Diagnosis:
    """Nothing above applies: healthy where blocks are free and nothing else can be, else too little data."""
    missing = missing_text(rates)
    if missing is None:
        return Diagnosis(TOO_LITTLE, too_little_reason(window, rates))
    if now := window.engine.gauges.get("retracted_now"):
        reason = "{now} requests were set back in the last step, but that gauge forgets, and {missing} are not reported"
        return Diagnosis(TOO_LITTLE, say(reason, now=format_count(now), missing=missing))
    usage = window.engine.usage
    if (
        "waiting" in window.engine.gauges
        and usage is not None
        and usage < limit("usage", "high")
        and not rates.preemptions
    ):
        reason = say(
            "{waits} and the pool is {usage} full; {missing} are not reported, "
            "but nothing is preempted while blocks are free",
            waits=moments.waiting(window),
            usage=moments.usage(window),
            missing=missing,
        )
        return Diagnosis(HEALTHY, reason)
    counted = f"{ratio_text(rates)}; " if rates.preemptions else ""
    return Diagnosis(TOO_LITTLE, counted + say("{missing} are not reported", missing=missing))


def for_want_of_kv(rates: Rates) -> float | None:
    """Preemptions less those whose reason is another; without reasons all of them."""
    if rates.preemptions is None:
        return None
    return max(rates.preemptions - sum(other_reasons(rates).values()), 0.0)


def other_reasons(rates: Rates) -> dict[str, float]:
    """Preemptions by each reason that is not for want of KV."""
    return {
        reason: count
        for reason, count in rates.preempted_for.items()
        if count and any(word in reason for word in OTHER_REASONS)
    }


def by_decision_reason(rates: Rates) -> str:
    """How many preemptions have which reason."""
    reasons = ", ".join(f"{format_count(count)} {reason}" for reason, count in other_reasons(rates).items())
    return say(
        "{ratio}, of these {reasons}: requests make way for more urgent ones or for a reset",
        ratio=ratio_text(rates),
        reasons=reasons,
    )


def full_pool_reason(window: Window, rates: Rates) -> str:
    """A full pool while running requests lose their KV; long requests finish rarely."""
    return say(
        "the pool is {usage} full, and there were {ratio}; {waits}",
        usage=moments.usage(window),
        ratio=ratio_text(rates),
        waits=moments.waiting(window),
    )


def ratio_text(rates: Rates) -> str:
    """The ratio with what it is made of, as far as that is reported; a ratio only of enough requests."""
    preemptions = say("{count} preemptions", count=format_count(rates.preemptions or 0.0))
    if rates.finished is None:
        return preemptions
    finished = say("{count} finished requests", count=format_count(rates.finished))
    both_counts = f"{preemptions}, {finished}"
    if rates.preemptions_per_100 is None:
        return both_counts
    ratio = significant(rates.preemptions_per_100, 2)
    return say("{ratio} preemptions per 100 finished requests ({counted})", ratio=ratio, counted=both_counts)


def too_little_reason(window: Window, rates: Rates) -> str:
    """Why a ratio would mislead, with the burst that makes it read high."""
    counts = {"finished": format_count(rates.finished or 0), "needed": format_count(limit("data", "least_finished"))}
    text = say("only {finished} requests finished, and a ratio needs {needed}", **counts)
    return text if not rates.preemptions else f"{text}; {burst_text(window, rates)}"


def burst_text(window: Window, rates: Rates) -> str:
    """Why a burst of preemptions reads high."""
    text = say(
        "{ratio} reads high in a burst, as a preemption counts at once and a request when it ends",
        ratio=ratio_text(rates),
    )
    if count := moments.under_way(window):
        return say("{text}: {under_way} are still under way", text=text, under_way=format_count(count))
    return text


def missing_text(rates: Rates) -> str | None:
    """What of the ratio is not reported, None where both are."""
    if rates.preemptions is not None:
        return None if rates.finished is not None else say("finished requests")
    return say("preemptions") if rates.finished is not None else say("preemptions and finished requests")
