"""The chosen request as other engines and modes keep it, each with its reason."""

from __future__ import annotations

import streamlit as st

from explorer import prose, show
from kvmodel import kv_modes, pool_figures
from kvmodel.case import Case
from kvmodel.kv_modes import HYBRID_OFF


def others(case: Case) -> None:
    """Both numbers of a model with windows, then the modes that give a third one; nothing where all agree."""
    ways = kv_modes.kept(case)
    pair = pool_figures.hybrid_pair(ways)
    if pair:
        st.markdown(prose.text("kv_size", "hybrid", pair))
    rest = [way for way in ways[1:] if way.mode != HYBRID_OFF]
    if rest:
        show.bullets(prose.text("kv_size", f"kept.{way.mode}", pool_figures.kept_figures(way)) for way in rest)
