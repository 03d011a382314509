"""One hot engine among several: its queue is a matter of routing, not of size."""

from __future__ import annotations

from kvmodel.diagnosis import causes, moments, queues
from kvmodel.diagnosis.findings import Findings
from kvmodel.diagnosis.thresholds import limit
from kvmodel.units import format_count
from kvmodel.words import say

HOT = "one hot engine"


def hot_place(engines: list[Findings]) -> int | None:
    """The place of the one engine that is under pressure or queues while all others have room; None without one."""
    hot = [place for place, one in enumerate(engines) if one.diagnosis.verdict in (causes.PRESSURE, causes.QUEUEING)]
    if len(engines) < 2 or len(hot) != 1 or engines[hot[0]].diagnosis.waits_for == queues.WAKING:
        return None
    others = [one for place, one in enumerate(engines) if place not in hot]
    usages = [one.window.engine.usage for one in others]
    calm = all(one.diagnosis.verdict in (causes.HEALTHY, causes.TOO_LITTLE) for one in others)
    have_room = all(usage is not None and usage < limit("usage", "high") for usage in usages)
    return hot[0] if calm and have_room else None


def gain(name: str, engines: list[Findings], place: int) -> str:
    """What balancing buys: the load of one against the room of the others."""
    others = [one.window.engine.usage or 0.0 for number, one in enumerate(engines) if number != place]
    hot = engines[place].window
    return say(
        "{name} is {usage} full and {count} requests wait there, while the other {others} are {room} full on average: "
        "no flag is needed",
        count=format_count(hot.engine.gauges.get("waiting", 0.0)),
        usage=moments.percent(hot.engine.usage),
        name=name,
        others=len(others),
        room=moments.percent(sum(others) / len(others)),
    )
