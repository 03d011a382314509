"""What happened at a server in a window: between two scrapes, since its start, or over a Prometheus range.

Counters are increases. One that fell belongs to a restarted process and counts from its new start, as in Prometheus.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from kvmodel.errors import CaseError
from kvmodel.metrics import histogram, metric_names
from kvmodel.metrics.server_state import ADDED, Engine, Server
from kvmodel.words import say


@dataclass(frozen=True)
class Window:
    """One engine over a window: `engine` is it at the end, or with means over a Prometheus range.

    `mean` and `least` are of its gauges over the window, `early` are those at its start where that is a moment that was
    scraped. `increase` holds the counters and histograms of the window. `seconds` None: not known; `lifetime`: since
    the start.
    """

    engine: Engine
    mean: dict[str, float]
    least: dict[str, float]
    increase: Engine
    early: dict[str, float] = field(default_factory=dict)
    seconds: float | None = None
    lifetime: bool = False
    restarted: bool = False
    notes: tuple[str, ...] = field(default=())

    @property
    def least_usage(self) -> float:
        """Least share of the pool in use, 0 where it is not reported."""
        return self.least.get("usage", 0.0)

    @property
    def early_usage(self) -> float | None:
        """Share of the pool in use at the window's start."""
        return self.early.get("usage")


def since_start(server: Server) -> tuple[Window, tuple[Window, ...]]:
    """The server's whole life from one scrape: all engines together, and each."""
    windows = tuple(Window(engine, engine.gauges, engine.gauges, engine, lifetime=True) for engine in server.engines)
    return whole(server, server, windows), windows


def between(before: Server, after: Server, seconds: float | None) -> tuple[Window, tuple[Window, ...]]:
    """From one scrape to a later one: all engines together, and each. Raises CaseError where they do not fit.

    Engines are matched by their labels; one that is in a single scrape is left out.
    """
    if before.product != after.product:
        values = {"after": after.product, "before": before.product}
        raise CaseError(say("SCRAPE2: of {after}, and SCRAPE of {before}; allowed: two of one server", **values))
    earlier = {frozenset(engine.labels.items()): engine for engine in before.engines}
    pairs = [
        (earlier[frozenset(engine.labels.items())], engine)
        for engine in after.engines
        if frozenset(engine.labels.items()) in earlier
    ]
    if not pairs:
        raise CaseError(say("SCRAPE2: none of its engines is in SCRAPE; allowed: two scrapes of the same engines"))
    births = [(before.process.get(word), after.process.get(word)) for word in ("start_time", "created")]
    birth, later_birth = next(((old, new) for old, new in births if old is not None and new is not None), (None, None))
    fallen = [fell(early, late) for early, late in pairs]
    swapped = birth is not None and later_birth is not None and later_birth <= birth
    if swapped and (later_birth != birth or all(fallen)):
        raise CaseError(say("SCRAPE2: it was taken before SCRAPE, by its counters; allowed: the later scrape second"))
    pairs = [(early, without_absent(early, late, before.product)) for early, late in pairs]
    windows = tuple(
        step(early, late, seconds, after.names, restarted=birth != later_birth or down)
        for (early, late), down in zip(pairs, fallen, strict=True)
    )
    total = whole(before, replace(after, engines=tuple(late for _, late in pairs)), windows)
    born = sorted({word for early, late in pairs for word in late.counters if word not in early.counters})
    left_out = len(before.engines) + len(after.engines) - 2 * len(pairs)
    note = say("{count} engines are in one of the scrapes only, and were left out", count=left_out)
    notes = (*([note] if left_out else []), *dict.fromkeys(each for window in windows for each in window.notes))
    if born and not any(window.restarted for window in windows):
        names = ", ".join(after.names.get(word, word) for word in born)
        notes = (
            *notes,
            say("{names} has no series in SCRAPE, as before a first event: counted from zero", names=names),
        )
    return replace(total, seconds=seconds, lifetime=False, notes=notes), windows


def over_range(
    increases: Server, least: Server | None, seconds: float, *, restarted: bool
) -> tuple[Window, tuple[Window, ...]]:
    """A range whose counters are increases already, as `increase()` of a Prometheus gives them."""
    minima = {frozenset(engine.labels.items()): engine.gauges for engine in (least.engines if least else ())}
    windows = tuple(
        Window(
            engine,
            engine.gauges,
            minima.get(frozenset(engine.labels.items()), {}),
            engine,
            seconds=seconds,
            restarted=restarted,
        )
        for engine in increases.engines
    )
    total = whole(increases, increases, windows)
    return replace(total, seconds=seconds, lifetime=False, restarted=restarted), windows


def without_absent(before: Engine, after: Engine, product: str) -> Engine:
    """The later engine without a counter of 0 that the earlier scrape shows to be missing, not unborn.

    Its gauge was above 0 there, so the event had come, and no counter with it.
    """
    absent = {
        word
        for word, gauge in metric_names.unborn(product).items()
        if before.gauges.get(gauge, 0.0) > 0 and word not in before.counters and after.counters.get(word) == 0
    }
    return replace(after, counters={word: value for word, value in after.counters.items() if word not in absent})


def fell(before: Engine, after: Engine) -> bool:
    """Whether any counter, or any number of a histogram, is below its earlier value."""
    return any(value < before.counters.get(word, 0.0) for word, value in after.counters.items()) or any(
        histogram.fell(before.histograms[word], observed)
        for word, observed in after.histograms.items()
        if word in before.histograms
    )


def step(before: Engine, after: Engine, seconds: float | None, names: Mapping[str, str], *, restarted: bool) -> Window:
    """One engine between two scrapes.

    A counter that only the later one has was born with its first event, as labelled ones are: it counts from zero.
    """
    early = Engine() if restarted else before
    counters = {word: value - early.counters.get(word, 0.0) for word, value in after.counters.items()}
    histograms, notes = {}, []
    for word, observed in after.histograms.items():
        try:
            histograms[word] = histogram.increase(early.histograms.get(word), observed)
        except histogram.Contradiction as contradiction:  # each of the two is possible, but not with the other
            notes.append(say("{name}: {why}; left out", name=names.get(word, word), why=contradiction))
    mean = {
        word: (value + early.gauges[word]) / 2 if word in early.gauges else value
        for word, value in after.gauges.items()
    }
    least = {word: min(value, early.gauges.get(word, value)) for word, value in after.gauges.items()}
    increase = Engine(after.labels, {}, counters, histograms, {})
    return Window(after, mean, least, increase, early.gauges, seconds, restarted=restarted, notes=tuple(notes))


def whole(before: Server, after: Server, windows: tuple[Window, ...]) -> Window:
    """All engines as one, with what the server reports for none of them alone."""
    lifetime = before is after
    apart = (
        Window(after.shared, {}, {}, after.shared, lifetime=True)
        if lifetime
        else step(before.shared, after.shared, None, after.names, restarted=fell(before.shared, after.shared))
    )
    everything = (*windows, apart) if apart.engine != Engine() else windows
    if len(everything) == 1:
        return everything[0]
    engine = sum_of([window.engine for window in windows])
    return Window(
        engine=replace(engine, config=shared_config(windows)),
        mean=gauges_of([(window.mean, window.engine.pool_tokens) for window in windows]),
        least=gauges_of([(window.least, window.engine.pool_tokens) for window in windows]),
        early=gauges_of([(window.early, window.engine.pool_tokens) for window in windows]),
        increase=sum_of([window.increase for window in everything]),
        lifetime=lifetime,
        restarted=any(window.restarted for window in everything),
    )


def shared_config(windows: Iterable[Window]) -> dict[str, str]:
    """The settings in which all engines agree; sizes are left out, as they add up."""
    sizes = ("num_gpu_blocks", "kv_cache_size_tokens", "num_pages", "engine")
    shared = agreed([window.engine.config for window in windows])
    return {key: value for key, value in shared.items() if key not in sizes}


def agreed(parts: list[dict[str, str]]) -> dict[str, str]:
    """The entries that are the same in all."""
    entries = parts[0].items() if parts else ()
    return {key: value for key, value in entries if all(part.get(key) == value for part in parts)}


def sum_of(parts: list[Engine]) -> Engine:
    """Counters and histograms added up; the pool too, where every engine says what it has."""
    counters: dict[str, float] = {}
    for part in parts:
        for word, value in part.counters.items():
            counters[word] = counters.get(word, 0.0) + value
    words = dict.fromkeys(word for part in parts for word in part.histograms)
    histograms = {
        word: joined
        for word in words
        if (joined := histogram.together(part.histograms[word] for part in parts if word in part.histograms))
    }
    gauges = gauges_of([(part.gauges, part.pool_tokens) for part in parts])
    pools = [part.pool_tokens for part in parts]
    if pools and None not in pools:
        gauges["pool_tokens"] = math.fsum(pool for pool in pools if pool is not None)
    gauges.pop("pool_blocks", None)
    return Engine(agreed([part.labels for part in parts]), gauges, counters, histograms, {})


def gauges_of(parts: list[tuple[dict[str, float], float | None]]) -> dict[str, float]:
    """Gauges of several engines: requests add up; shares are means, weighted by the pools where all are known."""
    weighted = all(pool for _, pool in parts)
    by_word = {}
    for word in dict.fromkeys(word for gauges, _ in parts for word in gauges):
        values = [(gauges[word], pool if weighted and pool else 1.0) for gauges, pool in parts if word in gauges]
        if word in ADDED:
            by_word[word] = math.fsum(value for value, _ in values)
        elif word == "block_tokens":
            by_word[word] = values[0][0]
        else:
            by_word[word] = math.fsum(value * pool for value, pool in values) / math.fsum(pool for _, pool in values)
    return by_word
