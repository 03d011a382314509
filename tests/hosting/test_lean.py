"""What the hosted form changes in Streamlit changes what a visitor sees in nothing; another version runs as it is."""

import asyncio
import gc
import logging
import re
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import streamlit
from streamlit.runtime.app_session import AppSession
from streamlit.runtime.scriptrunner.script_runner import ScriptRunner
from streamlit.runtime.state.session_state import SessionState

from hosting import lean, log
from tests.helpers.replicas import in_a_loop

ROOT = Path(__file__).resolve().parents[2]
REPLACED = (
    (ScriptRunner, "_run_script"),
    (SessionState, "filtered_state"),
    (AppSession, "_call_soon_on_event_loop"),
)


@pytest.fixture(autouse=True)
def streamlit_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    for owner, name in REPLACED:
        monkeypatch.setattr(owner, name, vars(owner)[name])


def test_it_is_written_for_the_version_that_is_pinned() -> None:
    pin = re.search(r"^streamlit==(\S+)$", (ROOT / "requirements.txt").read_text(), re.MULTILINE)
    assert pin is not None
    assert pin[1] == lean.WRITTEN_FOR


def test_the_pinned_version_is_spared_work() -> None:
    before = [vars(owner)[name] for owner, name in REPLACED]
    lean.spare_work()
    after = [vars(owner)[name] for owner, name in REPLACED]
    assert all(new is not old for new, old in zip(after, before, strict=True))


def test_another_version_runs_as_it_is_and_one_sentence_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(log.requests, "propagate", True)
    monkeypatch.setattr(streamlit, "__version__", "1.99.0")
    before = [vars(owner)[name] for owner, name in REPLACED]
    with caplog.at_level(logging.WARNING):
        lean.spare_work()
    assert [vars(owner)[name] for owner, name in REPLACED] == before
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
            while turn.waiting <= number:
                time.sleep(0.001)
            asked.append(number)
    for thread in threads:
        thread.join(10)
    assert served == asked


def test_one_address_does_not_hold_up_another() -> None:
    turn, served = lean.Turn(longest_s=60), []

    def one(address: str) -> None:
        with turn.taken(address):
            served.append(address)

    with turn.taken("a"):
        threads = [threading.Thread(target=one, args=(address,)) for address in "aaaaaabbc"]
        for number, thread in enumerate(threads):
            thread.start()
            while turn.waiting <= number:
                time.sleep(0.001)
    for thread in threads:
        thread.join(10)
    assert "".join(served) == "aabcabaaa", "the first was already chosen; then one of each in turn"


def test_sessions_that_take_long_share_a_turn_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lean, "LONGEST_TURN_S", 0.02)
    monkeypatch.setattr(lean, "SLOW_FOR_S", 0.3)
    turns = lean.Turns()

    def work(seconds: float) -> None:
        end_s = time.thread_time() + seconds
        while time.thread_time() < end_s:
            pass

    for session_id in ("slow", "slower"):
        with turns.taken(session_id, ""):
            work(0.03)
    with turns.taken("idle", ""):
        time.sleep(0.03)  # it waits, which takes nobody's time
    with turns.taken("slow", ""):
        assert (turns._long._taken.locked(), turns._short._taken.locked()) == (True, False)
        with turns.taken("idle", ""):
            assert turns._short._taken.locked()
    time.sleep(0.31)
    with turns.taken("slow", ""):
        assert turns._short._taken.locked(), "it has not been slow for a while"


def test_few_sessions_are_remembered_as_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lean, "LONGEST_TURN_S", -1.0)
    monkeypatch.setattr(lean, "MOST_SLOW", 3)
    turns = lean.Turns()
    for number in range(5):
        with turns.taken(f"s{number}", ""):
            pass
    assert list(turns._slow_until_s) == ["s2", "s3", "s4"]


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


class Session:
    """As much of a session as hands callbacks over."""

    def __init__(self) -> None:
        self._event_loop = asyncio.get_running_loop()


def test_messages_come_in_order_and_all_of_them() -> None:
    lean.messages_in_bundles()
    hand = AppSession._call_soon_on_event_loop

    async def sent() -> list[int]:
        session, found = Session(), []

        def script() -> None:
            for number in range(300):
                hand(session, lambda number=number: found.append(number))
                if number % 50 == 0:
                    time.sleep(2 * lean.FLUSH_S)

        thread = threading.Thread(target=script)
        thread.start()
        while thread.is_alive():
            await asyncio.sleep(0.01)
        await asyncio.sleep(5 * lean.FLUSH_S)
        return found

    assert in_a_loop(sent()) == list(range(300))


def test_what_was_sent_is_shown_while_the_script_goes_on() -> None:
    lean.messages_in_bundles()

    async def shown() -> bool:
        session, seen = Session(), asyncio.Event()
        AppSession._call_soon_on_event_loop(session, seen.set)
        await asyncio.wait_for(seen.wait(), 5)
        return seen.is_set()

    assert in_a_loop(shown())


def test_a_callback_that_fails_does_not_stop_the_next(caplog: pytest.LogCaptureFixture) -> None:
    lean.messages_in_bundles()

    async def sent() -> list[str]:
        session, found = Session(), []
        AppSession._call_soon_on_event_loop(session, lambda: 1 / 0)
        AppSession._call_soon_on_event_loop(session, lambda: found.append("next"))
        await asyncio.sleep(10 * lean.FLUSH_S)
        return found

    assert in_a_loop(sent()) == ["next"]
    assert "ZeroDivisionError" in caplog.text


def test_a_session_that_is_gone_is_kept_by_nothing() -> None:
    lean.messages_in_bundles()

    async def left() -> int:
        AppSession._call_soon_on_event_loop(Session(), lambda: None)
        await asyncio.sleep(5 * lean.FLUSH_S)
        gc.collect()
        return sum(isinstance(thing, Session) for thing in gc.get_objects())

    assert in_a_loop(left()) == 0


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
