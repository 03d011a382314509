"""A server's metrics to a decision: what it does, what is wrong, what to change first and what that buys.

The answer is one dictionary, the JSON of `python -m kvmodel diagnose`; every number that is not reported is None.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from kvmodel.diagnosis import (
    advice,
    bands,
    causes,
    copy_rates,
    from_logs,
    hot_engine,
    plain_report,
    recompute_tax,
    request_times,
    served,
)
from kvmodel.diagnosis.findings import Findings
from kvmodel.diagnosis.recompute_tax import Tax
from kvmodel.diagnosis.served import ServerFacts
from kvmodel.errors import CaseError
from kvmodel.inputs import questions
from kvmodel.inputs.case import DEFAULTS, Case, case_from
from kvmodel.metrics import exposition, metric_names, scrape_kind, server_rates, server_window
from kvmodel.metrics.era import Era, detected, given
from kvmodel.metrics.exposition import Scrape, read_scrape
from kvmodel.metrics.server_state import Server, server
from kvmodel.metrics.server_window import Window
from kvmodel.recovery import felt
from kvmodel.words import say

ESTIMATED = (
    "what is computed again is an estimate: each victim is taken as the mean request with half of its output written"
)


def read(data: bytes | str, what: str = "SCRAPE") -> Scrape:
    """A scrape's samples of known engines. Raises CaseError, one sentence."""
    return read_scrape(data, metric_names.is_wanted, what=what)


def diagnose(
    first: bytes | str,
    second: bytes | str | None = None,
    *,
    seconds: float | None = None,
    facts: ServerFacts | None = None,
) -> dict[str, Any]:
    """The answer for one scrape, for two of the same server `seconds` apart, or for a log of an engine.

    Raises CaseError, one sentence.
    """
    if second is None and (logged := of_running_lines(first, facts or ServerFacts())) is not None:
        return logged
    early = read(first)
    if second is None:
        if seconds is not None:
            raise CaseError(say("seconds: given with one scrape; allowed: two scrapes, the time between them"))
        alone = of_window(early, server(early), None, facts or ServerFacts())
        return alone if "state" in alone else of_start(first, facts or ServerFacts()) or alone
    if seconds is not None:
        questions.INPUTS["seconds"].limits.require("seconds", seconds)
    late = read(second, "SCRAPE2")
    before, after = server(early), server(late, "SCRAPE2")
    for scrape, state, what in ((early, before, "SCRAPE"), (late, after, "SCRAPE2")):
        if (kind := scrape_kind.not_an_engine(scrape, state)) is not None:
            texts = {"what": what, "reason": kind.reason}
            raise CaseError(say("{what}: {reason}; allowed: two scrapes of one engine", **texts))
    assert before is not None
    assert after is not None
    notes = [say("in SCRAPE, {note}", note=note) for note in before.notes]
    if first == second and any(engine.gauges.get("running") for engine in after.engines):
        if seconds is None:
            raise CaseError(say("SCRAPE2: the same text as SCRAPE, though requests run; allowed: a scrape taken later"))
        notes.append(say("SCRAPE2 is the same text as SCRAPE: make sure that it was taken later"))
    answer = of_window(late, after, server_window.between(before, after, seconds), facts or ServerFacts())
    return answer | {"notes": notes + answer["notes"]}


def of_window(
    scrape: Scrape, state: Server | None, windows: tuple[Window, tuple[Window, ...]] | None, facts: ServerFacts
) -> dict[str, Any]:
    """The answer for a window, or for a server's whole life where none is given."""
    kind = scrape_kind.not_an_engine(scrape, state)
    if kind is not None or state is None:
        return no_engine(scrape, kind, state)
    return judged(state, detected(state.product, scrape), windows, facts)


def of_running_lines(data: bytes | str, facts: ServerFacts) -> dict[str, Any] | None:
    """The answer for the window that the running lines of a log span, with what its start says; None without any."""
    text = exposition.as_text(data, [], "SCRAPE")
    logged = from_logs.running(text, facts)
    if logged is None:
        return None
    windows = server_window.between(logged.before, logged.after, logged.seconds)
    answer = judged(logged.after, Era(logged.after.product), windows, logged.facts)
    over = say("running lines of a log, {over}", over=answer["over"])
    notes = list(dict.fromkeys(answer["notes"]))
    started = from_logs.start_up(text, logged.facts) if logged.has_start else None
    return answer | {"over": over, "notes": notes, "log": started}


def of_start(data: bytes | str, facts: ServerFacts) -> dict[str, Any] | None:
    """The answer to a log that ends with the start; None for what is none."""
    started = from_logs.start_up(exposition.as_text(data, [], "SCRAPE"), facts)
    return None if started is None else from_logs.start_up_answer(started)


def judged(
    state: Server, era: Era, windows: tuple[Window, tuple[Window, ...]] | None, facts: ServerFacts
) -> dict[str, Any]:
    """The answer for an engine's windows, the gravest engine's first."""
    if facts.version is not None:
        era = given(state.product, facts.version, era.name)
    total, each = windows or server_window.since_start(state)
    seats = facts.fields.get("max_num_seqs")
    ended = server_rates.ended(total.increase)
    engines = [judge(window, era, seats, ended) for window in each]
    whole = (
        judge(total, era, seats and seats * len(each), ended) if len(each) != 1 or total is not each[0] else engines[0]
    )
    lead = min((*engines, whole), key=gravity)
    names = plain_report.engine_names([one.window.engine for one in engines])
    return answer(state, era, whole, engines, lead, names, facts)


def no_engine(scrape: Scrape, kind: scrape_kind.Kind | None, state: Server | None) -> dict[str, Any]:
    """The answer for what holds no engine's metrics."""
    from kvmodel.metrics.server_state import process_of

    assert kind is not None
    notes = state.notes if state is not None else scrape.notes
    return plain_report.without_engine(
        kind.verdict, kind.reason, kind.action, product=kind.product, process=process_of(scrape), notes=notes
    )


def judge(window: Window, era: Era, seats: float | None, ended_of_all: float | None) -> Findings:
    """A window with its rates, what recomputing costs there, and the verdict; `seats` run at a time at most.

    A rank whose server counts finished requests for all ranks together may have ended as many as all.
    """
    rates = server_rates.rates(window)
    if rates.ended is None:
        rates = replace(rates, ended=ended_of_all)
    seats = seats or window.engine.gauges.get("seat_limit")
    tax = recompute_tax.tax(window, rates, era)
    return Findings(window, rates, tax, causes.diagnose(window, rates, seats))


def gravity(finding: Findings) -> tuple[int, float]:
    """Sorts the gravest verdict first, and of equal ones the most preemptions: the engine that the answer is about."""
    return causes.WORST_FIRST.index(finding.diagnosis.verdict), -(finding.rates.preemptions_per_100 or 0.0)


def answer(
    state: Server,
    era: Era,
    whole: Findings,
    engines: list[Findings],
    lead: Findings,
    names: list[str],
    facts: ServerFacts,
) -> dict[str, Any]:
    """Everything about a server as plain values."""
    served_case = served.served(lead.window, lead.rates, era)
    fields = served_case.choices | {key: value for key, value in facts.fields.items() if value is not None}
    if (seats := lead.window.engine.gauges.get("seat_limit")) is not None:
        fields.setdefault("max_num_seqs", seats)
    notes = [*state.notes, *whole.window.notes]
    if "model" not in fields:
        notes += served_case.notes
    case = case_from({key: value for key, value in fields.items() if key in DEFAULTS})
    gpu = facts.fields.get("gpu")
    tax, tax_notes = price(lead, case, fields, gpu, facts.price_per_gpu_hour)
    hot = hot_engine.hot_place(engines)
    balance = None if hot is None else hot_engine.gain(names[hot], engines, hot)
    remedies, rule = advice.advice(lead.diagnosis, lead.window, lead.rates, era, case, fields, gpu, balance)
    band = bands.band(lead.rates)
    shares = recompute_tax.shares_felt(tax, lead.window, lead.rates, case, gpu_named=gpu is not None)
    reasons = server_rates.by_reason(whole.window.increase, "finished")
    where = "" if lead is whole or len(engines) == 1 else f"{names[engines.index(lead)]}: "
    notes += [*tax_notes, *plain_report.window_notes(whole.window, state)]
    return {
        "engine": state.product,
        "era": era.name,
        "versions": era.versions,
        "over": plain_report.over(whole.window),
        "seconds": whole.window.seconds,
        "lifetime": whole.window.lifetime,
        "verdict": lead.diagnosis.verdict,
        "waits_for": lead.diagnosis.waits_for,
        "reason": where + lead.diagnosis.reason,
        "hot_engine": None if hot is None else names[hot],
        "preemptions_per_100": whole.rates.preemptions_per_100,
        "lead": plain_report.one_engine(say("the server") if lead is whole else names[engines.index(lead)], lead),
        "band": say(bands.BANDS[band]) if band else None,
        "request_s": request_times.request_times(whole.rates, None if shares is None else shares.of_stream),
        "felt": None if shares is None else asdict(shares) | {"matter": felt.matter(shares)},
        "against": list(bands.against(lead.window, lead.rates, lead.tax)),
        "state": plain_report.state(whole.window, fields, case),
        "rates": asdict(whole.rates) | {"finished_by_reason": reasons},
        "link": copy_rates.copy_rates(whole.window.increase, case, fields),
        "recompute": None if tax is None else asdict(tax) | {"gpu": case.gpu, "gpu_given": gpu is not None},
        "advice": [{"rank": rank, **asdict(remedy)} for rank, remedy in enumerate(remedies, start=1)],
        "advice_rule": rule,
        "engines": [plain_report.one_engine(name, one) for name, one in zip(names, engines, strict=True)],
        "ranks": plain_report.ranks([one.window.engine for one in engines]),
        "case": {key: value for key, value in fields.items() if key in DEFAULTS},
        "names": state.names,
        "process": state.process,
        "notes": notes,
    }


def price(
    lead: Findings, case: Case, fields: Mapping[str, Any], gpu: str | None, price_per_gpu_hour: float | None
) -> tuple[Tax | None, list[str]]:
    """The recompute tax with its price, where model and lengths are known, and what has to be said of it."""
    if lead.tax is None or not lead.rates.preemptions:
        return lead.tax, []
    notes = [] if recompute_tax.lost_exactly(lead.window.increase.counters) is not None else [say(ESTIMATED)]
    if "model" not in fields:
        return lead.tax, notes
    if "tokens" not in fields:
        context = round(lead.tax.tokens_per_preemption[1])
        case = replace(case, tokens=max(context, 1), generated_tokens=0)
    try:
        tax = recompute_tax.priced(lead.tax, lead.window, lead.rates, case, price_per_gpu_hour)
    except CaseError as error:
        return lead.tax, [*notes, say("GPU seconds are not priced: {reason}", reason=error)]
    if gpu is None:
        notes.append(say("GPU seconds are those of an {gpu}; give --gpu for yours", gpu=case.gpu))
    return tax, notes
