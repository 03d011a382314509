"""What a scrape says of a server: its engines, each with gauges, counters, histograms and configuration.

A missing key is "not reported", never zero. Of two names for one meaning the newer that is reported counts.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial

from kvmodel.errors import CaseError
from kvmodel.metrics import metric_names
from kvmodel.metrics.engine_places import RANKS, Reading, Tags, places_of
from kvmodel.metrics.exposition import LARGEST_VALUE, Scrape, number_of
from kvmodel.metrics.histogram import Contradiction, Histogram, histogram
from kvmodel.words import say

ADDED = (  # gauges that add up; of others the largest
    "running", "waiting", "deferred", "load_unstarted", "load_running", "load_done", "swapped", "grammar_queue",
    "bootstrap_queue", "inflight_queue", "prealloc_queue", "transfer_queue", "host_receive_queue", "retracted_now",
    "seat_limit",
)  # fmt: skip
BY_REASON = {  # counters that are kept apart as well, and the label that does it
    "finished": "finished_reason", "preempted_for": "reason", "rejected": "reason", "prompt_from": "source",
    "cached_tokens": "cache_source",
}  # fmt: skip
UNSET = {"none", "null", "", "nan"}
HEAD_BYTES = 128
SHARES = ("usage", "host_usage", "host_held", "hit_rate", "external_hit_rate")  # gauges from 0 to 1
LARGEST_SETTING = {"gpu_memory_utilization": 1.0}
MOST_SHARE = 1.02  # an engine may count a block twice; what is above is no share
FOUND_OF = (("prefix_hits", "prefix_queries"), ("external_hits", "external_queries"))


@dataclass(frozen=True)
class Engine:
    """One engine (a data-parallel rank has its own); shares are of one, times in s."""

    labels: dict[str, str] = field(default_factory=dict)
    gauges: dict[str, float] = field(default_factory=dict)
    counters: dict[str, float] = field(default_factory=dict)
    histograms: dict[str, Histogram] = field(default_factory=dict)
    config: dict[str, str] = field(default_factory=dict)

    @property
    def block_tokens(self) -> float | None:
        """Tokens of a KV block."""
        return first(self.gauges.get("block_tokens"), self.setting("block_size"), self.setting("page_size"))

    @property
    def pool_tokens(self) -> float | None:
        """Tokens that the KV pool holds: as the engine says it, else blocks times block size."""
        tokens = first(self.gauges.get("pool_tokens"), self.setting("kv_cache_size_tokens"))
        blocks = first(self.gauges.get("pool_blocks"), self.setting("num_gpu_blocks"), self.setting("num_pages"))
        if tokens is not None or blocks is None or self.block_tokens is None:
            return tokens
        return blocks * self.block_tokens

    @property
    def kv_bytes_per_token(self) -> float | None:
        """KV of a token on each GPU, told by V0's host pool: its bytes hold exactly so many blocks.

        The one multiple of 128 bytes (a head's width in 8 bits) that gives this number of blocks, else None.
        """
        host, blocks = self.setting("swap_space_bytes"), self.setting("num_cpu_blocks")
        if not host or not blocks or not self.block_tokens:
            return None
        least, most = host / (blocks + 1) / self.block_tokens, host / blocks / self.block_tokens
        candidate = math.floor(most / HEAD_BYTES) * HEAD_BYTES
        return float(candidate) if candidate > least and candidate - HEAD_BYTES <= least else None

    @property
    def usage(self) -> float | None:
        """Share of the pool in use."""
        return self.gauges.get("usage")

    @property
    def host_usage(self) -> float | None:
        """Share of the host's KV pool in use, where the engine has one."""
        used, size = self.gauges.get("host_used_tokens"), self.gauges.get("host_tier_tokens")
        held = min(used / size, 1.0) if used is not None and size else None
        return first(self.gauges.get("host_usage"), held)

    def setting(self, name: str) -> float | None:
        """A number among the configuration's labels."""
        value = number_of(self.config.get(name, "None"))
        return value if value is not None and 0 < value <= LARGEST_SETTING.get(name, LARGEST_VALUE) else None


def share_of_one(value: float, name: str, what: str) -> float:
    """A share, 1 where it is a little above. Raises CaseError for what is none."""
    if value > MOST_SHARE:
        values = {"what": what, "name": name, "given": f"{value:.4g}", "most": MOST_SHARE}
        raise CaseError(say("{what}: {name} is {given}; allowed: a share from 0 to 1 ({most} is read as 1)", **values))
    return min(value, 1.0)


@dataclass(frozen=True)
class Server:
    """The engines of a scrape. `shared` is what no single engine can be given, `names` the names read by meaning."""

    product: str
    engines: tuple[Engine, ...]
    shared: Engine
    names: dict[str, str]
    process: dict[str, float]
    notes: tuple[str, ...]


def first(*values: float | None) -> float | None:
    """The first that is reported."""
    return next((value for value in values if value is not None), None)


def server(scrape: Scrape, what: str = "SCRAPE") -> Server | None:
    """The server behind a scrape, None where no series of an engine is in it.

    Raises CaseError for too many engines, and for a share above one. What contradicts itself is left out, with a note.
    """
    readings = [
        (meaning, sample)
        for sample in scrape.samples
        for meaning in metric_names.meanings(sample.name)
        if meaning.only is None or sample.labels.get(meaning.only[0]) == meaning.only[1]
    ]
    counts = Counter(meaning.engine for meaning, _ in readings)
    if not counts:
        return None
    product, _ = counts.most_common(1)[0]
    mine = [(meaning, sample) for meaning, sample in readings if meaning.engine == product]
    places = places_of(mine)
    parts: dict[Tags | None, list[Reading]] = {}
    for meaning, sample in mine:
        for place in places[id(sample.labels)]:
            parts.setdefault(place, []).append((meaning, sample))
    others = ", ".join(metric_names.label(other) for other in counts if other != product)
    left_out = (say("series of {others} are in it too, and were left out", others=others),) if others else ()
    doubts: list[str] = []
    build = partial(engine, what=what, doubts=doubts)
    shared = build(parts.pop(None, []), {})
    engines = tuple(build(parts[tags], dict(sorted(tags))) for tags in sorted(filter(None, parts), key=sorted))
    engines = engines or (build(parts.pop(frozenset(), []), {}),)
    return Server(
        product=product,
        engines=tuple(map(partial(with_unborn, product), engines)),
        shared=shared,
        names=unborn_names(product, mine) | names_of(mine),
        process=process_of(scrape),
        notes=(*scrape.notes, *left_out, *dict.fromkeys(doubts)),
    )


def with_unborn(product: str, one: Engine) -> Engine:
    """With the counters that are born with their first event, 0 where a gauge beside them shows that they exist.

    A gauge above 0 without its counter is that of a version that has no such counter.
    """
    unborn = {word: 0.0 for word, gauge in metric_names.unborn(product).items() if one.gauges.get(gauge) == 0}
    return replace(one, counters=unborn | one.counters)


def unborn_names(product: str, readings: Iterable[Reading]) -> dict[str, str]:
    """The names that such counters will have, spelled as the gauges beside them are."""
    spelled = {meaning.word: sample for meaning, sample in readings if meaning.kind == "gauge" and sample.value == 0}
    return {
        word: metric_names.spelled_as(metric_names.newest(product, word), spelled[gauge].name)
        for word, gauge in metric_names.unborn(product).items()
        if gauge in spelled
    }


def process_of(scrape: Scrape) -> dict[str, float]:
    """What the Python process says of itself, and when the first counter was made; nothing where several are in one."""
    values: dict[str, list[float]] = {}
    for sample in scrape.samples:
        word = metric_names.process_word(sample.name)
        if word is not None and sample.value is not None:
            values.setdefault(word, []).append(sample.value)
    return {word: min(numbers) for word, numbers in values.items() if word == "created" or len(numbers) == 1}


def names_of(readings: Iterable[Reading]) -> dict[str, str]:
    """What each meaning was read from, as PromQL selects it: the name as scraped, a histogram's without its suffix."""
    best: dict[str, tuple[int, str]] = {}
    for meaning, sample in readings:
        name = name_of((meaning, sample))
        if meaning.only is not None:
            name += '{{{}="{}"}}'.format(*meaning.only)
        if sample.value is not None and (meaning.word not in best or meaning.rank < best[meaning.word][0]):
            best[meaning.word] = meaning.rank, name
    return {word: name for word, (_, name) in best.items()}


def engine(readings: list[Reading], labels: dict[str, str], *, what: str, doubts: list[str]) -> Engine:
    """One engine from its series; `doubts` gets a sentence on each that contradicts itself. Raises CaseError."""
    config: dict[str, str] = {}
    series: dict[tuple[str, str], dict[int, list[Reading]]] = {}
    for meaning, sample in readings:
        if meaning.kind == "info":
            config |= {key: value for key, value in sample.labels.items() if value.strip().lower() not in UNSET}
        elif sample.value is not None:
            series.setdefault((meaning.kind, meaning.word), {}).setdefault(meaning.rank, []).append((meaning, sample))
    gauges: dict[str, float] = {}
    counters: dict[str, float] = {}
    histograms: dict[str, Histogram] = {}
    spelled = {word: name_of(by_rank[min(by_rank)][0]) for (_, word), by_rank in series.items()}
    for (kind, word), by_rank in series.items():
        newest = by_rank[min(by_rank)]
        if kind == "histogram":
            try:
                if (observed := histogram_of(newest)) is not None:
                    histograms[word] = observed
            except Contradiction as contradiction:
                doubts.append(say("{name}: {why}; left out", name=spelled[word], why=contradiction))
        elif kind == "counter":
            if word in BY_REASON:
                counters |= by_reason(newest, word)
            counters[word] = max(added(newest).values())
        else:
            values = added(newest).values() if word in ADDED else [sample.value or 0.0 for _, sample in newest]
            gauges[word] = share_of_one(max(values), spelled[word], what) if word in SHARES else max(values)
    for hits, queries in FOUND_OF:
        if queries in counters and counters.get(hits, 0.0) > MOST_SHARE * counters[queries]:
            named = {"hits": spelled[hits], "queries": spelled[queries]}
            doubts.append(say("more {hits} than {queries}: both left out", **named))
            del counters[hits], counters[queries]
    return Engine(labels, gauges, counters, histograms, config)


def name_of(reading: Reading) -> str:
    """A series' name, a histogram's without its suffix."""
    meaning, sample = reading
    return sample.name.removesuffix(f"_{meaning.part}") if meaning.part else sample.name


def by_reason(readings: list[Reading], word: str) -> dict[str, float]:
    """A counter by its reason, each one of its own: "finished.stop"; the largest of several ranks."""
    by_label: dict[str, list[Reading]] = {}
    for meaning, sample in readings:
        if reason := sample.labels.get(BY_REASON[word]):
            by_label.setdefault(f"{word}.{reason}", []).append((meaning, sample))
    return {name: max(added(group).values()) for name, group in by_label.items()}


def added(readings: list[Reading]) -> dict[tuple[str | None, ...], float]:
    """Sums by rank: over finish reasons and the like, but over priorities only where no total is given beside them."""
    whole = [sample for _, sample in readings if not sample.labels.get("priority")]
    sums: dict[tuple[str | None, ...], float] = {}
    for sample in whole or [sample for _, sample in readings]:
        rank = tuple(sample.labels.get(key) for key in RANKS)
        sums[rank] = sums.get(rank, 0.0) + (sample.value or 0.0)
    return sums


def histogram_of(readings: list[Reading]) -> Histogram | None:
    """The histogram of one engine; of several ranks the one that has observed most. Raises Contradiction."""
    by_rank: dict[tuple[str | None, ...], dict[str, dict[float, float]]] = {}
    for meaning, sample in readings:
        rank = tuple(sample.labels.get(key) for key in RANKS)
        bound = sample.le if meaning.part == "bucket" else math.inf
        if bound is not None and sample.value is not None:
            part = by_rank.setdefault(rank, {}).setdefault(meaning.part, {})
            part[bound] = part.get(bound, 0.0) + sample.value
    built = [
        histogram(parts.get("bucket", {}), parts.get("sum", {}).get(math.inf), parts.get("count", {}).get(math.inf))
        for parts in by_rank.values()
    ]
    return max(filter(None, built), key=lambda observed: observed.count, default=None)
