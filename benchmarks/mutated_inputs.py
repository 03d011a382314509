"""Damaged scrapes, JSON, logs and config.json: each must give an answer or one sentence, soon and in little memory.

    python -m benchmarks.mutated_inputs                        # 10,000 of each kind; exit 1 if one is out of bounds
    python -m benchmarks.mutated_inputs scrape config -n 500   # these kinds only; --seed N draws others
    python -m benchmarks.mutated_inputs --more A --keep B      # A has further seeds, B gets what is out of bounds

Times are of the processor, without tracemalloc; the peak is that of each tenth input, above what there was before.
"""

import argparse
import json
import random
import re
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from kvmodel.arrays import json_value
from kvmodel.cli import answers
from kvmodel.diagnosis import from_scrapes
from kvmodel.errors import CaseError
from kvmodel.hf import config_file
from kvmodel.inputs.case import Case
from kvmodel.startup_log import log_answer
from kvmodel.texts import diagnosis, startup_log
from tests.metrics import test_running_lines as running_lines
from tests.metrics import test_trtllm_json as trtllm_json
from tests.startup_log import log_texts

TESTS = Path(__file__).parent.parent / "tests"
INPUTS, LONGEST_S, MOST_BYTES = 10_000, 1.0, 50_000_000
LARGEST = (20_000,) * 9 + (1_000_000,)  # bytes that an input may grow to
NUMBERS = [
    *"-1 0 -0 NaN Inf -Inf 1e400 1e-400 1e18 0x10 1,5 1_0 None 1.01 ٣ ¹ 9.9.9".split(), "", "9" * 400, "7" * 5000,
]  # fmt: skip
VALUES = [None, True, "x", "", "٣", "\0", -1, 0, 0.5, 1e-300, 1e308, 10**30, 10**4000, [], {}, [[]], {"a": {}}]
BYTES = [b"\0", b"\xff\xfe", b"\x1b[31m", b"\xc2\xa0", "٣".encode(), b'"', b"\\", b"{", b"}", b",", b"=", b"\r", b" "]
KEYS = ("iter", "data", "", "text_config", "model_type", "layer_types", "per_layer_config", "quantization_config")
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
    if kind == "trt json":
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
    return files([TESTS / "data", *more], "*.prom")


# --- what is done to an input ---


def of_lines(content: bytes, draw: random.Random, most: int) -> bytes:
    """Lines taken out, doubled, moved, joined, repeated many times, or for many engines, or with many labels."""
    lines = content.split(b"\n")
    at, kind = draw.randrange(len(lines)), draw.randrange(7)
    part = lines[at : at + draw.choice((1, 3, 20, len(lines)))]
    times = most // (sum(map(len, part)) + len(part)) + 1
    if kind == 0:
        del lines[at : at + draw.choice((1, 3, 30))]
    elif kind == 1:
        lines[at:at] = part * draw.choice((1, 2, times))
    elif kind == 2:
        draw.shuffle(lines)
    elif kind == 3:
        return draw.choice((b"", b" ", b"\r", b"\r\n")).join(lines)
    elif kind == 4:
        lines = [of_rank(line, rank) for rank in range(min(times, draw.choice((2, 60, 1000)))) for line in part]
    elif kind == 5:
        labels = (b'a%d="%d"' % (n, n) for n in range(draw.choice((5, 300, most // 16))))
        lines[at] = lines[at].replace(b"{", b"{" + b",".join(labels) + b",", 1)
    else:
        for index in (draw.randrange(len(lines)) for _ in range(draw.choice((1, 5, 50)))):
            lines[index] = lines[index].rsplit(b" ", 1)[0] + b" " + draw.choice(NUMBERS).encode()
    return b"\n".join(lines)


def of_rank(line: bytes, rank: int) -> bytes:
    """A line as another engine would print it."""
    return re.sub(rb'((?:engine|dp_rank|tp_rank)="|\bDP|\bTP|Engine )[0-9]+', rb"\g<1>%d" % rank, line)


def of_bytes(content: bytes, draw: random.Random, most: int) -> bytes:
    """Numbers changed, a cut, a part taken out, doubled or repeated, odd bytes, very long words."""
    start, kind = draw.randrange(len(content) + 1), draw.randrange(6)
    end = start + draw.choice((1, 2, 8, 60, 400))
    part = content[start:end]
    if kind == 0:
        share = draw.choice((0.02, 0.2, 1.0))
        number = rb"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?"
        return re.sub(number, lambda m: draw.choice(NUMBERS).encode() if draw.random() < share else m[0], content)
    if kind == 1:
        return content[:start] if draw.random() < 0.7 else content[start:]
    if kind == 2:
        return content[:start] + part * draw.choice((0, 0, 2, 3, 50, most // (len(part) + 1))) + content[end:]
    if kind == 3:
        return content[:start] + draw.choice(BYTES) * draw.choice((1, 1, 1, 50, most)) + content[start:]
    if kind == 4:
        raw = bytearray(content)
        for at in (draw.randrange(len(raw)) for _ in range(draw.choice((1, 5, 100)) if raw else 0)):
            raw[at] = draw.randrange(256)
        return bytes(raw)
    words = re.findall(rb"[A-Za-z_]{3,}", content[start : start + 500]) or [b"x"]
    word = draw.choice(words)
    return content.replace(word, word * draw.choice((0, 2, 100, most // len(word))), draw.choice((1, 3)))


def of_tree(value: Any, draw: random.Random, most: int, often: float) -> Any:
    """JSON with places taken out, replaced by another type, nested deep, repeated or under another key."""
    if draw.random() < often:
        kind, many = draw.randrange(5), draw.choice((3, 60, most // (len(str(value)) + 12)))
        if kind == 0:
            return {str(number): value for number in range(many)}
        if kind == 1:
            return [value] * many
        if kind == 2:
            for _ in range(draw.choice((1, 5, 200))):
                value = {draw.choice(KEYS): value} if draw.random() < 0.5 else [value]
            return value
        if kind == 3 and isinstance(value, int | float):
            return draw.choice((-value, value * 1000, value / 3, str(value), float(value), value + 1, bool(value)))
        return draw.choice(VALUES)
    if isinstance(value, dict):
        parts = [(key, of_tree(part, draw, most, often)) for key, part in value.items() if draw.random() > often]
        return {draw.choice(KEYS) if draw.random() < often / 2 else key: part for key, part in parts}
    return [of_tree(part, draw, most, often) for part in value] if isinstance(value, list) else value


def mutant(content: bytes, draw: random.Random, *, tree: bool) -> bytes:
    """One to four changes, one after another; of JSON mostly such as leave it JSON."""
    most = draw.choice(LARGEST)
    ways: tuple[Callable[..., bytes], ...] = (of_lines, of_bytes)
    if tree and draw.random() < 0.9:
        value = of_tree(json.loads(content), draw, most, draw.choice((0.01, 0.02, 0.1)))
        text = json.dumps(value, ensure_ascii=draw.random() < 0.5, indent=draw.choice((None, 1)))
        content, ways = text.encode("utf-8", "replace"), (of_bytes,) if draw.random() < 0.1 else ()
    for way in draw.choices(ways, k=draw.choice((1, 1, 2, 4))) if ways else ():
        content = way(content, draw, most)[: 2 * max(LARGEST)]
    return content


# --- the entrances ---


def of_scrapes(*pages: bytes) -> str:
    answer = from_scrapes.diagnose(*pages)
    return json.dumps(answer, allow_nan=False) and diagnosis.diagnose(answer)


def of_log(content: bytes) -> str:
    answer = log_answer.explain_text(content.decode("utf-8", "replace"), Case(), {"model": None})
    return json.dumps(answer, allow_nan=False) and startup_log.explain_log(answer)


def of_config(content: bytes) -> str:
    reading = config_file.read_text(content, assume_defaults=len(content) % 2 == 0)
    answer = answers.fields_used(Case(model=reading.text), reading) | answers.config_answer(reading)
    return json.dumps(json_value(answer), allow_nan=False)


ENTRANCES: dict[str, Callable[..., str]] = {
    "scrape": of_scrapes, "two scrapes": of_scrapes, "trt json": of_scrapes, "running": of_scrapes,
    "start-up": of_log, "config": of_config,
}  # fmt: skip


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
        pages = [mutant(content, draw, tree=kind in ("trt json", "config"))]
        if kind == "two scrapes":
            other = draw.choice(from_seeds)[1] if draw.random() < 0.1 else content
            pages.append(mutant(other, draw, tree=False) if draw.random() < 0.5 else other)
            draw.shuffle(pages)
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
