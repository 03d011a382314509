"""The load curve of the Pressure page: worked out when asked for."""

from __future__ import annotations

import streamlit as st

from explorer import long_work, prose, show
from kvmodel import load_curve, pressure_figures, pressure_inputs
from kvmodel.charts import load_curve as charts
from kvmodel.charts import theme
from kvmodel.pressure_inputs import Pressure
from kvmodel.simulation_results import Results


def section(server: Pressure, runs: dict[str, Results]) -> None:
    """Heading, button, and once it has run the knees in words and the chart."""
    st.header(prose.label("pressure", "curve"))
    st.markdown(prose.text("pressure", "curve_lead"))
    chosen_per_s = pressure_inputs.offered_per_s(server.demand, next(iter(runs.values())))
    total = load_curve.RUNS * len(runs)
    found = long_work.results(
        "curve", server, lambda: pressure_inputs.curve_points(server, tuple(runs), chosen_per_s), total
    )
    if found is None:
        return
    curves = pressure_inputs.by_scheduler(found)
    for scheduler, points in curves.items():
        which, numbers = pressure_figures.knee_figures(scheduler, load_curve.knee(points), server.objective)
        st.markdown(prose.text("pressure", f"knee.{which}", numbers))
    shown = curves, pressure_inputs.load_text(server), chosen_per_s
    figure = charts.load_curve(*shown, palette=theme.STREAMLIT)
    show.chart(figure, alt=charts.load_curve_alt(*shown), key="load-curve", shown=shown)
    st.caption(prose.text("pressure", "curve_note"))
