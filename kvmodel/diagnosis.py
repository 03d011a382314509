"""What is wrong at a server: queueing, preemption pressure, livelock, nothing, or too little data to say.

Queueing and preemption are told apart by what requests wait for: their first blocks, or the ones taken from them. The
limits are rules of thumb (data/diagnosis.toml), and what speaks against one is said beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kvmodel import assumptions
from kvmodel.recompute_tax import Tax
from kvmodel.server_rates import Rates
from kvmodel.server_window import Window
from kvmodel.units import format_count, format_percent, significant

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


def diagnose(window: Window, rates: Rates, lost: Tax | None) -> Diagnosis:
    """The verdict on a window. Livelock and a queue at both ends need no finished requests; a ratio needs 100."""
    verdict, reason = judged(window, rates)
    kv_is_short = (window.engine.usage or 0.0) >= limit("usage", "high")
    return Diagnosis(verdict, reason, band(rates), tuple(against(window, rates, lost)), kv_is_short)


def judged(window: Window, rates: Rates) -> tuple[str, str]:
    """The verdict and its reason."""
    if is_livelock(window, rates):
        return LIVELOCK, livelock_reason(window, rates)
    if rates.finished is None or rates.preemptions is None:
        return without_ratio(window, rates)
    needed = limit("data", "least_finished")
    if rates.finished < needed:
        if rates.preemptions == 0 and queue_lasts(window):
            return QUEUEING, queue_reason(window)
        return TOO_LITTLE, too_little_reason(window, rates, needed)
    ratio = ratio_text(rates)
    if (rates.preemptions_per_100 or 0.0) >= limit("band", "tune"):
        return PRESSURE, f"{ratio}: running requests lose their KV and compute it again"
    if is_queueing(window):
        return QUEUEING, f"{queue_reason(window)}; {ratio}, so preemption is not what they wait for"
    return HEALTHY, f"{ratio}; {waiting_text(window)}"


def ratio_text(rates: Rates) -> str:
    """The ratio with what it is made of."""
    made_of = (format_count(value or 0.0) for value in (rates.preemptions, rates.finished))
    counted = "{} preemptions, {} finished requests".format(*made_of)
    if rates.preemptions_per_100 is None:
        return counted
    return f"{significant(rates.preemptions_per_100, 2)} preemptions per 100 finished requests ({counted})"


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
    made = significant(rates.generated_tokens_per_s or 0.0, 2)
    return (
        f"the pool is full ({percent(window.engine.usage)}) and {running} requests run, yet only {made} tokens/s "
        "come out: requests are admitted, fill the pool and lose their KV before they get anywhere"
    )


def queue_reason(window: Window) -> str:
    """How many wait, and whether for KV."""
    usage = window.engine.usage
    waits = waiting_text(window)
    if usage is None:
        return f"{waits}; the use of the pool is not reported"
    if usage >= limit("usage", "high"):
        return f"{waits}, and the pool is {percent(usage)} full: they wait for KV"
    if window.engine.gauges.get("deferred", 0.0) > 0:
        return f"{waits}, the pool {percent(usage)} full: {format_count(window.engine.gauges['deferred'])} are deferred"
    return f"{waits}, but the pool is only {percent(usage)} full: they wait for a place in the batch, not for KV"


def waiting_text(window: Window) -> str:
    """Running and waiting requests in words."""
    waiting, running = window.engine.gauges.get("waiting"), window.engine.gauges.get("running")
    if waiting is None:
        return "how many wait is not reported"
    beside = "" if running is None else f" beside {format_count(running)} running"
    return f"{format_count(waiting)} requests wait{beside}"


def too_little_reason(window: Window, rates: Rates, needed: float) -> str:
    """Why a ratio would mislead, with the burst that makes it read high."""
    text = f"only {format_count(rates.finished or 0)} requests finished, and a ratio needs {format_count(needed)}"
    return text if not rates.preemptions else f"{text}; {burst_text(window, rates)}"


def burst_text(window: Window, rates: Rates) -> str:
    """Why a burst of preemptions reads high."""
    under_way = sum(window.engine.gauges.get(word, 0.0) for word in ("running", "waiting"))
    text = f"{ratio_text(rates)} reads high in a burst, as a preemption counts at once and a request when it ends"
    if under_way:
        return f"{text}: {format_count(under_way)} are still under way"
    return text


def without_ratio(window: Window, rates: Rates) -> tuple[str, str]:
    """The verdict where preemptions or finished requests are not reported: the gauges alone."""
    missing = " and ".join(
        name
        for name, value in (("preemptions", rates.preemptions), ("finished requests", rates.finished))
        if value is None
    )
    waiting, usage = window.engine.gauges.get("waiting"), window.engine.usage
    now = window.engine.gauges.get("retracted_now")
    if is_queueing(window):
        return QUEUEING, f"{queue_reason(window)}; {missing} are not reported, so pressure cannot be ruled out"
    if now:
        return TOO_LITTLE, (
            f"{format_count(now)} requests were set back in the last step, but that gauge forgets, and {missing} "
            "are not reported"
        )
    if waiting is not None and usage is not None and usage < limit("usage", "high"):
        return HEALTHY, (
            f"{waiting_text(window)} and the pool is {percent(usage)} full; {missing} are not reported, "
            "but nothing is preempted while blocks are free"
        )
    return TOO_LITTLE, f"{missing} are not reported"


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


def against(window: Window, rates: Rates, lost: Tax | None) -> Iterator[str]:
    """What speaks against reading the ratio as the article does."""
    if rates.preemptions_per_100:
        yield "no engine documents such a limit: it is a rule of thumb of the article's"
    if rates.hit_share is not None and rates.preemptions:
        least, most = rates.hit_share
        about = percent(most) if most - least < 0.005 else f"{percent(least)} to {percent(most)}"
        yield f"preemptions are not requests: of the requests that finished, {about} were preempted at least once"
    if rates.preemptions and window.lifetime:
        yield "it counts from the server's start; two scrapes, or a Prometheus, tell what happens now"
    if window.lifetime and rates.finished is not None and rates.finished >= limit("data", "least_finished"):
        under_way = sum(window.engine.gauges.get(word, 0.0) for word in ("running", "waiting"))
        if rates.preemptions and under_way > rates.finished / 2:
            yield burst_text(window, rates)
    if aborted := window.increase.counters.get("finished.abort", 0) + window.increase.counters.get("finished.error", 0):
        yield f"{format_count(aborted)} of the finished requests were aborted or failed, and count in the ratio"
    if lost is not None and lost.prefill_share is not None and rates.preemptions:
        yield from tax_against(lost.prefill_share, rates)
    pool, request = window.engine.pool_tokens, request_tokens(rates)
    if pool and request and pool / request < limit("livelock", "full_requests"):
        fit = significant(pool / request, 2)
        yield f"the pool holds {fit} requests of mean length, so few that they can thrash"


def tax_against(share: tuple[float, float], rates: Rates) -> Iterator[str]:
    """Where the recomputed tokens say otherwise than the band."""
    large, ratio = limit("tax", "large"), rates.preemptions_per_100 or 0.0
    if ratio < limit("band", "tune") and share[1] >= large:
        yield f"few, but they may cost up to {percent(share[1])} of the prefilled tokens again"
    if ratio >= limit("band", "tune") and share[1] < large:
        yield f"many, but they cost at most {percent(share[1])} of the prefilled tokens again"


def request_tokens(rates: Rates) -> float | None:
    """Prompt and output of the mean request."""
    prompt, output = rates.prompt_tokens_per_request, rates.output_tokens_per_request
    return None if prompt is None or output is None else prompt + output
