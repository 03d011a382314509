"""How far a ratio of preemptions can be read: the article's bands, and what speaks against them at this server."""

from __future__ import annotations

from collections.abc import Iterator

from kvmodel.diagnosis import causes, moments
from kvmodel.diagnosis.moments import percent
from kvmodel.diagnosis.recompute_tax import Tax
from kvmodel.diagnosis.thresholds import limit
from kvmodel.metrics.server_rates import Rates
from kvmodel.metrics.server_window import Window
from kvmodel.units import format_count, significant
from kvmodel.words import say

BANDS = {
    "none": "no preemption in the window",
    "few": "a few %: they cost nothing real",
    "between": "between a few % and 10 %: nothing is said of these",
    "tune": "10 % and more: tune the batch",
    "most": "20 % and more: switching to swap is mostly the wrong cure",
}


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
    enough = rates.finished is not None and rates.finished >= limit("data", "least_finished")
    if window.lifetime and enough and rates.preemptions and moments.under_way(window) > (rates.finished or 0.0) / 2:
        yield causes.burst_text(window, rates)
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
