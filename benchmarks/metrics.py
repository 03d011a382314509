"""How long a page of /metrics takes from bytes to answer: one server, 50 with all histograms, and the worst there is.

    python -m benchmarks.metrics [RUNS]

Pages come from tests/data/metrics. A page that is refused counts too: its sentence must not take long either.
"""

import gzip
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

from kvmodel.diagnosis import from_scrapes
from kvmodel.errors import CaseError
from kvmodel.metrics import metric_names
from kvmodel.metrics.exposition import read_scrape

SAMPLES = Path(__file__).parent.parent / "tests" / "data" / "metrics"
MANY = 20_000_000  # bytes


def engines(count: int) -> str:
    """A page of so many data-parallel ranks of vLLM 0.33, each with all its histograms."""
    page = (SAMPLES / "vllm_0_33_classes_end.prom").read_text()
    return "".join(page.replace('engine="0"', f'engine="{rank}"') for rank in range(count))


def pages() -> dict[str, bytes]:
    """Pages by what they are."""
    rng = random.Random(6)
    one, fifty, most = engines(1), engines(50), engines(200)
    lines = fifty.splitlines()
    rng.shuffle(lines)
    bad = [line.rsplit(" ", 1)[0] + " 1.2.3" if rng.random() < 0.5 else line for line in lines]
    return {
        "one engine": one.encode(),
        "50 engines": fifty.encode(),
        "50 engines, gzip": gzip.compress(fifty.encode()),
        "50 engines, lines shuffled": "\n".join(lines).encode(),
        "50 engines, half of the numbers bad": "\n".join(bad).encode(),
        "50 engines, cut in the middle": fifty.encode()[: len(fifty) // 2],
        "200 engines, 8 MB": most.encode(),
        "20 MB of engines": engines(480).encode(),
        "8 MB of noise": rng.randbytes(8_000_000),
        "20 MB of noise": rng.randbytes(MANY),
        "8 MB in one line": b'vllm:x{a="' * 800_000,
        "8 MB of braces": b"a{" * 4_000_000,
        "20,000 label sets": "".join(f'vllm:num_requests_running{{pod="{n}"}} 1\n' for n in range(20_000)).encode(),
        "2,000 engines": "".join(f'vllm:num_requests_running{{engine="{n}"}} 1\n' for n in range(2_000)).encode(),
        "300,000 lines": b"x 1\n" * 300_000,
    }


def seconds(work: Callable[[], object], runs: int) -> tuple[float, str]:
    """Shortest time of several runs, and what came out."""
    taken, said = [], ""
    for _ in range(runs):
        start = time.perf_counter()
        try:
            work()
            said = "answer"
        except CaseError as refusal:
            said = str(refusal)
        taken.append(time.perf_counter() - start)
    return min(taken), said


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    print("page                                     size      read    answer   outcome")
    for name, page in pages().items():
        reading, _ = seconds(lambda page=page: read_scrape(page, metric_names.is_wanted), runs)
        answering, said = seconds(lambda page=page: from_scrapes.diagnose(page), runs)
        size = f"{len(page) / 1e6:.1f} MB"
        print(f"{name:<36} {size:>9}  {reading:6.3f} s  {answering:6.3f} s   {said[:60]}")


if __name__ == "__main__":
    main()
