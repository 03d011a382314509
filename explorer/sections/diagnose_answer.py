"""What the Diagnose page answers: what, why and which flag first; then the evidence, ways on, and rules to watch it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from explorer import prose, show
from explorer.sections import diagnose_inputs, diagnose_next, start_log
from explorer.sections.diagnose_inputs import one_line, page_text
from kvmodel import catalog
from kvmodel.charts import bands, theme
from kvmodel.charts import request_strip as strip
from kvmodel.metrics import metric_names, samples
from kvmodel.recovery import felt
from kvmodel.texts import diagnosis, diagnosis_lines, metric_lines
from kvmodel.texts.diagnosis_lines import Line
from kvmodel.words import say

Answer = Mapping[str, Any]
COLOURS = {
    "healthy": "green", "queueing": "orange", "preemption pressure": "red", "livelock": "red", "stuck": "red",
    "refused to start": "red", "stopped": "red", "head of the line": "red",
    "preemption by priority or reset": "orange", "too little data": "blue", "a start-up log": "blue",
}  # fmt: skip
SCALE_PX = 440


def request_strip(answer: Answer) -> None:
    """Where the mean request's time goes, from its arrival to its last token; without a first token's time nothing."""
    parts_s = answer.get("request_s")
    if parts_s is None:
        return
    figure = strip.request_strip(parts_s, palette=theme.STREAMLIT)
    show.chart(figure, alt=strip.request_strip_alt(parts_s), key="strip")


def verdict(answer: Answer) -> None:
    """The first screen: what, why, and what to change first."""
    badge = f":{colour_of(answer)}-badge[{prose.label('diagnose', 'verdict.' + verdict_with_cause(answer))}]"
    st.markdown(f"## {badge}\n:small[:gray[{page_text(server(answer))}]]")
    st.markdown(f"**{capital(page_text(answer['reason']))}.**")
    with st.container(border=True):
        first(answer)
    if (words := diagnosis.matter(answer)) is not None:
        st.markdown(f"{capital(page_text(words))}.")
    cost(answer)
    if name := st.session_state.get(diagnose_inputs.SAMPLE_NAME):
        st.caption(prose.text("diagnose", "simulated", sample_texts(name)))


def scale(answer: Answer) -> None:
    """Preemptions per 100 on the article's bands, and what speaks against reading them so."""
    per_100 = answer["lead"]["preemptions_per_100"]
    if per_100 is not None:
        figure = bands.preemption_scale(per_100, palette=theme.STREAMLIT)
        alt, points = bands.preemption_scale_alt(per_100), bands.preemption_scale_points(per_100)
        with st.container(width=SCALE_PX):
            show.chart(figure, alt=alt, key="bands", points=points)
            st.caption(prose.text("diagnose", "bands"))
    if answer["against"]:
        st.markdown(prose.text("diagnose", "against"))
        show.bullets(map(page_text, answer["against"]))


def colour_of(answer: Answer) -> str:
    """The verdict's colour: no red for preemptions that hardly matter."""
    shares = answer.get("felt")
    if shares is not None and answer["verdict"] == "preemption pressure" and shares["matter"] == felt.HARDLY:
        return "orange"
    return COLOURS.get(answer["verdict"], "gray")


def verdict_with_cause(answer: Answer) -> str:
    """The verdict, a queue's with what it waits for."""
    cause = answer.get("waits_for")
    return f"{answer['verdict']} for {cause}" if cause else str(answer["verdict"])


def sample_texts(name: str) -> dict[str, str]:
    """What was simulated for a sample, as text."""
    sample = samples.SAMPLES[name]
    return {"gpu": prose.escaped(catalog.gpu(sample.gpu).label), "load": prose.escaped(sample.load)}


def server(answer: Answer) -> str:
    """Engine, version and time, as far as they are known."""
    if answer["engine"] is None:
        return ""
    versions = f"({answer['versions']})" if answer["versions"] else ""
    name = " ".join(filter(None, (metric_names.label(answer["engine"]), answer["era"], versions)))
    return ", ".join(filter(None, (name, answer.get("over"))))


def first(answer: Answer) -> None:
    """The first remedy, its flag to copy, and what it buys."""
    if not answer["advice"]:
        st.markdown(prose.text("diagnose", "no_advice"))
        return
    remedy = answer["advice"][0]
    st.markdown(prose.text("diagnose", "first", {"action": capital(one_line(remedy["action"]))}))
    if remedy["flag"]:
        st.code(remedy["flag"], language=None, wrap_lines=True)
    if remedy["buys"]:
        st.markdown(prose.text("diagnose", "buys", {"buys": one_line(remedy["buys"])}) + stands(remedy) + risk(remedy))


def capital(sentence: str) -> str:
    """A sentence with a capital at its start."""
    return sentence[:1].upper() + sentence[1:]


def stands(remedy: Answer) -> str:
    """Which release a flag needs, where not all versions that the server may be have it."""
    if remedy.get("needs"):
        return f" {prose.text('diagnose', 'needs', {'version': remedy['needs']})}"
    return f" {prose.text('diagnose', 'as_of', {'version': remedy['as_of']})}" if remedy.get("as_of") else ""


def risk(remedy: Answer) -> str:
    """What a remedy may cost."""
    return f" {prose.text('diagnose', 'risk', {'risk': one_line(remedy['risk'])})}" if remedy.get("risk") else ""


def cost(answer: Answer) -> None:
    """What the preemptions cost, where it can be priced."""
    lost = answer.get("recompute")
    if not lost or lost["gpu_s"] is None:
        return
    numbers = {"gpu_time": page_text(metric_lines.gpu_time(lost) or "")}
    money = metric_lines.money(lost)
    line = prose.text("diagnose", "cost", numbers)
    st.markdown(line if money is None else f"{line} {prose.text('diagnose', 'money', {'money': page_text(money)})}")


def others(answer: Answer) -> None:
    """The other remedies, in the order of the advice."""
    if len(answer["advice"]) < 2:
        return
    st.header(prose.label("diagnose", "others"))
    lines = []
    for remedy in answer["advice"][1:]:
        flag = f" `{remedy['flag']}`" if remedy["flag"] else ""
        action, buys = capital(one_line(remedy["action"])), capital(one_line(remedy["buys"]))
        lines.append(
            f"{remedy['rank']}. **{action}**{flag}\\\n{buys}{'.' if buys else ''}{stands(remedy)}{risk(remedy)}"
        )
    st.markdown("\n".join(lines))
    st.caption(prose.text("diagnose", "rule", {"rule": page_text(answer["advice_rule"])}))


def metrics_table(answer: Answer) -> None:
    """Every number with its metric and its time, what speaks against the bands, and what to bear in mind."""
    st.header(prose.label("diagnose", "evidence"))
    columns = ("what", "value", "metric", "over")
    header = [prose.label("diagnose", f"column.{name}") for name in columns]
    show.table("evidence", header, [cells(line, answer) for line in diagnosis_lines.lines(answer)], foreign=True)
    show_engines(answer)
    scale(answer)
    notes(answer)


def cells(line: Line, answer: Answer) -> list[str]:
    """A line of the evidence as cells."""
    reason = prose.label("diagnose", "not_known" if line.is_reported else "not_reported")
    value = f":gray[{reason}]" if line.value is None else page_text(line.value)
    over = (
        page_text(answer["over"])
        if line.over == "window"
        else prose.label("diagnose", f"over.{over_name(line, answer)}")
    )
    return [page_text(line.what), value, ", ".join(f"`{name}`" for name in line.metrics), over]


def over_name(line: Line, answer: Answer) -> str:
    """A gauge is of one moment, or the mean of a window."""
    return "now" if line.over == "state" and answer["lifetime"] else line.over


def show_engines(answer: Answer) -> None:
    """A table of the engines where there are several."""
    rows = diagnosis.engine_rows(dict(answer))
    if rows:
        header = list(map(say, diagnosis.ENGINE_COLUMNS))
        show.table("engines", header, [[page_text(cell) for cell in row] for row in rows], foreign=True)
        st.caption(prose.text("diagnose", "engines", {"shown": str(len(rows)), "total": str(len(answer["engines"]))}))


def notes(answer: Answer) -> None:
    """Broken lines and whatever else limits the answer."""
    if answer["notes"]:
        st.markdown(prose.text("diagnose", "notes"))
        show.bullets(map(page_text, answer["notes"]))


def start(answer: Answer) -> None:
    """What the lines of its start say, where a log was given that has some."""
    if log := answer.get("log"):
        st.header(prose.label("diagnose", "start"))
        if "state" in answer:  # else the refusal is the answer itself
            start_log.refusal(log)
        start_log.explain(log)


def show_all(answer: Answer) -> None:
    """The whole answer; of what is no engine only what it is and what to scrape."""
    request_strip(answer)
    verdict(answer)
    if "state" not in answer:
        start(answer)
        notes(answer)
        return
    others(answer)
    if diagnose_inputs.can_ask_again():
        diagnose_inputs.ask_server_facts()
    metrics_table(answer)
    start(answer)
    diagnose_next.ways_on(answer)
    diagnose_next.watch(answer)
