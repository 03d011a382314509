"""Who holds the pool at a time: as many blocks, and as many requests, as the engine's own samples say."""

import numpy as np
import pytest

from kvmodel.inputs.case import Case
from kvmodel.simulation.simulate import Engine, simulate
from kvmodel.simulation.workload import by_name, fixed, workload
from tests.helpers.pool_picture import holders


@pytest.mark.parametrize("scheduler", ["vllm-v1", "vllm-v0-swap", "wait"])
def test_holders_add_up_to_the_samples(scheduler):
    engine = Engine(num_blocks=2000, scheduler=scheduler)
    results = simulate(Case(), by_name("chat", 150, seed=2, requests_per_s=10), engine)
    held, running = [], []
    for time_s in results.seconds.time_s:
        now = holders(results, time_s, 16)
        held.append(now.blocks.sum() / 2000)
        running.append(len(now.request))
    # a sample is taken at the end of the step that its second falls into
    assert np.mean(np.abs(np.array(running) - results.seconds.running)) < 1
    assert np.mean(np.abs(np.array(held) - results.seconds.kv_usage)) < 0.02


def test_one_request_by_hand():
    """2,048 + 129 tokens: the prompt when it begins to decode, 2,176 at the end, as the last one is not computed."""
    results = simulate(Case(), workload(fixed(1, 2048), fixed(1, 129), np.zeros(1)))
    first, last = results.requests.first_token_s[0], results.requests.finished_s[0]
    assert holders(results, first, 16).blocks.tolist() == [128]
    assert holders(results, (first + last) / 2, 16).blocks.tolist() == [132]
    assert holders(results, last * (1 - 1e-9), 16).blocks.tolist() == [136]
    assert len(holders(results, last, 16).request) == 0
    assert not holders(results, first / 2, 16).decoding[0]


def test_who_has_been_preempted_is_marked():
    results = simulate(Case(), by_name("chat", 150, seed=2, requests_per_s=10), Engine(num_blocks=2000))
    resumed = int(np.argmax(results.events.waited_s >= 0))
    now = holders(results, results.events.resumed_s[resumed] + 0.001, 16)
    place = now.request.tolist().index(int(results.events.resumed_request[resumed]))
    assert now.preempted_before[place]
