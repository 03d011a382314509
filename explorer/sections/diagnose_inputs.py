"""What the Diagnose page asks for: one or two scrapes, or a Prometheus of the configuration, and the answer to it.

What a visitor pastes or uploads stays in the session's own widgets: it goes into no cache, link, log or file.
"""

from __future__ import annotations

import re
from typing import Any

import streamlit as st

from explorer import aside, choice, language, model_list, prose, to_top
from kvmodel.catalog import gpu_ids
from kvmodel.diagnosis import from_prometheus, from_scrapes
from kvmodel.diagnosis.served import ServerFacts
from kvmodel.errors import CaseError
from kvmodel.inputs import questions
from kvmodel.inputs.case import limits
from kvmodel.metrics import exposition, prometheus_http, samples
from kvmodel.texts import diagnosis
from kvmodel.units import MIB, format_bytes

SOURCES = ("paste", "upload")
PROMETHEUS = "prometheus"
WINDOWS = ("15m", "1h", "6h", "1d", "7d")
SAMPLE = "sample"  # in the URL: a sample to open the page with
# Session state: the answer and its number, that one is asked for, whether the inputs are open, the sample in them, the
# language of the answer.
ANSWER, NUMBER, REQUEST = "diagnosis", "diagnosis_number", "diagnosis_asked"
INPUTS, SAMPLE_NAME, ANSWER_LANGUAGE = "diagnosis_inputs", "diagnosis_sample", "diagnosis_language"
FACT_PX = 150  # of an input: six in a row where there is room, two on a phone
NEW, AGAIN = "new", "again"  # asked for by the form or a sample, or again with more that is known
SERVER_FIELDS = ("model", "gpu", "tp", "max_num_seqs", "gpu_hour", "engine_version")
SCRAPE_FIELDS = ("scrape", "scrape2", "seconds")
CLI_WORD = re.compile(r"--(seconds|gpu-hour|gpu|model|max-num-seqs|engine-version|match|tp)(?![\w-])|SCRAPE2?\b")


def answer() -> dict[str, Any] | None:
    """The answer to what was asked for, None while there is none; an error is shown, and the inputs stay open."""
    from_address()
    again = in_another_language()
    request = st.session_state.pop(REQUEST, again)
    if request is not None:
        st.session_state.pop(ANSWER, None)
        with st.spinner(prose.label("diagnose", "reading")):
            try:
                st.session_state[ANSWER] = read()
            except CaseError as error:
                st.session_state[INPUTS] = True
                draw()
                st.error(page_text(str(error)))
                return None
        st.session_state[INPUTS] = False
        st.session_state[NUMBER] = st.session_state.get(NUMBER, 0) + (request == NEW)
    last_answer: dict[str, Any] | None = st.session_state.get(ANSWER)
    st.session_state.setdefault(INPUTS, last_answer is None)
    draw()
    to_top.begin(st.session_state.get(NUMBER, 0))
    return last_answer


def in_another_language() -> str | None:
    """An answer is in the language it was given in: where a reader has changed that, ask again if that is possible."""
    state = st.session_state
    before, state[ANSWER_LANGUAGE] = state.get(ANSWER_LANGUAGE), language.current()
    is_another = before is not None and before != state[ANSWER_LANGUAGE]
    return AGAIN if is_another and state.get(ANSWER) and can_ask_again() else None


def from_address() -> None:
    """Take a sample that the link names, once in a session."""
    name = st.query_params.get(SAMPLE)
    if name in samples.SAMPLES and SAMPLE_NAME not in st.session_state:
        use_sample(name)


def use_sample(name: str) -> None:
    """Put a sample into the inputs, with what is known of its server, and ask for the answer."""
    forget()
    state = st.session_state
    state["source"], state["seconds"] = SOURCES[0], float(samples.SECONDS)
    state["scrape"], state["scrape2"] = samples.read(name)
    state["server_gpu"], state["server_max_num_seqs"] = samples.SAMPLES[name].gpu, samples.SAMPLES[name].max_num_seqs
    state[SAMPLE_NAME] = st.query_params[SAMPLE] = name
    ask(NEW)


def forget() -> None:
    """Empty the inputs and drop the answer."""
    for field in SCRAPE_FIELDS:
        st.session_state[field] = None if field == "seconds" else ""
    for field in SERVER_FIELDS:
        st.session_state[f"server_{field}"] = "" if field == "engine_version" else None
    st.session_state[ANSWER], st.session_state[INPUTS], st.session_state[SAMPLE_NAME] = None, True, ""
    st.query_params.pop(SAMPLE, None)


def ask(how: str) -> None:
    st.session_state[REQUEST] = how


def ask_anew() -> None:
    """The form was sent: where it no longer holds a sample, that sample's GPU is not the visitor's."""
    sample = st.session_state.get(SAMPLE_NAME)
    if sample and (st.session_state.get("scrape"), st.session_state.get("scrape2")) != samples.read(sample):
        st.session_state["server_gpu"], st.session_state["server_max_num_seqs"] = None, None
        st.session_state[SAMPLE_NAME] = ""
        st.query_params.pop(SAMPLE, None)
    ask(NEW)


def read() -> dict[str, Any]:
    """The answer for what the inputs hold. Raises CaseError, one sentence."""
    state = st.session_state
    if state["source"] == PROMETHEUS:
        url = prometheus_http.configured_servers().get(state["server"])
        if url is None:
            raise CaseError(prose.text("diagnose", "no_server"))
        return from_prometheus.diagnose(url, state["window"], match=state["match"] or None, facts=server_facts())
    first, second = (scrape_text(state["source"], field) for field in SCRAPE_FIELDS[:2])
    if not first:
        raise CaseError(prose.text("diagnose", "nothing"))
    texts = (first, second) if second else (first,)
    return aside.result_of(
        from_scrapes.diagnose, *texts, seconds=state["seconds"] if second else None, facts=server_facts()
    )


def can_ask_again() -> bool:
    """Whether the inputs still hold what was asked for: they are empty where a visitor comes back to the page."""
    source = st.session_state.get("source")
    return "server" in st.session_state if source == PROMETHEUS else bool(scrape_text(str(source), SCRAPE_FIELDS[0]))


def scrape_text(source: str, field: str) -> bytes | str:
    """A scrape as it was pasted or uploaded, empty where it was not."""
    if source == SOURCES[0]:
        return str(st.session_state.get(field) or "").strip()
    file = st.session_state.get(f"{field}_file")
    return file.getvalue() if file is not None else b""


def server_facts() -> ServerFacts:
    """What the visitor adds to the metrics."""
    facts = {field: st.session_state.get(f"server_{field}") for field in SERVER_FIELDS}
    gpu_hour, version = facts.pop("gpu_hour"), facts.pop("engine_version")
    return ServerFacts(facts, version or None, gpu_hour)


def page_text(sentence: str) -> str:
    """A sentence of the model on this page, what the command line calls its inputs by their labels here."""
    return one_line(CLI_WORD.sub(lambda word: f"“{word_label(word)}”", sentence))


def one_line(text: str) -> str:
    """Text in one line, with nothing in it that Markdown would act on: labels come from elsewhere."""
    return prose.escaped(" ".join(diagnosis.printable(text).split()))


def word_label(word: re.Match[str]) -> str:
    field = word[1].replace("-", "_") if word[1] else word[0].lower()
    return prose.label("diagnose", f"field.{field}")


def draw() -> None:
    """The inputs, folded away while an answer is shown."""
    with st.expander(prose.label("diagnose", "inputs"), expanded=True, key=INPUTS, on_change="rerun"):
        st.markdown(prose.text("diagnose", "lead"))
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown(prose.text("diagnose", "samples"), width="content")
            for name in samples.SAMPLES:
                label = prose.label("diagnose", f"sample.{name}")
                st.button(label, on_click=use_sample, args=(name,), key=f"sample-{name}")
        servers = configured()
        source = st.segmented_control(
            prose.label("diagnose", "source"),
            (*SOURCES, PROMETHEUS) if servers else SOURCES,
            format_func=lambda name: choice.quiet(prose.label("diagnose", f"source.{name}")),
            default=None if "source" in st.session_state else SOURCES[0],
            required=True,
            key="source",
            label_visibility="collapsed",
        )
        with st.form("diagnose", border=False):
            if source == PROMETHEUS:
                ask_prometheus(servers)
            else:
                ask_scrapes(str(source))
            with st.container(horizontal=True, vertical_alignment="center"):
                st.form_submit_button(prose.label("diagnose", "ask"), on_click=ask_anew, type="primary")
                st.caption(prose.text("diagnose", "privacy"))
        if st.session_state.get(ANSWER) or st.session_state.get(SCRAPE_FIELDS[0]):
            st.button(prose.label("diagnose", "forget"), on_click=forget, type="tertiary", key="forget")


def configured() -> list[str]:
    """Names of the Prometheus servers of the configuration; a visitor gives no address."""
    try:
        return list(prometheus_http.configured_servers())
    except CaseError as error:
        st.warning(prose.escaped(str(error)))
        return []


def ask_scrapes(source: str) -> None:
    """One scrape, a later one, and the time between."""
    for field, place in zip(SCRAPE_FIELDS, st.columns([2, 2, 1]), strict=True):
        label, hint = prose.label("diagnose", f"field.{field}"), prose.detail("diagnose", f"field.{field}")
        with place:
            if field == "seconds":
                least, greatest = questions.INPUTS[field].limits.ends
                st.number_input(label, least, greatest, value=None, step=1.0, format="%g", help=hint, key=field)
            elif source == SOURCES[0]:
                st.text_area(label, height=120, placeholder=hint, key=field)
            else:
                most = int(exposition.LONGEST_TEXT / MIB)
                st.file_uploader(label, help=hint, max_upload_size=most, key=f"{field}_file")
    if source != SOURCES[0]:
        st.caption(prose.text("diagnose", "upload_limit", {"most": format_bytes(exposition.LONGEST_TEXT)}))


def ask_prometheus(servers: list[str]) -> None:
    """Which server of the configuration, how far back, and which of its series."""
    which, window, match = st.columns(3)
    which.selectbox(prose.label("diagnose", "field.server"), servers, key="server")
    window.selectbox(prose.label("diagnose", "field.window"), WINDOWS, index=1, key="window")
    match.text_input(
        prose.label("diagnose", "field.match"), placeholder=prose.detail("diagnose", "field.match"), key="match"
    )


def ask_server_facts() -> None:
    """What no metric tells; a change is answered at once."""
    st.markdown(prose.text("diagnose", "known"))
    cheapest, dearest = questions.INPUTS["gpu_hour"].limits.ends
    least, most = limits("tp")
    fewest, most_seats = map(int, questions.INPUTS["max_num_seqs"].limits.ends)
    none = prose.label("diagnose", "not_given")
    options: dict[str, Any] = {"on_change": ask, "args": (AGAIN,), "persist_state": "session", "width": FACT_PX}
    with st.container(horizontal=True):
        st.selectbox(
            label_of("model"), model_list.models(), format_func=model_list.name, index=None, placeholder=none,
            key="server_model", **options,
        )  # fmt: skip
        st.selectbox(label_of("gpu"), gpu_ids(), index=None, placeholder=none, key="server_gpu", **options)
        st.number_input(label_of("tp"), int(least), int(most), value=None, placeholder="1", key="server_tp", **options)
        st.number_input(
            label_of("max_num_seqs"), fewest, most_seats, value=None, placeholder=none, key="server_max_num_seqs",
            **options,
        )  # fmt: skip
        st.number_input(
            label_of("gpu_hour"), cheapest, dearest, value=None, format="%g", placeholder=none, key="server_gpu_hour",
            **options,
        )  # fmt: skip
        st.text_input(label_of("engine_version"), placeholder=none, key="server_engine_version", **options)


def label_of(field: str) -> str:
    return prose.label("diagnose", f"field.{field}")
