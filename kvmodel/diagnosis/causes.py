"""What is wrong at a server: queueing, preemption pressure, livelock, nothing, or too little data to say.

Queueing and preemption are told apart by what requests wait for: their first blocks, or the ones taken from them. The
limits are rules of thumb (data/diagnosis.toml), and what speaks against one is said beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kvmodel.catalog import assumptions
from kvmodel.diagnosis.recompute_tax import Tax
from kvmodel.metrics.server_rates import Rates
from kvmodel.metrics.server_window import Window
from kvmodel.units import format_count, format_percent, significant
from kvmodel.words import say

HEALTHY, QUEUEING, PRESSURE, LIVELOCK, TOO_LITTLE = (
    "healthy", "queueing", "preemption pressure", "livelock", "too little data",
)  # fmt: skip
WORST_FIRST = (LIVELOCK, PRESSURE, QUEUEING, HEALTHY, TOO_LITTLE)
BANDS = {
    "none": "no preemption in the window",
    "few": "a few %: they cost nothing real",
    "between": "between a few % and 10 %: nothing is said of these",
    "tune": "over 10 %: tune the batch",
    "most": "over 20 %: switching to swap is mostly the wrong cure",
}


@dataclass(frozen=True)
class Diagnosis:
    """A verdict, the sentence for it, the article's band, and what qualifies either."""

    verdict: str
    reason: str
    band: str | None
    against: tuple[str, ...]
    kv_is_short: bool  # whether requests wait for KV, where they wait


def limit(section: str, key: str) -> float:
    """A limit of the diagnosis."""
    return assumptions.value(section, key, file="diagnosis")


def diagnose(window: Window, rates: Rates, tax: Tax | None) -> Diagnosis:
    """The verdict on a window. Livelock and a queue at both ends need no finished requests; a ratio needs 100."""
    verdict, reason = verdict_and_reason(window, rates)
    kv_is_short = (window.engine.usage or 0.0) >= limit("usage", "high")
    return Diagnosis(verdict, reason, band(rates), tuple(against(window, rates, tax)), kv_is_short)


def verdict_and_reason(window: Window, rates: Rates) -> tuple[str, str]:
    """The verdict and its reason."""
    if is_livelock(window, rates):
        return LIVELOCK, livelock_reason(window, rates)
    if rates.finished is None or rates.preemptions is None:
        return without_ratio(window, rates)
    least_finished = limit("data", "least_finished")
    if rates.finished < least_finished:
        if rates.preemptions == 0 and queue_lasts(window):
            return QUEUEING, queue_reason(window)
        return TOO_LITTLE, too_little_reason(window, rates, least_finished)
    ratio = ratio_text(rates)
    if (rates.preemptions_per_100 or 0.0) >= limit("band", "tune"):
        return PRESSURE, say("{ratio}: running requests lose their KV and compute it again", ratio=ratio)
    if is_queueing(window):
        waits = queue_reason(window)
        return QUEUEING, say("{waits}; {ratio}, so preemption is not what they wait for", waits=waits, ratio=ratio)
    return HEALTHY, f"{ratio}; {waiting_text(window)}"


def ratio_text(rates: Rates) -> str:
    """The ratio with what it is made of."""
    counts = {"preemptions": format_count(rates.preemptions or 0.0), "finished": format_count(rates.finished or 0.0)}
    both_counts = say("{preemptions} preemptions, {finished} finished requests", **counts)
    if rates.preemptions_per_100 is None:
        return both_counts
    ratio = significant(rates.preemptions_per_100, 2)
    return say("{ratio} preemptions per 100 finished requests ({counted})", ratio=ratio, counted=both_counts)


def is_queueing(window: Window) -> bool:
    """Whether a large part of the requests waits."""
    waiting, running = window.engine.gauges.get("waiting"), window.engine.gauges.get("running")
    if waiting is None or not waiting:
        return False
    return waiting / (waiting + (running or 0.0)) >= limit("queue", "waiting_share")


def queue_lasts(window: Window) -> bool:
    """Whether requests wait all through a window, the pool full; one scrape cannot tell."""
    waiting, usage = window.least.get("waiting", 0.0), window.least.get("usage", 0.0)
    return not window.lifetime and waiting > 0 and usage >= limit("usage", "high") and is_queueing(window)


def is_livelock(window: Window, rates: Rates) -> bool:
    """Whether a full pool brings forth next to nothing, all through a window that is long enough."""
    running, usage = window.least.get("running"), window.least.get("usage")
    if window.lifetime or not window.seconds or window.seconds < limit("data", "least_seconds"):
        return False
    if running is None or usage is None or rates.generated_tokens_per_s is None or window.restarted:
        return False
    per_request = rates.generated_tokens_per_s / max(window.engine.gauges["running"], 1.0)
    return (
        running >= 1 and usage >= limit("usage", "full") and per_request < limit("livelock", "tokens_per_s_per_request")
    )


def livelock_reason(window: Window, rates: Rates) -> str:
    """Full pool, running requests, no output."""
    running = format_count(window.engine.gauges["running"])
    tokens_per_s = significant(rates.generated_tokens_per_s or 0.0, 2)
    return say(
        "the pool is full ({usage}) and {running} requests run, yet only {made} tokens/s "
        "come out: requests are admitted, fill the pool and lose their KV before they get anywhere",
        usage=percent(window.engine.usage),
        running=running,
        made=tokens_per_s,
    )


def queue_reason(window: Window) -> str:
    """How many wait, and whether for KV."""
    usage = window.engine.usage
    if usage is None:
        return say("{waits}; the use of the pool is not reported", waits=waiting_text(window))
    values = {"waits": waiting_text(window), "usage": percent(usage)}
    if usage >= limit("usage", "high"):
        return say("{waits}, and the pool is {usage} full: they wait for KV", **values)
    if window.engine.gauges.get("deferred", 0.0) > 0:
        deferred = format_count(window.engine.gauges["deferred"])
        return say("{waits}, the pool {usage} full: {deferred} are deferred", **values, deferred=deferred)
    return say("{waits}, but the pool is only {usage} full: they wait for a place in the batch, not for KV", **values)


def waiting_text(window: Window) -> str:
    """Running and waiting requests in words."""
    waiting, running = window.engine.gauges.get("waiting"), window.engine.gauges.get("running")
    if waiting is None:
        return say("how many wait is not reported")
    if running is None:
        return say("{waiting} requests wait", waiting=format_count(waiting))
    return say(
        "{waiting} requests wait beside {running} running", waiting=format_count(waiting), running=format_count(running)
    )


def too_little_reason(window: Window, rates: Rates, least_finished: float) -> str:
    """Why a ratio would mislead, with the burst that makes it read high."""
    counts = {"finished": format_count(rates.finished or 0), "needed": format_count(least_finished)}
    text = say("only {finished} requests finished, and a ratio needs {needed}", **counts)
    return text if not rates.preemptions else f"{text}; {burst_text(window, rates)}"


def burst_text(window: Window, rates: Rates) -> str:
    """Why a burst of preemptions reads high."""
    under_way = sum(window.engine.gauges.get(word, 0.0) for word in ("running", "waiting"))
    text = say(
        "{ratio} reads high in a burst, as a preemption counts at once and a request when it ends",
        ratio=ratio_text(rates),
    )
    if under_way:
        return say("{text}: {under_way} are still under way", text=text, under_way=format_count(under_way))
    return text


def without_ratio(window: Window, rates: Rates) -> tuple[str, str]:
    """The verdict where preemptions or finished requests are not reported: the gauges alone."""
    missing = missing_text(rates)
    waiting, usage = window.engine.gauges.get("waiting"), window.engine.usage
    now = window.engine.gauges.get("retracted_now")
    if is_queueing(window):
        waits = queue_reason(window)
        return QUEUEING, say(
            "{waits}; {missing} are not reported, so pressure cannot be ruled out", waits=waits, missing=missing
        )
    if now:
        return TOO_LITTLE, say(
            "{now} requests were set back in the last step, but that gauge forgets, and {missing} are not reported",
            now=format_count(now),
            missing=missing,
        )
    if waiting is not None and usage is not None and usage < limit("usage", "high"):
        return HEALTHY, say(
            "{waits} and the pool is {usage} full; {missing} are not reported, "
            "but nothing is preempted while blocks are free",
            waits=waiting_text(window),
            usage=percent(usage),
            missing=missing,
        )
    return TOO_LITTLE, say("{missing} are not reported", missing=missing)


def missing_text(rates: Rates) -> str:
    """What of the ratio is not reported."""
    if rates.preemptions is not None:
        return say("finished requests")
    return say("preemptions") if rates.finished is not None else say("preemptions and finished requests")


def percent(share: float | None) -> str:
    """A share as text, a dash where it is not reported."""
    return "–" if share is None else format_percent(share)


def band(rates: Rates) -> str | None:
    """The article's band for the ratio, a key of BANDS; None where too few requests finished for one."""
    ratio = rates.preemptions_per_100
    if ratio is None or (rates.finished or 0.0) < limit("data", "least_finished"):
        return None
    if ratio == 0:
        return "none"
    for name in ("most", "tune"):
        if ratio >= limit("band", name):
            return name
    return "few" if ratio <= limit("band", "few") else "between"


def against(window: Window, rates: Rates, tax: Tax | None) -> Iterator[str]:
    """What speaks against reading the ratio as the article does."""
    if rates.preemptions_per_100:
        yield say("no engine documents such a limit: it is a rule of thumb of the article's")
    if rates.hit_share is not None and rates.preemptions:
        least, most = rates.hit_share
        shares = {"least": percent(least), "most": percent(most)}
        about = shares["most"] if most - least < 0.005 else say("{least} to {most}", **shares)
        yield say(
            "preemptions are not requests: of the requests that finished, {about} were preempted at least once",
            about=about,
        )
    if rates.preemptions and window.lifetime:
        yield say("it counts from the server's start; two scrapes, or a Prometheus, tell what happens now")
    if window.lifetime and rates.finished is not None and rates.finished >= limit("data", "least_finished"):
        under_way = sum(window.engine.gauges.get(word, 0.0) for word in ("running", "waiting"))
        if rates.preemptions and under_way > rates.finished / 2:
            yield burst_text(window, rates)
    if aborted := window.increase.counters.get("finished.abort", 0) + window.increase.counters.get("finished.error", 0):
        yield say(
            "{aborted} of the finished requests were aborted or failed, and count in the ratio",
            aborted=format_count(aborted),
        )
    if tax is not None and tax.prefill_share is not None and rates.preemptions:
        yield from tax_against(tax.prefill_share, rates)
    pool, request = window.engine.pool_tokens, request_tokens(rates)
    if pool and request and pool / request < limit("livelock", "full_requests"):
        fit = significant(pool / request, 2)
        yield say("the pool holds {fit} requests of mean length, so few that they can thrash", fit=fit)


def tax_against(share: tuple[float, float], rates: Rates) -> Iterator[str]:
    """Where the recomputed tokens say otherwise than the band."""
    large, ratio, most = limit("tax", "large"), rates.preemptions_per_100 or 0.0, percent(share[1])
    if ratio < limit("band", "tune") and share[1] >= large:
        yield say("few, but they may cost up to {most} of the prefilled tokens again", most=most)
    if ratio >= limit("band", "tune") and share[1] < large:
        yield say("many, but they cost at most {most} of the prefilled tokens again", most=most)


def request_tokens(rates: Rates) -> float | None:
    """Prompt and output of the mean request."""
    prompt, output = rates.prompt_tokens_per_request, rates.output_tokens_per_request
    return None if prompt is None or output is None else prompt + output
