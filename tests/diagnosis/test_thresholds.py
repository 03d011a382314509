"""Every threshold of data/diagnosis.toml from both sides: what holds at it, and one step beyond."""

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kvmodel import catalog
from kvmodel.diagnosis import bands, queues, standstill
from kvmodel.diagnosis.thresholds import limit
from kvmodel.recovery import felt

FULL = {"usage": 1.0, "seconds": 600.0, "per_request": 0.5}


def at(**parts: Any) -> Any:
    return SimpleNamespace(**parts)


def banded(*, ratio: float, finished: float = 1e6) -> str | None:
    return bands.band(at(preemptions_per_100=ratio, finished=finished))


def livelock(**changed: float) -> bool:
    """A pool that is full through the window, of 4 running requests."""
    now = FULL | changed
    window = at(
        lifetime=False, restarted=False, seconds=now["seconds"], mean={"running": 4.0}, least={"running": 4.0},
        least_usage=now["usage"],
    )  # fmt: skip
    return standstill.is_livelock(window, at(generated_tokens_per_s=4 * now["per_request"], preemptions=1.0))


def head_of_line(seconds: float) -> bool:
    window = at(
        lifetime=False, restarted=False, seconds=seconds, mean={"running": 1}, least={"running": 1, "waiting": 1}
    )
    return standstill.is_head_of_line(window, at(ended=0.0))


def stands_still(per_request: float) -> bool:
    window = at(increase=at(counters={"generation_tokens": 1.0}), mean={"running": 2.0})
    return not standstill.moves(window, at(ended=0.0, generated_tokens_per_s=2 * per_request))


def queueing(share: float) -> bool:
    window = at(mean={"waiting": share, "running": 1 - share}, engine=at(gauges={"waiting": 1.0}))
    return queues.is_queueing(window)


def turned_away(share: float) -> bool:
    return queues.is_capped(at(rejected={"tokens": 1000 * share}, finished=1000 * (1 - share)))


def prefills(per_generated: float, running: float = 1e6) -> bool:
    window = at(
        increase=at(counters={"prompt_tokens": per_generated, "generation_tokens": 1.0}), mean={"running": running}
    )
    return queues.is_prefill_bound(window, at(computed_share=None))


def thrashes(requests: float) -> bool:
    window = at(lifetime=False, increase=at(counters={}), engine=at(pool_tokens=requests * 8.0))
    rates = at(preemptions_per_100=None, hit_share=None, preemptions=None, finished=None,
               prompt_tokens_per_request=6.0, output_tokens_per_request=2.0)  # fmt: skip
    return any("thrash" in line for line in bands.against(window, rates, None))


def taxed(share: float) -> bool:
    return list(bands.tax_against((0.0, share), at(preemptions_per_100=1.0))) != []


def share_felt(share: float) -> str | None:
    return felt.matter(felt.Felt(of_stream=share))


# Threshold: of a number, what is asked; whether it holds at the threshold; on which side it does not.
Asked = tuple[Callable[[float], bool], bool, float]
THRESHOLDS: dict[tuple[str, str], Asked] = {
    ("data", "least_finished"): (lambda x: banded(ratio=1.0, finished=x) is not None, True, -math.inf),
    ("data", "least_seconds"): (lambda x: livelock(seconds=x), True, -math.inf),
    ("stuck", "least_seconds"): (head_of_line, True, -math.inf),
    ("stuck", "tokens_per_s_per_request"): (stands_still, False, -math.inf),
    ("band", "few"): (lambda x: banded(ratio=x) == "few", True, math.inf),
    ("band", "tune"): (lambda x: banded(ratio=x) == "tune", True, -math.inf),
    ("band", "most"): (lambda x: banded(ratio=x) == "most", True, -math.inf),
    ("usage", "high"): (lambda x: queues.is_full(at(engine=at(usage=x))), True, -math.inf),
    ("usage", "full"): (lambda x: livelock(usage=x), True, -math.inf),
    ("queue", "waiting_share"): (queueing, True, -math.inf),
    ("livelock", "tokens_per_s_per_request"): (lambda x: livelock(per_request=x), False, -math.inf),
    ("livelock", "full_requests"): (thrashes, False, -math.inf),
    ("felt", "part"): (lambda x: share_felt(x) == felt.IN_PART, True, -math.inf),
    ("felt", "most"): (lambda x: share_felt(x) == felt.IN_PART, True, math.inf),
    ("tax", "large"): (taxed, True, -math.inf),
    ("prefill", "prompt_per_generated"): (prefills, True, -math.inf),
    ("prefill", "tokens_of_a_step"): (lambda x: prefills(16.0, x / 16), True, -math.inf),
}
NO_SWITCH = {("tax", "survival_most")}  # a factor: nothing turns at it


@pytest.mark.parametrize("key", THRESHOLDS, ids=".".join)
def test_a_threshold_from_both_sides(key: tuple[str, str]) -> None:
    holds, at_it, beyond = THRESHOLDS[key]
    threshold = limit(*key)
    assert holds(threshold) is at_it
    assert holds(math.nextafter(threshold, beyond)) is not at_it


def test_every_threshold_is_here() -> None:
    table = catalog.table("diagnosis")
    assert {(section, key) for section, rows in table.items() for key in rows} == {*THRESHOLDS, *NO_SWITCH}


def test_those_turned_away_count_from_the_same_share_as_those_who_wait() -> None:
    share = limit("queue", "waiting_share")
    assert turned_away(share + 1e-9)
    assert not turned_away(share - 1e-9)
