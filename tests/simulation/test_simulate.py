"""A Case under a workload in seconds: a measured run, hand-worked steps, limits, and what results say."""

import csv
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvmodel.errors import CaseError
from kvmodel.inputs.case import Case
from kvmodel.recovery import costs
from kvmodel.scheduler.clock import Chunk
from kvmodel.simulation import workload
from kvmodel.simulation.simulate import SCHEDULERS, Engine, default_max_num_seqs, simulate, step_inputs
from kvmodel.simulation.step_clock import BoundedTokens, StepTimes
from kvmodel.simulation.workload import DATA, by_name, fixed
from kvmodel.timing import engine_time, step_time
from tests.helpers.scheduler_runs import INPUTS

REAL_CASE = Case(model="llama-3.1-8b", gpu="rtx-4090")
REAL_ENGINE = Engine(num_blocks=2588, max_num_seqs=256)  # 41,408 tokens


def rows(name):
    with (DATA / "real_run" / name).open(newline="") as file:
        return {key: np.array(values, float) for key, values in _columns(csv.DictReader(file)).items()}


def _columns(reader):
    columns = {name: [] for name in reader.fieldnames}
    for row in reader:
        for name, value in row.items():
            columns[name].append(value)
    return columns


# --- a measured run ---


@pytest.fixture(scope="module")
def replay():
    return simulate(REAL_CASE, by_name("real-run"), REAL_ENGINE)


@pytest.fixture(scope="module")
def measured():
    return rows("requests.csv")


@pytest.mark.parametrize("average", [np.mean, np.median])
def test_first_tokens_and_later_ones_of_a_measured_run(replay, measured, average):
    """vLLM 0.19, Llama 3.1 8B on an RTX 4090 under pressure, replayed from its arrivals and lengths: within 5 %."""
    ttft_s = measured["first_token_s"] - measured["queued_s"]
    tpot_s = (measured["last_token_s"] - measured["first_token_s"]) / (measured["output_tokens"] - 1)
    assert average(replay.requests.ttft_s) == pytest.approx(average(ttft_s), rel=0.05)
    assert average(replay.requests.tpot_s) == pytest.approx(average(tpot_s), rel=0.05)


def test_the_length_of_a_measured_run(replay, measured):
    assert replay.makespan_s == pytest.approx(measured["last_token_s"].max(), rel=0.03)


def test_batch_and_queue_of_a_measured_run(replay):
    """The engine's own figures, second by second: mean of running, longest queue, mean KV usage."""
    engine = rows("timeseries.csv")
    assert replay.seconds.running.mean() == pytest.approx(engine["running"].mean(), rel=0.05)
    assert replay.seconds.waiting.max() == pytest.approx(engine["waiting"].max(), rel=0.05)
    assert replay.seconds.kv_usage.mean() == pytest.approx(engine["kv_cache_pct"].mean() / 100, rel=0.05)


def test_the_order_of_first_tokens_of_a_measured_run(replay, measured):
    """Request by request: rank correlation of the first tokens, and 9 in 10 within 10 % of the run's length."""
    ours, theirs = replay.requests.first_token_s, measured["first_token_s"]
    ranks = [np.argsort(np.argsort(times)) for times in (ours, theirs)]
    assert np.corrcoef(*ranks)[0, 1] > 0.99
    assert np.percentile(np.abs(ours - theirs), 90) < 0.1 * measured["last_token_s"].max()


# --- a request alone is what the other modules say ---


def alone(prompt, output, case=Case()):  # noqa: B008
    one = workload.workload(fixed(1, prompt), fixed(1, output), np.zeros(1))
    return simulate(case, one).requests


@pytest.mark.parametrize("prompt", [1, 700, 2048, 5000])
@pytest.mark.parametrize("timing", ["kernels", "today", "2023"])
def test_a_lone_first_token_takes_its_prefill(prompt, timing):
    case = Case(timing=timing)
    expected_s = costs.prefill_alone_s(step_inputs(case), float(prompt), 0.0)
    assert alone(prompt, 1, case).ttft_s[0] == pytest.approx(float(expected_s))


def test_later_tokens_of_a_lone_request_take_its_decode_steps():
    """200 tokens after a prompt of 2,048: as long as steps at the middle of that, whose KV is not in whole blocks."""
    middle = costs.at(INPUTS, decode_batch=1, decode_context=2048 + 100)
    assert alone(2048, 201).tpot_s[0] == pytest.approx(float(costs.decode_step_s(middle)), rel=1e-3)


# --- the clock ---


def clock_of(case, *contexts):
    clock = StepTimes(step_inputs(case))
    for tokens in contexts:
        clock.join(tokens)
    return clock


def test_a_mixed_step_by_parts():
    """Two decodes of 1,000 and 3,000 tokens beside chunks of 100 after 200 and 50 after nothing."""
    clock = clock_of(Case(timing="kernels"), 1000, 3000)
    clock.step([Chunk(0, 100, 200, 0), Chunk(1, 50, 0, 0)], decodes=True)
    inputs = step_inputs(Case(timing="kernels"))
    expected_s = (
        step_time.step_s(152, inputs.shape, inputs.gpu, sampled=4)
        + step_time.attention_s(100, 200, inputs.shape, inputs.gpu)
        + step_time.attention_s(50, 0, inputs.shape, inputs.gpu)
        + step_time.kv_read_s(4000 * 131072, inputs.gpu, beside_chunk=True)
    )
    assert clock.now == pytest.approx(float(expected_s))


def test_recompute_is_charged_by_how_much_it_lengthens_the_step():
    with_it, without = clock_of(Case(), 1000), clock_of(Case(), 1000)
    with_it.step([Chunk(0, 600, 0, 600), Chunk(1, 100, 0, 0)], decodes=True)
    without.step([Chunk(1, 100, 0, 0)], decodes=True)
    assert with_it.recompute == pytest.approx(with_it.now - without.now)
    assert without.recompute == 0


@pytest.mark.parametrize("model", ["llama-3-8b", "mistral-7b-v0.1", "gpt-oss-20b", "gemma-2-9b"])
@pytest.mark.parametrize("timing", ["today", "2023"])
@pytest.mark.parametrize("contexts", [(50,), (100, 4000, 4090, 127, 8000), tuple(range(3000, 4200, 20))])
def test_a_stretch_is_the_sum_of_its_steps(model, timing, contexts):
    """Also where windows fill up, and where kernels become longer than the host's part."""
    whole, apart = (clock_of(Case(model=model, gpu="h100-sxm5-80gb", timing=timing), *contexts) for _ in range(2))
    assert whole.decode(300, np.inf) == 300
    first = apart.decode(1, np.inf) and apart.now
    assert sum(apart.decode(1, np.inf) for _ in range(299)) == 299
    assert whole.now == pytest.approx(apart.now)
    assert whole.after_first == pytest.approx(apart.now - first)
    assert whole.last == pytest.approx(apart.last)


@settings(max_examples=60, deadline=None)
@given(st.floats(0.0001, 3.0), st.integers(1, 400))
def test_a_stretch_stops_with_the_step_that_reaches_the_time(until_s, steps):
    whole, apart = (clock_of(Case(), 500, 60_000) for _ in range(2))
    taken = whole.decode(steps, until_s)
    expected = 0
    while expected < steps and (not expected or apart.now < until_s - 1e-9):
        expected += apart.decode(1, np.inf)
    assert taken == expected


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 60), st.integers(0, 30)), min_size=1, max_size=12), st.integers(1, 40))
def test_tokens_in_a_window_are_counted_as_one_by_one(requests, bound):
    """Each joins with so many tokens and leaves after so many steps; a window of `bound` is read of each."""
    counted, batch = BoundedTokens(bound), []
    for tokens, _ in requests:
        counted.join(tokens)
    batch = [[tokens, stays] for tokens, stays in requests]
    for _ in range(31):
        for request in [one for one in batch if one[1] == 0]:
            counted.leave(request[0])
            batch.remove(request)
        assert counted.tokens == sum(min(tokens, bound) for tokens, _ in batch)
        assert counted.growing == sum(tokens < bound for tokens, _ in batch)
        counted.advance(1)
        batch = [[tokens + 1, stays - 1] for tokens, stays in batch]


def test_the_hosts_part_hides_short_kernels():
    case = Case(timing="2023", gpu="h100-sxm5-80gb")
    inputs = step_inputs(case)
    clock = clock_of(case, 100)
    clock.decode(1, np.inf)
    assert clock.now == pytest.approx(float(engine_time.decode_step_s(0.0, 1, inputs)))


# --- results ---


CROWD = by_name("chat", 150, seed=2, requests_per_s=10)
SMALL = Engine(num_blocks=2000)


def test_the_same_seed_gives_the_same_results():
    once, again = (simulate(Case(), by_name("chat", 80, seed=5), SMALL) for _ in range(2))
    other = simulate(Case(), by_name("chat", 80, seed=6), SMALL)
    assert once.requests.finished_s.tolist() == again.requests.finished_s.tolist() != other.requests.finished_s.tolist()


def test_totals_by_hand():
    results = simulate(Case(), CROWD, SMALL)
    requests, totals = results.requests, results.totals(slo_ttft_s=5, slo_tpot_s=0.04)
    good = (requests.ttft_s <= 5) & (requests.tpot_s <= 0.04)
    assert totals["outcome"] == "finished"
    assert totals["goodput_requests_per_s"] == pytest.approx(good.sum() / results.makespan_s)
    assert 0 < totals["good_share"] < 1
    assert totals["preemptions"] == requests.preemptions.sum() == len(results.events.preempted_s)
    assert totals["preemptions_per_100"] == pytest.approx(100 * requests.preemptions.sum() / 150)
    assert totals["preempted_share"] == pytest.approx((requests.preemptions > 0).mean())
    prefilled = requests.prompt_tokens.sum() + requests.recomputed_tokens.sum()
    assert totals["recompute_tax"] == pytest.approx(requests.recomputed_tokens.sum() / prefilled, rel=0.01)
    assert totals["output_tokens_per_s"] == pytest.approx(requests.output_tokens.sum() / results.makespan_s)
    assert totals["ttft_s"]["p99"] == pytest.approx(np.percentile(requests.ttft_s, 99))
    assert results.seconds.preemptions.sum() <= totals["preemptions"]
    assert (results.seconds.kv_usage <= 1).all()
    assert (results.seconds.kv_usage >= 0).all()


def test_gaps_between_tokens():
    """Their sum over all tokens is the time from first to last token; none is longer than the longest."""
    results = simulate(Case(), CROWD, SMALL)
    requests = results.requests
    spans_s = (requests.finished_s - requests.first_token_s).sum()
    assert (results.gap_s * results.gap_tokens).sum() == pytest.approx(spans_s, rel=0.01)
    assert results.gap_percentile_s(100) == pytest.approx(requests.worst_gap_s.max(), rel=0.02)
    assert results.gap_percentile_s(50) <= results.gap_percentile_s(99)
    assert (requests.worst_gap_s >= requests.tpot_s * (1 - 1e-9)).all()


def test_a_preemption_is_an_outlier_between_tokens_and_not_a_late_first_one():
    results = simulate(Case(), CROWD, SMALL)
    again, gap_s = results.requests.preemptions > 0, results.requests.worst_gap_s
    assert gap_s[again].mean() > 2 * gap_s[~again].mean()
    assert gap_s[again].max() > 4 * gap_s[~again].max()


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_every_scheduler_by_name(scheduler):
    results = simulate(
        Case(), by_name("chat", 60, seed=1, requests_per_s=20), Engine(num_blocks=900, scheduler=scheduler)
    )
    assert results.outcome == "finished"
    assert np.isfinite(results.requests.finished_s).all()


def test_so_many_clients_and_no_more():
    results = simulate(Case(), by_name("agents", 60, seed=1, clients=6))
    assert (results.seconds.running + results.seconds.waiting <= 6).all()
    requests = results.requests
    assert requests.arrival_s[6:] == pytest.approx(np.sort(requests.finished_s)[:54] + 2, abs=0.01)  # after thinking


def test_samples_every_second():
    results = simulate(Case(), CROWD, SMALL)
    assert np.diff(results.seconds.time_s) == pytest.approx(1)
    assert len(results.seconds.time_s) == int(results.makespan_s)


def test_memory_grows_with_requests_and_not_with_steps():
    """Four times the output is four times the steps, and the same memory."""
    peaks = []
    for output in (100, 400):
        load = workload.workload(fixed(400, 200), fixed(400, output), workload.poisson(400, 4, 1))
        tracemalloc.start()
        simulate(Case(), load, every_s=1000)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.3 * peaks[0]


# --- the engine's settings ---


def test_defaults_of_the_engine():
    """vLLM 0.33: 256 sequences on an A100, 1,024 on an H100, no more than a step's tokens."""
    assert default_max_num_seqs(Case()) == 256
    assert default_max_num_seqs(Case(gpu="h100-sxm5-80gb")) == 1024
    assert default_max_num_seqs(Case(max_num_batched_tokens=64)) == 64


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"scheduler": "fifo"}, "scheduler: 'fifo' given; allowed: vllm-v1, "),
        ({"num_blocks": 0}, "num_blocks: 0 given; allowed: 1 to 100,000,000"),
        ({"watermark": 1.5}, "watermark: 1.5 given; allowed: 0 to 0.99"),
        ({"utilization": float("nan")}, "utilization: nan given"),
    ],
)
def test_a_setting_out_of_its_limits(changed, sentence):
    with pytest.raises(CaseError, match=sentence):
        Engine(**changed)


def test_a_request_longer_than_the_pool():
    with pytest.raises(
        CaseError, match="prompt_tokens \\+ output_tokens: 200 of one request given; allowed: up to 161"
    ):
        simulate(Case(), workload.workload(fixed(1, 100), fixed(1, 100), np.zeros(1)), Engine(num_blocks=10))
