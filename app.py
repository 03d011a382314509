"""The first page: one preempted request, what its ways out cost, and what would turn the answer."""

import streamlit as st

from explorer import controls, prose, show, verdict
from explorer.frame import frame
from kvmodel import parts
from kvmodel.charts import home, theme
from kvmodel.figures import figures

answer, side, rest = frame("home")
result = controls.comparison(answer, side, rest)
numbers = figures(result)
with answer:
    st.markdown(prose.text("home", "lead", numbers))
    swap, recompute, even = st.columns(3)
    swap.metric(prose.label("home", "swap"), numbers["swap_delay"], border=True)
    recompute.metric(prose.label("home", "recompute"), numbers["recompute_delay"], border=True)
    even.metric(prose.label("home", "even"), numbers["even_rate"], border=True)
    verdict.headline(result)
    st.subheader(prose.label("home", "timeline"))
    pieces = parts.parts(result.inputs)
    show.chart(home.timeline(pieces, palette=theme.STREAMLIT), alt=home.timeline_alt(pieces), key="timeline")
    st.caption(prose.text("home", "timeline_note_unknown" if result.notes else "timeline_note", numbers))
with rest:
    verdict.flips(result)
    st.subheader(prose.label("home", "prices"))
    verdict.prices(result)
    st.caption(prose.text("home", "prices_note"))
    verdict.sources(result)
    st.subheader(prose.label("home", "next"))
    for page in ("kv_size", "roofline", "crossover", "scenarios"):
        show.go_to(page, prose.text("home", f"next_{page}", numbers))
