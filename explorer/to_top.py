"""The top of a page, where an answer begins: on a phone a reader has scrolled down to the button that asks for it."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

SCRIPT = Path(__file__).resolve().parent.parent / "static" / "to_top.js"
COMPONENT = st.components.v2.component("to_top", html="<span></span>", js=SCRIPT.read_text(encoding="utf-8"))


def begin(answer: int) -> None:
    """Go there, in the browser, when the number of the answer has changed."""
    COMPONENT(key="to_top", data={"answer": answer})
