"""Requests a second of wall time through the scheduler: decisions alone, and with the times of steps.

    python -m benchmarks.scheduler [REQUESTS]

The load is 1,000 requests of 2,048 + 128 tokens at 4 a second on the default Case, then the same in a pool so small
that it preempts. Last, 100,000 requests: time and the most memory. Machines are noisy: look at the best of the rounds.
"""

import sys
import time
import tracemalloc

import numpy as np

from kvmodel import scheduler
from kvmodel.case import Case
from kvmodel.clock import StepCount
from kvmodel.scheduler_log import Log
from kvmodel.scheduler_policies import VLLM_V1
from kvmodel.scheduler_state import Requests, State
from kvmodel.simulation import Engine, engine_settings, simulate, step_inputs
from kvmodel.step_clock import StepTimes
from kvmodel.workload import Workload, fixed, poisson, workload

ROUNDS = 9
RATE = 4.0  # requests a second
STEPS_PER_S = 40  # of the default Case under this load: arrivals in steps for decisions alone
SMALL_POOL = 2600  # blocks; the default Case has about 29,000


def load(number: int) -> Workload:
    return workload(fixed(number, 2048), fixed(number, 128), poisson(number, RATE, 1))


def decide(given: Workload, engine: Engine) -> State:
    settings = engine_settings(Case(), engine, step_inputs(Case()))
    steps = np.floor(given.arrival_s * STEPS_PER_S).tolist()
    requests = Requests(given.prompt_tokens.tolist(), given.output_tokens.tolist(), steps, given.priority.tolist())
    return scheduler.run(requests, settings, VLLM_V1, StepCount(), Log(len(given)))


def time_steps(given: Workload, engine: Engine) -> State:
    settings = engine_settings(Case(), engine, step_inputs(Case()))
    requests = Requests(
        given.prompt_tokens.tolist(), given.output_tokens.tolist(), given.arrival_s.tolist(), given.priority.tolist()
    )
    return scheduler.run(requests, settings, VLLM_V1, StepTimes(step_inputs(Case())), Log(len(given), 1.0))


def main(number: int) -> None:
    given = load(number)
    for name, engine in (("default pool", Engine()), (f"{SMALL_POOL} blocks", Engine(num_blocks=SMALL_POOL))):
        for what, work in (("decisions alone", decide), ("with step times", time_steps)):
            rates = []
            for _ in range(ROUNDS):
                start = time.perf_counter()
                state = work(given, engine)
                rates.append(number / (time.perf_counter() - start))
            best, median = max(rates), sorted(rates)[ROUNDS // 2]
            print(
                f"{name}, {what}: {best:,.0f} requests a second (median {median:,.0f}); "
                f"{state.log.preemption_events} preemptions, {state.decode_steps:,} steps"
            )
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
