"""A window of a Prometheus to the same answer that two scrapes give.

Counters come as `increase()` over the window, gauges as their mean and their least; so a restart in the window does no
harm, and a queue that is there all the time can be told from one that comes and goes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from math import inf
from typing import Any

from kvmodel.diagnosis import from_scrapes
from kvmodel.diagnosis.served import ServerFacts
from kvmodel.errors import CaseError, bad_value
from kvmodel.metrics import metric_names, prometheus_http, server_window
from kvmodel.metrics.exposition import Sample, Scrape, number_of
from kvmodel.metrics.metric_names import PARTS, meanings
from kvmodel.metrics.prometheus_http import Address
from kvmodel.metrics.server_state import server
from kvmodel.words import say

SERIES = "kvmodel_series"  # keeps a series' name, which functions drop
MATCHER = re.compile(r'[a-zA-Z_]\w*(?:=~|!~|!=|=)"(?:[^"\\]|\\.)*"', re.ASCII)
LEAST = ("running", "waiting", "usage")


def diagnose(
    url: str, window: str = "1h", *, match: str | None = None, facts: ServerFacts | None = None
) -> dict[str, Any]:
    """The answer over the last `window` of a Prometheus, for the series that `match` (label matchers) leaves.

    Raises CaseError, one sentence, where it cannot be reached or has no such series.
    """
    address, seconds, matchers = prometheus_http.address(url), prometheus_http.window_s(window), label_matchers(match)
    prefixes = [prefix for engine in metric_names.engines() for prefix in metric_names.prefixes(engine)]
    any_prefix = "|".join(re.escape(prefix).replace("\\", "\\\\") for prefix in prefixes)
    names = prometheus_http.names(address, f'{{__name__=~"(?:{any_prefix}).+"{matchers}}}', seconds)
    if not names:
        series = say("{window} with {match}", window=window, match=match) if match else window
        raise CaseError(
            say(
                "prometheus: {url} has no series of vLLM, SGLang or TensorRT-LLM in the last {series}; "
                "allowed: a server that scrapes the engines",
                url=address.url,
                series=series,
            )
        )
    gauges = [name for name in names if any(meaning.kind == "gauge" for meaning in meanings(name))]
    infos = [name for name in names if any(meaning.kind == "info" for meaning in meanings(name))]
    counts = [name for name in names if any(meaning.kind in ("counter", "histogram") for meaning in meanings(name))]
    over = f"{{{matchers.removeprefix(',')}}}[{seconds:.0f}s]"
    samples = [
        *samples_of(address, "last_over_time", infos, over),
        *samples_of(address, "avg_over_time", gauges, over),
        *samples_of(address, "increase", counts, over),
    ]
    scrape = Scrape(tuple(samples), frozenset(names), frozenset())
    whole = server(scrape)
    windows = None
    if whole is not None:
        lowest = [name for name in gauges if any(meaning.word in LEAST for meaning in meanings(name))]
        least = server(Scrape(tuple(samples_of(address, "min_over_time", lowest, over)), frozenset(), frozenset()))
        counters = [name for name in counts if meanings(name)[0].kind == "counter"]
        resets = samples_of(address, "resets", counters[:1], over)
        windows = server_window.over_range(whole, least, seconds, restarted=any(sample.value for sample in resets))
    answer = from_scrapes.of_window(scrape, whole, windows, facts or ServerFacts())
    return answer | {"over": say("the last {window} of {url}", window=window, url=address.url)}


def label_matchers(match: str | None) -> str:
    """Label matchers as they stand in a selector, after a comma. Raises CaseError."""
    if not match:
        return ""
    bare = match.strip().removeprefix("{").removesuffix("}")
    parts = MATCHER.findall(bare)
    if not parts or ",".join(parts) != re.sub(r"\s*,\s*(?=[a-zA-Z_])", ",", bare).strip().rstrip(","):
        raise bad_value("match", match, say("label matchers, such as 'job=\"vllm\"'"))
    return "," + ",".join(parts)


def samples_of(address: Address, function: str, names: Iterable[str], over: str) -> list[Sample]:
    """A function over the window of several series, in one question."""
    expression = " or ".join(f'label_replace({function}({name}{over}), "{SERIES}", "{name}", "", "")' for name in names)
    if not expression:
        return []
    samples = []
    for series in prometheus_http.query(address, expression):
        labels = {key: value for key, value in series["metric"].items() if key not in (SERIES, "__name__")}
        name = series["metric"].get(SERIES, "")
        value = number_of(series["value"][1])
        bound = number_of(labels.pop("le", "")) if name.endswith(f"_{PARTS[0]}") else None
        samples.append(Sample(name, labels, bound, value if value is not None and 0 <= value < inf else None))
    return samples
