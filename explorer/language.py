"""The language of a session: named in the URL (`?lang=ko`), kept from page to page, English otherwise."""

from __future__ import annotations

import functools
import tomllib
from contextvars import ContextVar
from pathlib import Path

import streamlit as st

from kvmodel import words

LANGUAGES = {"en": "English", "ko": "한국어"}
DEFAULT = "en"
LANGUAGE, PARAMETER = "language", "lang"  # session state; the URL
WIDGET = "language_chosen"
# Asked for once a text: the session's state takes thirty times as long.
_current: ContextVar[str | None] = ContextVar("current", default=None)
PROSE = Path(__file__).resolve().parent.parent / "assets" / "prose"


def current() -> str:
    """The language that texts of this run are shown in."""
    return _current.get() or session_language()


def session_language() -> str:
    """The session's language."""
    return str(st.session_state.get(LANGUAGE, DEFAULT))


def restore() -> None:
    """Take the language that a link names, else keep the session's; the URL of every page then names it."""
    code = st.query_params.get(PARAMETER)
    if code in LANGUAGES and WIDGET not in st.session_state:
        st.session_state[LANGUAGE] = code
    speak()
    write()


def speak() -> None:
    """Show the texts of this run in the session's language."""
    _current.set(session_language())
    words.speak(words_of(current()))


@functools.cache
def words_of(language: str) -> dict[str, str]:
    """English text -> its translation, of what kvmodel says; nothing for English."""
    translations: dict[str, str] = {}
    for file in sorted((PROSE / language / "words").glob("*.toml")):
        translations |= tomllib.loads(file.read_text(encoding="utf-8"))
    return translations


def choose() -> None:
    """The widget: a reader's own choice stands above a link's."""
    st.session_state[WIDGET] = LANGUAGES[current()]
    st.segmented_control(
        "Language", list(LANGUAGES.values()), key=WIDGET, required=True, on_change=take, label_visibility="collapsed"
    )


def take() -> None:
    """The widget's callback, before the page is drawn."""
    label = st.session_state[WIDGET]
    st.session_state[LANGUAGE] = next(code for code, name in LANGUAGES.items() if name == label)


def write() -> None:
    """Name the language in the URL where it is not the default."""
    if current() != DEFAULT:
        st.query_params[PARAMETER] = current()
    elif PARAMETER in st.query_params:
        del st.query_params[PARAMETER]
