"""The models that a list offers: the catalog's and, before them, the reader's own of this session."""

from __future__ import annotations

import streamlit as st

from kvmodel import catalog
from kvmodel.catalog import custom_model

CUSTOM = "model_of_config"  # session state: the model from a config.json that was in use last, as a text


def models() -> tuple[str, ...]:
    """Ids, and the text of the reader's own model, which stays in the list when another one is chosen."""
    model = st.session_state.get("model") or ""
    if custom_model.is_text(model):
        st.session_state[CUSTOM] = model
    custom_text = st.session_state.get(CUSTOM)
    return (custom_text, *catalog.model_ids()) if custom_text else catalog.model_ids()


def name(model_id: str) -> str:
    """An id as it stands, a text by its name."""
    return catalog.model(model_id).name
