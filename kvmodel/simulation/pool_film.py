"""The KV pool over a whole simulated run, in the least that it can be played from: one row a stay in the batch."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, nan

import numpy as np
from numpy.typing import NDArray

from kvmodel.arrays import Floats
from kvmodel.simulation.results import Results

MOST_STAYS = 1_200  # what a page can send: 18 bytes each


@dataclass(frozen=True, eq=False)
class Film:
    """Stays in the batch in the order of admission, with the wait before each. Arrays of one length.

    A request waits from `ready_s` to `admitted_s`, prefills to `decoding_s`, decodes to `left_s`, and holds
    `cached_blocks`, `prefill_blocks` and `left_blocks` at the last three of these times; between them along a straight
    line. While a preempted request waits, `cached_blocks` are what will be left of its
    KV. What does not happen before `end_s` has the time `end_s`.
    """

    request: NDArray[np.int64]
    again: NDArray[np.bool_]  # it comes back from a preemption
    ready_s: Floats  # arrived, or preempted
    admitted_s: Floats
    decoding_s: Floats
    left_s: Floats
    cached_blocks: Floats
    prefill_blocks: Floats
    left_blocks: Floats
    end_s: float
    pool_blocks: int
    goes_on: bool  # the run goes on after `end_s`


def film(results: Results, block_tokens: int, most_stays: int = MOST_STAYS) -> Film:
    """The film of a run; of a longer one, as much as its first `most_stays` stays tell."""
    stays, requests = results.stays, results.requests
    goes_on = len(stays.request) > most_stays
    end_s = float(stays.admitted_s[most_stays]) if goes_on else _last_s(results)
    ready = requests.arrival_s.tolist()  # by request: since when it waits; NaN once it is in the batch or done
    victims: set[int] = set()
    rows: list[tuple[float, ...]] = []
    columns = (
        stays.request, stays.admitted_s, stays.decoding_s, stays.left_s,
        stays.cached_tokens, stays.prefill_tokens, stays.left_tokens,
    )  # fmt: skip
    for number, admitted_s, decoding_s, left_s, *tokens in zip(
        *(c[:most_stays].tolist() for c in columns), strict=True
    ):
        request = int(number)
        rows.append((request, request in victims, ready[request], admitted_s, decoding_s, left_s, *tokens))
        ready[request] = nan if left_s == requests.finished_s[request] else left_s
        victims.add(request)
    still = [request for request, since in enumerate(ready) if since < end_s]
    rows += [(request, request in victims, ready[request], inf, inf, inf, 0, 0, 0) for request in still]
    table = np.array(rows, dtype=float).reshape(-1, 9).T
    times = np.minimum(np.where(np.isnan(table[2:6]), inf, table[2:6]), end_s)
    cached_blocks, prefill_blocks, left_blocks = table[6:] / block_tokens
    return Film(
        request=table[0].astype(np.int64),
        again=table[1].astype(bool),
        ready_s=times[0],
        admitted_s=times[1],
        decoding_s=np.minimum(times[2], times[3]),
        left_s=times[3],
        cached_blocks=cached_blocks,
        prefill_blocks=prefill_blocks,
        left_blocks=np.where(np.isnan(left_blocks), prefill_blocks, left_blocks),
        end_s=end_s,
        pool_blocks=results.pool_blocks,
        goes_on=goes_on,
    )


def _last_s(results: Results) -> float:
    """When the last thing happened."""
    times = (
        results.requests.arrival_s,
        results.requests.finished_s,
        results.events.preempted_s,
        results.events.resumed_s,
    )
    return float(np.nanmax(np.concatenate(times)))


def busiest_s(film: Film) -> float:
    """When the most preempted requests wait; when the most requests are in the batch where none ever does."""
    since, until = (film.ready_s, film.admitted_s) if film.again.any() else (film.admitted_s, film.left_s)
    mask = film.again if film.again.any() else np.ones(len(since), bool)
    times = np.concatenate([since[mask], until[mask]])
    steps = np.concatenate([np.ones(mask.sum()), -np.ones(mask.sum())])
    order = np.lexsort((steps, times))
    return float(times[order][np.argmax(np.cumsum(steps[order]))])
