"""Servers whose counters say one thing and whose state another: clients that give up, restarts, ranks."""

import pytest

from kvmodel.diagnosis.from_scrapes import diagnose
from kvmodel.diagnosis.served import ServerFacts
from kvmodel.metrics import histogram
from kvmodel.metrics.histogram import Histogram
from tests.helpers.scrapes import between, vllm

OWN = 'engine="0",model_name="meta-llama/Llama-3.1-8B-Instruct"'


def ended_by(reason, number):
    return f'vllm:request_success_total{{finished_reason="{reason}",{OWN}}} {number}\n'


@pytest.mark.parametrize("reason", ["abort", "error"])
@pytest.mark.parametrize(("running", "waiting", "verdict"), [(0, 20, "stuck"), (4, 20, "stuck"), (6, 0, "stuck")])
def test_requests_that_are_given_up_are_no_progress(reason, running, waiting, verdict):
    page = vllm(running=running, waiting=waiting, finished=500)
    answer = diagnose(page + ended_by(reason, 3), page + ended_by(reason, 303), seconds=600)
    assert answer["verdict"] == verdict
    assert "300 were aborted or failed" in answer["reason"]


def test_one_at_the_head_stays_there_when_those_behind_give_up():
    first, second = (vllm(running=1, waiting=14, usage=0.8, finished=500) + ended_by("abort", n) for n in (0, 60))
    second = second.replace(f"generation_tokens_total{{{OWN}}} 150000.0", f"generation_tokens_total{{{OWN}}} 170000.0")
    assert diagnose(first, second, seconds=3600)["verdict"] == "head of the line"


def test_gauges_of_a_process_that_is_gone_do_not_count():
    born = "process_start_time_seconds {}\n"
    first = vllm(running=10, waiting=5) + born.format(1000)
    second = vllm(running=0, waiting=5, finished=0) + born.format(2000)
    answer = diagnose(first, second, seconds=600)
    assert answer["verdict"] == "stuck"
    assert answer["state"]["before"] is None


def sglang(rank, more=""):
    own = f'model_name="m",dp_rank="{rank}"'
    return (
        f"sglang:num_running_reqs{{{own}}} 1\nsglang:num_queue_reqs{{{own}}} 2\nsglang:token_usage{{{own}}} 0.1\n{more}"
    )


def test_a_rank_is_not_at_the_head_where_only_all_ranks_count_what_finished():
    pages = [
        sglang(0) + sglang(1, f'sglang:num_requests_total{{model_name="m"}} {number}\n') for number in (1000, 2200)
    ]
    assert diagnose(*pages, seconds=600)["verdict"] == "queueing"
    still = [pages[0], pages[0] + "# later\n"]
    assert diagnose(*still, seconds=600)["verdict"] == "stuck"


def test_a_gauge_above_zero_without_its_counter_shows_that_there_is_none():
    own = '{model_name="m"}'
    page = (
        f"sglang:num_running_reqs{own} 46\nsglang:num_queue_reqs{own} 20\nsglang:token_usage{own} 0.97\n"
        f"sglang:num_requests_total{own} "
    )
    first, second = (
        f"{page}{finished}\nsglang:num_retracted_reqs{own} {now}\n" for finished, now in ((0, 5), (2000, 0))
    )
    answer = diagnose(first, second, seconds=600)
    assert answer["preemptions_per_100"] is None
    assert "preemptions are not reported" in answer["reason"]


def test_v0_requests_that_are_swapped_out_are_work():
    own = '{model_name="meta-llama/Llama-3.1-8B-Instruct"}'
    page = "".join(
        f"vllm:{name}{own} {value}\n"
        for name, value in {
            "num_requests_running": 0, "num_requests_waiting": 0, "num_requests_swapped": 6,
            "gpu_cache_usage_perc": 0.1, "cpu_cache_usage_perc": 0.9, "prompt_tokens_total": 5000,
            "generation_tokens_total": 900,
            "request_success_total": 40,
        }.items()
    )  # fmt: skip
    answer = diagnose(page, page + "# later\n", seconds=600)
    assert answer["verdict"] == "stuck"
    assert "6 swapped out" in answer["reason"]


def deferred(number, **values):
    return vllm(waiting=number, **values) + (
        f'vllm:num_requests_waiting_by_reason{{{OWN},reason="deferred"}} {number}\n'
    )


def test_what_waits_for_a_load_is_not_stuck_at_once_nor_short_of_kv():
    assert diagnose(deferred(5, running=0))["waits_for"] == "a load"
    assert diagnose(deferred(2, running=0), deferred(2, running=0) + "# later\n", seconds=2)["waits_for"] == "a load"
    full = [deferred(30, running=40, usage=0.93, finished=number) for number in (1000, 3000)]
    assert diagnose(*full, seconds=600)["waits_for"] == "a load"


def test_prefill_is_the_cause_whatever_the_pool_and_without_the_time_between():
    """6,000 tokens in and 2 out: more KV would only lengthen the queue inside."""
    states = [
        {"finished": number, "prompt": 6000.0, "output": 2.0, "running": 20, "waiting": 1000} for number in (0, 3000)
    ]
    for usage in (0.3, 0.95):
        for seconds in (600.0, None):
            pages = [vllm(**state, usage=usage) for state in states]
            assert diagnose(*pages, seconds=seconds)["waits_for"] == "prefill"


def test_a_burst_that_fills_the_pool_within_the_window_is_pressure():
    answer = between(
        {"usage": 0.55, "running": 20}, {"usage": 0.99, "running": 60, "finished": 5040, "preemptions": 1300}
    )
    assert answer["verdict"] == "preemption pressure"
    assert "55 %, then 99 %" in answer["reason"]


# --- whether they matter ---


def gaps(short, long_ones):
    """Gaps of 30 ms, and some of a minute."""
    counts = {"0.05": short, "40.0": short, "80.0": short + long_ones, "+Inf": short + long_ones}
    rows = "".join(
        f'vllm:inter_token_latency_seconds_bucket{{{OWN},le="{bound}"}} {count}\n' for bound, count in counts.items()
    )
    return rows + (
        f"vllm:inter_token_latency_seconds_sum{{{OWN}}} {0.03 * short + 60 * long_ones}\n"
        f"vllm:inter_token_latency_seconds_count{{{OWN}}} {short + long_ones}\n"
    )


def test_streams_that_stand_still_matter_however_cheap_the_recompute():
    """400 preemptions may be 400 of the 600 gaps of a minute: more than half of all time between tokens."""
    page = {"usage": 0.97, "running": 60, "waiting": 0}
    pages = [
        vllm(**page, finished=1000, preemptions=0) + gaps(100_000, 0),
        vllm(**page, finished=2000, preemptions=400) + gaps(200_000, 600),
    ]
    answer = diagnose(*pages, seconds=600, facts=ServerFacts({"gpu": "h100-sxm5-80gb"}))
    assert answer["felt"]["of_stream"] > 0.5
    assert answer["felt"]["matter"] == "yes"


def test_of_a_whole_life_nothing_is_said_and_without_a_gpu_no_time_of_it():
    burst = vllm(usage=0.99, running=60, waiting=200, finished=3_000_000, preemptions=60_000)
    answer = diagnose(burst, facts=ServerFacts({"gpu": "h100-sxm5-80gb"}))
    assert answer["felt"] is None
    assert "so preemption is not" not in answer["reason"]
    pressed = ({"usage": 0.97, "running": 60}, {"finished": 6000, "preemptions": 1400})
    unnamed, named = between(*pressed), between(*pressed, facts=ServerFacts({"gpu": "h100-sxm5-80gb"}))
    assert unnamed["felt"]["of_gpu_time"] == pytest.approx(unnamed["recompute"]["prefill_share"][1])
    assert named["felt"]["of_gpu_time"] < unnamed["felt"]["of_gpu_time"]


def test_the_share_of_the_largest_worked_by_hand():
    """Two of four in the bucket up to 4: 8 of 15. All ten: all. More than the sum leaves is never said."""
    observed = Histogram((1.0, 4.0, float("inf")), (6.0, 10.0, 10.0), 15.0, 10.0)
    assert histogram.share_of_largest(2, observed) == pytest.approx(8 / 15)
    assert histogram.share_of_largest(10, observed) == pytest.approx(1.0)
    assert histogram.share_of_largest(1, Histogram((1.0, float("inf")), (9.0, 10.0), 100.0, 10.0)) == pytest.approx(1.0)
    assert histogram.share_of_largest(1, Histogram((), (), 15.0, 10.0)) is None
