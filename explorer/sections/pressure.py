"""Inputs, sentences and tables of the Pressure page."""

from __future__ import annotations

from typing import Any, NoReturn

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from explorer import controls, prose, show
from explorer.sections.simulated import simulated
from kvmodel.charts import pressure as charts
from kvmodel.charts import theme
from kvmodel.errors import CaseError
from kvmodel.inputs.case import Case, case_from
from kvmodel.inputs.questions import INPUTS
from kvmodel.simulation import servers, simulate, workload
from kvmodel.simulation.load_curve import Objective
from kvmodel.simulation.results import Results
from kvmodel.simulation.servers import ALONE, Demand, Pressure
from kvmodel.simulation.simulate import Engine
from kvmodel.texts import pressure
from kvmodel.units import MS, format_percent

CASE_FIELDS = ("model", "gpu", "tp", "kv_dtype", "block_tokens", "max_num_batched_tokens", "link", "timing")
FIRST = Pressure(case=Case())  # what a reader without a link sees
REQUESTS = (50, 1000)
SEEDS = 1_000_000
Runs = dict[str, Results]


def inputs(answer: DeltaGenerator, side: DeltaGenerator, rest: DeltaGenerator) -> Pressure:
    """Draw all inputs; says so and stops where they make no server."""
    demand_place, engine_place, case_place = side.container(), side.container(), side.container()
    with demand_place:
        demand = demand_inputs()
    with engine_place:
        engine, beside, pool_percent, objective = engine_inputs()
    case_place.markdown(f"**{prose.label('pressure', 'server')}**")
    values = controls.inputs(answer, case_place, rest, CASE_FIELDS)
    with answer:
        try:
            return Pressure(
                case=case_from(values), demand=demand, engine=Engine(**engine), beside=beside,
                pool_percent=pool_percent, objective=objective,
            )  # fmt: skip
        except CaseError as error:
            refuse(error)


def refuse(error: CaseError) -> NoReturn:
    """One sentence, and no more of the page."""
    st.warning(prose.escaped(str(error)))
    st.stop()


def demand_inputs() -> Demand:
    """Which requests arrive."""
    st.markdown(f"**{prose.label('pressure', 'demand')}**")
    name = option("workload", workload.names(), FIRST.demand.workload)
    rate = number("requests_per_s", 0.01, 1000.0, step=0.5)
    least, most = REQUESTS
    requests = st.number_input(
        **texts("requests"), min_value=least, max_value=most, value=FIRST.demand.requests, step=least,
        bind="query-params",
    )  # fmt: skip
    with st.expander(prose.label("pressure", "demand_more")):
        seed = st.number_input(**texts("seed"), min_value=0, max_value=SEEDS, value=0, bind="query-params")
        burstiness = number("burstiness", 0.0, 10.0, step=0.5)
        clients = number("clients", 1, 10_000)
    return Demand(
        workload=name, requests=requests, seed=seed, requests_per_s=rate, burstiness=burstiness, clients=clients
    )


def engine_inputs() -> tuple[dict[str, Any], str, int, Objective]:
    """How the engine is started, which other one stands beside it, its share of the pool, and what counts as good."""
    st.markdown(f"**{prose.label('pressure', 'engine')}**")
    schedulers = tuple(simulate.SCHEDULERS)
    scheduler = option("scheduler", schedulers, schedulers[0])
    beside = option("beside", (ALONE, *schedulers), FIRST.beside)
    pool_percent = st.number_input(
        **texts("pool_percent"), min_value=1, max_value=servers.WHOLE_POOL_PERCENT, value=FIRST.pool_percent,
        step=5, bind="query-params",
    )  # fmt: skip
    with st.expander(prose.label("pressure", "engine_more")):
        engine = {
            "scheduler": scheduler,
            "num_blocks": number("num_blocks", *INPUTS["num_blocks"].limits.ends),
            "utilization": number("utilization", *INPUTS["utilization"].limits.ends, step=0.01),
            "max_num_seqs": number("max_num_seqs", *INPUTS["max_num_seqs"].limits.ends),
            "watermark": number("watermark", *INPUTS["watermark"].limits.ends, step=0.01),
            "host_gib": number("host_gib", *INPUTS["host_gib"].limits.ends, step=8.0),
            "prefix_caching": st.toggle(**texts("prefix_caching"), value=True, bind="query-params"),
        }
        ttft_s = st.number_input(
            **texts("slo_ttft_s"), min_value=0.01, max_value=3600.0, value=FIRST.objective.ttft_s, bind="query-params"
        )
        tpot_ms = st.number_input(
            **texts("slo_tpot_ms"),
            min_value=1.0,
            max_value=60_000.0,
            value=FIRST.objective.tpot_s / MS,
            step=5.0,
            bind="query-params",
        )
    return engine, beside, pool_percent, Objective(ttft_s=ttft_s, tpot_s=tpot_ms * MS)


def texts(name: str) -> dict[str, Any]:
    """What the widgets have in common: a label, a help text, and a name in the URL."""
    section = f"input.{name}"
    return {"label": prose.label("pressure", section), "help": prose.detail("pressure", section), "key": name}


def option(name: str, options: tuple[str, ...], first: str) -> str:
    selection = st.selectbox(**texts(name), options=options, index=options.index(first), bind="query-params")
    return selection or first


def number(name: str, low: float, high: float, *, step: float = 1) -> Any:
    """A number that may stay empty: the engine's, or the workload's, own."""
    form = None if isinstance(low, int) else "%g"
    return st.number_input(
        **texts(name), min_value=low, max_value=high, value=None, step=step, format=form,
        placeholder=prose.label("pressure", "own"), bind="query-params",
    )  # fmt: skip


def runs(server: Pressure) -> Runs:
    """The run of the chosen scheduler, and of the one beside it on the same arrivals. Says so where one cannot be."""
    results: Runs = {}
    for scheduler in server.schedulers:
        try:
            results[scheduler] = servers.run(server, scheduler, simulated)
        except CaseError as error:
            if not results:
                refuse(error)
            st.info(prose.escaped(f"{scheduler}: {error}"))
    return results


def lead(server: Pressure, runs: Runs) -> None:
    """The answer in sentences: what the chosen scheduler does, why the first token waits, and what the other does."""
    lines = []
    for place, (scheduler, results) in enumerate(runs.items()):
        run = pressure.totals(results, server.objective)
        numbers = pressure.run_texts(scheduler, run, results, server.case.block_tokens)
        numbers |= {
            "workload": server.demand.workload,
            "offered": pressure.rate(servers.offered_per_s(server.demand, results)),
            "percent": format_percent(servers.pool_share(server, results)),
        }
        numbers["pool"] = prose.text("pressure", f"pool.{pool_of(server)}", numbers)
        sentences = [prose.text("pressure", "beside" if place else "lead", numbers)]
        if run["outcome"] != "finished":
            sentences.append(prose.text("pressure", "stuck", numbers))
        if run["livelocked_requests"]:
            sentences.append(prose.text("pressure", "livelock", numbers))
        if not place:
            sentences.append(prose.text("pressure", f"cause.{pressure.cause(run)}", numbers))
        lines.append(" ".join(sentences))
    for line in lines:
        st.markdown(line)


def pool_of(server: Pressure) -> str:
    """Which words say where the size of the pool is from."""
    if server.engine.num_blocks is not None:
        return "given"
    return "whole" if server.pool_percent == servers.WHOLE_POOL_PERCENT else "share"


def cards(server: Pressure, runs: Runs) -> None:
    """Key numbers of the chosen scheduler."""
    run = pressure.totals(next(iter(runs.values())), server.objective)
    with st.container(horizontal=True, gap="xsmall"):
        for name, value in pressure.cards(run):
            section = f"card.{name}"
            st.metric(
                prose.label("pressure", section), value, help=prose.detail("pressure", section), border=True, width=172
            )


def by_second(server: Pressure, runs: Runs) -> None:
    st.header(prose.label("pressure", "seconds"))
    chart_data = runs, servers.load_text(server, next(iter(runs.values())))
    figure, alt = charts.by_second(*chart_data, palette=theme.STREAMLIT), charts.by_second_alt(*chart_data)
    show.chart(figure, alt=alt, key="pressure", chart_data=chart_data)


def numbers_table(server: Pressure, runs: Runs) -> None:
    """All numbers of both runs, a line each."""
    st.header(prose.label("pressure", "numbers" if len(runs) == 1 else "compared"))
    every = [pressure.totals(results, server.objective) for results in runs.values()]
    rows = [[prose.label("pressure", f"number.{name}"), *cells] for name, cells in pressure.comparison_rows(every)]
    show.table("numbers", [prose.label("pressure", "column.number"), *runs], rows)
    st.caption(prose.text("pressure", "numbers_note", pressure.objective_texts(server.objective)))
