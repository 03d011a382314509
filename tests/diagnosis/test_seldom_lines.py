"""What only some servers report: admission, where prompt tokens came from, tiers behind the GPU, sleep."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvmodel.diagnosis.from_scrapes import diagnose
from kvmodel.metrics.server_rates import computed_share, prompt_by_source
from kvmodel.metrics.server_state import Engine
from kvmodel.texts import diagnosis_lines
from tests.helpers.scrapes import asleep, from_sources, sglang, trtllm, turned_away, vllm

OWN = 'engine="0",model_name="meta-llama/Llama-3.1-8B-Instruct"'


def page(*lines, own=OWN):
    return "".join(line.replace("OWN", own) + "\n" for line in lines)


def values(*scrapes, **more):
    return {line.what: line.value for line in diagnosis_lines.lines(diagnose(*scrapes, **more))}


def test_a_server_without_any_of_it_shows_no_line_of_it():
    shown = set(values(vllm()))
    assert not shown & {
        "turned away at admission",
        "host KV pool in use",
        "found in the outer tier",
        "aborted or failed",
    }


def test_sglang_tells_where_prompts_were_found_and_how_full_the_host_is():
    extra = page(
        'sglang:cached_tokens_total{OWN,cache_source="device"} 300000',
        'sglang:cached_tokens_total{OWN,cache_source="host"} 100000',
        "sglang:hicache_host_used_tokens{OWN} 30000", "sglang:hicache_host_total_tokens{OWN} 40000",
        'sglang:hicache_dropped_tokens_total{OWN,pool="kv"} 2048', "sglang:num_aborted_requests_total{OWN} 7",
        "sglang:num_decode_transfer_queue_reqs{OWN} 3", "sglang:num_grammar_queue_reqs{OWN} 0",
        own='model_name="m"',
    )  # fmt: skip
    found = values(sglang() + extra)
    assert found["prompt tokens by source"] == "50 % computed, 38 % device, 12 % host"
    assert found["host KV pool in use"] == "75 %"
    assert found["KV dropped without a copy"] == "2,048 tokens"
    assert found["aborted or failed"] == "7"
    assert found["requests in other queues"] == "3 transfer"


def test_tensorrt_llm_tells_its_host_pool_and_its_errors():
    extra = page("trtllm_kv_cache_host_utilization{OWN} 0.4", "trtllm_request_error_total{OWN} 3", own='model_name="m"')
    found = values(trtllm() + extra)
    assert (found["host KV pool in use"], found["aborted or failed"]) == ("40 %", "3")


def test_what_vllm_calls_use_of_the_host_is_what_copies_hold():
    """Blocks that may be evicted count as free there: 0 at rest, whatever the host keeps."""
    found = values(vllm() + page("vllm:kv_offload_cpu_cache_usage_perc{OWN} 0.25"))
    assert found["host KV pool held by copies under way"] == "25 %"
    assert "host KV pool in use" not in found
    v0 = page("vllm:num_requests_running{OWN} 3", "vllm:cpu_cache_usage_perc{OWN} 0.1")
    assert values(v0)["host KV pool in use"] == "10 %"


def test_copies_to_and_behind_the_host():
    extra = page(
        "vllm:kv_offload_allocation_failure_total{OWN} 12",
        'vllm:kv_offload_tiering_read_bytes_total{OWN,tier="1:fs"} 6e9',
        'vllm:kv_offload_tiering_read_time_total{OWN,tier="1:fs"} 2',
        'vllm:num_requests_kv_fetch_by_stage{OWN,stage="waiting_to_start"} 4',
        'vllm:num_requests_kv_fetch_by_stage{OWN,stage="completed_waiting"} 1',
    )
    found = values(vllm(waiting=9) + extra)
    assert found["stores that found no room"] == "12"
    assert found["reads behind host memory"] == "3.0 GB/s, as measured"
    assert found["waiting requests by their KV load"] == "4 not started, 1 done"
    assert "writes behind host memory" not in found


def test_the_outer_tier_is_asked_for_what_the_gpu_has_not():
    extra = page(
        "vllm:external_prefix_cache_queries_total{OWN} 8000", "vllm:external_prefix_cache_hits_total{OWN} 2000"
    )
    assert values(vllm() + extra)["found in the outer tier"] == "25 %"


def test_a_hit_rate_without_counters_is_shown_and_takes_nothing_off_the_load():
    """Lines of a log: in newer vLLM their prompt tokens are those computed already."""
    line = (
        "INFO 11-30 10:0{minute}:00 [loggers.py:259] Engine 000: Avg prompt throughput: 100.0 tokens/s, Avg generation "
        "throughput: 50.0 tokens/s, Running: 3 reqs, Waiting: 0 reqs, GPU KV cache usage: 5.0%, Prefix cache hit rate: "
        "45.0%, External prefix cache hit rate: 20.0%\n"
    )
    log = "".join(line.format(minute=minute) for minute in range(3))
    found, answer = values(log), diagnose(log)
    assert (found["found in the prefix cache"], found["found in the outer tier"]) == ("45 %", "20 %")
    assert answer["rates"]["computed_share"] is None
    v0 = page("vllm:num_requests_running{OWN} 3", "vllm:gpu_prefix_cache_hit_rate{OWN} 0.3")
    (hits,) = (one for one in diagnosis_lines.lines(diagnose(v0)) if one.what == "found in the prefix cache")
    assert (hits.value, hits.metrics, hits.over) == ("30 %", ("vllm:gpu_prefix_cache_hit_rate",), "state")


SHARES = {  # counters of a window: the share of prompt tokens that is computed
    "nothing told": ({"prompt_tokens": 100.0}, None),
    "nothing came": ({"prefix_queries": 0.0, "prefix_hits": 0.0}, None),
    "looked up": ({"prefix_queries": 100.0, "prefix_hits": 40.0}, 0.6),
    "looked up in two tiers": ({"prefix_queries": 100.0, "prefix_hits": 40.0, "external_hits": 50.0}, 0.1),
    "the source goes before lookups, which count each try": (
        {"prefix_queries": 3000.0, "prefix_hits": 2900.0, "prompt_from": 100.0, "prompt_from.local_compute": 70.0,
         "prompt_from.local_cache_hit": 30.0}, 0.7,
    ),
    "SGLang, one source": ({"prompt_tokens": 100.0, "cached_tokens": 25.0}, 0.75),
}  # fmt: skip


@pytest.mark.parametrize("name", SHARES)
def test_share_of_prompt_tokens_that_is_computed(name):
    counters, share = SHARES[name]
    assert computed_share(Engine(counters=counters)) == (None if share is None else pytest.approx(share))


@given(st.dictionaries(
    st.sampled_from((
        "prompt_tokens", "cached_tokens", "cached_tokens.device", "prefix_queries", "prefix_hits", "external_hits",
        "prompt_from.local_compute", "prompt_from.local_cache_hit", "prompt_from.external_kv_transfer",
    )), st.floats(0, 1e12),
))  # fmt: skip
def test_a_share_is_one_whatever_is_reported(counters):
    engine = Engine(counters=counters)
    share = computed_share(engine)
    assert share is None or 0 <= share <= 1
    assert all(count >= 0 for count in prompt_by_source(engine).values())


def test_prompts_found_are_not_in_the_load_of_prefill_nor_in_what_is_computed_again():
    before, after = (
        vllm(finished=n, preemptions=p, prompt=8000) + from_sources(local_compute=n * 2000, local_cache_hit=n * 6000)
        for n, p in ((1000, 0), (2000, 100))
    )
    answer = diagnose(before, after, seconds=600)
    assert answer["rates"]["computed_share"] == 0.25
    lost, share = answer["recompute"]["lost_tokens"][1], answer["recompute"]["prefill_share"][1]
    assert share == pytest.approx(lost / (lost + 1000 * 2000))


def test_rejections_of_the_api_server_are_those_of_all_engines():
    """They have no engine's label: no engine alone queues, the server does."""
    pages = [
        vllm(engine="0", finished=n) + vllm(engine="1", finished=n) + turned_away(rejected)
        for n, rejected in ((1000, 0), (2000, 900))
    ]
    answer = diagnose(*pages, seconds=600)
    assert (answer["verdict"], answer["waits_for"]) == ("queueing", "entry")
    assert answer["lead"]["name"] == "the server"
    assert "900 max_num_queued_reqs" in answer["reason"]
    assert {one["verdict"] for one in answer["engines"]} == {"healthy"}
    assert answer["hot_engine"] is None


@pytest.mark.parametrize(
    ("limits", "flag"), [((500, 0), "--max-num-queued-reqs"), ((0, 500), "--max-num-queued-tokens")]
)
def test_more_capacity_goes_before_a_longer_queue(limits, flag):
    advice = diagnose(vllm(finished=1000) + turned_away(), vllm(finished=2000) + turned_away(*limits), seconds=600)[
        "advice"
    ]
    assert [row["id"] for row in advice] == ["replicas", "admission-limit"]
    assert advice[1]["flag"] == flag
    assert "longer" in advice[1]["risk"]


def test_rejections_since_the_start_are_said_to_be_old_ones():
    answer = diagnose(vllm() + turned_away(900))
    assert answer["waits_for"] == "entry"
    assert any("two scrapes tell what happens now" in note for note in answer["notes"])


def test_few_rejections_are_shown_and_no_verdict():
    answer = diagnose(vllm(finished=10) + turned_away(), vllm(finished=40) + turned_away(30), seconds=600)
    assert answer["verdict"] == "too little data", "30 of 60, and a share needs 100"
    assert answer["rates"]["rejected"]["max_num_queued_reqs"] == 30


def test_an_engine_that_sleeps_is_not_stuck():
    answer = diagnose(vllm(running=0, waiting=4) + asleep())
    assert (answer["verdict"], answer["waits_for"]) == ("queueing", "a wake-up")
    assert [row["id"] for row in answer["advice"]] == ["wake"]
    assert "sleeps" in answer["reason"]
    assert diagnose(vllm(running=0, waiting=4) + asleep(awake=1))["verdict"] == "stuck"


def test_one_that_sleeps_with_nothing_to_do_is_only_noted():
    answer = diagnose(vllm(running=0, waiting=0) + asleep())
    assert answer["verdict"] == "healthy"
    assert any("sleeps" in note for note in answer["notes"])
    others = vllm(engine="0", running=0) + asleep(engine="0") + vllm(engine="1") + asleep(1, engine="1")
    assert not any("sleeps" in note for note in diagnose(others)["notes"]), "one of two"


def test_of_several_engines_the_one_that_sleeps_with_a_queue_is_named():
    pages = vllm(engine="0", running=0, waiting=5) + asleep(engine="0") + vllm(engine="1") + asleep(1, engine="1")
    answer = diagnose(pages)
    assert answer["lead"]["name"] == "engine 0"
    assert answer["waits_for"] == "a wake-up"
    assert answer["hot_engine"] is None
    assert [row["id"] for row in answer["advice"]] == ["wake"]
