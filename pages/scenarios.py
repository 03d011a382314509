"""The article's strategy table, row by row: its word, the model's verdict, and where the answer turns."""

import streamlit as st

from explorer import controls, prose, show
from explorer.frame import frame, places
from explorer.sections import scenarios, why
from kvmodel import catalog
from kvmodel.claims.scenarios import judge


def page() -> None:
    answer, side, rest = places()
    result = controls.comparison(answer, side, rest)
    with answer:
        st.markdown(prose.text("scenarios", "lead"))
        st.header(prose.label("scenarios", "chart"))
        figure, alt = scenarios.overview()
        show.chart(figure, alt=alt, key="scenarios")
        st.caption(prose.text("scenarios", "note"))
    with rest:
        for row in scenarios.rows():
            scenarios.show_row(row)
        st.header(prose.label("scenarios", "own"))
        st.markdown(prose.text("scenarios", "own_lead"))
        scenarios.show_outcomes("own", [judge(result.case, catalog.model(result.case.model).label, "own")])
        why.toggle(result, ("swap", "recompute", "even_rate"))


frame("scenarios", page)
