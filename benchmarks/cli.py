"""Start-up of the command line against the import of numpy and pydantic: alternated runs, shortest and median.

    python -m benchmarks.cli [RUNS]

`ready` also builds one pydantic class, which `import pydantic` alone leaves undone (it imports lazily).
"""

import os
import statistics
import subprocess
import sys
import time

COMMANDS = {
    "imports": ["-c", "import numpy, pydantic"],
    "ready": ["-c", "import numpy, pydantic; type('Ready', (pydantic.BaseModel,), {})"],
    "size": ["-m", "kvmodel", "size"],
    "copy": ["-m", "kvmodel", "copy"],
    "compare": ["-m", "kvmodel", "compare"],
}


def measure(runs: int) -> dict[str, list[float]]:
    """Seconds of every run of every command, taken in turn so that a busy spell hits all alike."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    seconds: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for run in range(runs + 1):
        for name, arguments in COMMANDS.items():
            start = time.perf_counter()
            subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL, env=environment)
            if run:  # the first one may compile bytecode
                seconds[name].append(time.perf_counter() - start)
    return seconds


def main() -> None:
    seconds = measure(int(sys.argv[1]) if len(sys.argv) > 1 else 30)
    shortest, median = min(seconds["imports"]), statistics.median(seconds["imports"])
    print("command    shortest    median   ratios")
    for name, taken in seconds.items():
        low, middle = min(taken), statistics.median(taken)
        ratios = f"{low / shortest:.2f}  {middle / median:.2f}"
        print(f"{name:<10} {1000 * low:5.0f} ms  {1000 * middle:5.0f} ms   {ratios}")


if __name__ == "__main__":
    main()
