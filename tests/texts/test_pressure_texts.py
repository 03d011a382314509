"""Which sentence tells of a run, a knee and a ladder, at the limits between one and the next."""

from types import SimpleNamespace

import pytest

from kvmodel.simulation.load_curve import Knee, Objective
from kvmodel.texts import pressure


@pytest.mark.parametrize(
    ("queue_s", "preemptions", "which"),
    [
        (0.49, 0, "none"), (0.5, 0, "queue"), (0.51, 0, "queue"), (0.49, 3, "gaps"), (0.5, 3, "queue_and_gaps"),
    ],
)  # fmt: skip
def test_a_wait_of_half_the_time_to_the_first_token_is_what_counts(queue_s, preemptions, which):
    assert pressure.cause({"queue_s": queue_s, "ttft_s": {"mean": 1.0}, "preemptions": preemptions}) == which


@pytest.mark.parametrize(
    ("low", "high", "which"), [(None, 2.0, "below"), (3.0, None, "above"), (3.0, 4.0, "between"), (None, None, "above")]
)
def test_where_a_knee_is_told_to_be(low, high, which):
    found, texts = pressure.knee_texts("vllm-v1", Knee(low, high), Objective())
    assert found == which
    assert (texts["low"] == "–", texts["high"] == "–") == (low is None, high is None)


def row(name: str, **changed) -> SimpleNamespace:
    """As the ladder makes one, as far as its sentence needs it."""
    known = {"id": name, "action": "do it", "place": 2, "article": 2, "problem": "", "effect": "helps",
             "preemptions": 41, "ttft_p99_s": 1.5, "output_tokens_per_s": 1200.0}  # fmt: skip
    return SimpleNamespace(**known | changed)


AS_IS = row("as it is", place=None, article=None, preemptions=77)
FIRST, OWN = row("watermark", place=1, preemptions=5), row("offload", article=1)
LADDERS = {  # rows below the first, the sentence, and whose numbers it has
    "the article's first is another": ((FIRST, OWN), "both", {"first", "article"}),
    "the article's first was refused": ((FIRST, row("offload", article=1, problem="refused")), "first", {"first"}),
    "the article's first is the first": ((row("offload", place=1, article=1),), "first", {"first"}),
    "the article has no such rung": ((FIRST, row("other")), "first", {"first"}),
    "nothing helps": ((row("watermark", place=1, effect="same"), OWN), "none", set()),
    "nothing has a place": ((OWN,), "none", set()),
}


@pytest.mark.parametrize("ladder", LADDERS)
def test_the_first_remedy_and_the_article_s(ladder):
    rows, which, named = LADDERS[ladder]
    found, texts = pressure.best_remedy((AS_IS, *rows))
    assert found == which
    assert {name for name in ("first", "article") if name in texts} == named
    assert texts["preemptions"] == "77"
    if named:
        assert (texts["first_preemptions"], texts["first_place"]) == (str(rows[0].preemptions), "1")
