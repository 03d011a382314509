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
    text = beside(now["waiting"], now["running"])
    if early and (early.get("waiting"), early.get("running")) != (now["waiting"], now["running"]):
        before = beside(early.get("waiting", 0.0), early.get("running", 0.0))
        return say("first {before}, then {now}", before=before, now=text)
    return text


def beside(waiting: float, running: float) -> str:
    counts = {"waiting": format_count(waiting), "running": format_count(running)}
    return say("{waiting} requests wait beside {running} running", **counts)


def usage(window: Window) -> str:
    """The share of the pool in use: one figure, or that of the start and that of the end."""
    now, early = percent(window.engine.usage), percent(window.early_usage)
    return (
        now if window.early_usage is None or early == now else say("first {before}, then {now}", before=early, now=now)
    )


def percent(share: float | None) -> str:
    """A share as text, a dash where it is not reported."""
    return "–" if share is None else format_percent(share)
