"""A Grafana dashboard for the names a server really has: a panel for each expression of the diagnosis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvmodel.diagnosis.promql import by, promql
from kvmodel.diagnosis.thresholds import limit
from kvmodel.metrics import metric_names

SCHEMA = 39  # Grafana 10 and newer
WIDTH, HEIGHT, COLUMNS = 12, 8, 24
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
# Panels: title, unit, the expressions in it.
PANELS = (
    ("Preemptions per 100 finished requests", "none", ("preemptions per 100 finished requests",)),
    ("KV pool in use", "percentunit", ("share of the KV pool in use",)),
    ("Requests", "short", ("running requests", "waiting requests")),
    ("Requests that wait", "percentunit", ("share of requests that wait",)),
    ("Tokens", "short", ("generated tokens per second", "prompt tokens per second")),
    ("Time between tokens", "s", ("time between tokens, p50", "time between tokens, p95")),
    ("Time to the first token", "s", ("time to the first token, p50", "time to the first token, p95")),
    ("Prefix cache", "percentunit", ("share of looked-up tokens in the prefix cache",)),
    ("Requests preempted at least twice", "percentunit", ("share of requests preempted at least twice",)),
)


def dashboard(names: Mapping[str, str], product: str) -> dict[str, Any]:
    """The dashboard as Grafana imports it; panels without a series are left out."""
    expressions = promql(names, product)
    panels = [
        (title, unit, {what: expressions[what] for what in keys if what in expressions}) for title, unit, keys in PANELS
    ]
    rows = [(title, unit, lines) for title, unit, lines in panels if lines]
    return {
        "title": f"KV cache pressure, {metric_names.label(product)}",
        "uid": f"kv-pressure-{product}",
        "schemaVersion": SCHEMA,
        "editable": True,
        "time": {"from": "now-6h", "to": "now"},
        "refresh": "1m",
        "tags": ["kv-cache"],
        "templating": {
            "list": [{"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}]
        },
        "panels": [panel(number, *row, product) for number, row in enumerate(rows)],
    }


def panel(number: int, title: str, unit: str, expressions: Mapping[str, str], product: str) -> dict[str, Any]:
    """One panel, two in a row."""
    several = len(expressions) > 1
    legend = " ".join(f"{{{{{label}}}}}" for label in by(product).split(", ")[1:])
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": title,
        "datasource": SOURCE,
        "gridPos": {"x": number * WIDTH % COLUMNS, "y": number * WIDTH // COLUMNS * HEIGHT, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": unit, "min": 0, **thresholds(title)}, "overrides": []},
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": SOURCE,
                "expr": expression,
                "legendFormat": f"{what} {legend}" if several else legend,
            }
            for index, (what, expression) in enumerate(expressions.items())
        ],
    }


def thresholds(title: str) -> dict[str, Any]:
    """The article's bands as lines on the panel of preemptions, the pool's limits on that of its use."""
    lines = {
        PANELS[0][0]: (limit("band", "tune"), limit("band", "most")),
        PANELS[1][0]: (limit("usage", "high"), limit("usage", "full")),
    }.get(title)
    if lines is None:
        return {}
    colors = zip(("green", "orange", "red"), (None, *lines), strict=True)
    steps = [{"color": color, "value": value} for color, value in colors]
    return {"thresholds": {"mode": "absolute", "steps": steps}, "custom": {"thresholdsStyle": {"mode": "line"}}}
