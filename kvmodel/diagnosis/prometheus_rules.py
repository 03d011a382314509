"""PromQL for the names a server really has: the diagnosis as expressions, recording rules and alerts.

Preemptions are sparse, so they are counted with `increase` over two windows: the long one says how many, the short one
that it still happens. The limits are those of the diagnosis.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from kvmodel.catalog import table
from kvmodel.diagnosis.causes import limit
from kvmodel.metrics import metric_names
from kvmodel.units import significant

LONG, SHORT = "1h", "15m"
# Labels of one engine. SGLang counts finished requests for all its data-parallel ranks together.
PER_ENGINE = {"vllm": ("job", "instance", "model_name", "engine")}
PER_SERVER = ("job", "instance", "model_name")


@dataclass(frozen=True)
class Recording:
    """A recorded series."""

    record: str
    expr: str


@dataclass(frozen=True)
class Alert:
    """An alert; `lasting` is how long its condition holds before it fires."""

    alert: str
    expr: str
    lasting: str
    severity: str
    summary: str
    description: str


def newest_names(product: str = "vllm") -> dict[str, str]:
    """The names of an engine's newest version, for rules without a scrape."""
    rows = table("metrics")[product]
    kinds = ("gauge", "counter", "histogram")
    return {word: names[0] for kind in kinds for word, names in rows.get(kind, {}).items()}


def by(product: str) -> str:
    """The labels that results are kept apart by."""
    return ", ".join(PER_ENGINE.get(product, PER_SERVER))


def increase_of(name: str, product: str, window: str) -> str:
    """A counter's increase over a window, an engine each."""
    return f"sum by ({by(product)}) (increase({name}[{window}]))"


def promql(names: Mapping[str, str], product: str) -> dict[str, str]:
    """Expressions by what they tell, for the meanings that have a name."""
    labels = by(product)
    expressions: dict[str, str] = {}
    if {"preemptions", "finished"} <= set(names):
        preempted, finished = (increase_of(names[word], product, LONG) for word in ("preemptions", "finished"))
        expressions["preemptions per 100 finished requests"] = f"100 * {preempted} / ({finished} > 0)"
    if "preempted_times" in names:
        name = names["preempted_times"]
        twice = f'sum(increase({name}_bucket{{le="1.0"}}[{LONG}])) / sum(increase({name}_count[{LONG}]))'
        expressions["share of requests preempted at least twice"] = f"1 - {twice}"
    if "usage" in names:
        expressions["share of the KV pool in use"] = f"max by ({labels}) ({names['usage']})"
    for word, title in (("running", "running requests"), ("waiting", "waiting requests")):
        if word in names:
            expressions[title] = f"sum by ({labels}) ({names[word]})"
    if {"running", "waiting"} <= set(names):
        waiting, running = (f"sum by ({labels}) ({names[word]})" for word in ("waiting", "running"))
        expressions["share of requests that wait"] = f"{waiting} / ({waiting} + {running} > 0)"
    if "generation_tokens" in names:
        expressions["generated tokens per second"] = f"sum by ({labels}) (rate({names['generation_tokens']}[5m]))"
    for word, title in (("itl", "time between tokens"), ("ttft", "time to the first token")):
        if word in names:
            buckets = f"sum by (le, {labels}) (rate({names[word]}_bucket[5m]))"
            expressions |= {f"{title}, p{part}": f"histogram_quantile(0.{part}, {buckets})" for part in (50, 95)}
    if {"prefix_hits", "prefix_queries"} <= set(names):
        hits, queries = (increase_of(names[word], product, LONG) for word in ("prefix_hits", "prefix_queries"))
        expressions["share of looked-up tokens in the prefix cache"] = f"{hits} / ({queries} > 0)"
    return expressions


def recordings(names: Mapping[str, str], product: str) -> list[Recording]:
    """Recorded series, which the alerts are made of."""
    labels = by(product)
    rows = []
    for word, window in (("preemptions", LONG), ("finished", LONG), ("preemptions", SHORT)):
        if word in names:
            rows.append(Recording(f"kv:{word}:increase{window}", increase_of(names[word], product, window)))
    if {"preemptions", "finished"} <= set(names):
        ratio = f"100 * kv:preemptions:increase{LONG} / (kv:finished:increase{LONG} > 0)"
        rows.append(Recording(f"kv:preemptions_per_100:ratio{LONG}", ratio))
    if "usage" in names:
        rows.append(Recording("kv:usage:max", f"max by ({labels}) ({names['usage']})"))
    for word in ("running", "waiting"):
        if word in names:
            rows.append(Recording(f"kv:{word}:sum", f"sum by ({labels}) ({names[word]})"))
    if {"running", "waiting"} <= set(names):
        rows.append(Recording("kv:waiting_share:ratio", "kv:waiting:sum / (kv:waiting:sum + kv:running:sum > 0)"))
    if "generation_tokens" in names:
        tokens = f"sum by ({labels}) (rate({names['generation_tokens']}[5m]))"
        rows.append(Recording("kv:generated_tokens:rate5m", tokens))
    return rows


def alerts(names: Mapping[str, str], product: str) -> list[Alert]:
    """An alert for each verdict that asks for something, as far as the names go."""
    have = set(names)
    rows = []
    if {"preemptions", "finished"} <= have:
        rows.append(preemption_alert("KvPreemptionPressure", "tune", "warning"))
        rows.append(preemption_alert("KvPreemptionSevere", "most", "critical"))
    if {"running", "waiting", "usage"} <= have:
        rows += queues(calm="preemptions" in have and "finished" in have)
    if {"running", "usage", "generation_tokens"} <= have:
        rows.append(livelock())
    if {"preemptions", "usage"} <= have:
        rows.append(renamed(names))
    if "retracted_now" in have and "preemptions" not in have:
        rows.append(set_back(names["retracted_now"], product))
    return rows


def preemption_alert(name: str, band: str, severity: str) -> Alert:
    """Many preemptions per finished request over the long window, and some in the short one."""
    least, finished = (significant(value, 3) for value in (limit("band", band), limit("data", "least_finished")))
    return Alert(
        name,
        f"kv:preemptions_per_100:ratio{LONG} >= {least}\nand kv:finished:increase{LONG} >= {finished}\n"
        f"and kv:preemptions:increase{SHORT} >= 1",
        "5m",
        severity,
        "{{ $value | humanize }} preemptions per 100 finished requests",
        "Running requests lose their KV and compute it again. Preemptions are not requests: one may count often. "
        "python -m kvmodel diagnose --prometheus URL says what to change first.",
    )


def queues(*, calm: bool) -> list[Alert]:
    """Requests that wait all the time, for KV or for a place in the batch, while few are preempted."""
    share, high = limit("queue", "waiting_share"), limit("usage", "high")
    waits = f"avg_over_time(kv:waiting_share:ratio[{SHORT}]) >= {share}\nand min_over_time(kv:waiting:sum[{SHORT}]) > 0"
    few = f"\nunless kv:preemptions_per_100:ratio{LONG} >= {significant(limit('band', 'tune'), 3)}" if calm else ""
    usage = f"avg_over_time(kv:usage:max[{SHORT}])"
    summary = "{{ $value | humanizePercentage }} of the requests wait"
    return [
        Alert(
            "KvQueueingForMemory", f"{waits}\nand {usage} >= {high}{few}", "5m", "warning", f"{summary} for KV",
            "The pool is full and few are preempted: more KV memory or more replicas help, swap does not.",
        ),
        Alert(
            "KvQueueingForBatch", f"{waits}\nand {usage} < {high}{few}", "5m", "warning",
            f"{summary} for a place in the batch",
            "The pool has room: the limit is the batch or the token budget of a step, not KV.",
        ),
    ]  # fmt: skip


def livelock() -> Alert:
    """A full pool that brings forth next to nothing."""
    full, least = limit("usage", "full"), limit("livelock", "tokens_per_s_per_request")
    return Alert(
        "KvLivelock",
        f"kv:generated_tokens:rate5m / kv:running:sum < {least}\nand min_over_time(kv:running:sum[10m]) >= 1\n"
        f"and min_over_time(kv:usage:max[10m]) >= {full}",
        "5m",
        "critical",
        "{{ $value | humanize }} tokens/s for each running request, the KV pool full",
        "Requests are admitted, fill the pool and lose their KV before they get anywhere. Let fewer run at a time.",
    )


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
    for recording in recordings(names, product):
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
