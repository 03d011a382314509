"""Damaged scrapes, logs, JSON, tables and links: each must give an answer or one sentence, soon and in little memory.

    python -m benchmarks.mutated_inputs                        # 10,000 of each kind; exit 1 if one is out of bounds
    python -m benchmarks.mutated_inputs scrape config -n 500   # these kinds only; --seed N draws others
    python -m benchmarks.mutated_inputs --more A --keep B      # A has further seeds, B gets what is out of bounds

Times are of the processor, without tracemalloc; the peak is that of each tenth input, above what there was before.
"""

import argparse
import gzip
import json
import random
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlencode

from benchmarks.entrances import ENTRANCES, FORMS
from benchmarks.mutations_of_texts import mutant
from kvmodel import files as model_files
from kvmodel.errors import CaseError
from kvmodel.inputs import addresses
from kvmodel.inputs.case import Case
from tests.cli import test_rows
from tests.metrics import test_running_lines as running_lines
from tests.metrics import test_trtllm_json as trtllm_json
from tests.startup_log import log_texts

TESTS = Path(__file__).parent.parent / "tests"
INPUTS, LONGEST_S, MOST_BYTES = 10_000, 1.0, 200_000_000
Seeds = list[tuple[str, bytes]]


def files(folders: list[Path], pattern: str, holds: bytes = b"") -> Seeds:
    """Files below these folders, each by its name; only those that hold some bytes."""
    found = [(path.name, path.read_bytes()) for folder in folders for path in sorted(folder.rglob(pattern))]
    return [(name, content) for name, content in found if holds in content]


def running(number: int) -> dict[str, str]:
    """Running lines of each engine, at their minute."""
    lines, when = running_lines, f"06-01 12:{number:02d}:00"
    given = {"when": f"2025-{when}", "running": 5, "output": 30.5, "waiting": 2, "count": 51 + number}
    of_v0 = lines.V0.format(when=when, prompt=9.5, output=30.5)
    return {
        "vllm": lines.v1(when, engine=number % 2),
        "vllm-v0": f"{of_v0}\n{lines.PREEMPTED.format(**given)}",
        "sglang": "\n".join(line.format(**given) for line in (lines.DECODE, lines.PREFILL, lines.RETRACTED)),
        "tensorrt-llm": lines.STEP.format(step=number, rank=number % 2, **given),
    }


def seeds(kind: str, more: list[Path]) -> Seeds:
    """What is damaged, of a kind."""
    if kind.endswith("trt json"):
        steps = [trtllm_json.iteration(number, rank=number % 3) for number in range(9)]
        pages = [trtllm_json.FIELD, json.dumps(steps[:1]), json.dumps(steps)]
        return [(f"page {number}", page.encode()) for number, page in enumerate(pages)]
    if kind == "running":
        by_engine = [(name, "\n".join(running(minute)[name] for minute in range(20)).encode()) for name in running(0)]
        return files([TESTS / "data", *more], "*running*.log") + by_engine
    if kind == "start-up":
        texts = [(name, text.encode()) for name, text in vars(log_texts).items() if name.isupper()]
        return files([TESTS / "data" / "pool_logs", TESTS / "startup_log", *more], "*.log") + texts
    if kind == "config":
        return files([TESTS / "data" / "hf_configs", TESTS / "startup_log", *more], "*.json", b"hidden_size")
    if kind == "simulate":
        return files([TESTS / "data" / "oracle", *more], "*.json", b'"requests"')
    if kind in ("trace", "measured"):
        path = model_files.DATA / {"trace": "real_run/requests.csv", "measured": "measured/steps.csv"}[kind]
        heading, *lines = path.read_bytes().splitlines(keepends=True)
        return [(f"{path.name} from {at}", heading + b"".join(lines[at : at + 20])) for at in range(0, len(lines), 20)]
    if kind == "rows":
        return [(name, text.encode()) for name, text in test_rows.FILES.items()]
    if kind == "link":
        links = (TESTS / "data" / "links.txt").read_text("utf-8").splitlines()
        shipped = [(f"link {number}", link.rpartition("?")[2].encode()) for number, link in enumerate(links)]
        return [*shipped, ("default", urlencode(addresses.query(Case())).encode())]
    return files([TESTS / "data", *more], "*.prom")


def outcome(read: Callable[..., str], pages: tuple[bytes, ...]) -> tuple[bool, str | None]:
    """Whether it was refused, and what is wrong with how it was answered; None where nothing is."""
    try:
        said, refused = read(*pages), False
    except CaseError as refusal:
        said, refused = str(refusal), True
    except Exception as error:
        return False, f"{type(error).__name__}: {str(error)[:100]}"
    bad = not said or (refused and ("\n" in said or len(said) > 1000))
    return refused, f"no sentence: {said[:100]!r}" if bad else None


def inputs(kind: str, from_seeds: Seeds, count: int, draw: random.Random) -> Iterator[tuple[str, tuple[bytes, ...]]]:
    """Inputs by the name of their seed; of two scrapes, mostly of one server, one is damaged or both."""
    for _ in range(count):
        name, content = draw.choice(from_seeds)
        form = FORMS.get(kind, "")
        pages = [mutant(content, draw, form)]
        if kind.startswith("two"):
            other = draw.choice(from_seeds)[1] if draw.random() < 0.1 else content
            pages.append(mutant(other, draw, form) if draw.random() < 0.5 else other)
            draw.shuffle(pages)
        if kind == "gzip":
            packed = gzip.compress(pages[0] if draw.random() < 0.5 else content, mtime=0)
            pages = [mutant(packed, draw, form) if draw.random() < 0.5 else packed]
        yield name, tuple(pages)


def report(kind: str, chosen: argparse.Namespace) -> bool:
    """A line of figures for a kind, and each input that is out of bounds. Whether all are within them."""
    read, count, all_refused, crashes = ENTRANCES[kind], 0, 0, 0
    from_seeds, draw = seeds(kind, chosen.more), random.Random(f"{kind} {chosen.seed}")
    outcome(read, (from_seeds[0][1],))  # what is read once only
    slowest, largest, good = (0.0, ""), (0, ""), True
    for count, (name, pages) in enumerate(inputs(kind, from_seeds, chosen.n, draw), start=1):
        started = time.process_time()
        refused, wrong = outcome(read, pages)
        taken_s, peak = time.process_time() - started, 0
        if count % 10 == 0:
            tracemalloc.start()
            outcome(read, pages)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        all_refused, crashes = all_refused + refused, crashes + (wrong is not None)
        slowest, largest = max(slowest, (taken_s, f"{name}, {count}")), max(largest, (peak, f"{name}, {count}"))
        if wrong is None and taken_s <= LONGEST_S and peak <= MOST_BYTES:
            continue
        good = False
        print(f"  {kind} {count} of {name}: {taken_s:.2f} s, {peak / 1e6:.0f} MB, {wrong or 'answered'}", flush=True)
        for side, page in enumerate(pages if chosen.keep else ()):
            (chosen.keep / f"{kind.replace(' ', '-')}-{chosen.seed}-{count}-{side}").write_bytes(page)
    print(
        f"{kind:<12} {count:>7,} inputs  {all_refused:>6,} refused  {crashes:>3} crashes  "
        f"{slowest[0]:6.3f} s ({slowest[1]})  {largest[0] / 1e6:5.1f} MB ({largest[1]})", flush=True,
    )  # fmt: skip
    return good


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("kinds", nargs="*", default=list(ENTRANCES), help=", ".join(ENTRANCES))
    options.add_argument("-n", type=int, default=INPUTS)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--more", type=Path, action="append", default=[])
    options.add_argument("--keep", type=Path)
    chosen = options.parse_args()
    good = [report(kind, chosen) for kind in chosen.kinds]  # every kind, whatever the first ones say
    return int(not all(good))


if __name__ == "__main__":
    sys.exit(main())
