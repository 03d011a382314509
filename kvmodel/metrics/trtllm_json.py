"""The `/metrics` page of trtllm-serve, which is JSON, as Prometheus text under the names of TensorRT-LLM's collector.

It is a list of iterations (or one, or one a line), each with gauges of its moment; the server forgets what it has told.
Other JSON is refused by its kind (data/json_pages.toml). Source: tensorrt_llm/metrics/collector.py.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from kvmodel import catalog
from kvmodel.errors import CaseError
from kvmodel.units import MIB
from kvmodel.words import say

# Not `{__name__="x"}` and `{"x",a="b"}` of Prometheus, nor a line of a log: `[2026-11-30 10:00]`.
BEGINS = re.compile(r'\ufeff?\s*+(?:\[\s*+(?:[\[{\]"]|$)|\{\s*+(?:\}|$|"(?:[^"\\\n]|\\.){0,200}+"\s*+(?::|$)))')
PARTS = ("kvCacheStats", "inflightBatchingStats", "numActiveRequests", "numQueuedRequests")  # an iteration has one
SIZES = ("maxNumActiveRequests", "maxNumBlocks", "tokensPerBlock")  # zero where a backend does not fill them in
LONGEST_OBJECT = MIB  # in characters; an iteration has one to a few thousand
MOST_OBJECTS = 100_000  # the server keeps a thousand iterations
MOST_RANKS = 2_000
MOST_BROKEN = 20  # braces that nothing closes
LARGEST_VALUE = 1e18
PLACE = "it is the JSON of trtllm-serve: gauges of the last iteration; counters and times are at /prometheus/metrics"
EMPTY = (
    "{what}: an empty list of JSON, as trtllm-serve has without enable_iter_perf_stats; allowed: /prometheus/metrics"
)


@dataclass
class Page:
    """What is in a text of JSON: iterations by rank, how many there were, the first object, and broken ones."""

    newest: dict[str, dict[str, Any]] = field(default_factory=dict)
    count: Counter[str] = field(default_factory=Counter)
    first: dict[str, Any] | None = None
    broken: int = 0


def as_exposition(text: str, notes: list[str], what: str) -> str:
    """Prometheus text for iterations of TensorRT-LLM; what is no JSON comes back as it is.

    Raises CaseError, one sentence, for other JSON.
    """
    is_json = BEGINS.match(text) is not None
    if not is_json and not any(f'"{part}"' in text for part in PARTS):
        return text
    page = page_of(text, what)
    if not page.newest:
        if is_json:
            raise CaseError(refusal(text, page, what))
        return text
    notes.append(say(PLACE))
    if (iterations := max(page.count.values())) > 1:
        notes.append(say("{count:,} iterations are in it; the last one counts", count=iterations))
    if page.broken:
        notes.append(say("the JSON breaks off; what is whole was read"))
    ranks = sorted(page.newest.items())
    written = [line for rank, row in ranks for line in lines(row, f'{{dp_rank="{rank}"}}' if len(ranks) > 1 else "")]
    return "\n".join((*written, "#"))  # not empty where no number could be read


def page_of(text: str, what: str) -> Page:
    """The objects of a text, of which the newest iteration of each attention-DP rank is kept. Raises CaseError."""
    page = Page()
    for index, found in enumerate(objects(text)):
        if index >= MOST_OBJECTS:
            values = {"what": what, "most": MOST_OBJECTS}
            raise CaseError(say("{what}: more than {most:,} objects of JSON; allowed: the last iterations", **values))
        if found is None:
            page.broken += 1
            continue
        page.first = page.first or found
        if any(part in found for part in PARTS):
            rank = f"{number(found.get('attentionDpRank')) or 0:.0f}"
            page.count[rank] += 1
            if (number(found.get("iter")) or 0) >= (number(page.newest.get(rank, {}).get("iter")) or 0):
                page.newest[rank] = found
        if len(page.newest) > MOST_RANKS:
            values = {"what": what, "most": MOST_RANKS}
            raise CaseError(say("{what}: more than {most:,} ranks; allowed: fewer at a time", **values))
    return page


def objects(text: str) -> Iterator[dict[str, Any] | None]:
    """The objects of JSON that stand in a text, in order; None for a brace that nothing closes.

    They are read one at a time: a page of nothing but `{}` would take 200 MB as a whole.
    """
    decode = json.JSONDecoder().raw_decode
    start, broken = text.find("{"), 0
    while start >= 0 and broken < MOST_BROKEN:
        piece, at = text[start : start + LONGEST_OBJECT], 0
        while at >= 0:
            try:
                found, end = decode(piece, at)
            except (ValueError, RecursionError):
                break
            yield found
            at = piece.find("{", end)
        if at == 0:
            broken += 1
            yield None
        start = text.find("{", start + len(piece)) if at < 0 else start + at if at else text.find("{", start + 1)


def number(value: object) -> float | None:
    """A number that is a count or a share, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= LARGEST_VALUE else None


def place(row: dict[str, Any], path: str) -> float | None:
    """The number at a path such as "kvCacheStats.maxNumBlocks", None where it is not reported."""
    value: Any = row
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    found = number(value)
    return None if found == 0 and path.rpartition(".")[2] in SIZES else found


def lines(row: dict[str, Any], labels: str) -> Iterator[str]:
    """One iteration as samples, with the share of blocks in use worked out as the collector does it."""
    for name, path in catalog.table("metrics")["tensorrt-llm"]["json"].items():
        if (value := place(row, path)) is not None:
            yield f"{name}{labels} {value!r}"
    used, size = place(row, "kvCacheStats.usedNumBlocks"), place(row, "kvCacheStats.maxNumBlocks")
    if used is not None and size is not None:
        yield f"trtllm_kv_cache_utilization{labels} {used / size!r}"


def refusal(text: str, page: Page, what: str) -> str:
    """What a page of other JSON is, in a sentence."""
    if text.split() in (["[]"], ["[", "]"]):
        return say(EMPTY, what=what)
    rows = catalog.table("json_pages")["page"]
    kind = next((row["what"] for row in rows if page.first and page.first.keys() >= set(row["keys"])), None)
    if kind is None:
        kind = "JSON that breaks off" if page.broken else "JSON"
    return say("{what}: {kind} was given; allowed: the text of an engine's /metrics page", what=what, kind=say(kind))
