"""What each engine's series mean: newer names first, by label, as the engines and their exporters spell them."""

import ast
from collections import Counter
from pathlib import Path
from typing import get_args

import pytest

from kvmodel import catalog
from kvmodel.diagnosis import from_scrapes
from kvmodel.metrics import link_rate, metric_names, server_state
from kvmodel.metrics.server_state import server
from tests.helpers.scrapes import SAMPLES, sample

LABELS = 'engine="0",model_name="m"'


def only(text):
    (engine,) = server(from_scrapes.read(text)).engines
    return engine


def page(*lines):
    return "".join(f"{line}\n" for line in lines)


def test_vllm_0_33_by_reason_and_by_source():
    engine = only(sample("vllm_0_33_classes_mid"))
    gauges, counters = engine.gauges, engine.counters
    assert gauges["deferred"] == 0 < gauges["waiting"]
    assert gauges["awake"] == 1
    parts = [counters[f"prompt_from.{place}"] for place in ("local_compute", "local_cache_hit", "external_kv_transfer")]
    assert sum(parts) == counters["prompt_from"] == counters["prompt_tokens"] > 0
    assert counters["rejected"] == counters["rejected.max_num_queued_reqs"] == 0
    assert counters["rejected.max_num_queued_tokens"] == 0
    assert engine.histograms["prefill_time"].count == counters["finished"] > 0  # observed when a request finishes


def test_a_label_of_a_part_makes_no_engine():
    stages = {"waiting_to_start": 4, "in_progress": 2, "completed_waiting": 1}
    lines = [f'vllm:num_requests_kv_fetch_by_stage{{{LABELS},stage="{stage}"}} {n}' for stage, n in stages.items()]
    asleep = f'vllm:engine_sleep_state{{{LABELS},sleep_state="awake"}} 0'
    engine = only(page(f"vllm:num_requests_waiting{{{LABELS}}} 7", *lines, asleep))
    assert engine.labels == {"engine": "0", "model_name": "m"}
    assert engine.gauges == {"waiting": 7, "load_unstarted": 4, "load_running": 2, "load_done": 1, "awake": 0}


def test_preemptions_by_reason_add_up():
    reasons = {"kv_full": 7, "priority": 2, "prefix_cache_reset": 1}
    lines = [f'vllm:num_preemptions_by_reason_total{{{LABELS},reason="{name}"}} {n}' for name, n in reasons.items()]
    counters = only(page(f"vllm:num_preemptions_total{{{LABELS}}} 10", *lines)).counters
    assert [counters[f"preempted_for.{reason}"] for reason in reasons] == [7, 2, 1]
    assert counters["preemptions"] == 10


def test_of_the_old_and_the_new_copy_counters_the_new_count():
    """0.24 to 0.33 export both."""
    old = [
        f'vllm:kv_offload_total_{what}_total{{{LABELS},transfer_type="{way}"}} {value}'
        for way, what, value in (("CPU_to_GPU", "bytes", 5e9), ("GPU_to_CPU", "bytes", 6e9), ("CPU_to_GPU", "time", 2))
    ]
    counters = only(page(*old)).counters
    assert (counters["load_bytes"], counters["store_bytes"], counters["load_time"]) == (5e9, 6e9, 2)
    assert only(page(*old, f"vllm:kv_offload_load_bytes_total{{{LABELS}}} 7e9")).counters["load_bytes"] == 7e9


def test_sglangs_copies_are_read_of_one_rank_and_of_the_kv_pool():
    ranks = [f'engine_type="unified",model_name="m",tp_rank="{rank}"' for rank in range(4)]
    lines = [
        line
        for rank in ranks
        for line in (
            f'sglang:load_back_tokens_total{{{rank},pool="kv"}} 1000',
            f'sglang:load_back_tokens_total{{{rank},pool="swa"}} 300',
            f"sglang:load_back_bytes_total{{{rank}}} 4e6",
            f"sglang:load_back_duration_seconds_sum{{{rank}}} 0.5",
            f"sglang:load_back_duration_seconds_count{{{rank}}} 3",
            f"sglang:num_grammar_queue_reqs{{{rank}}} 2",
        )
    ]
    engine = only(page(*lines))
    assert engine.counters == {"load_tokens": 1000, "load_bytes": 4e6}
    assert engine.histograms["load_time"].total == 0.5
    assert engine.gauges == {"grammar_queue": 2}


def test_tensorrt_llm_tells_its_seats_and_counts_completions_without_request_metrics():
    engine = only(page("trtllm_max_num_active_requests 64", "trtllm_num_requests_completed_total 12"))
    assert (engine.gauges["seat_limit"], engine.counters["finished"]) == (64, 12)
    both = page("trtllm_num_requests_completed_total 12", 'trtllm_request_success_total{finished_reason="stop"} 11')
    assert only(both).counters["finished"] == 11


SPELLINGS = [
    ("vllm", "vllm_num_requests_running"), ("vllm", "ray_vllm_num_requests_running"),
    ("vllm", "ray_vllm:num_requests_running"), ("vllm", "vllm.num_requests_running"),
    ("vllm", "vllm.num.requests.running"), ("sglang", "sglang_num_running_reqs"),
    ("sglang", "ray_sglang_num_running_reqs"), ("sglang", "ray_sglang:num_running_reqs"),
    ("sglang", "sglang.num_running_reqs"), ("tensorrt-llm", "trtllm:num_requests_running"),
    ("tensorrt-llm", "trtllm.num_requests_running"),
]  # fmt: skip


@pytest.mark.parametrize("form", ["{name}{{{labels}}} 3", '{{"{name}",{labels}}} 3', '{{"{name}"}} 3', "{name} 3"])
@pytest.mark.parametrize(("engine", "name"), SPELLINGS)
def test_other_spellings_mean_the_same(engine, name, form):
    """Underscores for colons (Ray, exporters), OpenTelemetry's dots, and the quoted names of Prometheus 3."""
    state = server(from_scrapes.read(form.format(name=name, labels='a="b"')))
    assert state.product == engine
    assert [one.gauges for one in state.engines] == [{"running": 3}]
    assert not state.notes


def test_every_name_begins_with_its_engines_prefix_and_means_one_thing():
    """Two meanings of one name are told apart by a label, or the whole stands beside its parts."""
    for rows in catalog.table("metrics").values():
        for kind in metric_names.KINDS:
            for names in rows.get(kind, {}).values():
                assert all(metric_names.cut_spec(name)[0].startswith(rows["prefixes"][0]) for name in names)
    for name, meanings in metric_names.meanings_by_name().items():
        assert len({meaning.only for meaning in meanings}) == len(meanings), name


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*0_33*.prom")), ids=lambda path: path.stem)
def test_names_of_the_newest_version_are_those_of_its_own_classes(path):
    """A name that vLLM 0.33 exports without any option is in its page as it is spelled here."""
    sampled = from_scrapes.read(path.read_bytes()).sampled
    rows = catalog.table("metrics")["vllm"]
    optional = ("kv_offload", "kv_fetch", "preemptions_by_reason", "swapped", "cpu_cache", "hit_rate")
    for kind, suffix in (("gauge", ""), ("counter", ""), ("histogram", "_count"), ("info", "")):
        for names in rows[kind].values():
            name, _ = metric_names.cut_spec(names[0])
            assert name + suffix in sampled or any(word in name for word in optional), name


def read_words():
    """Every text in the packages that read metrics and judge them, f"{way}_bytes" for every way of a copy.

    What merely writes gauges (lines of a log) or adds them up (ADDED) reads none of them.
    """
    package = Path(metric_names.__file__).parents[1]
    files = [*(package / "metrics").glob("*.py"), *(package / "diagnosis").glob("*.py")]
    for file in sorted(files):
        if file.name == "running_line_forms.py":
            continue
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value
            elif isinstance(node, ast.JoinedStr) and ast.unparse(node).startswith("f'{way}_"):
                yield from (way + node.values[1].value for way in get_args(link_rate.Way))


def test_every_word_is_read_by_something():
    read = Counter(read_words()) - Counter(server_state.ADDED)
    rows = catalog.table("metrics").values()
    words = {word for row in rows for kind in metric_names.KINDS if kind != "info" for word in row.get(kind, {})}
    assert words - read.keys() == set()


def test_every_word_that_adds_up_is_one_of_an_engine():
    words = {word for row in catalog.table("metrics").values() for word in row.get("gauge", {})}
    assert set(server_state.ADDED) <= words
