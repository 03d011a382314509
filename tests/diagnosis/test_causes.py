"""Verdicts and advice: each state by its own signs, the field cases, and never a flag that the version lacks."""

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvmodel import catalog
from kvmodel.catalog import prices, releases
from kvmodel.diagnosis import causes, from_scrapes
from kvmodel.diagnosis.from_scrapes import diagnose
from kvmodel.diagnosis.served import ServerFacts
from kvmodel.errors import CaseError
from kvmodel.metrics import samples
from tests.helpers.scrapes import sample, vllm

CHECKED = settings(derandomize=True, deadline=None, max_examples=60)
H100 = ServerFacts({"gpu": "h100-sxm5-80gb"}, price_per_gpu_hour=2.5)


def between(before, after, seconds=600.0, facts=None):
    start = {"preemptions": 1000, "finished": 5000}
    return diagnose(vllm(**start | before), vllm(**start | before | after), seconds=seconds, facts=facts)


STATES = {  # before, what changes, the verdict
    "healthy": ({"usage": 0.6}, {"finished": 6000, "preemptions": 1002}, "healthy"),
    "a few %": ({"usage": 0.9}, {"finished": 6000, "preemptions": 1040}, "healthy"),
    "a full pool alone is no illness": ({"usage": 0.99}, {"finished": 6000}, "healthy"),
    "over the article's 10 %": ({"usage": 0.97}, {"finished": 6000, "preemptions": 1100}, "preemption pressure"),
    "over 20 %, and a queue": (
        {"usage": 0.97, "running": 60, "waiting": 20}, {"finished": 6000, "preemptions": 1400}, "preemption pressure",
    ),
    "a queue for memory": ({"usage": 0.97, "running": 60, "waiting": 40}, {"finished": 6000}, "queueing"),
    "a queue while few are preempted (D01)": (
        {"usage": 0.98, "running": 72, "waiting": 184}, {"finished": 10_000, "preemptions": 1480}, "queueing",
    ),
    "a queue for the batch": ({"usage": 0.3, "running": 256, "waiting": 80}, {"finished": 6000}, "queueing"),
    "a queue at both ends of a short window": (
        {"usage": 0.97, "running": 60, "waiting": 40, "output": 3000}, {"finished": 5020}, "queueing",
    ),
    "few requests": ({"usage": 0.5}, {"finished": 5020}, "too little data"),
    "few requests, many preemptions, a full pool": (
        {"usage": 0.97}, {"finished": 5020, "preemptions": 1020}, "preemption pressure",
    ),
    "few requests, many preemptions": ({"usage": 0.7}, {"finished": 5020, "preemptions": 1020}, "too little data"),
    "nothing happened": ({"usage": 0.0, "running": 0}, {}, "too little data"),
}  # fmt: skip


@pytest.mark.parametrize("state", STATES)
def test_each_state_by_its_signs(state):
    before, after, verdict = STATES[state]
    assert between(before, after)["verdict"] == verdict


def livelocked(**changed):
    stuck = {"usage": 0.99, "running": 5, "waiting": 4, "finished": 50, "prompt": 100_000, "output": 400}
    answer = diagnose(vllm(**stuck), vllm(**stuck | {"preemptions": 30} | changed), seconds=60)
    return answer


def test_livelock_is_a_full_pool_that_brings_forth_nothing():
    """D03: a pool of 4.4 prompts of 100K admits a fifth, and 100 tokens/s become 1.5."""
    answer = livelocked()
    assert answer["verdict"] == "livelock"
    assert "fill the pool and lose their KV" in answer["reason"]
    flags = [row["flag"] for row in answer["advice"]]
    assert "--max-num-seqs 4" in flags
    assert not any("swap" in flag for flag in flags)


def test_output_use_and_time_speak_against_a_livelock():
    assert livelocked(finished=60)["verdict"] != "livelock"  # 4,000 tokens in a minute
    assert livelocked(usage=0.8)["verdict"] != "livelock"
    assert livelocked(running=0)["verdict"] != "livelock"
    stuck = {"usage": 0.99, "running": 5, "waiting": 4}
    later = vllm(**stuck | {"prompt": 100})
    assert diagnose(vllm(**stuck), later, seconds=1)["verdict"] != "livelock"
    assert diagnose(vllm(**stuck), later)["verdict"] != "livelock"  # how long it lasted is not known
    assert diagnose(vllm(**stuck))["verdict"] != "livelock"


def test_the_same_scrape_twice_is_no_window():
    stuck = vllm(usage=0.99, running=5, waiting=4)
    with pytest.raises(
        CaseError, match="^SCRAPE2: the same text as SCRAPE, though requests run; allowed: a scrape taken later$"
    ):
        diagnose(stuck, stuck)
    answer = diagnose(stuck, stuck, seconds=600)
    assert answer["verdict"] == "stuck"
    assert "make sure that it was taken later" in " ".join(answer["notes"])


@pytest.mark.parametrize("seconds", [0, -5, float("nan"), 1e9])
def test_no_time_between_scrapes(seconds):
    with pytest.raises(CaseError, match="^seconds: .* given; allowed: 0.001 to 10,000,000$"):
        diagnose(vllm(), vllm(finished=5), seconds=seconds)


@pytest.mark.parametrize("label", ["block_size", "num_gpu_blocks"])
@pytest.mark.parametrize("value", ["0", "-1", "1e400", "nan", "None", ""])
def test_a_configuration_that_no_engine_has_is_not_reported(label, value):
    before, after = samples.read("pressure")
    odd = re.compile(f'{label}="[^"]*"')
    answer = diagnose(odd.sub(f'{label}="{value}"', before), odd.sub(f'{label}="{value}"', after), seconds=600)
    assert answer["verdict"] == "preemption pressure"
    json.dumps(answer, allow_nan=False)


def test_without_a_preemption_it_is_no_livelock():
    assert livelocked(preemptions=0)["verdict"] == "stuck"


def test_a_queue_says_what_it_is_for():
    full = between({"usage": 0.97, "running": 60, "waiting": 40}, {"finished": 6000})
    assert "they wait for KV" in full["reason"]
    queue = ({"usage": 0.3, "running": 256, "waiting": 80}, {"finished": 6000})
    seat = between(*queue, facts=ServerFacts({"max_num_seqs": 256}))
    assert seat["waits_for"] == "a seat"
    assert "they wait for a seat in the batch, not for KV" in seat["reason"]
    assert seat["advice"][0]["flag"] == "--max-num-seqs 768"  # 256 requests fill 0.3 of the pool
    higher = between(*queue, facts=ServerFacts({"max_num_seqs": 512}))
    assert higher["waits_for"] == "a cause not known"  # 56,000 tokens are free and a prompt has 1,500
    assert [row["id"] for row in higher["advice"]] == ["replicas"]
    long = ({"usage": 0.3, "running": 1, "waiting": 8, "prompt": 60_000, "output": 6000}, {"finished": 6000})
    assert between(*long)["waits_for"] == "KV"  # 60,000 do not fit into 56,000
    unknown = between(*queue)
    assert "if 256 is the seat limit" in unknown["reason"]
    assert not any(row["flag"] for row in unknown["advice"])


# --- field cases and samples ---


def test_d16_names_of_a_middle_version():
    answer = diagnose(sample("vllm_0_10_deprecated_pairs_excerpt"))
    assert (answer["engine"], answer["era"], answer["verdict"]) == ("vllm", "V1", "too little data")
    assert answer["state"]["usage"] == 9.75010481363281e-06
    assert answer["names"]["usage"] == "vllm:kv_cache_usage_perc"
    assert answer["preemptions_per_100"] is None
    assert answer["engines"][0]["name"] == "engine 0"


def test_d17_an_idle_v0_server():
    answer = diagnose(sample("vllm_v0_idle_swap4gib"))
    state = answer["state"]
    assert (answer["engine"], answer["era"], answer["verdict"]) == ("vllm", "V0", "too little data")
    assert (state["num_gpu_blocks"], state["num_cpu_blocks"], state["pool_tokens"]) == (81_767, 9_362, 1_308_272)
    assert state["kv_bytes_per_token"] == 28_672
    assert state["pool_bytes"] == pytest.approx(34.9 * 2**30, rel=0.002)
    assert (answer["rates"]["preemptions"], answer["rates"]["finished"]) == (0, 4)
    assert answer["rates"]["prefix_hit_share"] is None  # -1: not enabled
    assert "only 4 requests finished" in answer["reason"]


def test_d18_a_counter_above_zero_is_no_incident():
    answer = diagnose(sample("composed_abs_vs_rate_t0"), sample("composed_abs_vs_rate_t1"), seconds=3600)
    assert answer["preemptions_per_100"] == 0.2
    assert answer["verdict"] == "healthy"
    assert answer["rates"]["finished_by_reason"] == {"stop": 950, "length": 40, "abort": 10}
    assert "a few %" in answer["band"]


@pytest.mark.parametrize(
    ("name", "verdict", "engine", "words"),
    [
        ("vllm_help_type_only", "no samples", "vllm", "none has a value: that is not zero"),
        ("router_no_preemption_counter", "not an engine", None, "no preemption counter"),
        ("python_only_three_digit_exponent", "no engine metrics", None, "10.9 GiB of virtual memory"),
    ],
)
def test_d19_pages_without_an_engine(name, verdict, engine, words):
    answer = diagnose(sample(name))
    assert (answer["verdict"], answer["engine"], answer["era"]) == (verdict, engine, None)
    assert words in answer["reason"]
    assert answer["preemptions_per_100"] is None
    assert answer["advice"][0]["action"]


def test_d19_the_memory_of_a_python_process():
    assert diagnose(sample("python_only_three_digit_exponent"))["process"]["virtual_memory_bytes"] == 11_701_968_896


def test_d19_a_configuration_that_spells_none():
    answer = diagnose(sample("vllm_0_11_cache_config_offload"))
    assert answer["state"]["pool_tokens"] == 148_336
    assert answer["state"]["num_cpu_blocks"] is None
    assert answer["state"]["host_tier_gib"] is None
    assert answer["era"] == "V1"


def test_d19_retractions_of_the_last_step():
    answer = diagnose(sample("sglang_dp8_retracted_excerpt"))
    assert (answer["engine"], answer["preemptions_per_100"]) == ("sglang", None)
    assert answer["ranks"] == {"seen": [4, 5, 6, 7], "at_least": 8}
    assert "must not be summed over time" in answer["notes"][-1]


@pytest.mark.parametrize(("at", "per_100", "finished"), [("mid", 100, 10), ("end", 31.25, 32)])
def test_a_burst_reads_high(at, per_100, finished):
    answer = diagnose(sample(f"vllm_0_33_classes_{at}"))
    assert answer["preemptions_per_100"] == per_100
    assert answer["verdict"] == "too little data"
    assert answer["lifetime"]
    assert f"only {finished} requests finished" in answer["reason"]
    assert "reads high in a burst, as a preemption counts at once and a request when it ends" in answer["reason"]
    assert answer["band"] is None  # too few for one
    assert any("since" in line or "from the server's start" in line for line in answer["against"])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("vllm:healthy_pods_total 3\nvllm:current_qps 4\n", "these are series of a router"),
        ("sglang_router_requests_total 3\n", "these are series of a router"),
        (
            'vllm:num_requests_running{server="a"} 3\nvllm:gpu_prefix_cache_hits_total{server="a"} 5\n',
            "no counter of requests, tokens or preemptions",
        ),
        ("tgi_queue_size 3\ntgi_request_count 5\n", "none of vLLM, SGLang or TensorRT-LLM: tgi"),
        ("vllm:lora_requests_info 3\n", "series of vLLM, but none of those that are read"),
        ("garbage garbage garbage\n", "no line of it is a sample of a metric"),
    ],
)
def test_other_pages_have_sentences_of_their_own(text, reason):
    assert reason in diagnose(text)["reason"]


def test_gauges_of_an_engine_are_no_router():
    gauges = {"num_requests_running": 3, "num_requests_waiting": 0, "kv_cache_usage_perc": 0.2}
    text = "".join(f'vllm:{name}{{engine="0"}} {value}\n' for name, value in gauges.items())
    answer = diagnose(text)
    assert answer["verdict"] == "healthy"
    assert "nothing is preempted while blocks are free" in answer["reason"]


def test_two_scrapes_must_be_of_an_engine():
    with pytest.raises(CaseError, match="^SCRAPE: 6 metrics are described but none has a value"):
        diagnose(sample("vllm_help_type_only"), sample("vllm_v0_idle_swap4gib"))
    with pytest.raises(CaseError, match="^SCRAPE2: .*no preemption counter"):
        diagnose(sample("vllm_v0_idle_swap4gib"), sample("router_no_preemption_counter"))
    with pytest.raises(CaseError, match="^seconds: given with one scrape"):
        diagnose(sample("vllm_v0_idle_swap4gib"), seconds=5)


# --- what contradicts the bands ---


@pytest.mark.parametrize(
    ("per_100", "band"),
    [(0, "no preemption"), (3, "a few %"), (7, "between"), (10, "10 % and more"), (35, "20 % and more")],
)
def test_bands(per_100, band):
    answer = between({"usage": 0.97}, {"finished": 6000, "preemptions": 1000 + 10 * per_100})
    assert answer["band"].startswith(band)
    assert bool(per_100) == any("no engine documents such a limit" in line for line in answer["against"])


def test_few_preemptions_of_long_answers_cost_much():
    answer = between({"usage": 0.97, "prompt": 100, "output": 3000}, {"finished": 6000, "preemptions": 1040})
    assert any("few, but they may cost up to 39 %" in line for line in answer["against"])  # 64,000 over 164,000


def test_aborted_requests_are_in_the_ratio():
    text = vllm(finished=900, model="m")
    text += 'vllm:request_success_total{finished_reason="abort",engine="0",model_name="m"} 100\n'
    assert "100 of the finished requests were aborted or failed" in " ".join(diagnose(text)["against"])


# --- advice ---


def flags(answer):
    return [row["flag"] for row in answer["advice"] if not row["needs"]]


PRESSED = ({"usage": 0.97, "running": 60, "waiting": 2}, {"finished": 6000, "preemptions": 1400})


def test_advice_under_pressure():
    answer = between(*PRESSED, facts=H100)
    assert answer["verdict"] == "preemption pressure"
    assert [row["price"] for row in answer["advice"] if not row["needs"]] == [
        "free", "admission", "accuracy", "hardware", "memory",
    ]  # fmt: skip
    assert [row["id"] for row in answer["advice"] if row["effect"] == "little"] == ["offload"], "as many preemptions"
    assert flags(answer)[0] == "--gpu-memory-utilization 0.95"
    assert "--max-num-seqs 44" in flags(answer)  # 80,000 tokens over 1,800
    assert [row["rank"] for row in answer["advice"]] == list(range(1, len(answer["advice"]) + 1))
    assert answer["recompute"]["money"][1] > 0


def test_what_is_there_already_is_not_advised():
    high = {"gpu_memory_utilization": 0.95, "cache_dtype": "fp8"}
    answer = between(PRESSED[0] | {"settings": high}, PRESSED[1])
    assert not any("utilization" in flag or "kv-cache-dtype" in flag for flag in flags(answer))


def test_the_gain_of_more_memory_is_counted_where_the_gpu_is_known():
    """0.03 of 80 GB are 2.4 GB, and a token of Llama 3.1 8B takes 131,072 B."""
    answer = between(*PRESSED, facts=H100)
    more = 0.03 * catalog.gpu("h100-sxm5-80gb").memory_bytes / 131_072
    assert f"about {more:,.0f} tokens more in the pool of 80,000" in answer["advice"][0]["buys"]


REMOVED = {"--preemption-mode": "0.11.0", "--swap-space": "0.18.0"}


@pytest.mark.parametrize("version", ["0.4.3", "0.6.6", "0.10.2", "0.11.0", "0.17.1", "0.18.0", "0.24.0", "0.33.0"])
@pytest.mark.parametrize("verdict", ["pressure", "livelock", "queue"])
def test_no_version_is_told_a_flag_that_it_lacks(version, verdict):
    states = {
        "pressure": PRESSED,
        "livelock": ({"usage": 0.99, "running": 5, "waiting": 4}, {"preemptions": 1030}),
        "queue": ({"usage": 0.97, "running": 60, "waiting": 40}, {"finished": 6000}),
    }
    answer = between(*states[verdict], facts=ServerFacts(version=version))
    assert answer["advice"]
    assert answer["versions"] == version
    for row in answer["advice"]:
        assert not row["needs"]  # the version is known
        name = row["flag"].split()[0] if row["flag"] else None
        if name is None:
            continue
        assert name not in REMOVED
        facts = [entry for entry in releases.entries() if (entry.engine, entry.name) == ("vllm", name)]
        if any(entry.since for entry in facts):
            assert releases.exists(name, "vllm", version)
    assert ("--watermark" in flags(answer)) == (verdict != "queue" and version in ("0.24.0", "0.33.0"))


def test_a_range_of_versions_says_which_release_a_flag_needs():
    answer = between(*PRESSED)
    assert answer["versions"] == "0.20.0 or newer"
    needs = {row["flag"].split()[0]: row["needs"] for row in answer["advice"] if row["needs"]}
    assert needs == {"--watermark": "0.24.0", "--max-num-active-seqs": "0.31.0"}
    assert [bool(row["needs"]) for row in answer["advice"]] == sorted(bool(row["needs"]) for row in answer["advice"])


def test_a_new_vllm_is_not_told_to_be_newer():
    assert "whole-prompt" not in [row["id"] for row in livelocked()["advice"]]
    old = {"usage": 0.99, "running": 5, "waiting": 4}
    answer = diagnose(vllm(**old), vllm(**old | {"preemptions": 30}), seconds=60, facts=ServerFacts(version="0.17.1"))
    assert "run vLLM 0.19.0 or newer" in " ".join(row["action"] for row in answer["advice"])


def test_other_engines_have_flags_of_their_own():
    def sglang(retracted, finished):
        return (
            f'sglang:num_running_reqs{{model_name="m"}} 60\nsglang:num_queue_reqs{{model_name="m"}} 1\n'
            f'sglang:token_usage{{model_name="m"}} 0.97\nsglang:max_total_num_tokens{{model_name="m"}} 80000\n'
            f'sglang:num_retracted_requests_total{{model_name="m"}} {retracted}\n'
            f'sglang:num_requests_total{{model_name="m"}} {finished}\n'
        )

    answer = diagnose(sglang(0, 0), sglang(300, 1000), seconds=600, facts=ServerFacts(version="0.5.23"))
    assert (answer["verdict"], answer["preemptions_per_100"]) == ("preemption pressure", 30)
    assert "--mem-fraction-static" in flags(answer)
    assert "--schedule-conservativeness" in flags(answer)
    assert not any("gpu-memory-utilization" in flag for flag in flags(answer))


@CHECKED
@given(
    st.fixed_dictionaries({
        "running": st.integers(0, 500), "waiting": st.integers(0, 500), "usage": st.floats(0, 1),
        "blocks": st.integers(0, 100_000), "prompt": st.integers(0, 50_000), "output": st.integers(0, 5_000),
    }),
    st.integers(0, 2000), st.integers(0, 2000), st.floats(1, 10_000),
)  # fmt: skip
def test_every_state_has_a_verdict_a_reason_and_a_next_step(state, preempted, finished, seconds):
    after = {"preemptions": 1000 + preempted, "finished": 5000 + finished, "prompt": state["prompt"] + 1}
    answer = between(state, after, seconds, H100)
    assert answer["verdict"] in causes.WORST_FIRST
    assert answer["reason"]
    assert answer["advice"]
    assert all(row["action"] and row["buys"] and "{" not in row["flag"] + row["buys"] for row in answer["advice"])
    if answer["verdict"] == "preemption pressure" and finished >= 100:
        assert answer["preemptions_per_100"] >= 10
    if answer["verdict"] == "too little data":
        assert finished < 100


def test_where_the_version_is_not_known_a_flag_is_as_of_the_release_it_was_read_in():
    gauges = {"num_requests_running": 40, "num_requests_waiting": 42, "kv_cache_utilization": 0.97}
    answer = diagnose("".join(f'trtllm_{name}{{model_name="m"}} {value}\n' for name, value in gauges.items()))
    assert (answer["engine"], answer["verdict"]) == ("tensorrt-llm", "queueing")
    first = answer["advice"][0]
    assert first["flag"] == "kv_cache_config.free_gpu_memory_fraction"
    assert (first["needs"], first["as_of"]) == ("", "1.4.0")


def test_every_remedy_has_a_place_in_the_order_and_a_source():
    for row in catalog.table("advice")["remedy"]:
        assert prices.of_rung(row, "price") in prices.ORDER
        assert ("rung" in row) != ("price" in row), "a rung's price stands with the rung"
        assert catalog.source(row["source"])


def test_the_case_of_the_server_can_be_opened():
    answer = between(*PRESSED, facts=H100)
    assert answer["case"] == {
        "policy": "vllm-v1", "model": "llama-3.1-8b", "kv_dtype": "bf16", "block_tokens": 16, "decode_batch": 60,
        "tokens": 1650, "generated_tokens": 150, "remaining_output": 150, "decode_context": 1293,
        "gpu": "h100-sxm5-80gb",
    }  # fmt: skip
    assert from_scrapes.case_from(answer["case"])
