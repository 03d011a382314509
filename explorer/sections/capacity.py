"""Inputs, sentences and tables of the Capacity page."""

from __future__ import annotations

from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from explorer import controls, prose, share, show
from kvmodel.charts import capacity as charts
from kvmodel.charts import theme
from kvmodel.errors import CaseError
from kvmodel.inputs.case import Case, case_from
from kvmodel.inputs.questions import INPUTS
from kvmodel.memory import levers, pool_plan, printed_by_engine, start_lines
from kvmodel.memory.levers import Lever
from kvmodel.memory.pool_plan import Plan, Startup
from kvmodel.texts import kv_pool

CASE_FIELDS = ("model", "gpu", "tp", "kv_dtype", "decode_context", "block_tokens", "max_num_batched_tokens")
FIRST = ("max_model_len", "utilization", "weight_gib", "offload_gib")
MORE = ("pp", "dcp", "draft_tokens", "swap_gib", "max_num_seqs")
STEPS = {"max_model_len": 4096, "utilization": 0.01, "offload_gib": 16.0, "weight_gib": 0.5, "swap_gib": 4.0}
HOST_GIB = 64.0  # what the page opens with
COLUMNS = ("lever", "freed", "pool", "mean", "full")


def inputs(answer: DeltaGenerator, side: DeltaGenerator, rest: DeltaGenerator) -> tuple[Startup, float]:
    """Draw all inputs; how the engine is started, and the host memory. Says so and stops where they make no server."""
    engine_place, case_place = side.container(), side.container()
    with engine_place:
        settings = engine_inputs()
    case_place.markdown(f"**{prose.label('capacity', 'server')}**")
    values = controls.inputs(answer, case_place, rest, CASE_FIELDS)
    host_gib = settings.pop("offload_gib")
    with answer:
        case = case_of(values)
    with side:
        share.copy_address(case)
    return Startup(case=case, **settings), host_gib


def case_of(values: dict[str, Any]) -> Case:
    try:
        return case_from(values)
    except CaseError as error:
        refuse(error)
        raise


def refuse(error: CaseError) -> None:
    """One sentence, and no more of the page."""
    st.warning(prose.escaped(str(error)))
    st.stop()


def engine_inputs() -> dict[str, Any]:
    """The settings beside the Case, each in the URL under the name that the command line has for it."""
    st.markdown(f"**{prose.label('capacity', 'settings')}**")
    settings = {field: number(field, HOST_GIB if field == "offload_gib" else None) for field in FIRST}
    with st.expander(prose.label("capacity", "more")):
        settings |= {field: number(field, INPUTS[field].default) for field in MORE}
        settings["unchunked"] = st.toggle(**texts("unchunked"), bind="query-params")
    return settings


def texts(field: str) -> dict[str, Any]:
    section = f"input.{field}"
    return {"label": prose.label("capacity", section), "help": prose.detail("capacity", section), "key": field}


def number(field: str, first: float | None) -> Any:
    """A number within the limits of the command line's input; empty: the engine's own."""
    least, greatest = INPUTS[field].limits.ends
    kind = type(least)
    limits: dict[str, Any] = {"min_value": least, "max_value": greatest, "step": kind(STEPS.get(field, 1))}
    if first is None:
        limits |= {"value": None, "placeholder": prose.label("capacity", f"own.{field}")}
    else:
        limits["value"] = kind(first)
    return st.number_input(**texts(field), **limits, format=None if kind is int else "%g", bind="query-params")


def plan_of(startup: Startup) -> Plan:
    """The plan; says so and stops where the model keeps no KV or its weights are not known."""
    try:
        return pool_plan.plan(startup)
    except CaseError as error:
        refuse(error)
        raise


def lead(plan: Plan) -> None:
    """What fits; where the engine does not start, what is needed, what there is, and what would be enough."""
    numbers = kv_pool.plan_texts(plan)
    if plan.starts:
        st.markdown(prose.text("capacity", "lead", numbers))
        if kv_pool.is_hybrid(plan):
            st.markdown(prose.text("capacity", "hybrid", numbers))
        st.caption(prose.text("capacity", "mean_note"))
        return
    st.error(prose.text("capacity", "no_start" if plan.pool_bytes > 0 else "no_weights", numbers))
    enough = levers.ways(plan.startup)
    st.markdown(prose.text("capacity", "ways" if enough else "no_ways"))
    show.bullets(way(lever) for lever in enough)


def way(lever: Lever) -> str:
    """A change that is enough, and the pool that it leaves."""
    room = {"pool": kv_pool.plan_texts(lever.plan)["pool"]}
    return lever_name(lever) + prose.text("capacity", "room", room)


def lever_name(lever: Lever) -> str:
    return prose.text("capacity", f"way.{lever.what}", {"value": kv_pool.lever_value(lever)})


def memory(plan: Plan) -> None:
    """The bar of one GPU's memory."""
    st.header(prose.label("capacity", "chart"))
    figure, alt = charts.memory_bar(plan, palette=theme.STREAMLIT), charts.memory_bar_alt(plan)
    show.chart(figure, alt=alt, key="capacity", chart_data=(plan,))
    st.caption(prose.text("capacity", "chart_note"))


def lever_effects(startup: Startup) -> None:
    """What each lever alone does to the pool and to the requests that fit."""
    st.header(prose.label("capacity", "levers"))
    every = levers.levers(startup)
    cells = kv_pool.lever_cells(every)
    rows = [[lever_name(lever), *row] for lever, row in zip(every, cells, strict=True)]
    show.table("levers", [prose.label("capacity", f"column.{column}") for column in COLUMNS], rows)
    st.caption(prose.text("capacity", "levers_note"))


def prints(plan: Plan) -> None:
    """The lines of each engine's start-up log."""
    st.header(prose.label("capacity", "prints"))
    st.markdown(prose.text("capacity", "prints_lead"))
    for engine, lines in start_lines.pool_lines(plan).items():
        section = f"engine.{engine}"
        st.markdown(f"**{prose.label('capacity', section)}** :small[{prose.detail('capacity', section)}]")
        st.code("\n".join(lines), language=None, wrap_lines=True)


def host(plan: Plan, host_gib: float | None) -> None:
    """What host memory keeps beside the pool; nothing where none is given."""
    if not host_gib:
        return
    st.header(prose.label("capacity", "host"))
    startup = plan.startup
    pool = printed_by_engine.host_pool(startup.case, host_gib, max_model_len=startup.longest, pp=startup.pp)
    numbers = kv_pool.host_texts(pool, plan.mean_bytes) | {"gib": f"{host_gib:g}"}
    st.markdown(prose.text("capacity", "host_said", numbers))
