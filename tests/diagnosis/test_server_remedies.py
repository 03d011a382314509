"""Advice for a scraped server in the simulator's order where the scrape tells enough, else by the rule, and which."""

from math import inf, log

import numpy as np
import pytest

from kvmodel import catalog
from kvmodel.catalog import prices
from kvmodel.diagnosis import advice, server_remedies
from kvmodel.diagnosis.from_scrapes import diagnose
from kvmodel.diagnosis.served import ServerFacts
from kvmodel.diagnosis.server_remedies import Load, spread, workload_of
from kvmodel.metrics.histogram import Histogram
from kvmodel.simulation import simulate
from kvmodel.simulation.remedy_rungs import Server
from kvmodel.simulation.simulate import Engine
from tests.helpers.scrapes import vllm

A100 = ServerFacts({"gpu": "a100-sxm4-80gb"})
PRESSED = {  # 80 requests of 1,900 tokens want 152,000; the pool has 96,000
    "running": 60, "waiting": 20, "usage": 0.97, "blocks": 6000, "prompt": 1500.0, "output": 400.0,
    "model": "meta-llama/Meta-Llama-3-8B",
}  # fmt: skip


def server(*, preempted=200, facts=A100, **changed):
    load = PRESSED | changed
    before = {"preemptions": 1000, "finished": 5000}
    after = {"preemptions": 1000 + preempted, "finished": 6000}
    return diagnose(vllm(**load | before), vllm(**load | after), seconds=400, facts=facts)


def simulated(answer):
    return answer["advice_rule"].startswith("simulated")


def test_a_server_under_pressure_gets_the_simulators_order():
    answer = server(facts=ServerFacts({"gpu": "a100-sxm4-80gb"}, "0.33.0"))
    assert answer["verdict"] == "preemption pressure"
    assert simulated(answer)
    assert "with 80 requests at a time of 1,500 + 400 tokens on 1 a100-sxm4-80gb" in answer["advice_rule"]
    order = [row["id"] for row in answer["advice"]]
    assert order[0] == "watermark"  # free, and it takes nearly all of them; by the rule it comes second
    assert order.index("offload") > order.index("gpus")  # as many preemptions with it as without
    assert "simulated: " in answer["advice"][0]["buys"]


def test_the_order_is_that_of_the_ladder():
    answer = server(facts=ServerFacts({"gpu": "a100-sxm4-80gb"}, "0.33.0"))
    rows = {row["id"]: row for row in answer["advice"]}
    per_100 = {
        name: float(row["buys"].rpartition("become ")[2].partition(",")[0])
        for name, row in rows.items()
        if "become" in row["buys"]
    }
    assert set(per_100) == set(rows)
    before = float(rows["offload"]["buys"].rpartition("simulated: ")[2].split()[0])
    helps = [name for name in rows if per_100[name] < 0.8 * before]
    kinds = [prices.ORDER.index(rows[name]["price"]) for name in rows if name in helps]
    assert kinds == sorted(kinds)
    assert list(rows)[: len(helps)] == helps


NOT_ENOUGH = {  # what is changed, and why there is no simulation
    "another model": ({"model": "acme/secret-7b"}, "the model is not known"),
    "too many at a time": ({"running": 600, "waiting": 300}, "900 requests at a time; from 1 to 256 are simulated"),
    "a pool no such GPU has": ({"blocks": 60000}, "such a pool does not fit on 1 a100-sxm4-80gb; give --gpu and --tp"),
    "a pool that is not short": ({"blocks": 20000}, "simulated server preempts 0 times per 100 requests and not 20"),
    "no lengths": ({"prompt": 0.0}, "requests of 0 + 400 tokens are not simulated"),
    "long answers": ({"output": 20000.0}, "requests of 1,500 + 20,000 tokens take too long to simulate"),
    "far fewer preemptions": ({"preempted": 900}, "times per 100 requests and not 90"),
}  # fmt: skip


@pytest.mark.parametrize("what", NOT_ENOUGH)
def test_without_enough_the_rule_decides_and_says_why(what):
    changed, reason = NOT_ENOUGH[what]
    answer = server(**changed)
    assert not simulated(answer)
    assert answer["advice_rule"].startswith(advice.RULE)
    assert reason in answer["advice_rule"]
    sure = [prices.place(row["price"], row["effect"]) for row in answer["advice"] if not row["needs"]]
    assert sure == sorted(sure)
    assert not any("simulated" in row["buys"] for row in answer["advice"])


def test_queueing_for_kv_is_ranked_by_the_first_token():
    answer = server(preempted=0)
    assert answer["verdict"] == "queueing"
    assert answer["advice_rule"].startswith("simulated for ttft-p99")
    assert answer["advice"][-1]["id"] == "replicas"  # which the ladder does not have


def test_a_healthy_server_is_not_simulated():
    answer = server(preempted=0, waiting=0, usage=0.5)
    assert answer["verdict"] == "healthy"
    assert answer["advice_rule"] == advice.BY_CAUSE


def test_every_rung_of_the_advice_is_one_of_the_ladder():
    ladder = catalog.table("remedies")["rung"]
    named = {row["rung"] for row in catalog.table("advice")["remedy"] if "rung" in row}
    assert named
    assert named <= set(ladder)


def test_pool_and_scheduler_are_the_servers():
    """Below 0.19 the first chunk is what admission looks at; the pool is the one reported."""
    seen = []

    plain = server_remedies.rows_of

    def rows_of(server, load, rungs):
        seen.append(server)
        return plain(server, load, rungs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server_remedies, "rows_of", rows_of)
        server(facts=ServerFacts({"gpu": "a100-sxm4-80gb"}, "0.18.0"))
        server(facts=ServerFacts({"gpu": "a100-sxm4-80gb"}, "0.33.0"))
    assert list(dict.fromkeys(found.engine.scheduler for found in seen)) == ["vllm-v1-first-chunk", "vllm-v1"]
    assert {found.engine.num_blocks for found in seen} == {6000 - 1}, "one of the engine's own count is its null block"
    assert all(found.engine.utilization == 0.92 for found in seen)


# --- the load ---


def test_spread_of_lengths_from_mean_and_median():
    """Log-normal with spread 1: the mean is e^0.5 times the median."""
    bounds = tuple(float(bound) for bound in range(10, 20001, 10))
    drawn = np.random.default_rng(1).lognormal(log(500), 1.0, 100_000)
    counts = tuple(float(count) for count in np.searchsorted(np.sort(drawn), bounds, side="right"))
    observed = Histogram((*bounds, inf), (*counts, 100_000.0), float(drawn.sum()), 100_000.0)
    assert spread(observed, "prompt_spread") == pytest.approx(1.0, abs=0.02)
    assert spread(None, "prompt_spread") == catalog.table("workloads")["chat"]["prompt_spread"]["value"]
    even = Histogram((100.0, 200.0, inf), (0.0, 100.0, 100.0), 12_000.0, 100.0)  # mean 120, median read as 150
    assert spread(even, "prompt_spread") == 0


def test_the_load_has_the_mean_lengths_and_arrives_over_a_stay():
    load = Load(50, 1500.0, 400.0, 0.5, 0.8, requests_per_s=5.0)
    found = workload_of(load, Server(simulate.Case(), Engine(num_blocks=50_000)))
    assert found.clients == 50
    assert len(found) == 200
    assert found.prompt_tokens.mean() == pytest.approx(1500, rel=0.1)
    assert found.output_tokens.mean() == pytest.approx(400, rel=0.15)
    assert found.arrival_s[25] == pytest.approx(50 / 5 / 2)  # half of them within half a stay


def test_no_request_is_longer_than_the_pool():
    load = Load(4, 5000.0, 5000.0, 2.0, 2.0, None)
    pool = Server(simulate.Case(), Engine(num_blocks=1000))
    found = workload_of(load, pool)
    assert (found.prompt_tokens + found.output_tokens).max() <= 16_000
