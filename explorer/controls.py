"""Widgets <-> Case <-> URL: one set of controls, the same on every page.

A widget's key is the Case field's name, and so its name in the URL; options are ids and numbers, the same in any
language, because the URL carries them as they are shown.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from explorer import prose
from kvmodel import catalog
from kvmodel.case import Case, CaseError, case_from, limits, options_of
from kvmodel.comparison import Comparison, compare_case

MAIN = ("model", "gpu", "tokens", "preemptions", "link", "kv_dtype", "block_tokens", "tp", "decode_batch")
MORE = (
    "timing", "policy", "objective", "layout", "rate", "survival", "generated_tokens", "tokens_between",
    "decode_context", "remaining_output", "max_num_batched_tokens", "runs_per_block", "copy_gb_per_s", "per_copy_us",
)  # fmt: skip
STEPS = {"tokens": 512, "decode_batch": 8, "max_num_batched_tokens": 512, "generated_tokens": 256}
TP_OPTIONS = (1, 2, 4, 8, 16)
COMPARED = ("llama-2-7b", "llama-3-8b", "llama-3-70b", "gemma-3-27b", "deepseek-v3", "gpt-oss-20b")


def comparison(answer: DeltaGenerator, controls: DeltaGenerator) -> Comparison:
    """Draw the controls, price the Case they make, and say so and stop where it cannot be priced."""
    link = dict(st.query_params)
    with answer:
        asked = acceptable(link)
    with controls:
        chosen = draw(unbound=link.keys() - asked.keys())
    with answer:
        not_taken(asked, chosen)
        try:
            result = compare_case(case_from(chosen))
        except CaseError as error:
            st.warning(str(error))
            st.stop()
        for note in result.notes:
            st.info(note)
    return result


def acceptable(asked: Mapping[str, str]) -> dict[str, str]:
    """The inputs of a link that a Case can take; of each other one a sentence, and out of the URL it goes."""
    kept = {}
    for field, value in asked.items():
        if field in Case.model_fields:
            try:
                case_from({field: value})
                kept[field] = value
            except CaseError as error:
                st.warning(str(error))
                del st.query_params[field]
    return kept


def not_taken(asked: Mapping[str, str], chosen: Mapping[str, Any]) -> None:
    """Say which good inputs of a link have no place in their control."""
    for field, value in asked.items():
        held = chosen.get(field)
        if str(held) != value and not _same_number(held, value):
            taken = {"field": field, "value": value[:40], "now": str(held)}
            st.warning(prose.text("controls", "not_taken", taken))


def draw(unbound: Collection[str] = ()) -> dict[str, Any]:
    """The widgets; gives what they hold, by Case field.

    `unbound` ones do not read the URL in this run: a bound widget drops a bad value without a word, and falls over
    an infinite one (Streamlit 1.67).
    """
    chosen = {field: widget(field, bound=field not in unbound) for field in MAIN}
    with st.expander(prose.label("controls", "more")):
        chosen |= {field: widget(field, bound=field not in unbound) for field in MORE}
    return {field: value for field, value in chosen.items() if value is not None}


def widget(field: str, *, bound: bool) -> Any:
    """The widget of one Case field; `bound` to the URL under the field's name."""
    common: dict[str, Any] = {
        "label": prose.label("controls", field),
        "help": prose.detail("controls", field),
        "key": field,
        "bind": "query-params" if bound else None,
    }
    default = Case.model_fields[field].default
    options = choices(field)
    if options:
        return st.selectbox(options=options, index=options.index(default), **common)
    low, high = limits(field)
    if field == "survival":
        return st.slider(min_value=float(low), max_value=float(high), value=default, step=0.01, **common)
    if isinstance(default, int):
        return st.number_input(
            min_value=int(low), max_value=int(high), value=default, step=STEPS.get(field, 1), **common
        )
    return st.number_input(min_value=float(low), max_value=float(high), value=default, step=1.0, **common)


def choices(field: str) -> list[Any]:
    """What a field's list offers; empty for fields that take a number."""
    catalogs = {
        "model": catalog.model_ids,
        "gpu": catalog.gpu_ids,
        "link": lambda: ("auto", *catalog.link_ids()),
        "tp": lambda: TP_OPTIONS,
    }
    return list(catalogs[field]()) if field in catalogs else list(options_of(field))


def _same_number(held: Any, written: str) -> bool:
    try:
        return float(held) == float(written)
    except (TypeError, ValueError):
        return False


def set_all(case: Case) -> None:
    """Put a Case into the controls: a button's callback, so it runs before the widgets are drawn."""
    for field in (*MAIN, *MORE):
        st.session_state[field] = getattr(case, field)


def preset(label: str, case: Case) -> None:
    """A button that puts a Case into the controls."""
    st.button(label, on_click=set_all, args=(case,), key=f"preset-{label}")


def query_of(case: Case) -> dict[str, str]:
    """Every input of a Case for a link, defaults too."""
    return {field: str(value) for field, value in case.model_dump().items() if value is not None}


def compared_models() -> list[str]:
    """Models drawn beside the chosen one on the KV page."""
    return st.multiselect(
        prose.label("kv_size", "compare"), catalog.model_ids(), default=COMPARED, key="compare", bind="query-params"
    )
