"""The chosen request as other engines and modes keep it, each with its reason."""

from __future__ import annotations

import streamlit as st

from explorer import prose, show
from kvmodel.inputs.case import Case
from kvmodel.memory import as_kept
from kvmodel.memory.as_kept import HYBRID_OFF
from kvmodel.texts import kv_pool


def others(case: Case) -> None:
    """Both numbers of a model with windows, then the modes that give a third one; nothing where all agree."""
    ways = as_kept.sizes(case)
    pair = kv_pool.hybrid_pair(ways)
    if pair:
        st.markdown(prose.text("kv_size", "hybrid", pair))
    rest = [way for way in ways[1:] if way.mode != HYBRID_OFF]
    if rest:
        show.bullets(prose.text("kv_size", f"kept.{way.mode}", kv_pool.storage_texts(way)) for way in rest)
