"""Advice: what can only help, in one order, and never a flag that the version lacks."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvmodel import catalog
from kvmodel.catalog import prices, releases
from kvmodel.diagnosis import causes, from_scrapes
from kvmodel.diagnosis.from_scrapes import diagnose
from kvmodel.diagnosis.served import ServerFacts
from tests.helpers.scrapes import between, vllm

CHECKED = settings(derandomize=True, deadline=None, max_examples=60)
H100 = ServerFacts({"gpu": "h100-sxm5-80gb"}, price_per_gpu_hour=2.5)


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


def livelocked(facts=None):
    old = {"usage": 0.99, "running": 5, "waiting": 4}
    answer = diagnose(vllm(**old), vllm(**old | {"preemptions": 30}), seconds=60, facts=facts)
    assert answer["verdict"] == "livelock"
    return answer


def test_a_new_vllm_is_not_told_to_be_newer():
    assert "whole-prompt" not in [row["id"] for row in livelocked()["advice"]]
    answer = livelocked(facts=ServerFacts(version="0.17.1"))
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
