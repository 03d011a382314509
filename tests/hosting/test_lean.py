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
