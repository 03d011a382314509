"""The first page: one preempted request, what its ways out cost, and what would turn the answer."""

import streamlit as st

from explorer import controls, prose, show
from explorer.frame import frame, places
from explorer.sections import live, verdict, why
from kvmodel.charts import home, theme
from kvmodel.recovery import parts
from kvmodel.texts.comparison import comparison_texts


def page() -> None:
    answer, side, rest = places()
    result = controls.comparison(answer, side, rest)
    numbers = comparison_texts(result)
    with answer:
        st.markdown(prose.text("home", "lead", numbers))
        live.crossover_of(result)
        show.go_to("path", prose.text("home", "next_path"))
    with rest:
        verdict.flips(result)
        if st.toggle(prose.label("home", "timeline"), key="timeline_shown", bind="query-params"):
            pieces = parts.parts(result.inputs)
            show.chart(home.timeline(pieces, palette=theme.STREAMLIT), alt=home.timeline_alt(pieces), key="timeline")
            st.caption(prose.text("home", "timeline_note_unknown" if result.notes else "timeline_note", numbers))
        st.header(prose.label("home", "prices"))
        verdict.prices(result)
        st.markdown(f":small[{prose.text('home', 'prices_note')}]")
        why.toggle(result, ("swap", "recompute", "even_rate", "wait_for_blocks", "kv"))
        verdict.sources(result)
        st.header(prose.label("home", "next"))
        for page in ("kv_size", "roofline", "crossover", "scenarios"):
            show.go_to(page, prose.text("home", f"next_{page}", numbers))


frame("home", page)
