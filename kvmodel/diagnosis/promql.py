"""PromQL for the names a server really has: the numbers of the diagnosis as expressions and as recorded series.

Preemptions are sparse, so they are counted with `increase` over two windows: the long one says how many, the short one
that it still happens. Of ranks that repeat one scheduler the largest counts, as in the diagnosis.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kvmodel.catalog import table
from kvmodel.diagnosis.causes import OTHER_REASONS
from kvmodel.metrics.engine_places import RANKS
from kvmodel.metrics.server_rates import GIVEN_UP

LONG, SHORT = "1h", "15m"
# Labels of one engine. SGLang counts finished requests for all its data-parallel ranks together.
PER_ENGINE = {"vllm": ("job", "instance", "model_name", "engine")}
PER_SERVER = ("job", "instance", "model_name")
SEEN_BEFORE = "6h"  # a series that was not there for so long before a window was born in it


@dataclass(frozen=True)
class Recording:
    """A recorded series."""

    record: str
    expr: str


def newest_names(product: str = "vllm") -> dict[str, str]:
    """The names of an engine's newest version, for rules without a scrape."""
    rows = table("metrics")[product]
    kinds = ("gauge", "counter", "histogram")
    return {word: names[0] for kind in kinds for word, names in rows.get(kind, {}).items()}


def by(product: str) -> str:
    """The labels that results are kept apart by."""
    return ", ".join(PER_ENGINE.get(product, PER_SERVER))


def of_ranks(each: str, product: str) -> str:
    """The largest of the ranks that repeat one scheduler's numbers; only SGLang tells them apart."""
    return f"max without ({', '.join(RANKS)}) ({each})" if product == "sglang" else each


def increase_of(name: str, product: str, window: str) -> str:
    """A counter's increase over a window, an engine each; where it was born in the window, from zero.

    `increase` starts from the first value that it sees, and a labelled counter has none before its first event.
    """
    born = f"(min_over_time({name}[{window}]) unless last_over_time({name}[{SEEN_BEFORE}] offset {window}))"
    grown = f"increase({name}[{window}])"
    each = of_ranks(f"{grown} + {born} or {grown} or {born}", product)
    return f"sum by ({by(product)}) ({each})"


def preemptions_of(names: Mapping[str, str], product: str, window: str) -> str:
    """Preemptions for want of KV over a window: all, less those whose reason is another where it is told."""
    every = increase_of(names["preemptions"], product, window)
    if "preempted_for" not in names:
        return every
    others = f'{names["preempted_for"]}{{reason=~".*({"|".join(OTHER_REASONS)}).*"}}'
    return f"{every} - ({increase_of(others, product, window)} or 0 * {every})"


def with_matcher(name: str, matcher: str) -> str:
    """A selector with one more matcher of labels."""
    return f"{name[:-1]},{matcher}}}" if name.endswith("}") else f"{name}{{{matcher}}}"


def sum_of(name: str, product: str) -> str:
    """A gauge of requests, of all ranks of an engine together."""
    return f"sum by ({by(product)}) ({of_ranks(name, product)})"


def promql(names: Mapping[str, str], product: str) -> dict[str, str]:
    """Expressions by what they tell, for the meanings that have a name."""
    labels = by(product)
    expressions: dict[str, str] = {}
    if {"preemptions", "finished"} <= set(names):
        preempted, finished = preemptions_of(names, product, LONG), increase_of(names["finished"], product, LONG)
        expressions["preemptions per 100 finished requests"] = f"100 * {preempted} / ({finished} > 0)"
    if "preempted_times" in names:
        name = names["preempted_times"]
        twice = f'sum(increase({name}_bucket{{le="1.0"}}[{LONG}])) / sum(increase({name}_count[{LONG}]))'
        expressions["share of requests preempted at least twice"] = f"1 - {twice}"
    if "usage" in names:
        expressions["share of the KV pool in use"] = f"max by ({labels}) ({names['usage']})"
    for word, title in (("running", "running requests"), ("waiting", "waiting requests")):
        if word in names:
            expressions[title] = sum_of(names[word], product)
    if {"running", "waiting"} <= set(names):
        waiting, running = (sum_of(names[word], product) for word in ("waiting", "running"))
        expressions["share of requests that wait"] = f"{waiting} / ({waiting} + {running} > 0)"
    if "generation_tokens" in names:
        expressions["generated tokens per second"] = sum_of(f"rate({names['generation_tokens']}[5m])", product)
    if "prompt_tokens" in names:
        expressions["prompt tokens per second"] = sum_of(f"rate({names['prompt_tokens']}[5m])", product)
    for word, title in (("itl", "time between tokens"), ("ttft", "time to the first token")):
        if word in names:
            buckets = f"sum by (le, {labels}) (rate({names[word]}_bucket[5m]))"
            expressions |= {f"{title}, p{part}": f"histogram_quantile(0.{part}, {buckets})" for part in (50, 95)}
    if {"prefix_hits", "prefix_queries"} <= set(names):
        hits, queries = (increase_of(names[word], product, LONG) for word in ("prefix_hits", "prefix_queries"))
        expressions["share of looked-up tokens in the prefix cache"] = f"{hits} / ({queries} > 0)"
    return expressions


def recordings(names: Mapping[str, str], product: str) -> list[Recording]:
    """Recorded series, which the alerts are made of."""
    labels = by(product)
    rows = []
    for word, window in (("preemptions", LONG), ("finished", LONG), ("preemptions", SHORT), ("finished", SHORT)):
        if word in names:
            of_word = preemptions_of(names, product, window) if word == "preemptions" else None
            expr = of_word or increase_of(names[word], product, window)
            rows.append(Recording(f"kv:{word}:increase{window}", expr))
    if "finished" in names:
        own_end = with_matcher(names["finished"], f'finished_reason!~"{"|".join(GIVEN_UP)}"')
        rows.append(Recording(f"kv:ended:increase{SHORT}", increase_of(own_end, product, SHORT)))
    if {"preemptions", "finished"} <= set(names):
        ratio = f"100 * kv:preemptions:increase{LONG} / (kv:finished:increase{LONG} > 0)"
        rows.append(Recording(f"kv:preemptions_per_100:ratio{LONG}", ratio))
    if "usage" in names:
        rows.append(Recording("kv:usage:max", f"max by ({labels}) ({names['usage']})"))
    for word in ("running", "waiting"):
        if word in names:
            rows.append(Recording(f"kv:{word}:sum", sum_of(names[word], product)))
    if {"running", "waiting"} <= set(names):
        rows.append(Recording("kv:waiting_share:ratio", "kv:waiting:sum / (kv:waiting:sum + kv:running:sum > 0)"))
    if "generation_tokens" in names:
        tokens = sum_of(f"rate({names['generation_tokens']}[5m])", product)
        rows.append(Recording("kv:generated_tokens:rate5m", tokens))
    if "awake" in names:
        rows.append(Recording("kv:awake:max", f"max by ({labels}) ({names['awake']})"))
    if "prompt_tokens" in names:
        tokens = sum_of(f"rate({names['prompt_tokens']}[5m])", product)
        rows.append(Recording("kv:prompt_tokens:rate5m", tokens))
    return rows
