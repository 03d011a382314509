"""Whose page runs next."""

from __future__ import annotations

import threading
import time

import pytest

from hosting import turns
from hosting.turns import Turn


def test_a_script_that_fails_gives_its_turn_on() -> None:
    turn = Turn(longest_s=60)
    with pytest.raises(ZeroDivisionError), turn.taken():
        raise ZeroDivisionError
    with turn.taken():
        pass


def test_turns_come_in_the_order_of_asking() -> None:
    turn, asked, served = Turn(longest_s=60), [], []

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
    turn, served = Turn(longest_s=60), []

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


def test_nobody_waits_for_a_long_script_to_end() -> None:
    turn, ended, order = Turn(longest_s=0.05), threading.Event(), []

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


def test_who_waits_for_another_process_lends_the_turn() -> None:
    turn, order = Turn(longest_s=60), []

    def other() -> None:
        with turn.taken("b"):
            order.append("other")

    with turn.lent():
        pass  # a thread that has no turn has none to lend
    with turn.taken("a"):
        thread = threading.Thread(target=other)
        thread.start()
        time.sleep(0.05)
        order.append("first")
        with turn.lent():
            thread.join(10)
        order.append("first again")
        assert turn._mine.lock.locked()
    assert order == ["first", "other", "first again"]


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> Turn:
    turn = Turn()
    monkeypatch.setattr(turns, "OTHERS_S", 10.0)
    return turn


def test_an_address_rests_after_its_share_while_others_are_there(shared: Turn) -> None:
    share_s = turns.AT_ONCE_S
    shared._note("a", share_s, 100.0)
    shared._note("b", 0.01, 100.0)
    assert shared._rest_s("a", 100.0) == 0.0
    shared._note("a", 0.03, 100.0)
    assert shared._rest_s("a", 100.0) == pytest.approx(0.03 / turns.PER_S)
    assert shared._rest_s("a", 100.0 + 0.03 / turns.PER_S) == 0.0
    assert shared._rest_s("b", 100.0) == 0.0


def test_alone_nobody_rests(shared: Turn) -> None:
    shared._note("a", 9.0, 100.0)
    assert shared._rest_s("a", 100.0) == 0.0
    shared._note("b", 0.01, 100.0)
    assert shared._rest_s("a", 109.9) > 0.0
    assert shared._rest_s("a", 110.0) == 0.0, "the other one is no longer there"


def test_a_turn_waits_for_the_rest(shared: Turn) -> None:
    now_s = time.monotonic()
    shared._note("a", turns.AT_ONCE_S + 0.2 * turns.PER_S, now_s)
    shared._note("b", 0.0, now_s)
    with shared.taken("b"):
        pass
    assert time.monotonic() < now_s + 0.2
    with shared.taken("a"):
        assert time.monotonic() >= now_s + 0.2
