"""Numbers that no server has, in pairs of scrapes, logs and pages of JSON: refused, left out, or named; never told."""

import json
import re

import pytest

from kvmodel.diagnosis import from_scrapes
from kvmodel.errors import CaseError
from kvmodel.metrics import samples
from tests.helpers.scrapes import vllm
from tests.metrics import test_running_lines as lines
from tests.metrics import test_trtllm_json as trtllm

LABELS = '{engine="0",model_name="meta-llama/Llama-3.1-8B-Instruct"'


def ttft(below_one, count, total):
    return (
        f'vllm:time_to_first_token_seconds_bucket{LABELS},le="1"}} {below_one}\n'
        f'vllm:time_to_first_token_seconds_bucket{LABELS},le="+Inf"}} {count}\n'
        f"vllm:time_to_first_token_seconds_sum{LABELS}}} {total}\n"
        f"vllm:time_to_first_token_seconds_count{LABELS}}} {count}\n"
    )


def test_a_restart_that_only_a_bucket_shows():
    early = vllm(running=8, usage=0.5, preemptions=7, finished=1000) + ttft(900, 1000, 500)
    grown = vllm(running=8, usage=0.5, preemptions=9, finished=1500)
    restart = "a process was restarted in the window; its counters count from its new start"
    answer = from_scrapes.diagnose(early, grown + ttft(1300, 1500, 800), seconds=60)
    assert (restart in answer["notes"], answer["rates"]["finished"]) == (False, 500)
    answer = from_scrapes.diagnose(early, grown + ttft(800, 1500, 1200), seconds=60)
    assert (restart in answer["notes"], answer["rates"]["finished"]) == (True, 1500), "counted from the new start"


def test_a_sum_that_does_not_fit_the_window_is_not_told():
    """Each of the two scrapes is possible, and their difference is not: 400 requests above 1 s took 30 s together."""
    early = vllm(running=8, usage=0.5, preemptions=7, finished=1000) + ttft(1000, 1000, 900)
    late = vllm(running=8, usage=0.5, preemptions=9, finished=1500) + ttft(1100, 1500, 930)
    answer = from_scrapes.diagnose(early, late, seconds=60)
    assert answer["rates"]["ttft_s"] is None
    assert "vllm:time_to_first_token_seconds: its sum cannot be that of its buckets; left out" in answer["notes"]


@pytest.mark.parametrize("name", [name for name in samples.SAMPLES if name != "stuck"])  # nothing happens there
def test_two_scrapes_in_the_wrong_order_are_named(name):
    """By when the process began; without that it reads as a restart, which is named, and nothing is negative."""
    early, late = samples.read(name)
    with pytest.raises(CaseError, match="SCRAPE2: it was taken before SCRAPE"):
        from_scrapes.diagnose(late, early, seconds=60)
    ageless = [re.sub(r"(?m)^(process_start_time|\S+_created).*\n", "", text) for text in (late, early)]
    answer = from_scrapes.diagnose(*ageless, seconds=60)
    assert any("a process was restarted in the window" in note for note in answer["notes"])
    assert not [number for number in re.findall(r'_s": (-[0-9.e+-]+)', json.dumps(answer)) if float(number) < 0]


@pytest.mark.parametrize(("used", "refused"), [(100, False), (102, False), (103, True)])
def test_more_blocks_in_use_than_there_are(used, refused):
    row = trtllm.iteration(1)
    row["kvCacheStats"] |= {"usedNumBlocks": used, "maxNumBlocks": 100}
    if refused:
        with pytest.raises(CaseError, match=r"trtllm_kv_cache_utilization is 1\.03; allowed: a share"):
            from_scrapes.diagnose(json.dumps([row]))
    else:
        assert from_scrapes.diagnose(json.dumps([row]))["state"]["usage"] == 1.0


@pytest.mark.parametrize(("percent", "refused"), [("101.9", False), ("150.0", True)])
def test_a_pool_of_running_lines(percent, refused):
    text = "\n".join(lines.v1(f"06-01 12:{minute:02d}:00") for minute in range(6))
    text = re.sub(r"GPU KV cache usage: [0-9.]+%", f"GPU KV cache usage: {percent}%", text)
    if refused:
        with pytest.raises(CaseError, match=r"log: usage is 1\.5; allowed: a share"):
            from_scrapes.diagnose(text)
    else:
        assert from_scrapes.diagnose(text)["state"]["usage"] == 1.0


@pytest.mark.parametrize(("given", "told"), [("0.92", 0.92), ("1.0", 1.0), ("1.01", None), ("1e18", None), ("0", None)])
def test_a_share_of_the_memory_among_the_settings(given, told):
    text = re.sub(r'gpu_memory_utilization="[^"]*"', f'gpu_memory_utilization="{given}"', samples.read("pressure")[1])
    assert f'gpu_memory_utilization="{given}"' in text
    assert from_scrapes.diagnose(text)["state"]["gpu_memory_utilization"] == told
