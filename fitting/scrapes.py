"""Write the sample scrapes of `kvmodel/data/scrapes`: a server in trouble or not, scraped twice, ten minutes apart.

    python -m fitting.scrapes

No real server's metrics of such states are free to publish, so the servers are simulated, and what they did is written
under the names, labels and bucket bounds of vLLM 0.33. Each file's first line says so, and what was simulated.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import exp, inf

import numpy as np

from kvmodel import catalog
from kvmodel.inputs.case import Case
from kvmodel.metrics import samples
from kvmodel.metrics.samples import WHEN_S, Sample
from kvmodel.scheduler import loop
from kvmodel.scheduler.gaps import BINS_PER_E
from kvmodel.scheduler.log import Log
from kvmodel.scheduler.state import Requests
from kvmodel.simulation import simulate, workload
from kvmodel.simulation.results import Results, collect
from kvmodel.simulation.step_clock import StepTimes

MODEL_NAME = "meta-llama/Llama-3.1-8B-Instruct"
STARTED = 1796000000.0
# vLLM 0.33, vllm/v1/metrics/loggers.py
BOUNDS = {
    "time_to_first_token_seconds": (
        0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640,
        2560,
    ),
    "inter_token_latency_seconds": (
        0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80,
    ),
    "request_queue_time_seconds": (
        0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680,
    ),
    "request_prompt_tokens": (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000),
    "request_generation_tokens": (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000),
    "request_num_preemptions": (1, 2, 3, 4, 5, 10, 20),
}  # fmt: skip


class Scraped(Log):
    """A log that remembers the gaps between tokens at the times of the scrapes."""

    gaps_at: dict[str, dict[int, int]]

    def sample(self, now: float, running: int, waiting: int, used_blocks: int) -> None:
        super().sample(now, running, waiting, used_blocks)
        assert self.gaps is not None
        for name, time_s in WHEN_S.items():
            if now <= time_s:
                self.gaps_at[name] = dict(self.gaps.tokens_by_bin)


def arrivals(sample: Sample) -> workload.Workload:
    """The requests of a sample, for longer than its scrapes need; every other one urgent where priorities count."""
    number = max(int(sample.requests_per_s * WHEN_S["after"] * 1.2), 3)
    if sample.lengths is None:
        arriving = workload.by_name("chat", number, seed=1, requests_per_s=sample.requests_per_s)
    else:
        prompts, outputs = (workload.fixed(number, tokens) for tokens in sample.lengths)
        arriving = workload.workload(prompts, outputs, workload.poisson(number, sample.requests_per_s, 1))
    return replace(arriving, priority=np.arange(number) % 2) if sample.by_priority else arriving


def run(sample: Sample) -> tuple[Results, dict[str, dict[int, int]]]:
    """The server's whole run, longer than the scrapes need, and the gaps so far at each of them."""
    case = Case(model="llama-3.1-8b", gpu=sample.gpu, policy="vllm-v1")
    arriving = arrivals(sample)
    number = len(arriving)
    inputs = simulate.step_inputs(case)
    engine = simulate.Engine(
        max_num_seqs=sample.max_num_seqs, num_blocks=sample.num_blocks, by_priority=sample.by_priority
    )
    settings = simulate.engine_settings(case, engine, inputs)
    requests = Requests(
        arriving.prompt_tokens.tolist(), arriving.output_tokens.tolist(),
        (arriving.arrival_s + float(inputs.request_overhead_s)).tolist(), arriving.priority.tolist(), None, 0.0,
    )  # fmt: skip
    log = Scraped(number, 1.0)
    log.gaps_at = {}
    policy, _ = simulate.SCHEDULERS["vllm-v1"]
    state = loop.run(requests, settings, policy, StepTimes(inputs), log)
    return collect(state, float(inputs.request_overhead_s)), log.gaps_at


def histogram(name: str, values: Iterable[float], weights: Iterable[float] | None = None) -> Iterator[str]:
    """Buckets, count and sum of what was observed."""
    bounds = (*BOUNDS[name], inf)
    observed = np.asarray(list(values), float)
    counts = np.ones(len(observed)) if weights is None else np.asarray(list(weights), float)
    yield f"# TYPE vllm:{name} histogram"
    for bound in bounds:
        shown = "+Inf" if bound == inf else f"{float(bound)}"
        yield labelled(f"{name}_bucket", counts[observed <= bound].sum(), le=shown)
    yield labelled(f"{name}_count", counts.sum())
    yield labelled(f"{name}_sum", float(observed @ counts))


def labelled(name: str, value: float, **labels: str) -> str:
    """A sample as vLLM writes it, labels by name."""
    own = sorted(({"engine": "0", "model_name": MODEL_NAME} | labels).items())
    written = ",".join(f'{key}="{text}"' for key, text in own)
    return f"vllm:{name}{{{written}}} {round(float(value), 6)}"


def typed(kind: str, name: str, value: float, **labels: str) -> list[str]:
    """A sample with its TYPE line."""
    return [f"# TYPE vllm:{name.removesuffix('_total')} {kind}", labelled(name, value, **labels)]


def scrape(sample: Sample, results: Results, gaps: dict[int, int], time_s: float) -> Iterator[str]:
    """What the server's /metrics would have shown at a time."""
    waited_s, time_s = time_s, min(time_s, sample.stops_s or time_s)
    each, second = results.requests, results.seconds
    now = bisect_right(second.time_s.tolist(), time_s) - 1
    begun, done = each.first_token_s <= time_s, each.finished_s <= time_s
    passed = (time_s - each.first_token_s) / (each.finished_s - each.first_token_s)
    written = np.where(done, each.output_tokens, np.where(begun, np.floor(passed * each.output_tokens), 0))
    since = ((each.arrival_s > time_s) & (each.arrival_s <= waited_s)).sum()  # who came after it stopped
    yield from typed("gauge", "num_requests_running", second.running[now])
    yield from typed("gauge", "num_requests_waiting", second.waiting[now] + since)
    yield labelled("num_requests_waiting_by_reason", second.waiting[now] + since, reason="capacity")
    yield labelled("num_requests_waiting_by_reason", 0, reason="deferred")
    yield from typed("gauge", "kv_cache_usage_perc", second.kv_usage[now])
    preempted = (results.events.preempted_s <= time_s).sum()
    yield from typed("counter", "num_preemptions_total", preempted)
    if sample.by_priority:  # as the engine gives the reason under --scheduling-policy priority
        for reason, count in (("kv_full", 0), ("priority", preempted), ("prefix_cache_reset", 0)):
            yield labelled("num_preemptions_by_reason_total", count, reason=reason)
    yield from typed("counter", "prompt_tokens_total", each.prompt_tokens[begun].sum())
    yield from typed("counter", "generation_tokens_total", written.sum())
    yield from typed("counter", "prefix_cache_queries_total", each.prompt_tokens[each.admitted_s <= time_s].sum())
    yield from typed("counter", "prefix_cache_hits_total", 0)
    yield from typed("counter", "request_success_total", done.sum(), finished_reason="stop")
    for reason in ("length", "abort", "error", "repetition"):
        yield labelled("request_success_total", 0, finished_reason=reason)
    observed = {
        "time_to_first_token_seconds": each.ttft_s[begun],
        "request_queue_time_seconds": (each.admitted_s - each.arrival_s)[done],
        "request_prompt_tokens": each.prompt_tokens[done],
        "request_generation_tokens": each.output_tokens[done],
        "request_num_preemptions": each.preemptions[done],
    }
    for name, values in observed.items():
        yield from histogram(name, values)
    middles = [exp((place + 0.5) / BINS_PER_E) for place in gaps]
    yield from histogram("inter_token_latency_seconds", middles, gaps.values())
    counted = results.pool_blocks + 1  # vLLM's own count has the null block in it
    config = {
        "block_size": "16", "cache_dtype": "auto", "enable_prefix_caching": "True", "gpu_memory_utilization": "0.92",
        "kv_cache_size_tokens": f"{counted * 16}", "kv_offloading_size": "None",
        "num_cpu_blocks": "None", "num_gpu_blocks": f"{counted}",
    }  # fmt: skip
    yield from typed("gauge", "cache_config_info", 1, **config)


def main() -> None:
    for name, sample in samples.SAMPLES.items():
        engines = [replace(sample, requests_per_s=rate) for rate in (sample.requests_per_s, *sample.others_per_s)]
        runs = [(engine, *run(engine)) for engine in engines]
        for when, time_s in WHEN_S.items():
            lines = [
                f"# Simulated, not scraped: Llama 3.1 8B on one {catalog.gpu(sample.gpu).label}, {sample.load}, "
                f"{time_s:,.0f} s after its start.",
                f"process_start_time_seconds {STARTED}",
            ]
            for number, (engine, results, gaps_at) in enumerate(runs):
                gaps = gaps_at["before" if sample.stops_s else when]
                page = scrape(engine, results, gaps, time_s)
                lines += [line.replace('engine="0"', f'engine="{number}"') for line in page]
            samples.path(name, when).write_text("\n".join(dict.fromkeys(lines)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
