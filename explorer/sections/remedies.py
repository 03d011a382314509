"""The remedies of the Pressure page: all of them tried when asked for, in the best order for an objective."""

from __future__ import annotations

import streamlit as st

from explorer import choice, long_work, page_tables, prose, show
from explorer.sections.simulated import simulated
from kvmodel.simulation import remedies, servers
from kvmodel.simulation.servers import Pressure
from kvmodel.texts import pressure, remedy_table
from kvmodel.units import format_count
from kvmodel.words import say

COLUMNS = (  # what a phone shows first is what is asked for
    "place", "remedy", "article", "preemptions", "gain", "effect", "price", "output", "ttft_p50", "ttft_p99",
    "itl_p50", "itl_p99", "pool", "gpus",
)  # fmt: skip


def section(server: Pressure) -> None:
    """Heading, objective, button, and once they have been tried the table, with what swap does not do."""
    st.header(prose.label("pressure", "remedies"))
    st.markdown(prose.text("pressure", "remedies_lead"))
    names = {name: prose.label("pressure", f"remedy_for.{name}") for name in remedies.OBJECTIVES}
    objective = choice.one_of("remedy_for", prose.label("pressure", "input.remedy_for"), names)
    engine = servers.engine_of(server, server.engine.scheduler)
    results = long_work.results(
        "remedies",
        (server.case, server.demand, engine),
        lambda: remedies.rows(server.case, server.demand.arrivals(), engine=engine, run=simulated),
        remedies.number_of_rows(engine),
    )
    if results is None:
        return
    rows = remedies.ranking(tuple(results), objective)
    which, numbers = pressure.best_remedy(rows)
    st.markdown(prose.text("pressure", f"remedy_{which}", numbers | {"objective": names[objective]}))
    swap = remedies.swap_beside_recompute(rows)
    if swap:
        st.markdown(prose.text("pressure", "swap", {name: format_count(count) for name, count in swap.items()}))
    runs = [row for row in rows if not row.problem]
    values = [remedy_table.values(vars(row)) for row in runs]
    columns = {prose.label("pressure", f"column.{name}"): [row[name] for row in values] for name in COLUMNS}
    page_tables.show_sortable("remedies", columns, alt=prose.label("pressure", "remedies"))
    st.caption(prose.text("pressure", "remedies_note", {"rule": say(remedies.RULE)}))
    st.markdown(prose.text("pressure", "column.set"))
    show.bullets(f"`{row.id}`: {prose.escaped(remedy_table.set_by(vars(row)))}" for row in runs[1:])
    problems = [f"{say(row.action)}: {prose.escaped(row.problem)}" for row in rows if row.problem]
    if problems:
        st.markdown(prose.text("pressure", "refused"))
        show.bullets(problems)
