"""Work in a process of its own: the same answer, the same refusals, and an end in time."""

from __future__ import annotations

import os
import pickle
import signal
import time
from typing import Any

import pytest

from explorer import aside
from explorer.sections.simulated import FEW_REQUESTS, simulated
from kvmodel import words
from kvmodel.diagnosis import from_scrapes
from kvmodel.diagnosis.served import ServerFacts
from kvmodel.errors import CaseError
from kvmodel.inputs.case import Case
from kvmodel.metrics import samples
from kvmodel.simulation.simulate import Engine, simulate
from kvmodel.simulation.workload import by_name
from tests.helpers.works import crashing, failing, greedy, here, leaving, refusing, said, sleeping
from tests.test_words import KOREAN

PADDING = '# HELP x y\nother{a="b"} 1\n' * 5_000


@pytest.mark.parametrize(("size", "is_here"), [(aside.LARGE_BYTES - 1, True), (aside.LARGE_BYTES, False)])
def test_where_a_text_is_read(size: int, is_here: bool) -> None:
    assert aside.of_texts(here, ("x" * size,)) is is_here


def test_the_answer_is_the_same() -> None:
    early, late = (text + PADDING for text in samples.read("pressure"))
    facts = ServerFacts({"gpu": "h100-sxm5-80gb"}, None, None)
    direct = from_scrapes.diagnose(early, late, seconds=60, facts=facts)
    assert aside.result_of(from_scrapes.diagnose, early, late, seconds=60, facts=facts) == direct


def test_it_speaks_the_language_of_the_page() -> None:
    before = words.spoken()
    try:
        words.speak(KOREAN)
        assert aside.result_of(said, "x") == KOREAN["more than 0"]
    finally:
        words.speak(before)


@pytest.mark.parametrize(
    ("work", "sentence"),
    [
        (refusing, "field: given; allowed"), (sleeping, "It took longer than 1 s; give less text or fewer requests."),
        (greedy, "It took more memory than there is; give less text or fewer requests."),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_one_sentence(monkeypatch: pytest.MonkeyPatch, work, sentence: str) -> None:
    if work is sleeping:
        monkeypatch.setattr(aside, "LONGEST_S", 1)
    with pytest.raises(CaseError) as refused:
        aside.result_of(work, "x")
    assert str(refused.value) == sentence


def test_a_fault_of_ours_is_no_fault_of_the_text() -> None:
    with pytest.raises(RuntimeError, match="KeyError: 'x'"):
        aside.result_of(failing, "x")


def test_one_waits_for_another_and_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aside, "LONGEST_S", 0.1)
    with aside._elsewhere._one_at_a_time, pytest.raises(CaseError, match="The server is busy"):
        aside.result_of(said, "x")


def test_another_takes_the_place_of_one_that_is_ended() -> None:
    assert aside.result_of(said, "x") == "more than 0"
    parent = aside._elsewhere._parent
    assert parent
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait(10)
    assert aside.result_of(said, "x") == "more than 0"


def test_one_that_is_stopped_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    assert aside.result_of(said, "x") == "more than 0"
    parent = aside._elsewhere._parent
    assert parent
    os.kill(parent.pid, signal.SIGSTOP)
    monkeypatch.setattr(aside, "LONGEST_S", 1)
    monkeypatch.setattr(aside, "GRACE_S", 0)
    with pytest.raises(CaseError, match="It took longer than 1 s"):
        aside.result_of(said, "x")
    monkeypatch.undo()
    assert aside.result_of(said, "x") == "more than 0"


def test_a_crash_is_told_as_one() -> None:
    with pytest.raises(RuntimeError, match="status -11"):
        aside.result_of(crashing, "x")
    with pytest.raises(RuntimeError, match="status 1"):
        aside.result_of(leaving, "x")
    assert aside.result_of(said, "x") == "more than 0", "the next one is not touched"


def test_it_ends_with_the_one_that_started_it() -> None:
    other = aside.Elsewhere()
    assert other.answer(pickle.dumps((said, ("x",), {}, {})), said.__module__) == (aside.ANSWERED, "more than 0")
    parent = other._parent
    assert parent
    assert parent.stdin
    parent.stdin.close()
    assert parent.wait(10) == 0


def test_it_ends_where_nothing_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aside, "IDLE_S", 0.05)
    reading, writing = os.pipe()
    with open(reading, "rb") as orders, open(os.devnull, "wb") as answers, open(writing, "wb"):
        begun_s = time.monotonic()
        aside.serve(orders, answers)
        assert time.monotonic() - begun_s < 10


def test_a_long_simulation_is_the_same_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere: list[Any] = []
    result_of = aside.result_of
    monkeypatch.setattr(aside, "result_of", lambda work, *given: elsewhere.append(work) or result_of(work, *given))
    for requests in (FEW_REQUESTS, FEW_REQUESTS + 1):
        load = by_name("chat", requests, seed=3)
        results = simulated(Case(), load, Engine(num_blocks=2000))
        assert results.totals(slo_ttft_s=1, slo_tpot_s=1) == simulate(Case(), load, Engine(num_blocks=2000)).totals(
            slo_ttft_s=1, slo_tpot_s=1
        )
    assert elsewhere == [simulate]
