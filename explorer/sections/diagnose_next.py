"""Where to go on from a diagnosis: pages opened with this server's configuration, rules and a dashboard to watch it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import streamlit as st

from explorer import prose, show
from explorer.frame import PAGES
from explorer.sections.diagnose_inputs import page_text
from kvmodel.diagnosis import grafana, prometheus_rules, promql
from kvmodel.inputs import addresses
from kvmodel.inputs.case import case_from
from kvmodel.simulation import simulate
from kvmodel.words import say

Answer = Mapping[str, Any]
NEXT = ("pressure", "capacity", "crossover")


def ways_on(answer: Answer) -> None:
    """Pages opened with this server's configuration."""
    st.header(prose.label("diagnose", "next"))
    case = answer["case"]
    if "model" not in case:
        st.markdown(prose.text("diagnose", "next_no_model"))
        return
    server_case = case_from(case)
    numbers = {"model": server_case.model, "gpu": server_case.gpu}
    st.markdown(prose.text("diagnose", "next_lead" if "gpu" in case else "next_no_gpu", numbers))
    with st.container(horizontal=True):
        for page in filter(PAGES.__contains__, NEXT):
            label = prose.text("diagnose", "open", {"page": prose.label("nav", page)})
            beyond = load(answer) if page == "pressure" else {}
            show.go_to(page, label, addresses.inputs(server_case) | beyond)


def load(answer: Answer) -> dict[str, str]:
    """What the Pressure page asks for beyond a Case, as far as the metrics tell it: the engine and the rate it serves.

    A server that cannot keep up serves less than arrives; how much arrives no metric tells.
    """
    state, rate = answer["state"], answer["rates"]["finished_per_s"]
    blocks, policy = state["num_gpu_blocks"], answer["case"]["policy"]
    values = {
        "scheduler": policy if policy in simulate.SCHEDULERS else None,
        "num_blocks": None if blocks is None else max(1, simulate.given_out(round(blocks), policy)),
        "utilization": state["gpu_memory_utilization"],
        "prefix_caching": None if state["prefix_caching"] is None else str(state["prefix_caching"] != "False").lower(),
        "requests_per_s": None if rate is None else f"{rate:.3g}",
    }
    return {name: str(value) for name, value in values.items() if value is not None}


def watch(answer: Answer) -> None:
    """Rules and a dashboard for the names this server has, and the same as PromQL."""
    names, product = answer["names"], answer["engine"]
    expressions = promql.promql(names, product)
    if not expressions:
        return
    st.header(prose.label("diagnose", "watch"))
    st.markdown(prose.text("diagnose", "watch_lead"))
    board = grafana.dashboard(names, product)
    with st.container(horizontal=True):
        if prometheus_rules.alerts(names, product):
            rules = prometheus_rules.rules_yaml(names, product)
            download("rules", rules, "kv-rules.yml", "application/yaml")
        download("dashboard", json.dumps(board, indent=2), "kv-dashboard.json", "application/json")
    with st.expander(prose.label("diagnose", "promql")):
        for what, expression in expressions.items():
            st.markdown(page_text(", ".join(map(say, what.split(", ")))))  # a time, and which quantile of it
            st.code(expression, language=None, wrap_lines=True)


def download(what: str, text: str, file: str, mime: str) -> None:
    st.download_button(
        prose.label("diagnose", f"download.{what}"), text, file, mime, on_click="ignore", key=f"download-{what}"
    )
