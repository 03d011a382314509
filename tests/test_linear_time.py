"""Twice the text takes less than three times as long, for every shape of `benchmarks.doubling`."""

import math
import time

import pytest

from benchmarks.doubling import MOST_RATIO, SHAPES, Shape, read
from kvmodel.inputs.case import Case
from kvmodel.recovery.comparison import as_json, compare_case
from kvmodel.units import KIB

SIZE_BYTES = {
    "rows": 4 * KIB,
    "trace": 32 * KIB,
    "measured": 32 * KIB,
}  # of other kinds 48 KiB: times of 10 ms and more
REPEATS = 6  # at most: another process may take the cache, or the core's speed
SLACK_S = 0.02


def seconds(shape: Shape, content: bytes) -> float:
    start_s = time.process_time()
    assert read(shape, content)
    return time.process_time() - start_s


@pytest.mark.parametrize("name", SHAPES)
def test_twice_the_text_takes_less_than_three_times_as_long(name):
    shape = SHAPES[name]
    read(shape, shape.input(200))  # what is read once only
    size_bytes = SIZE_BYTES.get(shape.kind, 48 * KIB)
    texts = [shape.input(size_bytes), shape.input(2 * size_bytes)]
    assert 1.8 < len(texts[1]) / len(texts[0]) < 2.2 or "gzip" in name
    best_s = [math.inf, math.inf]
    for _ in range(REPEATS):
        best_s = [min(best, seconds(shape, text)) for best, text in zip(best_s, texts, strict=True)]
        if best_s[1] < MOST_RATIO * best_s[0] + SLACK_S:
            break
    assert best_s[1] < MOST_RATIO * best_s[0] + SLACK_S


def test_a_thousand_preemptions_are_priced_at_once():
    case = Case(preemptions=1000, policy="vllm-v1-offload", tokens_between=2)
    start_s = time.process_time()
    answer = as_json(compare_case(case))
    assert time.process_time() - start_s < 1  # measured 0.02 s; 2.5 s one by one
    assert answer["strategies"]["recompute"]["victim_delay_s"] > 0
