"""Cards of the Glossary page."""

from __future__ import annotations

import streamlit as st

from explorer import language, prose
from kvmodel.curves.roofline_points import roofline_of, step_curve
from kvmodel.errors import LONGEST_ECHO
from kvmodel.inputs.case import Case
from kvmodel.recovery.comparison import compare_case
from kvmodel.texts.comparison import comparison_texts, kv_texts, roofline_texts

SECTION = "term."
COLUMNS = 2


def numbers() -> dict[str, str]:
    """The default Case's."""
    return numbers_in(language.current())


@st.cache_resource(show_spinner=False)
def numbers_in(language_code: str) -> dict[str, str]:
    """They depend on nothing else that a reader chooses."""
    result = compare_case(Case())
    return comparison_texts(result) | kv_texts(result) | roofline_texts(result, roofline_of(result), step_curve(result))


def terms() -> list[str]:
    """Ids of all terms, in the alphabet of their names."""
    ids = [name.removeprefix(SECTION) for name in prose.sections("glossary") if name.startswith(SECTION)]
    return sorted(ids, key=lambda term: label(term).lower())


def label(term: str) -> str:
    return prose.label("glossary", f"{SECTION}{term}")


def lookup() -> str | None:
    """The term of a link such as /glossary?term=gqa, or the one looked for; a sentence where there is no such card."""
    term = st.query_params.get("term")
    if term is not None and term not in terms():
        texts = {"given": term[:LONGEST_ECHO], "terms": ", ".join(terms())}
        st.warning(prose.escaped(prose.text("glossary", "unknown", texts)))
    return st.selectbox(
        prose.label("glossary", "find"), terms(), index=None, placeholder=prose.label("glossary", "all"), key="term",
        bind="query-params",
    )  # fmt: skip


def show_cards(first: str | None) -> None:
    """The chosen card over the whole width, then all the others, down one column and then the next as on a phone."""
    if first is not None:
        card(first)
    places = st.columns(COLUMNS, gap="medium")
    others = [term for term in terms() if term != first]
    for index, term in enumerate(others):
        with places[index * COLUMNS // len(others)]:
            card(term)


def card(term: str) -> None:
    body = prose.text("glossary", f"{SECTION}{term}", numbers()).split("\n", 1)[1]
    with st.container(border=True):
        st.markdown(f"**{label(term)}**\n\n{body}")
