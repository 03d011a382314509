"""One chart alone, for an iframe: its inputs and where it is from in a caption below it."""

from __future__ import annotations

import streamlit as st

from explorer import prose, share
from explorer.page_keys import FRAME_KEYS
from kvmodel import __version__, charts
from kvmodel.charts import theme
from kvmodel.errors import CaseError
from kvmodel.inputs import addresses
from kvmodel.inputs.case import DEFAULTS, Case
from kvmodel.report import memo

CHART_KEY = "chart"
CONFIG = {"displayModeBar": False, "displaylogo": False, "scrollZoom": False}


def show() -> None:
    """The chart that the address names, or one sentence that says what is wrong with it."""
    query = {key: value for key, value in st.query_params.items() if key not in FRAME_KEYS}
    name = query.pop(CHART_KEY, "")
    if name not in charts.NAMES:
        st.warning(prose.text("share", "no_chart", {"charts": ", ".join(charts.NAMES)}))
        return
    try:
        case = addresses.case_of(query.items())
        figure, words = charts.draw(name, case, palette=theme.STREAMLIT), charts.alt(name, case)
    except CaseError as error:
        st.warning(prose.escaped(str(error)))
        return
    st.plotly_chart(figure, theme="streamlit", alt=words, key=name, config=CONFIG, width="stretch")
    st.caption(prose.text("share", "source_note", {"inputs": prose.escaped(in_words(case)), "version": __version__}))
    st.markdown(f"[{prose.label('share', 'open')}]({memo.page_address(name, case, share.app_address())})")


def in_words(case: Case) -> str:
    """The model, the GPU and every input that is not at its default."""
    differences = {name: value for name, value in addresses.inputs(case).items() if value != str(DEFAULTS[name])}
    values = {"model": case.model, "gpu": case.gpu, "tokens": str(case.tokens)} | differences
    return ", ".join(f"{name} {value}" for name, value in values.items())
