"""Verdicts: each state by its own signs, the field cases, and what contradicts the bands."""

import json
import re

import pytest
from hypothesis import settings

from kvmodel.diagnosis.from_scrapes import diagnose
from kvmodel.diagnosis.served import ServerFacts
from kvmodel.errors import CaseError
from kvmodel.metrics import samples
from tests.helpers.scrapes import between, sample, vllm

CHECKED = settings(derandomize=True, deadline=None, max_examples=60)
H100 = ServerFacts({"gpu": "h100-sxm5-80gb"}, price_per_gpu_hour=2.5)


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
