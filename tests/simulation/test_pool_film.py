"""The film of the pool: the same holders at every time as pool_picture tells of, and every wait."""

import numpy as np
import pytest

from kvmodel.inputs.case import Case
from kvmodel.simulation import pool_film, simulate, workload
from kvmodel.simulation.results import Results
from kvmodel.simulation.simulate import Engine
from tests.helpers import pool_picture

BLOCK_TOKENS = Case().block_tokens


def run(scheduler: str = "vllm-v1", requests: int = 120, **engine: object) -> Results:
    load = workload.by_name("chat", requests, requests_per_s=12.0)
    return simulate.simulate(Case(), load, Engine(**({"scheduler": scheduler, "num_blocks": 1500} | engine)))


def held(film: pool_film.Film, time_s: float) -> tuple[np.ndarray, np.ndarray]:
    """Requests in the batch at a time and their blocks, read from the film as the browser reads it."""
    here = (film.admitted_s <= time_s) & (time_s < film.left_s)
    decodes = film.decoding_s <= time_s
    start, end = np.where(decodes, [film.decoding_s, film.left_s], [film.admitted_s, film.decoding_s])
    first, last = np.where(decodes, [film.prefill_blocks, film.left_blocks], [film.cached_blocks, film.prefill_blocks])
    gone = np.where(end > start, (time_s - start) / np.where(end > start, end - start, 1.0), 0.0)
    return film.request[here], (first + gone * (last - first))[here]


@pytest.mark.parametrize(
    "scheduler", ["vllm-v1", "vllm-v0-swap", "sglang", "trtllm-suspend", "vllm-v1-offload", "wait"]
)
def test_the_film_shows_the_same_holders_as_the_picture(scheduler):
    results = run(scheduler)
    film = pool_film.film(results, BLOCK_TOKENS)
    for time_s in np.random.default_rng(7).uniform(0, film.end_s, 100):
        request, blocks = held(film, time_s)
        seen = pool_picture.holders(results, float(time_s), BLOCK_TOKENS)
        assert request.tolist() == seen.request.tolist()
        np.testing.assert_allclose(np.ceil(blocks - 1e-9), seen.blocks)


def test_waits_are_those_of_the_requests_and_of_the_preempted():
    results = run()
    film = pool_film.film(results, BLOCK_TOKENS)
    assert film.again.sum() == results.preemption_events > 0
    first = ~film.again
    np.testing.assert_allclose(film.ready_s[first], results.requests.arrival_s[film.request[first]])
    np.testing.assert_allclose(np.sort(film.ready_s[film.again]), np.sort(results.events.preempted_s))
    waited_s = film.admitted_s[film.again] - film.ready_s[film.again]
    np.testing.assert_allclose(np.sort(waited_s), np.sort(results.events.waited_s))


def test_times_of_a_stay_are_in_order_and_end_with_the_run():
    film = pool_film.film(run(), BLOCK_TOKENS)
    assert (film.ready_s <= film.admitted_s).all()
    assert (film.admitted_s <= film.decoding_s).all()
    assert (film.decoding_s <= film.left_s).all()
    assert film.left_s.max() == film.end_s
    assert not film.goes_on


def test_a_long_run_is_cut_at_a_stay_and_says_so():
    results = run()
    film = pool_film.film(results, BLOCK_TOKENS, most_stays=40)
    assert film.goes_on
    assert film.end_s == results.stays.admitted_s[40]
    request, _ = held(film, film.end_s * 0.999)
    assert request.tolist() == pool_picture.holders(results, film.end_s * 0.999, BLOCK_TOKENS).request.tolist()
    waiting = set(film.request[film.admitted_s == film.end_s].tolist())
    arrived = set(np.flatnonzero(results.requests.arrival_s < film.end_s).tolist())
    assert waiting == arrived - set(results.stays.request[:40].tolist()) | (
        set(results.events.preempted_request[results.events.preempted_s < film.end_s].tolist()) - set(request.tolist())
        - set(np.flatnonzero(results.requests.finished_s <= film.end_s).tolist())
    )  # fmt: skip


def test_the_busiest_time_is_when_most_preempted_requests_wait():
    film = pool_film.film(run(), BLOCK_TOKENS)

    def waiting(time_s: float) -> int:
        return int((film.again & (film.ready_s <= time_s) & (time_s < film.admitted_s)).sum())

    most = max(waiting(time_s) for time_s in film.ready_s)
    assert waiting(pool_film.busiest_s(film)) == most > 0


def test_without_preemptions_the_busiest_time_is_that_of_the_largest_batch():
    results = run("wait")
    film = pool_film.film(results, BLOCK_TOKENS)
    at = pool_film.busiest_s(film)
    assert len(held(film, at)[0]) >= results.seconds.running.max()
