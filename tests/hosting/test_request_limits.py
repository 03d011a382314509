"""Limits of requests and messages, each from both sides, without a server."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hosting import limits
from hosting.limits import Limits
from tests.helpers.replicas import in_a_loop

MOST_BYTES = 1000


async def reading(scope: Any, receive: Any, send: Any) -> None:
    """An app that takes the whole body; 200 where it came to its end."""
    status = 200
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            status = 499
            break
        if not message["more_body"]:
            break
    await send({"type": "http.response.start", "status": status, "headers": []})
    await send({"type": "http.response.body"})


async def asked(parts: list[bytes], *, announced: bytes | None = None, path: str = "/", pause_s: float = 0) -> int:
    """The status of one request whose body comes in these parts."""
    left, sent = list(parts), []

    async def receive() -> Any:
        await asyncio.sleep(pause_s)
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [] if announced is None else [(b"content-length", announced)]
    scope = {"type": "http", "path": path, "headers": headers}
    await Limits(reading, max_body_bytes=MOST_BYTES)(scope, receive, send)
    return int(sent[0]["status"])


@pytest.mark.parametrize(("size", "status"), [(MOST_BYTES, 200), (MOST_BYTES + 1, 413)])
def test_a_body_that_is_announced(size: int, status: int) -> None:
    assert in_a_loop(asked([b"x" * size], announced=b"%d" % size)) == status


@pytest.mark.parametrize("given", [b"-1", b"1e3", b"x", b" 5"])
def test_an_announcement_that_is_no_number(given: bytes) -> None:
    assert in_a_loop(asked([b""], announced=given)) == 413


@pytest.mark.parametrize(("last", "status"), [(400, 200), (401, 499)])
def test_a_body_that_is_not_announced(last: int, status: int) -> None:
    assert in_a_loop(asked([b"x" * 600, b"x" * last])) == status


@pytest.mark.parametrize(("length", "status"), [(limits.LONGEST_PATH, 200), (limits.LONGEST_PATH + 1, 414)])
def test_a_path(length: int, status: int) -> None:
    assert in_a_loop(asked([b""], path="/" + "x" * (length - 1))) == status


@pytest.mark.parametrize(("longest_s", "status"), [(5.0, 200), (0.1, 499)])
def test_a_body_that_comes_slowly(monkeypatch: pytest.MonkeyPatch, longest_s: float, status: int) -> None:
    monkeypatch.setattr(limits, "LONGEST_BODY_S", longest_s)
    assert in_a_loop(asked([b"x"] * 5, pause_s=0.05)) == status


def test_after_its_body_a_request_waits_as_long_as_it_likes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LONGEST_BODY_S", 0.05)
    messages = [
        {"type": "http.request", "body": b"", "more_body": False}, {"type": "http.disconnect", "by": "the client"},
    ]  # fmt: skip

    async def receive() -> Any:
        await asyncio.sleep(0.1 * (len(messages) == 1))
        return messages.pop(0)

    async def both() -> Any:
        counted = Limits(reading, max_body_bytes=1)._counted(receive)
        await counted()
        return await counted()

    assert in_a_loop(both())["by"] == "the client"


class Clock:
    """In place of the time module and of asyncio's sleep: the time that has been slept."""

    now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.mark.parametrize(
    ("count", "taken_s"),
    [(limits.MESSAGES_AT_ONCE, 0.0), (limits.MESSAGES_AT_ONCE + 1, 0.25), (limits.MESSAGES_AT_ONCE + 41, 10.25)],
)
def test_the_pace_of_messages(monkeypatch: pytest.MonkeyPatch, count: int, taken_s: float) -> None:
    clock = Clock()
    monkeypatch.setattr(limits, "time", clock)
    monkeypatch.setattr(limits.asyncio, "sleep", clock.sleep)

    async def receive() -> Any:
        return {}

    async def all_of_them() -> float:
        paced = limits.paced(receive)
        for _ in range(count):
            await paced()
        return clock.now_s - Clock.now_s

    assert in_a_loop(all_of_them()) == pytest.approx(taken_s)


def test_the_pace_is_that_of_one_who_paused(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(limits, "time", clock)
    monkeypatch.setattr(limits.asyncio, "sleep", clock.sleep)

    async def receive() -> Any:
        return {}

    async def after_a_pause() -> float:
        paced = limits.paced(receive)
        for _ in range(limits.MESSAGES_AT_ONCE):
            await paced()
        clock.now_s += 3600
        start_s = clock.now_s
        for _ in range(limits.MESSAGES_AT_ONCE + 1):
            await paced()
        return clock.now_s - start_s

    assert in_a_loop(after_a_pause()) == pytest.approx(0.25), "no more at once than at first"
