"""Which series mean what, by engine: data/metrics.toml, with names as Ray and other exporters write them.

A name's meaning is a word such as "preemptions"; a histogram's series also have a part: bucket, sum or count.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from kvmodel import catalog

KINDS = ("gauge", "counter", "histogram", "info")
PARTS = ("bucket", "sum", "count")
SPEC = re.compile(r'([^{]+)(?:\{(\w+)="([^"]*)"\})?')
PROCESS = {  # of the client library in every Python server
    "process_start_time_seconds": "start_time",
    "process_virtual_memory_bytes": "virtual_memory_bytes",
    "process_resident_memory_bytes": "resident_memory_bytes",
}
# In front of engines: vLLM's production stack, SGLang's and AIBrix' routers, the Gateway API's picker, Dynamo.
ROUTERS = re.compile(
    r"vllm:(?:healthy_pods_total|current_qps|avg_\w+|num_(?:prefill|decoding)_requests|load_balanced_\w+)$"
    r"|(?:vllm_router|sglang_router|sgl_router|smg|router|aibrix|inference_(?:pool|extension|model|objective))_"
    r"|(?:llm_d_inference_scheduler|dynamo_frontend|envoy|litellm)_"
)


@dataclass(frozen=True)
class Meaning:
    """What a series tells: `rank` 0 is the newest of several names; `only` is a label and the value it must have."""

    engine: str
    kind: str
    word: str
    part: str
    rank: int
    only: tuple[str, str] | None = None


def engines() -> tuple[str, ...]:
    """Ids of the engines that are read."""
    return tuple(catalog.table("metrics"))


def prefixes(engine: str) -> tuple[str, ...]:
    """How an engine's names begin, its own spelling first."""
    return tuple(catalog.table("metrics")[engine]["prefixes"])


@functools.cache
def all_prefixes() -> tuple[str, ...]:
    """How the names of any engine begin: most names of a page are of none."""
    return tuple(prefix for engine in engines() for prefix in prefixes(engine))


def unborn(engine: str) -> dict[str, str]:
    """Counters that have no series before their first event, each with the gauge that shows that there is one."""
    return dict(catalog.table("metrics")[engine].get("unborn", {}))


def newest(engine: str, word: str) -> str:
    """The newest name of a counter."""
    return str(catalog.table("metrics")[engine]["counter"][word][0])


def spelled_as(name: str, other: str) -> str:
    """A name with the prefix that another one of the same engine was scraped with.

    >>> spelled_as("sglang:num_retracted_requests_total", "sglang_num_retracted_reqs")
    'sglang_num_retracted_requests_total'
    """
    engine_name = own_name(other)
    assert engine_name is not None, other
    engine, own = engine_name
    start = prefixes(engine)[0]
    return other.removesuffix(own.removeprefix(start)) + name.removeprefix(start)


def label(engine: str) -> str:
    """An engine's name for people."""
    return str(catalog.table("metrics")[engine]["label"])


@functools.cache
def meanings_by_name() -> dict[str, tuple[Meaning, ...]]:
    """Meanings by the engines' own names; one name has several where a label tells them apart."""
    by_name: dict[str, tuple[Meaning, ...]] = {}
    for engine, rows in catalog.table("metrics").items():
        for kind in KINDS:
            for word, names in rows.get(kind, {}).items():
                for rank, spec in enumerate(names):
                    name, only = cut_spec(spec)
                    for part in PARTS if kind == "histogram" else ("",):
                        wire = f"{name}_{part}" if part else name
                        by_name[wire] = (*by_name.get(wire, ()), Meaning(engine, kind, word, part, rank, only))
    return by_name


def cut_spec(spec: str) -> tuple[str, tuple[str, str] | None]:
    """`name{label="value"}` as its name and its label, or a plain name."""
    match = SPEC.fullmatch(spec)
    assert match is not None, spec
    return match[1], (match[2], match[3]) if match[2] else None


def own_name(name: str) -> tuple[str, str] | None:
    """Engine and the engine's own spelling of a name, or None where the prefix is of none.

    >>> own_name("ray_vllm_num_requests_running")
    ('vllm', 'vllm:num_requests_running')
    """
    if not name.startswith(all_prefixes()):
        return None
    found = ((engine, prefix) for engine in engines() for prefix in prefixes(engine) if name.startswith(prefix))
    engine, prefix = next(found)
    return engine, prefixes(engine)[0] + name.removeprefix(prefix)


@functools.lru_cache(maxsize=4096)
def meanings(name: str) -> tuple[Meaning, ...]:
    """What a name as scraped means. A counter may come without its `_total`.

    >>> meanings("vllm:gpu_cache_usage_perc")[0].word, meanings("vllm:num_preemptions_created")
    ('usage', ())
    """
    engine_name = own_name(name)
    if engine_name is None:
        return ()
    exact = meanings_by_name().get(engine_name[1])
    return exact or tuple(row for row in meanings_by_name().get(f"{engine_name[1]}_total", ()) if row.kind == "counter")


def process_word(name: str) -> str | None:
    """What a series says of the process: "created" is the birth of an engine's counter, a time and never a count."""
    if name.endswith("_created") and meanings(f"{name.removesuffix('_created')}_total"):
        return "created"
    return PROCESS.get(name)


def is_wanted(name: str) -> bool:
    """Whether a series is read at all."""
    return bool(meanings(name)) or process_word(name) is not None


def is_router(name: str) -> bool:
    """Whether only something in front of the engines has a series of this name."""
    return ROUTERS.match(name) is not None
