"""One of a few options as a row of buttons; the URL holds its id, whatever a language calls it."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st


def one_of(key: str, label: str, names: Mapping[str, str]) -> str:
    """Draw the buttons of options by id; gives the chosen id, the first where the URL names none of them.

    (Streamlit's own binding would write the names into the URL.)
    """
    state, written = st.session_state, f"{key}_written"
    given, first = st.query_params.get(key), next(iter(names))
    if key not in state or given != state.get(written):  # a link, or the browser's Back
        state[key] = given if given in names else first
    picked = st.segmented_control(
        label, list(names), format_func=lambda name: quiet(names[name]), key=key, required=True
    )
    chosen = picked or first
    if chosen != first:
        st.query_params[key] = chosen
    elif given is not None:
        del st.query_params[key]
    state[written] = st.query_params.get(key)
    return chosen


def quiet(label: str) -> str:
    """A label of tabs or of a row of buttons: the theme's own colour for the chosen one is too dim in the dark."""
    return f":gray[{label}]"
