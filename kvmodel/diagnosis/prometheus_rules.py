"""Alerts for the names a server really has, one for each verdict of the diagnosis that asks for something."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from kvmodel.diagnosis.promql import SHORT, by, recordings, sum_of
from kvmodel.diagnosis.rule_states import states
from kvmodel.diagnosis.thresholds import limit
from kvmodel.metrics import metric_names
from kvmodel.units import significant


@dataclass(frozen=True)
class Alert:
    """An alert; `lasting` is how long its condition holds before it fires."""

    alert: str
    expr: str
    lasting: str
    severity: str
    summary: str
    description: str


PRESSED = (
    "Running requests lose their KV and compute it again. Preemptions are not requests: one may count often. "
    "python -m kvmodel diagnose --prometheus URL says what to change first."
)
STATE_ALERTS = (  # of recorded states
    {
        "alert": "KvStuck", "expr": "kv:stuck", "severity": "critical",
        "summary": "requests run or wait and nothing comes of them",
        "description": "Save the log and restart the engine; look for a request longer than the pool, a load that "
        "never ends, a hung worker.",
    },
    {
        "alert": "KvHeadOfLine", "expr": "kv:head_of_line", "severity": "warning",
        "summary": "{{ $value | humanize }} requests wait behind one that runs",
        "description": "The next one needs more KV than is free, or the seat limit is 1. Limit max_tokens or the "
        "largest length.",
    },
    {
        "alert": "KvAsleep", "expr": "kv:asleep", "severity": "warning",
        "summary": "{{ $value | humanize }} requests are at an engine that sleeps",
        "description": "It runs nothing until it is woken (POST /wake_up). Send requests elsewhere while it sleeps.",
    },
    {
        "alert": "KvTurnedAway", "expr": "kv:turned_away", "severity": "warning",
        "summary": "{{ $value | humanizePercentage }} of the requests are turned away at admission",
        "description": "As many run and wait as are let in, so the queue understates the load: run another replica, "
        "or raise the limit for a longer queue.",
    },
    {
        "alert": "KvLivelock", "expr": "kv:livelock", "severity": "critical",
        "summary": "{{ $value | humanize }} tokens/s for each running request, the KV pool full",
        "description": "Requests are admitted, fill the pool and lose their KV before they get anywhere. Let fewer "
        "run at a time.",
    },
    {
        "alert": "KvPreemptionPressure", "expr": "kv:preemption_pressure", "severity": "warning",
        "summary": "{{ $value | humanize }} preemptions per 100 requests", "description": PRESSED,
    },
    {
        "alert": "KvPreemptionSevere", "expr": "kv:preemption_pressure >= {most}",
        "severity": "critical",
        "summary": "{{ $value | humanize }} preemptions per 100 requests", "description": PRESSED,
    },
)  # fmt: skip


def alerts(names: Mapping[str, str], product: str) -> list[Alert]:
    """An alert for each verdict that asks for something, as far as the names go."""
    have = set(names)
    recorded = {state.record for state in states(names, product)}
    most = significant(limit("band", "most"), 3)
    rows = [
        Alert(**row | {"expr": row["expr"].format(most=most)}, lasting="5m")
        for row in STATE_ALERTS
        if row["expr"].split()[0] in recorded
    ]
    if {"running", "waiting", "usage"} <= have:
        rows += queues(names, product, can_prefill="kv:prefill_bound" in recorded)
    if {"preemptions", "usage"} <= have and "preemptions" not in metric_names.unborn(product):
        rows.append(renamed(names))
    if "retracted_now" in have and not {"preemptions", "finished"} <= have:
        rows.append(set_back(names["retracted_now"], product))
    return rows


def queues(names: Mapping[str, str], product: str, *, can_prefill: bool) -> list[Alert]:
    """Requests that wait all the time, for a load, for prefill, for KV or for a seat, where nothing graver holds."""
    share, high = limit("queue", "waiting_share"), limit("usage", "high")
    waits = f"avg_over_time(kv:waiting_share:ratio[{SHORT}]) >= {share}\nand min_over_time(kv:waiting:sum[{SHORT}]) > 0"
    graver = "".join(
        f"\nunless {state}"
        for state in (
            "kv:preemption_pressure",
            "kv:livelock",
            "kv:stuck",
            "kv:head_of_line",
            "kv:asleep",
            "kv:preempted_by_decision",
        )
    )
    usage = f"avg_over_time(kv:usage:max[{SHORT}])"
    unless_prefill = "\nunless kv:prefill_bound" if can_prefill else ""
    summary = "{{ $value | humanizePercentage }} of the requests wait"
    rows = []
    if "deferred" in names:
        deferred = f"{sum_of(names['deferred'], product)} >= clamp_min(kv:waiting:sum / 2, 1)"
        rows = [
            Alert(
                "KvQueueingForLoad", f"{waits}\nand {deferred}{graver}", "5m", "warning", f"{summary} for a load",
                "They are deferred: a load of KV from a tier or another engine, a LoRA budget, a grammar.",
            )
        ]  # fmt: skip
        graver += f"\nunless {deferred}"
    rows += [
        Alert(
            "KvQueueingForMemory", f"{waits}\nand {usage} >= {high}{unless_prefill}{graver}", "5m", "warning",
            f"{summary} for KV",
            "The pool is full and few are preempted: more KV memory or more replicas help, swap does not.",
        ),
        Alert(
            "KvQueueingForPrefill", f"{waits}\nand kv:prefill_bound{graver}", "5m", "warning",
            f"{summary} while the GPU prefills",
            "The GPU is busy with prompts: more seats or KV change nothing, more replicas or reused prefixes do.",
        ),
        Alert(
            "KvQueueingForBatch", f"{waits}\nand {usage} < {high}{unless_prefill}{graver}", "5m", "warning",
            f"{summary} for a seat in the batch",
            "The pool has room: they wait for a seat, or the next one needs more KV than is free.",
        ),
    ]  # fmt: skip
    return [row for row in rows if can_prefill or row.alert != "KvQueueingForPrefill"]


def renamed(names: Mapping[str, str]) -> Alert:
    """An engine is there and its preemption counter is not: most often renamed by an upgrade."""
    return Alert(
        "KvPreemptionsNotReported",
        f"count by (job, instance) ({names['usage']})\nunless count by (job, instance) ({names['preemptions']})",
        SHORT,
        "warning",
        "an engine reports no preemption counter",
        f"{names['preemptions']} is gone, so no alert on preemptions can fire. Make the rules anew from a scrape.",
    )


def set_back(name: str, product: str) -> Alert:
    """Only a gauge of the last step is there: it tells that it happens, not how often."""
    return Alert(
        "KvRequestsSetBack",
        f"max by ({by(product)}) (max_over_time({name}[{SHORT}])) > 0",
        "0s",
        "info",
        "requests were set back for want of KV",
        f"{name} is a gauge of the last step: how many there were is not known, and it must not be summed over time.",
    )


def rules_yaml(names: Mapping[str, str], product: str) -> str:
    """A rule file for Prometheus: one group of recordings, one of alerts."""
    lines = [
        f"# KV cache pressure of {metric_names.label(product)}, for the names it reports.",
        "# Limits are rules of thumb; no engine documents any.",
        "groups:",
        "  - name: kv-recordings",
        "    rules:",
    ]
    for recording in [*recordings(names, product), *states(names, product)]:
        lines += [f"      - record: {recording.record}", *block("expr", recording.expr)]
    lines += ["  - name: kv-alerts", "    rules:"]
    for alert in alerts(names, product):
        lines += [
            f"      - alert: {alert.alert}",
            *block("expr", alert.expr),
            f"        for: {alert.lasting}",
            "        labels:",
            f"          severity: {alert.severity}",
            "        annotations:",
            f"          summary: {json.dumps(alert.summary)}",
            f"          description: {json.dumps(alert.description)}",
        ]
    return "\n".join(lines) + "\n"


def block(key: str, text: str) -> list[str]:
    """A YAML block of text lines."""
    return [f"        {key}: |-", *(f"          {line}" for line in text.splitlines())]
