"""The load curve: the same requests at every rate, and a knee that closes in."""

import numpy as np
import pytest

from kvmodel.errors import CaseError
from kvmodel.inputs.case import Case
from kvmodel.simulation import load_curve
from kvmodel.simulation.load_curve import Knee, Objective, Point
from kvmodel.simulation.servers import Demand, Pressure, engine_of, memory_blocks, offered_per_s, run
from kvmodel.simulation.simulate import Engine

OBJECTIVE = Objective(ttft_s=2.0, tpot_s=0.05)
CHAT = Demand(workload="chat", requests=120)
POOL = Engine(num_blocks=2000)


def point(requests_per_s: float, good_share: float) -> Point:
    return Point(requests_per_s, {"good_share": good_share})


class TestKnee:
    def test_between_the_last_good_rate_and_the_first_that_is_not(self):
        assert load_curve.knee([point(4, 0.5), point(1, 1.0), point(2, 0.9)]) == Knee(2, 4)

    def test_a_good_rate_beyond_a_bad_one_does_not_count(self):
        assert load_curve.knee([point(1, 1.0), point(2, 0.8), point(3, 0.95)]) == Knee(1, 2)

    def test_none_where_no_run_shows_it(self):
        assert load_curve.knee([point(1, 1.0), point(2, 1.0)]) == Knee(2, None)
        assert load_curve.knee([point(1, 0.1)]) == Knee(None, 1)

    def test_runs_that_did_not_finish_are_not_good(self):
        assert not point(1, float("nan")).good


class TestPoints:
    points = tuple(load_curve.points(Case(), CHAT.at_rate, POOL, OBJECTIVE, 2.0))

    def test_rates_lie_around_the_middle_and_then_close_in(self):
        rates = [each.requests_per_s for each in self.points]
        assert rates[: len(load_curve.AROUND)] == [2.0 * factor for factor in load_curve.AROUND]
        grid, bend = load_curve.knee(self.points[: len(load_curve.AROUND)]), load_curve.knee(self.points)
        assert len(rates) == load_curve.RUNS
        assert grid.low_per_s <= bend.low_per_s < bend.high_per_s <= grid.high_per_s
        assert np.log(bend.high_per_s / bend.low_per_s) == pytest.approx(
            np.log(grid.high_per_s / grid.low_per_s) / 2**load_curve.HALVINGS
        )

    def test_more_load_means_more_waiting(self):
        ordered = sorted(self.points, key=lambda each: each.requests_per_s)
        first_token_s = [each.totals["ttft_s"]["mean"] for each in ordered]
        assert first_token_s[0] < first_token_s[-1] / 10
        assert ordered[0].totals["preemptions"] == 0 < ordered[-1].totals["preemptions"]

    def test_no_halving_without_a_knee(self):
        easy = list(load_curve.points(Case(), CHAT.at_rate, Engine(), Objective(ttft_s=3600, tpot_s=60), 2.0))
        assert len(easy) == len(load_curve.AROUND)


class TestInputs:
    def test_lengths_stay_the_same_at_every_rate(self):
        slow, fast = CHAT.at_rate(1.0), CHAT.at_rate(10.0)
        assert (slow.prompt_tokens == fast.prompt_tokens).all()
        np.testing.assert_allclose(slow.arrival_s, 10 * fast.arrival_s)

    def test_a_share_of_the_pool_is_that_of_memory(self):
        server = Pressure(case=Case(), demand=CHAT, engine=Engine(), pool_percent=20)
        whole = memory_blocks(Case(), Engine())
        assert engine_of(server, "vllm-v1").num_blocks == whole * 20 // 100
        assert run(server, "wait").pool_blocks == whole * 20 // 100

    def test_blocks_that_are_given_count_and_the_whole_pool_is_left_to_the_engine(self):
        given = Pressure(case=Case(), demand=CHAT, engine=Engine(num_blocks=777), pool_percent=20)
        assert engine_of(given, "vllm-v1").num_blocks == 777
        assert engine_of(Pressure(case=Case(), demand=CHAT, pool_percent=100), "vllm-v1").num_blocks is None

    def test_a_pool_holds_the_longest_request_where_memory_does(self):
        passages = Demand(workload="retrieval", requests=60)
        tight, load = Pressure(case=Case(), demand=passages, pool_percent=1), passages.arrivals()
        longest = int((load.prompt_tokens + load.output_tokens).max())
        blocks = engine_of(tight, "vllm-v1").num_blocks
        assert blocks * 16 >= longest - 1 > (blocks - 1) * 16
        assert run(tight, "vllm-v1").outcome == "finished"

    def test_utilization_counts_before_the_share(self):
        half = Pressure(case=Case(), demand=CHAT, engine=Engine(utilization=0.5), pool_percent=20)
        assert engine_of(half, "vllm-v1").num_blocks < memory_blocks(Case(), Engine()) * 20 // 100

    def test_one_scheduler_beside_itself_is_one(self):
        same = Pressure(case=Case(), demand=CHAT, engine=Engine(), beside="vllm-v1")
        assert same.schedulers == ("vllm-v1",)
        assert Pressure(case=Case(), demand=CHAT, engine=Engine(), beside="wait").schedulers == ("vllm-v1", "wait")

    def test_a_model_without_a_pool_is_refused(self):
        large = Pressure(case=Case(model="llama-3-70b"), demand=CHAT, engine=Engine(), pool_percent=20)
        with pytest.raises(CaseError, match="^model"):
            engine_of(large, "vllm-v1")

    def test_the_rate_is_the_readers_else_the_workloads_else_what_clients_send(self):
        results = run(Pressure(case=Case(), demand=CHAT, engine=Engine()), "vllm-v1")
        assert offered_per_s(CHAT, results) == 6.0
        assert offered_per_s(Demand(workload="chat", requests=120, requests_per_s=3.5), results) == 3.5
        agents = Demand(workload="agents", requests=60)
        served = run(Pressure(case=Case(), demand=agents, engine=Engine()), "vllm-v1")
        assert offered_per_s(agents, served) == pytest.approx(60 / served.requests.arrival_s.max(), rel=1e-6)
