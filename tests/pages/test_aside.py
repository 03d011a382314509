"""Large texts are read in a process of their own: the same answer, the same refusals, and an end in time."""

from __future__ import annotations

import subprocess

import pytest

from explorer import aside
from kvmodel import words
from kvmodel.diagnosis import from_scrapes
from kvmodel.diagnosis.served import ServerFacts
from kvmodel.errors import CaseError
from kvmodel.metrics import samples
from tests.helpers.works import failing, greedy, here, refusing, said, sleeping
from tests.test_words import KOREAN

PADDING = '# HELP x y\nother{a="b"} 1\n' * 5_000


@pytest.mark.parametrize(("size", "is_here"), [(aside.LARGE_BYTES - 1, True), (aside.LARGE_BYTES, False)])
def test_where_a_text_is_read(size: int, is_here: bool) -> None:
    assert aside.result_of(here, ("x" * size,)) is is_here


def test_the_answer_is_the_same() -> None:
    early, late = (text + PADDING for text in samples.read("pressure"))
    facts = ServerFacts({"gpu": "h100-sxm5-80gb"}, None, None)
    direct = from_scrapes.diagnose(early, late, seconds=60, facts=facts)
    assert aside.result_of(from_scrapes.diagnose, (early, late), seconds=60, facts=facts) == direct


def test_it_speaks_the_language_of_the_page() -> None:
    before = words.spoken()
    try:
        words.speak(KOREAN)
        assert aside.result_of(said, ("x" * aside.LARGE_BYTES,)) == KOREAN["more than 0"]
    finally:
        words.speak(before)


@pytest.mark.parametrize(
    ("work", "sentence"),
    [
        (refusing, "field: given; allowed"), (sleeping, "Reading took longer than 1 s; give less of the text."),
        (greedy, "Reading took more memory than there is; give less of the text."),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_one_sentence(monkeypatch: pytest.MonkeyPatch, work, sentence: str) -> None:
    if work is sleeping:
        monkeypatch.setattr(aside, "LONGEST_S", 1)
    with pytest.raises(CaseError) as refused:
        aside.result_of(work, ("x" * aside.LARGE_BYTES,))
    assert str(refused.value) == sentence


def test_a_fault_of_ours_is_no_fault_of_the_text() -> None:
    with pytest.raises(subprocess.CalledProcessError):
        aside.result_of(failing, ("x" * aside.LARGE_BYTES,))


def test_one_waits_for_another_and_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aside, "LONGEST_S", 0.1)
    with aside._one_at_a_time, pytest.raises(CaseError, match="is reading other large texts"):
        aside.result_of(said, ("x" * aside.LARGE_BYTES,))
