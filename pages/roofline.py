"""Where prefill and decode stand on the GPU's roofline, and why a short step costs what a longer one costs."""

import streamlit as st

from explorer import controls, prose, show
from explorer.frame import frame, places
from explorer.sections import why
from kvmodel.charts import roofline, theme
from kvmodel.curves import roofline_points
from kvmodel.texts.comparison import case_texts, roofline_texts


def page() -> None:
    answer, side, rest = places()
    result = controls.comparison(answer, side, rest)
    line, step = roofline_points.roofline_of(result), roofline_points.step_curve(result)
    numbers = case_texts(result) | roofline_texts(result, line, step)
    with answer:
        st.markdown(prose.text("roofline", "lead", numbers))
        st.header(prose.label("roofline", "roofline"))
        show.chart(roofline.roofline(line, palette=theme.STREAMLIT), alt=roofline.roofline_alt(line), key="roofline")
        st.markdown(prose.text("roofline", "prefill", numbers))
        st.markdown(prose.text("roofline", "decode" if "decode_rate" in numbers else "decode_none", numbers))
    with rest:
        st.header(prose.label("roofline", "step"))
        st.markdown(prose.text("roofline", "step_lead" if step.knee_tokens else "step_lead_no_knee", numbers))
        show.chart(roofline.step_time(step, palette=theme.STREAMLIT), alt=roofline.step_time_alt(step), key="step-time")
        st.markdown(prose.text("roofline", "article", numbers))
        st.caption(prose.text("roofline", "peaks", numbers))
        why.toggle(result, ("prefill_rate", "recompute", "wait_for_blocks"))


frame("roofline", page)
