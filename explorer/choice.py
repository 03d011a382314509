"""One of a few options as a row of buttons; the URL holds its id, whatever a language calls it."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st


def one_of(key: str, label: str, names: Mapping[str, str]) -> str:
    """Draw the buttons of options by id; gives the chosen id, the first where the URL names none of them.

    (Streamlit's own binding would write the names into the URL.)
    """
    state, last_key = st.session_state, f"{key}_written"
    option_in_url, first = st.query_params.get(key), next(iter(names))
    if key not in state or option_in_url != state.get(last_key):  # a link, or the browser's Back
        state[key] = option_in_url if option_in_url in names else first
    selection = st.segmented_control(
        label, list(names), format_func=lambda name: quiet(names[name]), key=key, required=True
    )
    option = selection or first
    if option != first:
        st.query_params[key] = option
    elif option_in_url is not None:
        del st.query_params[key]
    state[last_key] = st.query_params.get(key)
    return option


def quiet(label: str) -> str:
    """A label of tabs or of a row of buttons: the theme's own colour for the chosen one is too dim in the dark."""
    return f":gray[{label}]"
