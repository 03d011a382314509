"""Which server a page is from: engines, ranks, names and versions, by rule for any labels."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvmodel import catalog
from kvmodel.catalog import releases
from kvmodel.diagnosis import from_scrapes
from kvmodel.errors import CaseError
from kvmodel.metrics import era, metric_names
from kvmodel.metrics.server_state import server
from tests.helpers.scrapes import sample, vllm

CHECKED = settings(derandomize=True, deadline=None, max_examples=60)


def of(text):
    return server(from_scrapes.read(text))


def only(text):
    (engine,) = of(text).engines
    return engine


def detected(text):
    scrape = from_scrapes.read(text)
    return era.detected(server(scrape).product, scrape)


# --- values ---


def test_one_engine():
    engine = only(vllm(running=8, waiting=2, usage=0.5, preemptions=7, finished=1000))
    assert engine.labels == {"engine": "0", "model_name": "meta-llama/Llama-3.1-8B-Instruct"}
    assert (engine.gauges["running"], engine.gauges["waiting"], engine.usage) == (8, 2, 0.5)
    assert engine.counters["preemptions"] == 7
    assert engine.counters["prompt_tokens"] == 1_500_000
    assert engine.pool_tokens == 5000 * 16


def test_finish_reasons_add_up():
    engine = only(sample("composed_abs_vs_rate_t1"))
    assert engine.counters["finished"] == 1_205_000
    assert engine.counters["finished.stop"] == 1_180_950
    assert engine.counters["finished.abort"] == 2_010


def test_a_pair_of_old_and_new_names_is_never_added():
    text = vllm(usage=0.25) + 'vllm:gpu_cache_usage_perc{engine="0",model_name="m"} 0.75\n'.replace(
        'model_name="m"', 'model_name="meta-llama/Llama-3.1-8B-Instruct"'
    )
    assert only(text).usage == 0.25
    label = 'engine="0",model_name="m"'
    pairs = "".join(
        f"vllm:{old}prefix_cache_{what}_total{{{label}}} {count}\n"
        for old in ("", "gpu_") for what, count in (("queries", 100), ("hits", 40))
    )  # fmt: skip
    assert only(pairs).counters == {"prefix_queries": 100, "prefix_hits": 40}


def test_the_old_name_stands_in_where_the_new_is_not_reported():
    text = 'vllm:kv_cache_usage_perc{engine="0"} NaN\nvllm:gpu_cache_usage_perc{engine="0"} 0.75\n'
    assert only(text).usage == 0.75


@pytest.mark.parametrize("text", ["-1", "NaN", "None"])
def test_not_reported_is_not_zero(text):
    engine = only(f'vllm:num_requests_waiting{{engine="0"}} {text}\nvllm:num_requests_running{{engine="0"}} 1\n')
    assert engine.gauges == {"running": 1}


def test_created_lines_and_histograms_named_total_are_no_counts():
    engine = only(vllm() + 'vllm:num_preemptions_created{engine="0",model_name="x"} 1.78e9\n')
    assert engine.counters["preemptions"] == 0
    old = only(sample("vllm_v0_idle_swap4gib"))
    assert old.counters["generation_tokens"] == 955  # 1,103 are in vllm:iteration_tokens_total


@pytest.mark.parametrize(("usage", "share"), [(0.0, 0.0), (1.0, 1.0), (1.02, 1.0), (1.021, None), (45, None)])
def test_a_usage_a_little_above_one_is_full_and_more_is_refused(usage, share):
    if share is not None:
        assert only(vllm(usage=usage)).usage == share
        return
    with pytest.raises(CaseError, match=rf"SCRAPE: vllm:\w+_usage_perc is {usage:g}; allowed: a share from 0 to 1"):
        only(vllm(usage=usage))


@pytest.mark.parametrize("name", ["vllm:cpu_cache_usage_perc", "vllm:gpu_prefix_cache_hit_rate"])
def test_so_are_the_other_shares(name):
    with pytest.raises(CaseError, match=f"{name} is 1.5; allowed: a share"):
        only(vllm(usage=0.5) + f'{name}{{engine="0",model_name="x"}} 1.5\n')


@pytest.mark.parametrize("kind", ["", "external_"])
def test_more_hits_than_queries_are_left_out_and_named(kind):
    labels = '{engine="0",model_name="x"}'
    text = f"vllm:{kind}prefix_cache_queries_total{labels} 100\nvllm:{kind}prefix_cache_hits_total{labels} "
    found = of(f"{vllm(usage=0.5)}{text}103\n")
    assert f"more vllm:{kind}prefix_cache_hits_total than vllm:{kind}prefix_cache_queries_total: both left out" in (
        found.notes
    )
    assert not {f"{kind or 'prefix_'}hits", f"{kind or 'prefix_'}queries"} & found.engines[0].counters.keys()
    assert of(f"{vllm(usage=0.5)}{text}102\n").notes == ()


def test_a_histogram_that_contradicts_itself_is_left_out_and_named():
    labels = '{engine="0",model_name="x"'
    rows = "".join(
        f"vllm:time_to_first_token_seconds_{part} {value}\n"
        for part, value in ((f"bucket{labels},le=\"1\"}}", 90), (f"bucket{labels},le=\"+Inf\"}}", 50),
                            (f"sum{labels}}}", 60), (f"count{labels}}}", 50))
    )  # fmt: skip
    found = of(vllm(usage=0.5) + rows)
    assert found.notes == (
        "vllm:time_to_first_token_seconds: a bucket counts less than one of a lower bound; left out",
    )
    assert "ttft" not in found.engines[0].histograms


@pytest.mark.parametrize("prefix", ["ray_vllm_", "ray_vllm:", "vllm_"])
def test_ray_and_others_write_the_names_in_their_own_way(prefix):
    text = vllm(preemptions=7)
    assert only(text.replace("vllm:", prefix)) == only(text)


def test_a_counter_may_lack_its_total():
    text = vllm(preemptions=7)
    assert only(text.replace("num_preemptions_total", "num_preemptions")) == only(text)


def test_the_host_pool_of_v0_tells_the_bytes_of_a_token():
    """4 GiB hold 9,362 blocks of 16 tokens: 28,672 B a token, and so the pool has 34.9 GiB (Qwen2.5 1.5B)."""
    engine = only(sample("vllm_v0_idle_swap4gib"))
    assert engine.kv_bytes_per_token == 28_672
    assert engine.pool_tokens == 1_308_272


# --- engines and ranks ---


def test_engines_of_one_page():
    found = of("".join(vllm(engine=str(rank), preemptions=rank, blocks=100 + rank) for rank in range(3)))
    assert [engine.labels["engine"] for engine in found.engines] == ["0", "1", "2"]
    assert [engine.counters["preemptions"] for engine in found.engines] == [0, 1, 2]
    assert [engine.pool_tokens for engine in found.engines] == [1600, 1616, 1632]


def test_replicas_told_apart_by_what_prometheus_adds():
    pods = [vllm(labels=f',pod="p{pod}",namespace="prod"', preemptions=pod) for pod in range(2)]
    found = of("".join(pods))
    assert [engine.labels["pod"] for engine in found.engines] == ["p0", "p1"]
    assert [engine.counters["preemptions"] for engine in found.engines] == [0, 1]


def test_a_configuration_without_the_engines_labels_is_that_of_all():
    text = "".join(vllm(engine=str(rank)) for rank in range(2)).replace("vllm:cache_config_info", "x:unread")
    found = of(text + 'vllm:cache_config_info{block_size="32",num_gpu_blocks="10"} 1\n')
    assert [engine.pool_tokens for engine in found.engines] == [320, 320]


def test_sglang_counts_requests_for_all_its_ranks_together():
    text = "".join(
        f'sglang:num_running_reqs{{model_name="m",dp_rank="{rank}",tp_rank="{rank}"}} 5\n'
        f'sglang:num_retracted_requests_total{{model_name="m",dp_rank="{rank}",tp_rank="{rank}"}} 30\n'
        for rank in range(4)
    )
    found = of(text + 'sglang:num_requests_total{model_name="m"} 1000\n')
    assert len(found.engines) == 4
    assert found.shared.counters == {"finished": 1000}
    answer = from_scrapes.diagnose(text + 'sglang:num_requests_total{model_name="m"} 1000\n')
    assert answer["preemptions_per_100"] == pytest.approx(12)  # 4 x 30 in 1,000


def test_ranks_of_one_scheduler_are_not_added():
    text = "".join(f'sglang:num_running_reqs{{model_name="m",tp_rank="{rank}",pid="{rank}"}} 5\n' for rank in range(8))
    assert only(text).gauges["running"] == 5


def test_priorities_are_parts_of_a_total():
    total = 'sglang:num_queue_reqs{model_name="m",priority=""} 5\n'
    parts = "".join(f'sglang:num_queue_reqs{{model_name="m",priority="{one}"}} {one}\n' for one in (2, 3))
    assert only(total + parts).gauges["waiting"] == 5
    assert only(parts).gauges["waiting"] == 5


def test_the_product_with_most_series_is_read():
    found = of(vllm() + 'sglang:num_running_reqs{model_name="m"} 5\n')
    assert found.product == "vllm"
    assert found.notes == ("series of SGLang are in it too, and were left out",)


def test_tensorrt_llm_and_triton():
    text = 'trtllm_kv_cache_max_blocks{model_name="m"} 100\ntrtllm_kv_cache_tokens_per_block{model_name="m"} 32\n'
    assert only(text).pool_tokens == 3200
    kinds = {"max": 100, "tokens_per": 64, "fraction": 0.5, "used": 50}
    triton = "".join(
        f'nv_trt_llm_kv_cache_block_metrics{{kv_cache_block_type="{k}",model="m"}} {v}\n' for k, v in kinds.items()
    )
    engine = only(triton + 'nv_trt_llm_request_metrics{request_type="waiting",model="m"} 3\n')
    assert (engine.pool_tokens, engine.usage, engine.gauges["waiting"]) == (6400, 0.5, 3)


@CHECKED
@given(st.permutations(vllm(preemptions=7, waiting=3).splitlines() + vllm(engine="1").splitlines()))
def test_the_order_of_lines_does_not_matter(lines):
    assert of("\n".join(lines)).engines == of(vllm(preemptions=7, waiting=3) + vllm(engine="1")).engines


# --- versions ---


@pytest.mark.parametrize(
    ("name", "product", "engine", "versions"),
    [
        ("vllm_v0_idle_swap4gib", "vllm", "V0", "0.4.3 or newer, before 0.9.2"),
        ("vllm_0_10_deprecated_pairs_excerpt", "vllm", "V1", "0.10.0 or newer, before 0.13.0"),
        ("vllm_0_11_cache_config_offload", "vllm", "V1", "0.8.0 or newer, before 0.12.0"),
        ("vllm_0_33_classes_end", "vllm", "V1", "0.32.0 or newer"),
        ("composed_abs_vs_rate_t0", "vllm", "V1", "0.10.0 or newer"),
        ("sglang_dp8_retracted_excerpt", "sglang", None, "version not known"),
    ],
)
def test_versions_of_the_samples(name, product, engine, versions):
    found = detected(sample(name))
    assert (found.product, found.name, found.versions) == (product, engine, versions)


def test_names_of_versions_that_never_met():
    text = vllm() + 'vllm:num_requests_swapped{engine="0"} 0\n'  # V0's, beside waiting_by_reason of 0.20.0
    assert detected(text).mixed
    assert detected(text).versions == "several versions at once"


@pytest.mark.parametrize(
    ("version", "flag", "there"),
    [
        ("0.6.6", "--swap-space", True), ("0.17.1", "--swap-space", True), ("0.18.0", "--swap-space", False),
        ("0.10.2", "--preemption-mode", True), ("0.11.0", "--preemption-mode", False),
        ("0.23.9", "--watermark", False), ("0.24.0", "--watermark", True),
        ("0.19.1", "--gpu-memory-utilization", True), ("0.33.0", "--gpu-memory-utilization", True),
    ],
)  # fmt: skip
def test_flags_of_a_known_version(version, flag, there):
    assert era.standing(flag, era.given("vllm", version)) == (era.Standing() if there else None)


def test_flags_of_a_range():
    wide = era.Era("vllm", "V1", "0.10.0", None)
    assert era.standing("--watermark", wide) == era.Standing(needs="0.24.0")
    assert era.standing("--swap-space", wide) is None  # gone in some of them
    assert era.standing("--preemption-mode", era.Era("vllm", "V1", "0.10.0", "0.11.0")) == era.Standing()
    assert era.standing("--watermark", era.Era("vllm", "V1", "0.10.0", "0.13.0")) is None
    assert era.standing("--no-such-flag", wide) is None


def test_flags_where_the_version_is_not_known():
    """A flag that was read in one release is said to be of that one, not to need it."""
    assert era.standing("--schedule-conservativeness", era.Era("sglang")) == era.Standing(as_of="0.5.23")
    assert era.standing("--watermark", era.Era("vllm")) == era.Standing(needs="0.24.0")
    assert era.standing("--mem-fraction-static", era.Era("sglang"), "0.5.23") == era.Standing(as_of="0.5.23")


@CHECKED
@given(
    st.sampled_from([row for row in releases.entries() if row.kind == "flag" and row.engine == "vllm"]),
    st.tuples(st.integers(4, 33), st.integers(0, 3)),
)
def test_a_flag_is_offered_only_where_the_releases_have_it(entry, version):
    text = "0.{}.{}".format(*version)
    offered = era.standing(entry.name, era.given("vllm", text)) == era.Standing()
    assert offered == releases.exists(entry.name, "vllm", text)


# --- the server as a Case ---


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("meta-llama/Meta-Llama-3-8B-Instruct", "llama-3-8b"), ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("/models/Qwen2.5-7B-Instruct-AWQ", "qwen2.5-7b"), ("Qwen/Qwen3-30B-A3B-FP8", "qwen3-30b-a3b"),
        ("deepseek-ai/DeepSeek-V3", "deepseek-v3"), ("deepseek-r1", "deepseek-v3"),
        ("google/gemma-3-27b-it", "gemma-3-27b"), ("RedHatAI/Llama-3.3-70B-Instruct-quantized.w8a8", "llama-3.3-70b"),
        ("acme/secret-7b", None), ("", None), ("-instruct", None), ("a" * 10_000, None),
    ],
)  # fmt: skip
def test_served_names_are_models_of_the_catalog(name, model):
    assert catalog.model_id(name) == model


def test_every_name_has_one_meaning_and_an_engine():
    for engine in metric_names.engines():
        for name in metric_names.meanings_by_name():
            own = metric_names.own_name(name)
            assert own is not None
            assert own[1] == name
        assert metric_names.label(engine)
