"""The verdicts of the diagnosis as recorded series of a Prometheus, each there while its condition holds."""

from __future__ import annotations

from collections.abc import Mapping

from kvmodel.diagnosis.promql import LONG, PER_SERVER, SHORT, Recording, increase_of, sum_of
from kvmodel.diagnosis.thresholds import limit
from kvmodel.units import significant

UNLESS_ASLEEP = "\nunless kv:asleep"
UNLESS_GRAVER = f"\nunless kv:livelock{UNLESS_ASLEEP}"


def states(names: Mapping[str, str], product: str) -> list[Recording]:
    """The verdicts as recorded series, each there while its condition holds; the alerts wait for them to last."""
    have, rows = set(names), []
    if {"running", "waiting", "awake"} <= have:
        rows.append(Recording("kv:asleep", "kv:waiting:sum + kv:running:sum >= 1\nand kv:awake:max == 0"))
    if {"running", "waiting", "generation_tokens", "finished"} <= have:
        rows += [stuck(prefills="prompt_tokens" in have), head_of_line()]
    if {"running", "usage", "generation_tokens"} <= have:
        rows.append(livelock(counted="preemptions" in have))
    if {"preemptions", "finished"} <= have:
        rows.append(pressure(gauges={"usage", "running"} <= have))
    if {"running", "generation_tokens", "prompt_tokens"} <= have:
        rows.append(prefill_bound(names, product))
    if {"preemptions", "preempted_for", "finished"} <= have:
        rows.append(by_decision(names, product))
    if {"rejected", "finished"} <= have:
        rows.append(turned_away(names, product))
    return rows


def stuck(*, prefills: bool) -> Recording:
    """Requests that run or wait, and nothing comes of them."""
    least = limit("stuck", "tokens_per_s_per_request")
    prompts = "\nunless kv:prompt_tokens:rate5m > 0" if prefills else ""
    return Recording(
        "kv:stuck",
        f"kv:generated_tokens:rate5m / clamp_min(kv:running:sum, 1) < {least}\n"
        "and (min_over_time(kv:running:sum[10m]) >= 1 or min_over_time(kv:waiting:sum[10m]) >= 1)\n"
        f"unless kv:ended:increase{SHORT} > 0{prompts}{UNLESS_GRAVER}",
    )


def head_of_line() -> Recording:
    """One request that runs all the time while others wait and none ends."""
    least = limit("stuck", "tokens_per_s_per_request")
    return Recording(
        "kv:head_of_line",
        f"min_over_time(kv:waiting:sum[{SHORT}]) >= 1\nand max_over_time(kv:running:sum[{SHORT}]) == 1\n"
        f"and min_over_time(kv:running:sum[{SHORT}]) == 1\nand kv:generated_tokens:rate5m >= {least}\n"
        f"unless kv:ended:increase{SHORT} > 0{UNLESS_GRAVER}",
    )


def livelock(*, counted: bool) -> Recording:
    """A full pool that brings forth next to nothing, as requests lose their KV."""
    preempts = f"\nand kv:preemptions:increase{SHORT} >= 1" if counted else ""
    return Recording(
        "kv:livelock",
        f"kv:generated_tokens:rate5m / kv:running:sum < {limit('livelock', 'tokens_per_s_per_request')}\n"
        f"and min_over_time(kv:running:sum[10m]) >= 1\n"
        f"and min_over_time(kv:usage:max[10m]) >= {limit('usage', 'full')}{preempts}{UNLESS_ASLEEP}",
    )


def pressure(*, gauges: bool) -> Recording:
    """Preemptions per 100 finished requests where they are many; of few requests a pool that is full all the time.

    The value is the ratio; where few finished, of all that finished or run, as long requests finish rarely.
    """
    tune, needed = (significant(limit(*key), 3) for key in (("band", "tune"), ("data", "least_finished")))
    ratio = (
        f"(kv:preemptions_per_100:ratio{LONG} >= {tune}\nand kv:finished:increase{LONG} >= {needed}\n"
        f"and kv:preemptions:increase{SHORT} >= 1)"
    )
    of_few = (
        f"\nor (100 * kv:preemptions:increase{LONG} / (kv:finished:increase{LONG} + kv:running:sum > 0) >= {tune}\n"
        f"and kv:finished:increase{LONG} < {needed}\nand kv:preemptions:increase{SHORT} >= 1\n"
        f"and kv:usage:max >= {limit('usage', 'high')})"
    )
    return Recording("kv:preemption_pressure", f"({ratio}{of_few if gauges else ''}){UNLESS_GRAVER}")


def prefill_bound(names: Mapping[str, str], product: str) -> Recording:
    """How many times as long as decoding the GPU prefills, where it is longer and prompts far outnumber outputs."""
    times, step = limit("prefill", "prompt_per_generated"), limit("prefill", "tokens_of_a_step")
    computed = "kv:prompt_tokens:rate5m"
    found, of = ("prefix_hits", "prefix_queries") if "prefix_queries" in names else ("cached_tokens", "prompt_tokens")
    if "prompt_from" in names:
        computed = sum_of(f'rate({names["prompt_from"]}{{source="local_compute"}}[5m])', product)
    elif {found, of} <= set(names):
        words = [of, found, *({"external_hits"} & set(names))]
        queries, *hits = (sum_of(f"rate({names[word]}[5m])", product) for word in words)
        computed = f"({computed} * (1 - (({' + '.join(hits)}) / ({queries} > 0) or 0 * {computed})))"
    return Recording(
        "kv:prefill_bound",
        f"{computed} * clamp_min(kv:running:sum, 1) / (kv:generated_tokens:rate5m * {step}) >= 1\n"
        f"and {computed} > 0\nand {computed} >= {times} * kv:generated_tokens:rate5m",
    )


def by_decision(names: Mapping[str, str], product: str) -> Recording:
    """Preemptions per 100 finished requests where they are many, and those for want of KV are not."""
    tune, needed = (significant(limit(*key), 3) for key in (("band", "tune"), ("data", "least_finished")))
    every = increase_of(names["preemptions"], product, LONG)
    return Recording(
        "kv:preempted_by_decision",
        f"100 * {every} / (kv:finished:increase{LONG} >= {needed}) >= {tune}\nunless kv:preemption_pressure",
    )


def turned_away(names: Mapping[str, str], product: str) -> Recording:
    """The share of requests that are turned away at admission, where it is large; no engine of its own is told."""
    share, needed = limit("queue", "waiting_share"), significant(limit("data", "least_finished"), 3)
    per_server = f"sum by ({', '.join(PER_SERVER)})"
    rejected = f"{per_server} ({increase_of(names['rejected'], product, LONG)})"
    every = f"{rejected} + {per_server} (kv:finished:increase{LONG})"
    return Recording("kv:turned_away", f"{rejected} / ({every} >= {needed}) >= {share}")
