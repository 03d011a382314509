"""So much at once, and so much more a second."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hosting import pace
from hosting.pace import Pace


def test_at_once_and_by_and_by() -> None:
    one = Pace(at_once=8.0, per_s=2.0)
    assert one.use("a", 8.0, 100.0) == 0.0, "as much at once waits for nothing"
    assert one.use("b", 8.0, 100.0) == 0.0, "another has its own"
    assert one.use("a", 1.0, 100.0) == pytest.approx(0.5)
    assert one.above_s("a", 100.2) == pytest.approx(0.3)
    assert one.above_s("unknown", 100.0) == 0.0
    assert one.use("a", 1.0, 100.5) == pytest.approx(0.5)
    assert one.use("b", 2.0, 101.0) == 0.0, "as much comes back in a second"
    assert one.use("b", 9.0, 200.0) == pytest.approx(0.5), "no more comes back than could be used at once"


def test_who_has_rested_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "MOST_KEYS", 2)
    one = Pace(at_once=8.0, per_s=2.0)
    for key in "abc":
        one.use(key, 1.0, 100.0)
    one.use("c", 9.0, 100.0)
    one.use("d", 1.0, 100.6)
    assert set(one._paid_until_s) == {"c", "d"}
    assert one.above_s("c", 100.6) == pytest.approx(0.4)


@given(st.lists(st.tuples(st.floats(0, 5), st.floats(0, 3)), max_size=20))
def test_nobody_uses_more_than_the_pace_who_waits_as_told(uses: list[tuple[float, float]]) -> None:
    one, now_s, used = Pace(at_once=4.0, per_s=2.0), 50.0, 0.0
    for amount, pause_s in uses:
        now_s += one.use("a", amount, now_s)
        used += amount
        assert used <= 4.0 + 2.0 * (now_s - 50.0) + 1e-6
        now_s += pause_s
