"""A server's metrics to a decision: what it does, what is wrong, what to change first and what that buys.

The answer is one dictionary, the JSON of `python -m kvmodel diagnose`; every number that is not reported is None.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from kvmodel.diagnosis import advice, causes, plain_report, recompute_tax, served
from kvmodel.diagnosis.causes import BANDS
from kvmodel.diagnosis.plain_report import Found
from kvmodel.diagnosis.recompute_tax import Tax
from kvmodel.errors import CaseError
from kvmodel.inputs import questions
from kvmodel.inputs.case import DEFAULTS, Case, case_from
from kvmodel.metrics import metric_names, scrape_kind, server_rates, server_window
from kvmodel.metrics.era import Era, detected, given
from kvmodel.metrics.exposition import Scrape, read_scrape
from kvmodel.metrics.server_state import Server, server
from kvmodel.metrics.server_window import Window
from kvmodel.words import say

ESTIMATED = (
    "what is computed again is an estimate: each victim is taken as the mean request with half of its output written"
)


@dataclass(frozen=True)
class Known:
    """What the reader adds: fields of a Case that metrics do not hold, the engine's version, a price per GPU hour."""

    fields: Mapping[str, Any] = field(default_factory=dict)
    version: str | None = None
    price_per_gpu_hour: float | None = None


def read(data: bytes | str, what: str = "SCRAPE") -> Scrape:
    """A scrape's samples of known engines. Raises CaseError, one sentence."""
    return read_scrape(data, metric_names.is_wanted, what=what)


def diagnose(
    first: bytes | str, second: bytes | str | None = None, *, seconds: float | None = None, known: Known | None = None
) -> dict[str, Any]:
    """The answer for one scrape, or for two of the same server `seconds` apart. Raises CaseError, one sentence."""
    early = read(first)
    if second is None:
        if seconds is not None:
            raise CaseError(say("seconds: given with one scrape; allowed: two scrapes, the time between them"))
        return of_window(early, server(early), None, known or Known())
    if seconds is not None:
        questions.INPUTS["seconds"].limits.require("seconds", seconds)
    late = read(second, "SCRAPE2")
    before, after = server(early), server(late)
    for scrape, found, what in ((early, before, "SCRAPE"), (late, after, "SCRAPE2")):
        if (kind := scrape_kind.not_an_engine(scrape, found)) is not None:
            told = {"what": what, "reason": kind.reason}
            raise CaseError(say("{what}: {reason}; allowed: two scrapes of one engine", **told))
    assert before is not None
    assert after is not None
    if first == second and any(engine.gauges.get("running") for engine in after.engines):
        raise CaseError(say("SCRAPE2: the same text as SCRAPE, though requests run; allowed: a scrape taken later"))
    notes = [say("in SCRAPE, {note}", note=note) for note in before.notes]
    answer = of_window(late, after, server_window.between(before, after, seconds), known or Known())
    return answer | {"notes": notes + answer["notes"]}


def of_window(
    scrape: Scrape, found: Server | None, windows: tuple[Window, tuple[Window, ...]] | None, known: Known
) -> dict[str, Any]:
    """The answer for a window, or for a server's whole life where none is given."""
    kind = scrape_kind.not_an_engine(scrape, found)
    if kind is not None or found is None:
        return no_engine(scrape, kind, found)
    era = detected(found.product, scrape)
    if known.version is not None:
        era = given(found.product, known.version, era.name)
    total, each = windows or server_window.since_start(found)
    judged = [judge(window, era) for window in each]
    whole = judge(total, era) if len(each) != 1 or total is not each[0] else judged[0]
    lead = min((*judged, whole), key=gravity)
    names = plain_report.engine_names([one.window.engine for one in judged])
    return answer(found, era, whole, judged, lead, names, known)


def no_engine(scrape: Scrape, kind: scrape_kind.Kind | None, found: Server | None) -> dict[str, Any]:
    """The answer for what holds no engine's metrics."""
    from kvmodel.metrics.server_state import process_of

    assert kind is not None
    return {
        "engine": kind.product,
        "era": None,
        "versions": None,
        "verdict": kind.verdict,
        "reason": kind.reason,
        "preemptions_per_100": None,
        "advice": [{"rank": 1, "id": "scrape", "action": kind.action, "flag": "", "buys": ""}],
        "process": process_of(scrape),
        "notes": list(found.notes if found is not None else scrape.notes),
    }


def judge(window: Window, era: Era) -> Found:
    """A window with its rates, what recomputing costs there, and the verdict."""
    rates = server_rates.rates(window)
    lost = recompute_tax.tax(window, rates, era)
    return Found(window, rates, lost, causes.diagnose(window, rates, lost))


def gravity(found: Found) -> tuple[int, float]:
    """Sorts the gravest verdict first, and of equal ones the most preemptions: the engine that the answer is about."""
    return causes.WORST_FIRST.index(found.diagnosis.verdict), -(found.rates.preemptions_per_100 or 0.0)


def answer(
    found: Server, era: Era, whole: Found, judged: list[Found], lead: Found, names: list[str], known: Known
) -> dict[str, Any]:
    """Everything about a server as plain values."""
    told = served.served(lead.window, lead.rates, era)
    fields = told.choices | {key: value for key, value in known.fields.items() if value is not None}
    notes = [*found.notes, *whole.window.notes]
    if "model" not in fields:
        notes += told.notes
    chosen = case_from({key: value for key, value in fields.items() if key in DEFAULTS})
    gpu = known.fields.get("gpu")
    tax, tax_notes = price(lead, chosen, fields, gpu, known.price_per_gpu_hour)
    remedies, rule = advice.advice(lead.diagnosis, lead.window, lead.rates, era, chosen, fields, gpu)
    where = "" if lead is whole or len(judged) == 1 else f"{names[judged.index(lead)]}: "
    notes += [*tax_notes, *plain_report.window_notes(whole.window, found)]
    return {
        "engine": found.product,
        "era": era.name,
        "versions": era.versions,
        "over": plain_report.over(whole.window),
        "seconds": whole.window.seconds,
        "lifetime": whole.window.lifetime,
        "verdict": lead.diagnosis.verdict,
        "reason": where + lead.diagnosis.reason,
        "preemptions_per_100": whole.rates.preemptions_per_100,
        "lead": plain_report.one_engine(say("the server") if lead is whole else names[judged.index(lead)], lead),
        "band": say(BANDS[lead.diagnosis.band]) if lead.diagnosis.band else None,
        "against": list(lead.diagnosis.against),
        "state": plain_report.state(whole.window, fields, chosen),
        "rates": asdict(whole.rates) | {"finished_by_reason": plain_report.by_reason(whole.window.increase)},
        "recompute": None if tax is None else asdict(tax) | {"gpu": chosen.gpu, "gpu_given": gpu is not None},
        "advice": [{"rank": rank, **asdict(remedy)} for rank, remedy in enumerate(remedies, start=1)],
        "advice_rule": rule,
        "engines": [plain_report.one_engine(name, one) for name, one in zip(names, judged, strict=True)],
        "ranks": plain_report.ranks([one.window.engine for one in judged]),
        "case": {key: value for key, value in fields.items() if key in DEFAULTS},
        "names": found.names,
        "process": found.process,
        "notes": notes,
    }


def price(
    lead: Found, chosen: Case, fields: Mapping[str, Any], gpu: str | None, price_per_gpu_hour: float | None
) -> tuple[Tax | None, list[str]]:
    """The recompute tax with its price, where model and lengths are known, and what has to be said of it."""
    if lead.tax is None or not lead.rates.preemptions:
        return lead.tax, []
    estimated = [] if recompute_tax.lost_exactly(lead.window.increase.counters) is not None else [say(ESTIMATED)]
    if "model" not in fields:
        return lead.tax, estimated
    if "tokens" not in fields:
        context = round(lead.tax.tokens_per_preemption[1])
        chosen = replace(chosen, tokens=max(context, 1), generated_tokens=0)
    try:
        priced = recompute_tax.priced(lead.tax, lead.window, lead.rates, chosen, price_per_gpu_hour)
    except CaseError as error:
        return lead.tax, [*estimated, say("GPU seconds are not priced: {reason}", reason=error)]
    if gpu is None:
        estimated.append(say("GPU seconds are those of an {gpu}; give --gpu for yours", gpu=chosen.gpu))
    return priced, estimated
