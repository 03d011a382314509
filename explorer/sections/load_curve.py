"""The load curve of the Pressure page: worked out when asked for."""

from __future__ import annotations

import streamlit as st

from explorer import long_work, prose, show
from explorer.sections.simulated import simulated
from kvmodel.charts import load_curve as charts
from kvmodel.charts import theme
from kvmodel.simulation import load_curve, servers
from kvmodel.simulation.results import Results
from kvmodel.simulation.servers import Pressure
from kvmodel.texts import pressure


def section(server: Pressure, runs: dict[str, Results]) -> None:
    """Heading, button, and once it has run the knees in words and the chart."""
    st.header(prose.label("pressure", "curve"))
    st.markdown(prose.text("pressure", "curve_lead"))
    rate_per_s = servers.offered_per_s(server.demand, next(iter(runs.values())))
    total = load_curve.RUNS * len(runs)
    curve_points = long_work.results(
        "curve", server, lambda: servers.curve_points(server, tuple(runs), rate_per_s, simulated), total
    )
    if curve_points is None:
        return
    curves = servers.by_scheduler(curve_points)
    for scheduler, points in curves.items():
        which, numbers = pressure.knee_texts(scheduler, load_curve.knee(points), server.objective)
        st.markdown(prose.text("pressure", f"knee.{which}", numbers))
    chart_data = curves, servers.load_text(server), rate_per_s
    figure = charts.load_curve(*chart_data, palette=theme.STREAMLIT)
    show.chart(figure, alt=charts.load_curve_alt(*chart_data), key="load-curve", chart_data=chart_data)
    st.caption(prose.text("pressure", "curve_note"))
