"""Windows and ratios: resets, order, quantiles, requests hit, and the recompute tax, each against plain counting."""

import json
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kvmodel.diagnosis import from_scrapes, recompute_tax
from kvmodel.errors import CaseError
from kvmodel.inputs.case import Case
from kvmodel.metrics import era, histogram, server_rates, server_window
from kvmodel.metrics.histogram import Histogram
from kvmodel.metrics.server_state import server
from tests.helpers.scrapes import sample, vllm

CHECKED = settings(derandomize=True, deadline=None, max_examples=150)
V1 = era.Era("vllm", "V1", "0.20.0", None)


def of(text):
    return server(from_scrapes.read(text))


def window(before, after, seconds=600.0):
    return server_window.between(of(before), of(after), seconds)[0]


def rates(before, after, seconds=600.0):
    return server_rates.rates(window(before, after, seconds))


# --- windows ---


def test_two_preemptions_in_a_thousand():
    found = rates(sample("composed_abs_vs_rate_t0"), sample("composed_abs_vs_rate_t1"), 3600)
    assert (found.preemptions, found.finished, found.preemptions_per_100) == (2, 1000, 0.2)
    assert found.finished_per_s == pytest.approx(1000 / 3600)


def test_the_whole_life_of_a_burst():
    """10 preemptions hit 8 of 32 requests; in the middle, 10 had finished and none of those was hit."""
    middle, end = (
        server_rates.rates(server_window.since_start(of(sample(f"vllm_0_33_classes_{at}")))[0]) for at in ("mid", "end")
    )
    assert (middle.preemptions_per_100, middle.hit_share) == (100, (0, 0))
    assert (end.preemptions_per_100, end.hit_share, end.hit_twice_share) == (31.25, (0.25, 0.25), 2 / 32)
    assert end.waiting_share == 0
    assert middle.waiting_share == 6 / 22


def test_gauges_are_means_and_minima():
    found = window(vllm(running=10, waiting=4, usage=0.9), vllm(running=20, waiting=0, usage=0.7))
    assert (found.early["running"], found.engine.gauges["running"], found.mean["running"]) == (10, 20, 15)
    assert (found.early_usage, found.engine.usage) == (0.9, 0.7)
    assert found.least == {"running": 10, "waiting": 0, "usage": 0.7}


def test_a_counter_that_fell_counts_from_the_new_start():
    found = window(vllm(preemptions=500, finished=9000), vllm(preemptions=3, finished=200))
    assert found.restarted
    assert found.increase.counters["preemptions"] == 3
    assert found.increase.counters["finished"] == 200
    assert "restarted" in from_scrapes.diagnose(vllm(finished=9000), vllm(finished=200), seconds=60)["notes"][-1]


def test_a_restart_that_no_counter_shows_is_seen_by_the_start_of_the_process():
    start = "process_start_time_seconds {}\n"
    found = window(vllm(finished=100) + start.format(1.78e9), vllm(finished=900) + start.format(1.79e9))
    assert found.restarted
    assert found.increase.counters["finished"] == 900


def test_one_engine_of_two_restarted():
    before = vllm(finished=1000) + vllm(engine="1", finished=1000)
    found = window(before, vllm(finished=1100) + vllm(engine="1", finished=50))
    assert found.increase.counters["finished"] == 150


@pytest.mark.parametrize(
    "start", ["process_start_time_seconds 1.78e9\n", 'vllm:num_preemptions_created{engine="0"} 1.78e9\n']
)
def test_scrapes_in_the_wrong_order_are_refused(start):
    with pytest.raises(
        CaseError, match="SCRAPE2: it was taken before SCRAPE, by its counters; allowed: the later scrape second"
    ):
        window(vllm(finished=1000) + start, vllm(finished=900) + start)


def test_scrapes_that_do_not_belong_together_are_refused():
    with pytest.raises(CaseError, match="none of its engines is in SCRAPE"):
        window(vllm(model="a"), vllm(model="b"))
    with pytest.raises(CaseError, match="of sglang, and SCRAPE of vllm"):
        window(vllm(), 'sglang:num_running_reqs{model_name="m"} 5\n')


def test_an_engine_that_is_in_one_scrape_alone_is_left_out():
    found = window(vllm(finished=1000) + vllm(engine="1", finished=5), vllm(finished=1100))
    assert found.increase.counters["finished"] == 100
    assert found.notes == ("1 engines are in one of the scrapes only, and were left out",)


def test_engines_add_up_and_shares_are_weighted_by_the_pools():
    text = vllm(running=10, usage=1.0, blocks=3000) + vllm(engine="1", running=2, usage=0.2, blocks=1000)
    total, each = server_window.since_start(of(text))
    assert len(each) == 2
    assert total.engine.gauges["running"] == 12
    assert total.engine.usage == pytest.approx(0.8)
    assert total.engine.pool_tokens == 64_000
    assert total.engine.labels == {"model_name": "meta-llama/Llama-3.1-8B-Instruct"}


@pytest.mark.parametrize("missing", ["num_preemptions", "request_success", "num_requests_waiting{", "prompt_tokens"])
def test_what_is_missing_stays_missing(missing):
    text = "".join(line for line in vllm().splitlines(keepends=True) if f"vllm:{missing}" not in line)
    found = server_rates.rates(server_window.since_start(of(text))[0])
    gone = {
        "num_preemptions": found.preemptions_per_100, "request_success": found.finished,
        "num_requests_waiting{": found.waiting_share, "prompt_tokens": found.prompt_tokens_per_request,
    }  # fmt: skip
    assert gone[missing] is None


def test_nothing_finished_gives_no_ratio():
    assert rates(vllm(preemptions=1), vllm(preemptions=9)).preemptions_per_100 is None


# --- histograms ---


def test_quantiles_as_prometheus_counts_them():
    observed = Histogram((1.0, 2.0, 4.0, math.inf), (10.0, 10.0, 30.0, 40.0), 100.0, 40.0)
    assert histogram.quantile(0.125, observed) == 0.5  # the middle of the first bucket, which begins at zero
    assert histogram.quantile(0.5, observed) == 3.0  # 10 of the 20 between 2 and 4
    assert histogram.quantile(0.95, observed) == 4.0  # above all bounds: the highest
    assert histogram.quantile(0.5, Histogram((), (), None, 0.0)) is None
    assert histogram.quantile(0.5, Histogram((1.0,), (0.0,), None, 0.0)) is None


@CHECKED
@given(st.lists(st.floats(0, 100), min_size=1, max_size=60), st.floats(0.01, 0.99))
def test_a_quantile_lies_in_the_bucket_of_the_true_one(observed, share):
    bounds = (0.5, 1.0, 3.0, 10.0, 30.0, 100.0, math.inf)
    counted = histogram.histogram({bound: float(sum(one <= bound for one in observed)) for bound in bounds}, None, None)
    exact = sorted(observed)[max(math.ceil(share * len(observed)) - 1, 0)]
    assume(abs(share * len(observed) - round(share * len(observed))) > 1e-6)
    low = max((bound for bound in (0.0, *bounds) if bound < exact), default=0.0)
    high = min(bound for bound in bounds if bound >= exact)
    assert low <= histogram.quantile(share, counted) <= high


def test_increase_of_a_histogram():
    early, late = Histogram((1.0, math.inf), (5.0, 8.0), 9.0, 8.0), Histogram((1.0, math.inf), (6.0, 20.0), 50.0, 20.0)
    assert histogram.increase(early, late) == Histogram((1.0, math.inf), (1.0, 12.0), 41.0, 12.0)
    assert histogram.increase(None, late) == late
    other = Histogram((2.0, math.inf), (5.0, 8.0), 9.0, 8.0)
    assert histogram.increase(other, late) == Histogram((math.inf,), (12.0,), 41.0, 12.0), (
        "of the buckets that both have"
    )
    with pytest.raises(histogram.Contradiction):
        histogram.increase(Histogram((1.0, math.inf), (5.0, 8.0), 49.5, 8.0), late)


@pytest.mark.parametrize(
    ("counts", "total", "count", "fallen"),
    [
        ((5.0, 8.0), 9.0, 8.0, False), ((6.0, 9.0), 9.5, 9.0, False), ((4.0, 9.0), 9.5, 9.0, True),
        ((6.0, 9.0), 8.5, 9.0, True), ((5.0, 7.0), 9.5, 7.0, True),
    ],
)  # fmt: skip
def test_another_process_is_seen_by_any_number_of_a_histogram(counts, total, count, fallen):
    early = Histogram((1.0, math.inf), (5.0, 8.0), 9.0, 8.0)
    assert histogram.fell(early, Histogram((1.0, math.inf), counts, total, count)) is fallen


@pytest.mark.parametrize(
    ("buckets", "total", "count", "why"),
    [
        pytest.param({1.0: 300.0, 2.0: 200.0, math.inf: 400.0}, 400.0, 400.0, "a bucket counts less", id="falls"),
        pytest.param({1.0: 300.0, 2.0: 401.0}, 400.0, 300.0, "a bucket counts more", id="above the count"),
        pytest.param({1.0: 100.0, math.inf: 200.0}, 400.0, 400.0, "its last bucket", id="infinite below the count"),
        pytest.param({1.0: 0.0, 2.0: 400.0, math.inf: 400.0}, 300.0, 400.0, "its sum cannot", id="sum below"),
        pytest.param({1.0: 0.0, 2.0: 400.0, math.inf: 400.0}, 900.0, 400.0, "its sum cannot", id="sum above"),
        pytest.param({}, 5.0, 0.0, "its sum cannot", id="a sum of nothing"),
        pytest.param({}, 5.0, 1.0, None, id="no buckets, no check of them"),
    ],
)
def test_a_histogram_is_checked_as_a_whole(buckets, total, count, why):
    if why is None:
        assert histogram.histogram(buckets, total, count)
        return
    with pytest.raises(histogram.Contradiction, match=why):
        histogram.histogram(buckets, total, count)


@CHECKED
@given(st.lists(st.floats(0, 100), min_size=1, max_size=80), st.lists(st.floats(0.1, 90), max_size=6, unique=True))
def test_what_was_observed_never_contradicts_itself(values, bounds):
    buckets = {bound: float(sum(value <= bound for value in values)) for bound in (*bounds, math.inf)}
    observed = histogram.histogram(buckets, math.fsum(values), float(len(values)))
    assert observed == Histogram(
        tuple(sorted(buckets)), tuple(buckets[bound] for bound in sorted(buckets)), math.fsum(values), len(values)
    )


BUCKETS = (1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 20.0, math.inf)  # of vllm:request_num_preemptions


@CHECKED
@given(st.lists(st.integers(0, 30), min_size=1, max_size=50))
def test_requests_hit_lie_between_the_bounds(times):
    counted = histogram.histogram(
        {bound: float(sum(one <= bound for one in times)) for bound in BUCKETS}, float(sum(times)), float(len(times))
    )
    least, most = server_rates.hit_share(counted)
    exact = np.mean([one > 0 for one in times])
    assert least - 1e-9 <= exact <= most + 1e-9
    if max(times) <= 5:
        assert least == pytest.approx(most)
        assert least == pytest.approx(exact)
    assert server_rates.hit_twice_share(counted) == pytest.approx(np.mean([one > 1 for one in times]))


def test_a_bucket_below_one_is_read_off():
    counted = histogram.histogram({0.5: 6.0, 1.0: 8.0, math.inf: 10.0}, None, None)
    assert server_rates.hit_share(counted) == (pytest.approx(0.4), pytest.approx(0.4))


# --- what recomputing costs ---


def test_the_tax_by_hand():
    """100 preemptions of 1,500 + 300/2 tokens, of which none or 94 % is kept; 1,000 x 1,500 prefilled."""
    found = window(vllm(), vllm(preemptions=100, finished=2000))
    tax = recompute_tax.tax(found, server_rates.rates(found), V1)
    assert tax.lost_tokens == (pytest.approx(9_900), 165_000)
    assert tax.tokens_per_preemption == (pytest.approx(99), 1650)
    assert tax.prefill_share == (pytest.approx(9_900 / 1_509_900), pytest.approx(165_000 / 1_665_000))


def test_without_a_prefix_cache_nothing_survives():
    off = {"enable_prefix_caching": "False"}
    found = window(vllm(settings=off), vllm(preemptions=100, finished=2000, settings=off))
    assert recompute_tax.tax(found, server_rates.rates(found), V1).lost_tokens == (165_000, 165_000)
    v0 = era.Era("vllm", "V0", "0.6.6", None)
    bare = server_window.since_start(of(vllm(preemptions=5).replace('enable_prefix_caching="True",', "")))[0]
    tax = recompute_tax.tax(bare, server_rates.rates(bare), v0)
    assert tax.lost_tokens[0] == tax.lost_tokens[1]


def test_sglang_counts_the_lost_tokens_itself():
    text = "".join(
        f'sglang:{name}_total{{model_name="m"}} {count}\n'
        for name, count in (("num_retracted_requests", 10), ("num_retracted_input_tokens", 9000),
                            ("num_retracted_output_tokens", 1000), ("num_requests", 500), ("prompt_tokens", 90_000))
    )  # fmt: skip
    found = server_window.since_start(of(text))[0]
    tax = recompute_tax.tax(found, server_rates.rates(found), era.Era("sglang"))
    assert tax.lost_tokens[1] == 10_000
    assert tax.prefill_share[1] == pytest.approx(0.1)


def test_nothing_is_said_of_what_is_not_reported():
    found = server_window.since_start(of("vllm:num_preemptions_total 5\n"))[0]
    assert recompute_tax.tax(found, server_rates.rates(found), V1) is None


def test_the_price_grows_with_events_gpus_and_the_hour():
    found = window(vllm(), vllm(preemptions=100, finished=2000))
    judged = server_rates.rates(found)
    tax = recompute_tax.tax(found, judged, V1)
    case = Case(model="llama-3.1-8b", gpu="h100-sxm5-80gb", tokens=1650, decode_batch=8, decode_context=1800)
    one = recompute_tax.priced(tax, found, judged, case, 3.6)
    assert 0 < one.gpu_s[0] < one.gpu_s[1]
    assert one.money[1] == pytest.approx(one.gpu_s[1] / 1000)  # 3.6 an hour are a thousandth a second
    assert one.gpu_share == pytest.approx(one.gpu_s[1] / 600)
    more = window(vllm(), vllm(preemptions=200, finished=2000))
    its_rates = server_rates.rates(more)
    twice = recompute_tax.priced(recompute_tax.tax(more, its_rates, V1), more, its_rates, case, None)
    assert twice.gpu_s[1] == pytest.approx(2 * one.gpu_s[1])
    assert twice.money is None


@pytest.mark.parametrize("count", ["1e-320", "4.9e-324", "1e-300"])
@pytest.mark.parametrize(
    "text",
    [
        'vllm:request_num_preemptions_bucket{{engine="0",le="1.0"}} 2593\n'
        'vllm:request_num_preemptions_count{{engine="0"}} {count}\nvllm:request_num_preemptions_sum{{engine="0"}} 0\n',
        'vllm:prompt_tokens_total{{engine="0"}} 2324287\nvllm:generation_tokens_total{{engine="0"}} 1205967\n'
        'vllm:num_preemptions_total{{engine="0"}} 12\n'
        'vllm:request_success_total{{engine="0",finished_reason="stop"}} {count}\n',
    ],
)
def test_a_count_of_next_to_nothing_gives_no_ratio(text, count):
    answer = from_scrapes.diagnose('vllm:num_requests_running{engine="0"} 1\n' + text.format(count=count))
    json.dumps(answer, allow_nan=False)
    assert answer["rates"]["hit_share"] is None
