"""Cases a second: every strategy of the default Case over long arrays, on one core.

    python -m benchmarks.model [CASES]

Prints the median of several rounds; machines are noisy, so look at the spread too.
"""

import statistics
import sys
import time
from collections.abc import Callable

import numpy as np

from kvmodel.inputs.case import Case
from kvmodel.recovery import break_even, resolve, strategies
from kvmodel.recovery.comparison import compare_case
from kvmodel.recovery.costs import at

ROUNDS = 7


def seconds(work: Callable[[], object]) -> list[float]:
    """Sorted wall times of `ROUNDS` runs, after one to warm up."""
    work()
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return sorted(times)


def main(cases: int) -> None:
    inputs = resolve.inputs(Case())
    drawn = np.random.default_rng(0)
    varied = {
        "context length": at(inputs, tokens=drawn.integers(128, 32768, cases).astype(float)),
        "length, copy rate, survival": at(
            inputs,
            tokens=drawn.integers(128, 32768, cases).astype(float),
            h2d_bytes_per_s=drawn.uniform(1e9, 60e9, cases),
            d2h_bytes_per_s=drawn.uniform(1e9, 60e9, cases),
            survival=drawn.uniform(0, 0.9, cases),
        ),
    }
    for name, arrays in varied.items():
        times = seconds(lambda arrays=arrays: strategies.price(arrays))
        median, best = cases / statistics.median(times), cases / times[0]
        print(f"{cases:,} cases over {name}: {median:,.0f} a second (best {best:,.0f})")
    one = seconds(lambda: compare_case(Case()).verdict)
    print(f"one Case with break-evens and verdict: {statistics.median(one) * 1e3:.1f} ms")
    even = seconds(lambda: break_even.solve(inputs))
    print(f"its break-evens alone: {statistics.median(even) * 1e3:.1f} ms")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
