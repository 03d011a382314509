"""A log in place of a scrape: the lines that an engine prints while it runs, and those of its start."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from kvmodel import catalog
from kvmodel.diagnosis import plain_report
from kvmodel.diagnosis.served import ServerFacts
from kvmodel.errors import CaseError
from kvmodel.inputs.case import DEFAULTS, case_from
from kvmodel.metrics import running_lines
from kvmodel.metrics.server_state import Server
from kvmodel.startup_log import log_answer, log_reader, refusals
from kvmodel.words import say

START_UP_LOG, REFUSED, STOPPED = "a start-up log", "refused to start", "stopped"


@dataclass(frozen=True)
class Running:
    """The server at the first and last running line, the seconds between, what is known, and if a start is told."""

    before: Server
    after: Server
    seconds: float | None
    facts: ServerFacts
    has_start: bool


def running(text: str, facts: ServerFacts) -> Running | None:
    """The running lines of a text, None where there are none. Raises CaseError for too many.

    What the start-up lines say of version, seats and model counts where the reader says nothing.
    """
    servers = running_lines.read(text)
    if servers is None:
        return None
    ends = log_reader.both_ends(text)
    log = log_reader.read_log(ends)
    before, after, seconds = servers
    if log.tokens is not None and len(after.engines) == 1:
        before, after = (with_pool(server, log.tokens) for server in (before, after))
    told = {"max_num_seqs": log.max_num_seqs, "model": None if log.model is None else catalog.model_id(log.model)}
    fields = told | {name: value for name, value in facts.fields.items() if value is not None}
    known = replace(facts, fields=fields, version=facts.version or log.version)
    return Running(before, after, seconds, known, not log.empty() or refusals.refusal(ends, log) is not None)


def with_pool(server: Server, pool_tokens: float) -> Server:
    """The server with the size of the pool that its start-up lines print."""
    engines = (replace(one, gauges={"pool_tokens": pool_tokens} | one.gauges) for one in server.engines)
    return replace(server, engines=tuple(engines))


def start_up(text: str, facts: ServerFacts) -> dict[str, Any] | None:
    """What `explain-log` says of the text; None where nothing of a start stands in it."""
    fields = {name: value for name, value in facts.fields.items() if value is not None}
    try:
        case = case_from({name: value for name, value in fields.items() if name in DEFAULTS})
        return log_answer.explain_text(text, case, {"model": fields.get("model")})
    except CaseError:
        return None


def start_up_answer(log: dict[str, Any]) -> dict[str, Any]:
    """The answer of a diagnosis to a log of a start: why it was refused or ended, or that it says nothing of a load."""
    verdict = START_UP_LOG if log["refused"] is None else STOPPED if log["after_start"] else REFUSED
    reason = log["refused"] or say("lines of an engine's start: none of them says how it runs")
    action = log["mend"] or say("give the text of its /metrics page, or the lines that it prints while it runs")
    return plain_report.without_engine(verdict, reason, action, product=None, process={}, notes=()) | {"log": log}
