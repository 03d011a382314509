"""Lines of a start-up log on the Capacity page: each figure explained and held against the model.

The text stays in the session's own widget: it goes into no cache, link or file.
"""

from __future__ import annotations

from typing import Any

import streamlit as st

from explorer import prose, show
from kvmodel import catalog
from kvmodel.catalog import custom_model
from kvmodel.errors import CaseError
from kvmodel.inputs.case import Case
from kvmodel.startup_log import log_answer, log_reader
from kvmodel.texts import kv_pool
from kvmodel.units import GIB, format_bytes, format_count

TEXT = "log_text"
COLUMNS = ("figure", "printed", "means", "expected", "agrees")
MARKS = {True: "agrees", False: "wrong", None: "unchecked"}
REFUSED = "refused"  # a finding that stands above the table
Answer = dict[str, Any]


def section(case: Case) -> None:
    """The inputs and, where there is a log, what it says."""
    st.header(prose.label("capacity", "log"))
    st.markdown(prose.text("capacity", "log_lead"))
    with st.form("start_log", border=False):
        hint = prose.detail("capacity", "log_text")
        st.text_area(prose.label("capacity", "log_text"), height=140, placeholder=hint, key=TEXT)
        with st.container(horizontal=True):
            st.form_submit_button(prose.label("capacity", "log_explain"), type="primary")
            st.form_submit_button(prose.label("capacity", "log_sample"), on_click=put, args=("log_sample_text",))
            st.form_submit_button(prose.label("capacity", "log_forget"), on_click=put, type="tertiary")
    text = str(st.session_state[TEXT] or "").strip()
    if text:
        answer = answer_of(text, case)
        if answer is not None:
            refusal(answer)
            explain(answer)
            loaded_weights(answer)
            values_table(answer)


def put(sample: str | None = None) -> None:
    """A callback: the sample in the text's place, or nothing."""
    st.session_state[TEXT] = prose.text("capacity", sample) if sample else ""


def answer_of(text: str, case: Case) -> Answer | None:
    """The answer, or None with a sentence on why there is none."""
    try:
        if len(text) > log_reader.LONGEST_LOG:
            sizes = {"given": format_bytes(len(text)), "most": format_bytes(log_reader.LONGEST_LOG)}
            raise CaseError(prose.text("capacity", "log_too_long", sizes))
        return log_answer.explain_text(text, case, {"model": model_of(text, case)})
    except CaseError as error:
        st.error(prose.escaped(str(error)))
        return None


def model_of(text: str, case: Case) -> str:
    """The model to hold a log against: a reader's own, else the one that the log names, else the chosen one."""
    if custom_model.is_text(case.model):
        return case.model
    return catalog.model_id(log_reader.read_log(text).model or "") or case.model


def explain(answer: Answer) -> None:
    """Engine and model, whether the figures agree, bytes per token, and each check."""
    engine = kv_pool.log_engine(answer) or prose.label("capacity", "log_unknown_engine")
    against = {"engine": prose.escaped(engine), "model": answer["label"] or ""}
    by_name = catalog.model_id(str(answer["figures"].get("model", ""))) == answer["model"]
    held = "none" if answer["model"] is None else "named" if by_name else "chosen"
    st.markdown(prose.text("capacity", f"log_against_{held}", against))
    verdict(answer)
    implied_range, model_bytes = answer["implied_bytes_per_token"], answer["model_bytes_per_token"]
    if implied_range and model_bytes:
        low, high = map(format_count, implied_range)
        st.markdown(prose.text("capacity", "log_rate", {"low": low, "high": high, "own": format_count(model_bytes)}))
    checks(answer)


def refusal(answer: Answer) -> None:
    """Why the server did not start, or stopped, where that is said."""
    if answer["refused"] is not None:
        words = {name: prose.escaped(answer[name]) for name in ("refused", "mend")}
        st.error(prose.text("capacity", "log_stopped" if answer["after_start"] else "log_refused", words))


def verdict(answer: Answer) -> None:
    """Whether the figures can all be true."""
    if not answer["consistent"]:
        st.error(prose.label("capacity", "log_bad"))
    elif any(mark_of(finding) == "unexplained" for finding in answer["findings"]):
        st.info(prose.label("capacity", "log_open"))
    elif answer["refused"] is None:
        st.success(prose.label("capacity", "log_good"))


def mark_of(finding: dict[str, Any]) -> str:
    """The word for a finding: one with an expectation that nothing contradicts or confirms is not explained."""
    return "unexplained" if finding["agrees"] is None and finding["expected"] else MARKS[finding["agrees"]]


def loaded_weights(answer: Answer) -> None:
    """Puts the weights that a log prints into the page's input: bar and levers then stand on them."""
    size_bytes = answer["figures"].get("weight_bytes")
    if size_bytes:
        label = prose.text("capacity", "log_use_weights", {"weights": format_bytes(size_bytes)})
        st.button(label, key="use_weights", on_click=use_weights, args=(round(size_bytes / GIB, 4),))


def use_weights(size_gib: float) -> None:
    """A callback: the figure in the input's place."""
    st.session_state["weight_gib"] = size_gib


def checks(answer: Answer) -> None:
    rows = [
        [
            prose.label("capacity", f"finding.{finding['figure']}"),
            *(prose.escaped(finding[cell]) for cell in ("printed", "means", "expected")),
            prose.label("capacity", f"log_mark.{mark_of(finding)}"),
        ]
        for finding in answer["findings"]
        if finding["figure"] != REFUSED
    ]
    if rows:
        header = [prose.label("capacity", f"log_column.{column}") for column in COLUMNS]
        show.table("log-checks", header, rows, foreign=True)


def values_table(answer: Answer) -> None:
    with st.expander(prose.label("capacity", "log_all")):
        rows = [
            [prose.escaped(name), prose.escaped(value), prose.text("capacity", f"figure.{name}")]
            for name, value in kv_pool.log_values(answer["figures"]).items()
        ]
        header = ("log_column.figure", "log_value", "log_column.means")
        show.table("log-figures", [prose.label("capacity", column) for column in header], rows, foreign=True)
