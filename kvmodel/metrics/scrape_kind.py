"""What a scrape is that holds no engine's metrics, and what to scrape in its place: a sentence for each kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from kvmodel.errors import LONGEST_ECHO
from kvmodel.metrics import metric_names
from kvmodel.metrics.exposition import Scrape
from kvmodel.metrics.server_state import Server, process_of
from kvmodel.units import format_bytes
from kvmodel.words import say

ENGINE_LABELS = ("engine", "dp_rank", "tp_rank", "pid")
ENGINE_COUNTERS = {"preemptions", "finished", "prompt_tokens", "generation_tokens"}  # a router may pass on others


@dataclass(frozen=True)
class Kind:
    """`verdict` stands where that of a diagnosis would; `product` is whose names they are."""

    verdict: str
    reason: str
    action: str
    product: str | None = None


def not_an_engine(scrape: Scrape, server: Server | None) -> Kind | None:
    """The kind of a scrape that cannot be diagnosed, None for an engine's."""
    if not scrape.sampled:
        return without_samples(scrape)
    if server is None:
        return without_engine(scrape)
    return in_front(scrape, server)


def without_samples(scrape: Scrape) -> Kind:
    """HELP and TYPE lines, or nothing that could be read."""
    if scrape.described:
        return Kind(
            "no samples",
            say("{count} metrics are described but none has a value: that is not zero", count=len(scrape.described)),
            say("scrape again once a request was served; with several API servers, look at PROMETHEUS_MULTIPROC_DIR"),
            product_of(scrape.described),
        )
    reason = say("no line of it is a sample of a metric")
    return Kind("no samples", reason, say("give the text of an engine's /metrics page"))


def product_of(names: Iterable[str]) -> str | None:
    """Whose most of the names are."""
    counts = Counter(engine_name[0] for name in names if (engine_name := metric_names.own_name(name)) is not None)
    return counts.most_common(1)[0][0] if counts else None


def without_engine(scrape: Scrape) -> Kind:
    """Samples, but none that is read: a router's, another server's, or Python's own."""
    if any(map(metric_names.is_router, scrape.sampled)):
        return router(say("these are series of a router"))
    product = product_of(scrape.sampled)
    if product is not None:
        reason = say("series of {label}, but none of those that are read", label=metric_names.label(product))
        return Kind("no engine metrics", reason, say(SCRAPE_ENGINE), product)
    prefixes = sorted({name.replace(":", "_").split("_")[0][:LONGEST_ECHO] for name in scrape.sampled})
    reason = say(
        "{count} metrics, none of vLLM, SGLang or TensorRT-LLM: {prefixes}",
        count=len(scrape.sampled),
        prefixes=", ".join(prefixes[:5]),
    )
    memory = process_of(scrape).get("virtual_memory_bytes")
    if memory is not None:
        reason = say("{reason}, {size} of virtual memory", reason=reason, size=format_bytes(memory))
    return Kind("no engine metrics", reason, say(SCRAPE_ENGINE))


SCRAPE_ENGINE = "scrape the engine's own port, with metrics switched on there"


def router(reason: str) -> Kind:
    """Something in front of engines."""
    return Kind(
        "not an engine",
        say("{reason}: it has no preemption counter, so nothing can be said of preemptions", reason=reason),
        say("scrape the engines behind it, each at its own /metrics"),
    )


def in_front(scrape: Scrape, server: Server) -> Kind | None:
    """A router repeats some of its engines' gauges, and has none of what only an engine knows."""
    if server.product != "vllm":
        return None
    for part in (*server.engines, server.shared):
        if part.histograms or part.config or set(part.counters) & ENGINE_COUNTERS:
            return None
    if any(label in sample.labels for sample in scrape.samples for label in ENGINE_LABELS):
        return None
    return router(
        say("gauges of requests are here, but no counter of requests, tokens or preemptions and no configuration")
    )
