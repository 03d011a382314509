"""Widgets <-> Case <-> URL: one set of controls, the same on every page.

A widget's key is the Case field's name, and so its name in the URL, which holds what differs from the defaults. The
URL is read when it brings something this session did not write itself: a link, a reload, the browser's Back.
(Streamlit's own binding loses what a link brought when the reader goes to another page.)
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from explorer import model_list, page_keys, prose, share
from explorer.frame import PAGE
from kvmodel import catalog
from kvmodel.claims.scenarios import preset_case
from kvmodel.errors import LONGEST_ECHO, CaseError
from kvmodel.inputs.case import DEFAULTS, Case, case_from, limits, options_of
from kvmodel.recovery.comparison import Comparison, compare_case
from kvmodel.texts.comparison import calibrated_texts

MAIN = ("model", "gpu", "policy", "tokens", "preemptions", "link", "kv_dtype", "block_tokens", "tp", "decode_batch")
MORE = (
    "timing", "objective", "layout", "rate", "survival", "generated_tokens", "tokens_between", "decode_context",
    "remaining_output", "max_num_batched_tokens", "runs_per_block", "copy_method", "host_memory", "pinning", "numa",
    "duplex", "copy_gb_per_s", "per_copy_us", "gemm_efficiency", "request_overhead_ms",
)  # fmt: skip
FIELDS = (*MAIN, *MORE)
STEPS = {"tokens": 512, "decode_batch": 8, "max_num_batched_tokens": 512, "generated_tokens": 256}
FINE_STEPS = {"gemm_efficiency": 0.01}
MORE_COLUMNS = 4
TP_OPTIONS = (1, 2, 4, 8, 16, 32, 64)
COMPARED_MODELS = ("llama-2-7b", "llama-3-8b", "llama-3-70b", "gemma-3-27b", "deepseek-v3", "gpt-oss-20b")
# Session state: what the widgets held, on which page, and what the URL was given.
LAST_INPUTS, LAST_PAGE, LAST_QUERY = "inputs_kept", "inputs_kept_on", "inputs_written"
ONLY = "only"  # in the URL: the inputs whose controls a link shows, all others hidden
TOUCHED = "inputs_touched"  # the reader has just changed a widget: the URL is late then, not another link


def comparison(answer: DeltaGenerator, controls: DeltaGenerator, rest: DeltaGenerator) -> Comparison:
    """Draw the controls, price the Case they make, and say so and stop where it cannot be priced."""
    line_place = controls.container()  # not above the answer, which must not jump under the hand on a slider
    values = inputs(answer, controls, rest)
    with answer:
        try:
            result = comparison_of(case_from(values))
        except CaseError as error:
            st.warning(prose.escaped(str(error)))
            st.stop()
        for note in result.notes:
            st.info(prose.escaped(note))
    with line_place:
        calibration_line(result.case)
    with controls:
        share.copy_address(result.case)
    return result


@functools.lru_cache(maxsize=256)
def comparison_of(case: Case) -> Comparison:
    """A Case with its numbers, kept for the next run: most change nothing in it, and many visitors begin with one."""
    return compare_case(case)


def inputs(
    answer: DeltaGenerator, controls: DeltaGenerator, rest: DeltaGenerator, fields: Sequence[str] | None = None
) -> dict[str, Any]:
    """Draw the controls, of all inputs or of some; gives the values of all, which the URL holds from then on."""
    visible, unknown = only()
    news = page_keys.notices(st.query_params.to_dict()) if in_url() != st.session_state.get(LAST_QUERY) else []
    with answer:
        for sentence in news:
            st.info(prose.escaped(sentence))
        for sentence in (*unknown, *restore(in_url())):
            st.warning(prose.escaped(sentence))
    values = draw(controls, rest, visible or fields)
    if visible:
        controls.button(prose.label("controls", "all"), on_click=show_all, key="all_inputs", type="tertiary")
    st.session_state[LAST_INPUTS], st.session_state[LAST_PAGE] = values, st.session_state[PAGE]
    write_url(values)
    return values


def only() -> tuple[tuple[str, ...], list[str]]:
    """The inputs that `?only=tokens,link` leaves shown, none where it does not count; and a sentence on wrong names.

    It goes with the reader to other pages, as the inputs do, until all are asked for.
    """
    names_text = st.query_params.get(ONLY)
    if names_text is None and st.session_state.get(LAST_PAGE) != st.session_state[PAGE]:
        names_text = st.session_state.get(ONLY)
    st.session_state[ONLY] = names_text
    if names_text is None:
        return (), []
    st.query_params[ONLY] = names_text
    names = [name.strip() for name in names_text.split(",") if name.strip()]
    if not names or set(names) - set(FIELDS):
        return (), [prose.text("controls", "only_wrong", {"given": names_text[:LONGEST_ECHO]})]
    return tuple(field for field in FIELDS if field in names), []


def show_all() -> None:
    """A button's callback: no control stays hidden."""
    st.session_state[ONLY] = None
    st.query_params.pop(ONLY, None)


def calibration_line(case: Case) -> None:
    """One line while figures of the reader's stand in place of the model's, and the way back."""
    values = calibrated_texts(case)
    if not values:
        return
    texts = [prose.text("controls", f"own.{field}", {"value": value}) for field, value in values.items()]
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(prose.text("controls", "calibrated", {"figures": ", ".join(texts)}), width="content")
        st.button(
            prose.label("controls", "uncalibrate"), on_click=use, args=(dict.fromkeys(values),), key="uncalibrate"
        )  # fmt: skip


def use(values: Mapping[str, Any]) -> None:
    """Put some inputs into the controls: a button's callback."""
    st.session_state[LAST_INPUTS] = st.session_state.get(LAST_INPUTS, DEFAULTS) | values
    for field, value in values.items():
        st.session_state[field] = value
    st.session_state[TOUCHED] = True


def in_url() -> dict[str, str]:
    """The inputs that the URL names; other parameters are none of ours."""
    return {field: value for field, value in st.query_params.items() if field in DEFAULTS}


def restore(address: Mapping[str, str]) -> list[str]:
    """Fill the widgets before they are drawn; gives a sentence for each input of a link that cannot be taken."""
    same_page = st.session_state.get(LAST_PAGE) == st.session_state[PAGE]
    touched = st.session_state.pop(TOUCHED, False)
    if dict(address) != st.session_state.get(LAST_QUERY) and (address or same_page) and not touched:
        values, sentences = valid_values(address)
        for field in FIELDS:
            st.session_state[field] = values.get(field, DEFAULTS[field])
        return sentences
    if not same_page:  # new widgets would begin at their least value
        last_inputs = st.session_state.get(LAST_INPUTS, DEFAULTS)
        for field in FIELDS:
            st.session_state[field] = last_inputs[field]
    return []


def touch(field: str) -> None:
    """A widget's callback: keeps its value even where the page is left before its script has run through."""
    st.session_state[LAST_INPUTS] = st.session_state.get(LAST_INPUTS, DEFAULTS) | {field: st.session_state[field]}
    st.session_state[TOUCHED] = True


def valid_values(address: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """What of a link makes a Case, as values, and a sentence for each input that does not."""
    values: dict[str, Any] = {}
    sentences = []
    for field in (name for name in FIELDS if name in address):  # the model comes first: tp is judged by it
        try:
            values[field] = getattr(case_from(values | {field: address[field]}), field)
        except CaseError as error:
            sentences.append(str(error))
    return values, sentences


def write_url(values: Mapping[str, Any]) -> None:
    """Keep the URL a link to what is shown."""
    query = {field: str(value) for field, value in values.items() if value != DEFAULTS[field]}
    for field in in_url().keys() - query.keys():
        del st.query_params[field]
    st.query_params.update(query)
    st.session_state[LAST_QUERY] = query


def draw(controls: DeltaGenerator, rest: DeltaGenerator, fields: Sequence[str] | None) -> dict[str, Any]:
    """The widgets of some inputs, or of all; gives what they and the hidden ones hold, by Case field.

    Those behind the toggle are drawn when it is on: they are a third of a page's time. Hidden ones keep their values.
    """
    with controls:
        values = {field: widget(field) for field in fields or MAIN}
        is_open = not fields and st.toggle(prose.label("controls", "more"), key="more_inputs", persist_state="session")
    if is_open:
        columns = rest.columns(MORE_COLUMNS)
        for index, field in enumerate(MORE):
            with columns[index % MORE_COLUMNS]:
                values[field] = widget(field)
        return values
    last_inputs = st.session_state.get(LAST_INPUTS, DEFAULTS)
    for field in (name for name in FIELDS if name not in values):
        # Out of the session's state: Streamlit copies all of it for every widget.
        values[field] = st.session_state.pop(field, last_inputs[field])
    return values


def widget(field: str) -> Any:
    """The widget of one Case field, filled from the session state, or with what it held while it was hidden."""
    if field not in st.session_state:
        st.session_state[field] = st.session_state.get(LAST_INPUTS, DEFAULTS)[field]
    common: dict[str, Any] = {
        "label": prose.label("controls", field),
        "help": prose.detail("controls", field),
        "key": field,
        "on_change": touch,
        "args": (field,),
    }
    options = choices(field)
    if field == "model":
        return st.selectbox(options=options, format_func=model_list.name, **common)
    if options:
        return st.selectbox(options=options, **common)
    low, high = limits(field)
    if field == "survival":
        return st.number_input(min_value=float(low), max_value=float(high), step=0.05, format="%g", **common)
    if isinstance(DEFAULTS[field], int):
        return st.number_input(min_value=int(low), max_value=int(high), step=STEPS.get(field, 1), **common)
    return st.number_input(
        min_value=float(low), max_value=float(high), value=None, format="%g", step=FINE_STEPS.get(field, 1.0), **common
    )


def choices(field: str) -> list[Any]:
    """What a field's list offers; empty for fields that take a number."""
    catalogs = {
        "model": model_list.models,
        "gpu": catalog.gpu_ids,
        "link": lambda: ("auto", *catalog.link_ids()),
        "tp": lambda: sorted({*TP_OPTIONS, *(tp for tp in [st.session_state["tp"]] if isinstance(tp, int))}),
    }
    return list(catalogs[field]()) if field in catalogs else list(options_of(field))


def set_all(case: Case) -> None:
    """Put a Case into the controls: a button's callback, so it runs before the widgets are drawn."""
    for field in FIELDS:
        st.session_state[field] = getattr(case, field)
    st.session_state[TOUCHED] = True


def preset(label: str, name: str) -> None:
    """A button that puts a named setting into the controls; what it does not name stays as it is."""
    st.button(label, on_click=set_preset, args=(name,), key=f"preset-{name}")


def set_preset(name: str) -> None:
    last_inputs = st.session_state.get(LAST_INPUTS, DEFAULTS)
    base = {field: st.session_state.get(field, last_inputs[field]) for field in FIELDS}
    set_all(preset_case(name, case_from(valid_values({k: str(v) for k, v in base.items() if v is not None})[0])))


def keep_inputs() -> None:
    """This page has no inputs: those of the reader wait for the next page that has."""
    st.session_state[LAST_PAGE] = st.session_state[PAGE]


def compared_models() -> list[str]:
    """Models drawn beside the chosen one on the KV page."""
    return st.multiselect(
        prose.label("kv_size", "compare"),
        catalog.model_ids(),
        default=COMPARED_MODELS,
        key="compare",
        bind="query-params",
    )
