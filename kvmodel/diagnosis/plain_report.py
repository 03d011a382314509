"""A judged server as plain values: its state, each of its engines in short, and what the window does not tell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kvmodel.diagnosis import advice_numbers
from kvmodel.diagnosis.findings import Findings
from kvmodel.inputs.case import Case
from kvmodel.metrics.server_state import Engine, Server
from kvmodel.metrics.server_window import Window
from kvmodel.words import say

LOADS = {"load_unstarted": "not started", "load_running": "under way", "load_done": "done"}
OTHER_QUEUES = {  # of SGLang: a grammar's, and those of a prefill and a decode engine that work together
    "grammar_queue": "grammar", "bootstrap_queue": "bootstrap", "inflight_queue": "in flight",
    "prealloc_queue": "preallocation", "transfer_queue": "transfer", "host_receive_queue": "host receive",
}  # fmt: skip


def without_engine(
    verdict: str, reason: str, action: str, *, product: str | None, process: Mapping[str, float], notes: Sequence[str]
) -> dict[str, Any]:
    """The answer for what holds no engine's metrics: what it is, and what to give in its place."""
    return {
        "engine": product,
        "era": None,
        "versions": None,
        "verdict": verdict,
        "reason": reason,
        "preemptions_per_100": None,
        "advice": [{"rank": 1, "id": "scrape", "action": action, "flag": "", "buys": ""}],
        "process": process,
        "notes": list(notes),
    }


def over(window: Window) -> str:
    """The stretch of time that the ratios are for."""
    if window.lifetime:
        return say("since the server's start") if window.increase.counters else say("at one moment")
    if window.seconds is None:
        return say("between the two scrapes")
    return say("over {seconds:,.0f} s", seconds=window.seconds)


def state(window: Window, fields: Mapping[str, Any], case: Case) -> dict[str, Any]:
    """Gauges and configuration; with a known model also the pool's bytes."""
    engine = window.engine
    pool, engine_bytes = engine.pool_tokens, engine.kv_bytes_per_token
    model_bytes = float(advice_numbers.token_bytes(case)) if "model" in fields else None
    per_token = engine_bytes if engine_bytes is not None else model_bytes
    numbers = ("running", "waiting", "deferred", "swapped", "retracted_now")
    early = {name: window.early.get(name) for name in ("running", "waiting")} | {"usage": window.early_usage}
    return {
        "before": early if window.early else None,
        **{name: engine.gauges.get(name) for name in numbers},
        "usage": engine.usage,
        "host_usage": engine.host_usage,
        "host_held": engine.gauges.get("host_held"),
        "awake": engine.gauges.get("awake"),
        "loads": present(engine, LOADS),
        "other_queues": present(engine, OTHER_QUEUES),
        "pool_tokens": pool,
        "block_tokens": engine.block_tokens,
        "num_gpu_blocks": engine.setting("num_gpu_blocks"),
        "num_cpu_blocks": engine.setting("num_cpu_blocks"),
        "host_tier_gib": engine.setting("kv_offloading_size"),
        "kv_bytes_per_token": per_token,
        "pool_bytes": None if pool is None or per_token is None else pool * per_token,
        "gpu_memory_utilization": engine.setting("gpu_memory_utilization"),
        "cache_dtype": engine.config.get("cache_dtype"),
        "prefix_caching": engine.config.get("enable_prefix_caching"),
        "model_name": engine.labels.get("model_name"),
    }


def present(engine: Engine, words: Iterable[str]) -> dict[str, float]:
    """Those of the gauges that are reported."""
    return {word: engine.gauges[word] for word in words if word in engine.gauges}


def one_engine(name: str, findings: Findings) -> dict[str, Any]:
    """One engine among several, in short."""
    gauges = findings.window.engine.gauges
    return {
        "name": name,
        "labels": findings.window.engine.labels,
        "verdict": findings.diagnosis.verdict,
        "preemptions_per_100": findings.rates.preemptions_per_100,
        "finished": findings.rates.finished,
        "running": gauges.get("running"),
        "waiting": gauges.get("waiting"),
        "usage": findings.window.engine.usage,
        "pool_tokens": findings.window.engine.pool_tokens,
    }


def engine_names(engines: list[Engine]) -> list[str]:
    """Short names: the labels in which engines differ, or the data-parallel rank of a single one."""
    keys = sorted({key for engine in engines for key in engine.labels})
    differ = [key for key in keys if len({engine.labels.get(key) for engine in engines}) > 1]
    differ = differ or [key for key in ("engine", "dp_rank") if key in keys]
    return [", ".join(f"{key} {engine.labels.get(key, '–')}" for key in differ) or "engine" for engine in engines]


def ranks(engines: list[Engine]) -> dict[str, Any] | None:
    """Data-parallel ranks that report, and how many there are at least."""
    labels = {engine.labels.get("dp_rank", "") for engine in engines}
    numbers = sorted({int(label) for label in labels if label.isdecimal() and len(label) < 9})
    return {"seen": numbers, "at_least": numbers[-1] + 1} if numbers else None


def window_notes(window: Window, server: Server) -> Iterator[str]:
    """What the window and its series do not tell."""
    if not window.lifetime and window.seconds is None:
        yield say("the time between the scrapes is not known; --seconds gives rates, and may change the verdict")
    if window.lifetime and window.increase.counters.get("rejected"):
        yield say("those turned away count from the server's start; two scrapes tell what happens now")
    if window.engine.gauges.get("awake") == 0:
        yield say("it sleeps at the end of the window: {name} is 0", name=server.names["awake"])
    if window.restarted:
        yield say("a process was restarted in the window; its counters count from its new start")
    if "retracted_now" in server.names and not window.increase.counters.get("preemptions"):
        name = server.names["retracted_now"]
        yield say(
            "{name} is a gauge of the last step: it says nothing of a window and must not be summed over time",
            name=name,
        )
