"""The answers of diagnose, rules and dashboard as text: the verdict and the next step first, then the evidence."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from kvmodel.metrics import metric_names
from kvmodel.recovery.felt import HARDLY
from kvmodel.texts import startup_log
from kvmodel.texts.answers import name_value_lines, table
from kvmodel.texts.metric_lines import metric_lines
from kvmodel.units import NONE, format_count, format_percent, significant
from kvmodel.words import say

Answer = dict[str, Any]
WIDTH = 118
MOST_ENGINES = 10  # rows of a table of engines
ENGINE_COLUMNS = ["engine", "per 100", "finished", "running", "waiting", "in use", "verdict"]
FELT = {
    "of_gpu_time": "{share} of the GPU's time",
    "of_first_token": "{share} of the mean time to the first token",
    "of_first_token_p99": "{share} of its 99th percentile",
    "of_stream": "{share} of the time from the first token to the last",
}
MATTER = {
    "hardly": "the preemptions hardly matter to those who wait: at most {shares}",
    "in part": "the preemptions matter in part to those who wait: up to {shares}",
    "yes": "the preemptions matter to those who wait: up to {shares}",
}


def diagnose(answer: Answer) -> str:
    """Verdict, reason, first step; then evidence, the other steps, and what to bear in mind."""
    if "state" not in answer:
        parts = [heading(answer), answer["advice"][0]["action"], *fold(answer["notes"])]
        return printable("\n".join(parts) + start(answer))
    parts = [
        heading(answer),
        "\n".join(advice(answer)),
        "\n".join(metric_section(answer)),
        engines(answer),
        "\n".join([*fold(answer["against"], "but "), *fold(answer["notes"], "note: ")]),
    ]
    return printable("\n\n".join(part for part in parts if part) + start(answer))


def start(answer: Answer) -> str:
    """What the start-up lines say, where there are any."""
    return f"\n\n{startup_log.explain_log(answer['log'])}" if answer.get("log") else ""


def printable(text: str) -> str:
    """Labels come from elsewhere: nothing in them may steer a terminal."""
    return "".join(mark if mark.isprintable() or mark == "\n" else "?" for mark in text)


def heading(answer: Answer) -> str:
    """The verdict in a line, and why."""
    reason = textwrap.fill(answer["reason"], WIDTH)
    verdict = answer["verdict"]
    if answer.get("waits_for"):
        verdict = say("{verdict} for {cause}", verdict=verdict, cause=say(answer["waits_for"]))
    if answer["engine"] is None:
        return f"{verdict}\n{reason}"
    name = metric_names.label(answer["engine"])
    era = " ".join(filter(None, (name, answer["era"], f"({answer['versions']})" if answer["versions"] else "")))
    lines = [f"{verdict}: {era}{', ' + answer['over'] if 'over' in answer else ''}", reason]
    if (words := matter(answer)) is not None:
        lines.append(textwrap.fill(words, WIDTH))
    return "\n".join(lines)


def advice(answer: Answer) -> Iterator[str]:
    """Remedies by number, each with its flag, what it buys and what release it needs."""
    yield "what to change, best first:"
    for remedy in answer["advice"]:
        yield f"  {remedy['rank']}. {remedy['action']}"
        if remedy["flag"]:
            stands = f"   (needs {remedy['needs']} or newer)" if remedy["needs"] else ""
            stands = stands or (f"   (as of {remedy['as_of']})" if remedy["as_of"] else "")
            yield f"     {remedy['flag']}{stands}"
        yield textwrap.indent(textwrap.fill(remedy["buys"], WIDTH - 5), " " * 5)
        if remedy.get("risk"):
            risk = say("it may cost {risk}", risk=remedy["risk"])
            yield textwrap.indent(textwrap.fill(risk, WIDTH - 5), " " * 5)
    if len(answer["advice"]) > 1:
        yield textwrap.indent(textwrap.fill(f"in this order: {answer['advice_rule']}", WIDTH - 2), "  ")
    if any(remedy["needs"] for remedy in answer["advice"]):
        yield "  --engine-version settles which flags the server has"


def metric_section(answer: Answer) -> Iterator[str]:
    """The numbers behind the verdict; what is not reported is left out."""
    yield "what the metrics say:"
    rows = [(figure.name, figure.text) for figure in metric_lines(answer) if figure.text is not None]
    yield textwrap.indent(name_value_lines(*rows), "  ") if rows else "  nothing of what is read"


def matter(answer: Mapping[str, Any]) -> str | None:
    """Whether preemptions matter to those who wait, with the shares that say so; None where there were none."""
    shares = answer.get("felt")
    if shares is None or shares["matter"] is None:
        return None
    of = ", ".join(
        say(text, share=format_percent(shares[name])) for name, text in FELT.items() if shares[name] is not None
    )
    text = say(MATTER[shares["matter"]], shares=of)
    if shares["matter"] == HARDLY and answer["state"]["waiting"]:
        return say("{text}; what is felt is the queue: send fewer at a time, or add replicas", text=text)
    return text


def engines(answer: Answer) -> str:
    """A table of the engines where there are several."""
    rows = engine_rows(answer)
    if not rows:
        return ""
    more = f"\nand {len(answer['engines']) - MOST_ENGINES} more" if len(answer["engines"]) > MOST_ENGINES else ""
    return table([ENGINE_COLUMNS, *rows]) + more


def engine_rows(answer: Answer) -> list[list[str]]:
    """The engines in ENGINE_COLUMNS, those with something wrong first; none where there is only one."""
    rows = answer["engines"]
    if len(rows) < 2:
        return []
    worst = sorted(rows, key=lambda row: (row["verdict"] in ("healthy", "too little data"), row["name"]))
    cells = []
    for row in worst[:MOST_ENGINES]:
        numbers = [row["finished"], row["running"], row["waiting"]]
        per_100 = row["preemptions_per_100"]
        cells.append([
            row["name"],
            NONE if per_100 is None else significant(per_100, 2),
            *(NONE if number is None else format_count(number) for number in numbers),
            NONE if row["usage"] is None else format_percent(row["usage"]),
            say(row["verdict"]),
        ])  # fmt: skip
    return cells


def fold(lines: list[str], start: str = "") -> Iterator[str]:
    """Sentences, each folded to the width of the page."""
    for line in lines:
        yield textwrap.fill(start + line, WIDTH, subsequent_indent="  ")


def rules(answer: Answer) -> str:
    """The rule file itself, or where it was written."""
    return f"the rules are in {answer['output']}" if "output" in answer else answer["rules"].rstrip()


def dashboard(answer: Answer) -> str:
    """The dashboard itself, or where it was written."""
    return f"the dashboard is in {answer['output']}" if "output" in answer else json.dumps(answer, indent=2)
