"""What the hosted form changes in Streamlit changes what a visitor sees in nothing; another version runs as it is."""

import logging
import re
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import streamlit
from streamlit.runtime.scriptrunner.script_runner import ScriptRunner
from streamlit.runtime.state.session_state import SessionState

from hosting import lean, log

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def streamlit_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    for owner, name in ((ScriptRunner, "_run_script"), (SessionState, "filtered_state")):
        monkeypatch.setattr(owner, name, vars(owner)[name])


def test_it_is_written_for_the_version_that_is_pinned() -> None:
    pin = re.search(r"^streamlit==(\S+)$", (ROOT / "requirements.txt").read_text(), re.MULTILINE)
    assert pin is not None
    assert pin[1] == lean.WRITTEN_FOR


def test_the_pinned_version_is_spared_work() -> None:
    before = vars(ScriptRunner)["_run_script"], vars(SessionState)["filtered_state"]
    lean.spare_work()
    after = vars(ScriptRunner)["_run_script"], vars(SessionState)["filtered_state"]
    assert all(new is not old for new, old in zip(after, before, strict=True))


def test_another_version_runs_as_it_is_and_one_sentence_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(log.requests, "propagate", True)
    monkeypatch.setattr(streamlit, "__version__", "1.99.0")
    before = vars(ScriptRunner)["_run_script"], vars(SessionState)["filtered_state"]
    with caplog.at_level(logging.WARNING):
        lean.spare_work()
    assert (vars(ScriptRunner)["_run_script"], vars(SessionState)["filtered_state"]) == before
    (sentence,) = {record.getMessage() for record in caplog.records if record.name == log.requests.name}
    assert "1.99.0" in sentence
    assert lean.WRITTEN_FOR in sentence


def test_scripts_run_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    running, most = [0], [0]

    def run(self: Any, data: Any) -> None:
        running[0] += 1
        most[0] = max(most[0], running[0])
        time.sleep(0.005)
        running[0] -= 1

    monkeypatch.setattr(ScriptRunner, "_run_script", run)
    lean.one_script_at_a_time()
    threads = [threading.Thread(target=ScriptRunner._run_script, args=(None, None)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert most == [1]
    assert running == [0]


def test_a_script_that_fails_gives_its_turn_on(monkeypatch: pytest.MonkeyPatch) -> None:
    turn = lean.Turn(longest_s=60)
    with pytest.raises(ZeroDivisionError), turn.taken():
        raise ZeroDivisionError
    with turn.taken():
        pass


def test_turns_come_in_the_order_of_asking() -> None:
    turn, asked, served = lean.Turn(longest_s=60), [], []

    def one(number: int) -> None:
        with turn.taken():
            served.append(number)

    with turn.taken():
        threads = [threading.Thread(target=one, args=(number,)) for number in range(20)]
        for number, thread in enumerate(threads):
            thread.start()
            while len(turn._line) <= number:
                time.sleep(0.001)
            asked.append(number)
    for thread in threads:
        thread.join(10)
    assert served == asked


def test_nobody_waits_for_a_long_script_to_end() -> None:
    turn, ended, order = lean.Turn(longest_s=0.05), threading.Event(), []

    def long_one() -> None:
        with turn.taken():
            order.append("long begins")
            ended.wait(10)
            order.append("long ends")

    thread = threading.Thread(target=long_one)
    thread.start()
    while not order:
        time.sleep(0.001)
    with turn.taken():
        order.append("next")
        ended.set()
        thread.join(10)
        assert turn._taken.locked()  # what the long one gave back was not the next one's turn
    assert not turn._taken.locked()
    assert order == ["long begins", "next", "long ends"]


def test_a_session_holds_the_same_however_it_is_read() -> None:
    state = SessionState()
    state["tokens"], state["model"], state["empty"] = 4096, "llama-3-8b", None
    state["$$ID-0123456789abcdef-None"] = "of a widget without a key"
    copied = state.filtered_state
    lean.state_read_where_it_is_looked_at()
    looked = state.filtered_state
    assert dict(looked) == copied
    assert len(looked) == len(copied)
    assert "tokens" in looked
    assert looked["empty"] is None
    for key in ("unknown", "$$ID-0123456789abcdef-None"):
        assert key not in looked
