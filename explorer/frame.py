"""What every page stands in: page configuration, warm-up, navigation, two columns, and what is drawn again."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from explorer import language, page_tables, prose

ROOT = Path(__file__).resolve().parent.parent
ICON = ROOT / "assets" / "icon.svg"
PAGE_COMPONENT = st.components.v2.component(
    "page",
    html="<span></span>",
    css=(ROOT / "static" / "page.css").read_text(encoding="utf-8"),
    js=(ROOT / "static" / "page.js").read_text(encoding="utf-8"),
    isolate_styles=False,  # Streamlit's own rule for where a line may break is of no use in Korean
)
PAGE = "page"  # session state: the page that is shown
PAGES = {
    "home": "app.py",
    "path": "pages/path.py",
    "kv_size": "pages/kv_size.py",
    "roofline": "pages/roofline.py",
    "crossover": "pages/crossover.py",
    "scenarios": "pages/scenarios.py",
    "capacity": "pages/capacity.py",
    "pressure": "pages/pressure.py",
    "diagnose": "pages/diagnose.py",
    "evidence": "pages/evidence.py",
    "claims": "pages/claims.py",
    "glossary": "pages/glossary.py",
}


def frame(page: str, draw: Callable[[], None]) -> None:
    """A page: its frame once a visit, and what its controls change, which alone is drawn again when they are moved."""
    heading(page)
    body(draw)


@st.fragment
def body(draw: Callable[[], None]) -> None:
    language.speak()
    page_tables.begin()
    draw()
    page_tables.menu()


def places() -> tuple[DeltaGenerator, DeltaGenerator, DeltaGenerator]:
    """Three places of a page: the answer, the controls right of it, and all the rest below.

    On a phone they follow each other, so the answer comes first and the controls are not far.
    """
    answer, controls = st.columns([2.4, 1], gap="large")
    return answer, controls, st.container()


def heading(page: str) -> None:
    """What comes before all else: configuration, warm-up, navigation and title; a page without inputs needs no more."""
    bare(page)
    page_tables.begin()
    if not st.context.is_embedded:
        navigation()
    st.title(prose.label(page, "title"))
    PAGE_COMPONENT(key="page", data={"language": language.current()})


def bare(page: str) -> None:
    """Configuration and warm-up alone, for a page that is shown inside another."""
    language.restore()
    st.set_page_config(
        page_title=f"{prose.label('nav', page)} · {prose.label('nav', 'product')}", page_icon=str(ICON), layout="wide"
    )
    st.session_state[PAGE] = page
    warm_up()


@st.cache_resource(show_spinner=False)
def warm_up() -> None:
    """Import what every page needs, then keep it out of the collector's way.

    Streamlit collects garbage after every rerun; with plotly loaded that takes longer than the page.
    """
    import kvmodel.charts.theme  # noqa: F401

    gc.collect()
    gc.freeze()


def navigation() -> None:
    with st.sidebar:
        st.caption(prose.label("nav", "product"))
        for page, file in PAGES.items():
            st.page_link(file, label=prose.label("nav", page))
        language.choose()
