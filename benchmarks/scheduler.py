"""Requests a second of wall time through the scheduler: decisions alone, and with the times of steps.

    python -m benchmarks.scheduler [REQUESTS]

The load is 1,000 requests of 2,048 + 128 tokens at 4 a second on the default Case, then the same in a pool so small
that it preempts; then the ladder of remedies and each scheduler for 500 requests; last, 100,000 requests: time and the
most memory. Times are this thread's on the CPU, as on a quiet core; still look at the best of the rounds.
"""

import sys
import time
import tracemalloc
from collections.abc import Callable
from functools import partial

import numpy as np

from kvmodel.inputs.case import Case
from kvmodel.scheduler import loop
from kvmodel.scheduler.clock import StepCount
from kvmodel.scheduler.log import Log
from kvmodel.scheduler.state import Requests, State
from kvmodel.scheduler.vllm import VLLM_V1
from kvmodel.simulation import remedies
from kvmodel.simulation.simulate import SCHEDULERS, Engine, engine_settings, simulate, step_inputs
from kvmodel.simulation.step_clock import StepTimes
from kvmodel.simulation.workload import Workload, by_name, fixed, names, poisson, workload

ROUNDS = 9
RATE = 4.0  # requests a second
STEPS_PER_S = 40  # of the default Case under this load: arrivals in steps for decisions alone
SMALL_POOL = 800  # blocks, five such requests: 240 preemptions; the default Case has about 29,000


def load(number: int) -> Workload:
    return workload(fixed(number, 2048), fixed(number, 128), poisson(number, RATE, 1))


def decide(given: Workload, engine: Engine) -> State:
    settings = engine_settings(Case(), engine, step_inputs(Case()))
    steps = np.floor(given.arrival_s * STEPS_PER_S).tolist()
    requests = Requests(given.prompt_tokens.tolist(), given.output_tokens.tolist(), steps, given.priority.tolist())
    return loop.run(requests, settings, VLLM_V1, StepCount(), Log(len(given)))


def time_steps(given: Workload, engine: Engine) -> State:
    settings = engine_settings(Case(), engine, step_inputs(Case()))
    requests = Requests(
        given.prompt_tokens.tolist(), given.output_tokens.tolist(), given.arrival_s.tolist(), given.priority.tolist()
    )
    return loop.run(requests, settings, VLLM_V1, StepTimes(step_inputs(Case())), Log(len(given), 1.0))


def cpu_s(work: Callable[[], object]) -> float:
    start = time.thread_time()
    work()
    return time.thread_time() - start


def remedies_and_schedulers() -> None:
    """The slowest of the named workloads that each scheduler takes, in a pool that preempts."""
    chat = by_name("chat", 500, requests_per_s=8)
    small = Engine(num_blocks=6000)
    print(f"remedies of 500 requests: {cpu_s(lambda: remedies.ladder(Case(), chat, engine=small)):.1f} s")
    for scheduler_name in SCHEDULERS:
        times_s = {
            name: cpu_s(
                partial(simulate, Case(), by_name(name, 500), Engine(scheduler=scheduler_name, num_blocks=6000))
            )
            for name in names()
        }
        slowest = max(times_s, key=lambda name: times_s[name])
        print(f"{scheduler_name}, 500 requests: at most {times_s[slowest] * 1e3:.0f} ms ({slowest})")


def main(number: int) -> None:
    given = load(number)
    for name, engine in (("default pool", Engine()), (f"{SMALL_POOL} blocks", Engine(num_blocks=SMALL_POOL))):
        for what, work in (("decisions alone", decide), ("with step times", time_steps)):
            rates = []
            for _ in range(ROUNDS):
                start = time.thread_time()
                state = work(given, engine)
                rates.append(number / (time.thread_time() - start))
            best, median = max(rates), sorted(rates)[ROUNDS // 2]
            print(
                f"{name}, {what}: {best:,.0f} requests a second (median {median:,.0f}); "
                f"{state.log.preemption_events} preemptions, {state.decode_steps:,} steps"
            )
    remedies_and_schedulers()
    many = load(100 * number)
    tracemalloc.start()
    start = time.perf_counter()
    results = simulate(Case(), many)
    traced_mib = tracemalloc.get_traced_memory()[1] / 2**20
    print(
        f"{len(many):,} requests, memory traced: {time.perf_counter() - start:.0f} s, at most {traced_mib:.0f} MiB, "
        f"of {results.makespan_s / 3600:.1f} simulated hours"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
