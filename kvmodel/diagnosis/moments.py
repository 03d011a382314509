"""A window's gauges in words: what they were at its start and at its end, never a mean of the two."""

from __future__ import annotations

from kvmodel.metrics.server_window import Window
from kvmodel.units import format_count, format_percent
from kvmodel.words import say


def under_way(window: Window) -> float:
    """Requests that run or wait at the window's end."""
    return sum(window.engine.gauges.get(word, 0.0) for word in ("running", "waiting"))


def waiting(window: Window) -> str:
    """Running and waiting requests in words."""
    now, early = window.engine.gauges, window.early
    if "waiting" not in now:
        return say("how many wait is not reported")
    if "running" not in now:
        return say("{waiting} requests wait", waiting=format_count(now["waiting"]))
    waiting, running = (
        at_both_ends(format_count(early.get(word, 0.0)) if early else None, format_count(now[word]))
        for word in ("waiting", "running")
    )
    text = say("{waiting} requests wait beside {running} running", waiting=waiting, running=running)
    swapped = now.get("swapped")
    return say("{text}, {count} swapped out", text=text, count=format_count(swapped)) if swapped else text


def usage(window: Window) -> str:
    """The share of the pool in use: one figure, or that of the start and that of the end."""
    early = None if window.early_usage is None else percent(window.early_usage)
    return at_both_ends(early, percent(window.engine.usage))


def at_both_ends(before: str | None, now: str) -> str:
    """What two scrapes show, one after the other where they differ."""
    return now if before in (None, now) else say("{before}, then {now}", before=before, now=now)


def percent(share: float | None) -> str:
    """A share as text, a dash where it is not reported."""
    return "–" if share is None else format_percent(share)
