"""Rules and dashboard: promtool takes them, and the alerts fire in the state they are for and in no other."""

import json
import subprocess

import pytest

from kvmodel.diagnosis import from_scrapes, grafana, prometheus_rules, promql
from kvmodel.metrics.server_state import server
from tests.helpers.scrapes import program, sample, vllm

ENGINE = 'job="llm",instance="a:8000",model_name="m",engine="0"'
MINUTES = 120
SAMPLES = (
    "vllm_v0_idle_swap4gib", "vllm_0_33_classes_end", "composed_abs_vs_rate_t0", "sglang_dp8_retracted_excerpt",
    "vllm_0_10_deprecated_pairs_excerpt",
)  # fmt: skip
PRODUCTS = ("vllm", "sglang", "tensorrt-llm", "triton")


def names_in(text):
    found = server(from_scrapes.read(text))
    return found.names, found.product


def check(tmp_path, text):
    path = tmp_path / "rules.yml"
    path.write_text(text)
    done = subprocess.run([program("promtool"), "check", "rules", path], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCESS" in done.stdout
    return path


@pytest.mark.parametrize("name", SAMPLES)
def test_rules_for_a_sample_are_valid(name, tmp_path):
    names, product = names_in(sample(name))
    check(tmp_path, prometheus_rules.rules_yaml(names, product))


@pytest.mark.parametrize("product", PRODUCTS)
def test_rules_for_the_newest_names_are_valid(product, tmp_path):
    check(tmp_path, prometheus_rules.rules_yaml(promql.newest_names(product), product))


def series(**values):
    """Input series of an engine whose counters and gauges move as told, in promtool's words."""
    told = {
        "num_preemptions_total": "5120+0x120", "request_success_total": "1000+20x120",
        "kv_cache_usage_perc": "0.7+0x120", "num_requests_running": "30+0x120", "num_requests_waiting": "0+0x120",
        "generation_tokens_total": "0+60000x120",
    } | values  # fmt: skip
    finished = {"request_success_total": ',finished_reason="stop"'}
    return [
        {"series": f"vllm:{name}{{{ENGINE}{finished.get(name, '')}}}", "values": steps}
        for name, steps in told.items()
        if steps is not None
    ]


STATES = {  # what the engine does: the alerts that fire after two hours of it
    "healthy": ({}, []),
    "a counter that stands high since long ago": ({"num_preemptions_total": "99999+0x120"}, []),
    "two preemptions in an hour": ({"num_preemptions_total": "5120+0x90 5122+0x29"}, []),
    "idle": ({"request_success_total": "4+0x120", "num_requests_running": "0+0x120",
              "generation_tokens_total": "9+0x120"}, []),
    "pressure": ({"num_preemptions_total": "0+3x120", "kv_cache_usage_perc": "0.97+0x120"}, ["KvPreemptionPressure"]),
    "severe pressure": (
        {"num_preemptions_total": "0+6x120", "kv_cache_usage_perc": "0.97+0x120", "num_requests_waiting": "9+0x120"},
        ["KvPreemptionPressure", "KvPreemptionSevere"],
    ),
    "pressure that is over": ({"num_preemptions_total": "0+6x95 570+0x24"}, []),
    "pressure on few requests": ({"num_preemptions_total": "0+1x120", "request_success_total": "0+1x120"}, []),
    "queueing for memory": (
        {"num_requests_waiting": "20+0x120", "kv_cache_usage_perc": "0.98+0x120"}, ["KvQueueingForMemory"],
    ),
    "queueing for a place in the batch": ({"num_requests_waiting": "20+0x120"}, ["KvQueueingForBatch"]),
    "a queue that comes and goes": ({"num_requests_waiting": "20+0x110 0+0x9"}, []),
    "livelock": (
        {"num_preemptions_total": "0+40x120", "request_success_total": "1000+0x120",
         "kv_cache_usage_perc": "0.99+0x120", "num_requests_running": "5+0x120", "generation_tokens_total": "0+90x120"},
        ["KvLivelock"],
    ),
    "the counter is gone": ({"num_preemptions_total": None}, ["KvPreemptionsNotReported"]),
}  # fmt: skip


@pytest.mark.parametrize("state", STATES)
def test_an_alert_fires_in_its_state_alone(state, tmp_path):
    values, firing = STATES[state]
    rules = tmp_path / "rules.yml"
    rules.write_text(prometheus_rules.rules_yaml(*names_in(vllm())))
    expected = [{"labels": f'{{alertname="{alert}"}}', "value": 1} for alert in firing]
    test = {
        "rule_files": [str(rules)],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": series(**values),
                "promql_expr_test": [
                    {
                        "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                        "eval_time": f"{MINUTES}m",
                        "exp_samples": expected,
                    }
                ],
            }
        ],
    }
    path = tmp_path / "test.yml"
    path.write_text(json.dumps(test))  # JSON is YAML
    done = subprocess.run([program("promtool"), "test", "rules", path], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_recorded_ratio_is_per_engine(tmp_path):
    rules = tmp_path / "rules.yml"
    rules.write_text(prometheus_rules.rules_yaml(*names_in(vllm())))
    other = [
        {"series": entry["series"].replace('engine="0"', 'engine="1"'), "values": entry["values"]}
        for entry in series(num_preemptions_total="0+0x120")
    ]
    labels = 'kv:preemptions_per_100:ratio1h{{engine="{}",instance="a:8000",job="llm",model_name="m"}}'
    ratios = {
        "expr": "kv:preemptions_per_100:ratio1h",
        "eval_time": f"{MINUTES}m",
        "exp_samples": [{"labels": labels.format(0), "value": 15}, {"labels": labels.format(1), "value": 0}],
    }
    pressed = series(num_preemptions_total="0+3x120")
    tests = [{"interval": "1m", "input_series": pressed + other, "promql_expr_test": [ratios]}]
    path = tmp_path / "test.yml"
    path.write_text(json.dumps({"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": tests}))
    done = subprocess.run([program("promtool"), "test", "rules", path], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_rules_use_the_names_that_are_there():
    names, product = names_in(sample("vllm_v0_idle_swap4gib"))
    text = prometheus_rules.rules_yaml(names, product)
    assert "vllm:gpu_cache_usage_perc" in text
    assert "kv_cache_usage_perc" not in text.replace("gpu_cache_usage_perc", "")
    names, product = names_in(vllm().replace("vllm:", "ray_vllm_"))
    assert "increase(ray_vllm_num_preemptions_total[1h])" in prometheus_rules.rules_yaml(names, product)


def test_a_series_told_apart_by_a_label_keeps_it():
    text = 'nv_trt_llm_request_metrics{request_type="waiting",model="m",version="1"} 3\n'
    names, product = names_in(text)
    assert promql.promql(names, product)["waiting requests"] == (
        'sum by (job, instance, model_name) (nv_trt_llm_request_metrics{request_type="waiting"})'
    )


def test_a_gauge_of_retractions_is_never_summed_over_time():
    names, product = names_in(sample("sglang_dp8_retracted_excerpt"))
    text = prometheus_rules.rules_yaml(names, product)
    assert "max_over_time(sglang:num_retracted_reqs[15m])" in text
    assert "increase(sglang:num_retracted_reqs[" not in text


def test_sparse_events_are_counted_by_increase():
    for product in PRODUCTS:
        names = promql.newest_names(product)
        for recording in promql.recordings(names, product):
            assert "rate(" not in recording.expr or "tokens" in recording.record


@pytest.mark.parametrize("product", PRODUCTS)
def test_a_dashboard_can_be_imported(product):
    drawn = json.loads(json.dumps(grafana.dashboard(promql.newest_names(product), product)))
    assert drawn["panels"]
    assert len({panel["id"] for panel in drawn["panels"]}) == len(drawn["panels"])
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in drawn["panels"]]
    assert len(set(places)) == len(places)
    assert all(x + 12 <= 24 for x, _ in places)
    for panel in drawn["panels"]:
        assert panel["targets"]
        assert all(target["expr"] and target["datasource"]["uid"] == "${datasource}" for target in panel["targets"])
    assert drawn["templating"]["list"][0]["name"] == "datasource"


def test_a_dashboard_draws_what_is_reported_alone():
    titles = [panel["title"] for panel in grafana.dashboard(*names_in(sample("composed_abs_vs_rate_t0")))["panels"]]
    assert titles == ["Preemptions per 100 finished requests", "KV pool in use"]
    whole = grafana.dashboard(*names_in(sample("vllm_0_33_classes_end")))["panels"]
    assert len(whole) == len(grafana.PANELS)
    bands = whole[0]["fieldConfig"]["defaults"]["thresholds"]["steps"]
    assert [step["value"] for step in bands] == [None, 10, 20]
