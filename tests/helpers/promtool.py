"""Scrapes as input series of promtool: what a server shows between two scrapes goes on for two hours."""

import json
import re
import subprocess

from kvmodel.diagnosis import prometheus_rules
from kvmodel.diagnosis.from_scrapes import read
from kvmodel.metrics import metric_names
from kvmodel.metrics.server_state import server
from tests.helpers.scrapes import program

MINUTES = 120
RAMP = 60
FIRST_EVENT = 90  # minute in which a counter appears that the first scrape lacks


def input_series(before, after, seconds):
    """A gauge goes from its first value to its last in an hour; a counter grows at its rate from its first event on."""
    early = {(one.name, tuple(sorted(one.labels.items())), one.le): one.value for one in read(before).samples}
    rows = []
    for one in read(after).samples:
        meanings = metric_names.meanings(one.name)
        if not meanings or one.value is None:
            continue
        bound = {} if one.le is None else {"le": str(one.le)}
        labels = {"job": "llm", "instance": "a:8000"} | one.labels | bound
        written = ",".join(f'{key}="{value}"' for key, value in labels.items())
        start = early.get((one.name, tuple(sorted(one.labels.items())), one.le))
        rise = (one.value - (one.value if start is None else start)) / RAMP
        values = (
            f"{one.value if start is None else start}+0x{MINUTES - RAMP - 1} {one.value - rise * RAMP}{rise:+}x{RAMP}"
        )
        if meanings[0].kind in ("counter", "histogram"):
            each = (one.value - (start or 0.0)) * 60 / seconds
            values = f"{start}+{each}x{MINUTES}"
            if start is None:
                hour = each * 60 / (MINUTES - FIRST_EVENT)
                values = f"_x{FIRST_EVENT} {hour}+{hour}x{MINUTES - FIRST_EVENT}"
        rows.append({"series": f"{one.name}{{{written}}}", "values": values})
    return rows


def firing(tmp_path, before, after, seconds, *, rules_from=None):
    """The alerts that fire after two hours, by the rules for the names of a scrape."""
    found = server(read(rules_from or after))
    rules = tmp_path / "rules.yml"
    rules.write_text(prometheus_rules.rules_yaml(found.names, found.product))
    expression = 'count by (alertname) (ALERTS{alertstate="firing"}) or vector(-1)'
    asked = {
        "expr": expression,
        "eval_time": f"{MINUTES}m",
        "exp_samples": [],
    }  # never so: promtool shows what there is
    test = {"interval": "1m", "input_series": input_series(before, after, seconds), "promql_expr_test": [asked]}
    path = tmp_path / "test.yml"
    path.write_text(json.dumps({"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": [test]}))
    done = subprocess.run([program("promtool"), "test", "rules", path], capture_output=True, text=True)
    shown = done.stdout + done.stderr
    assert "got:" in shown, shown
    return set(re.findall(r'alertname="(\w+)"', shown))
