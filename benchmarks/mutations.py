"""Do the tests notice a wrong model? Each fault is planted alone in a copy of the project.

    python -m benchmarks.mutations                          # those of planted_faults.toml; exit 1 if one survives
    python -m benchmarks.mutations tp ceil                  # those whose name contains one of the words
    python -m benchmarks.mutations --sample 300 --seed 7    # simple faults drawn over kvmodel, as many of each kind
    python -m benchmarks.mutations --again survivors.json   # those that an earlier run kept there, once more

Which tests run a function is found out once, by running each test file with every call noted, and kept in
`build/mutation_map` until the test file changes: a quarter of an hour. A fault is then given to the tests that run its
function, those of its package first and then the cheapest, up to `--budget` seconds of them; one that hangs is
noticed. Tests that fail without a fault are left out, and named.

How to read the survivors: "no test runs it" asks for a test; "survived N tests" for one that looks at what the line is
for, or the line makes no difference that a reader could see (a bound that no value reaches exactly, a size in pixels).
Write the test for the kind: of all limits, all axes, all sentences, never of that line alone.
"""

from __future__ import annotations

import argparse
import functools
import json
import random
import re
import sys
import tempfile
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import Queue
from typing import Any

from benchmarks import mutation_runs as runs
from benchmarks.mutation_sites import Fault, faults, scope_at

ROOT = runs.ROOT
WORKERS = 2
MAY_SURVIVE = 0.1  # of a sample
FOLDERS = ("kvmodel", "explorer", "pages", "hosting", "assets/prose")


@dataclass(frozen=True)
class Planted:
    """`old`, which stands exactly once in the files, becomes `new`; where that is, is looked up, so text may move.

    `noticed_by` names a test file for a fault outside of kvmodel, of which no map says who runs it.
    """

    name: str
    old: str
    new: str
    noticed_by: str = ""


def planted() -> list[Planted]:
    rows = tomllib.loads((Path(__file__).parent / "planted_faults.toml").read_text(encoding="utf-8"))["fault"]
    return [Planted(**row) for row in rows]


def place(fault: Planted, root: Path = ROOT) -> Fault | None:
    """Where it goes; None where its text does not stand exactly once."""
    old = fault.old.encode()
    sources = _sources(root, FOLDERS if fault.noticed_by else FOLDERS[:1])
    found = [path for path, source in sources.items() for _ in range(source.count(old))]
    if len(found) != 1:
        return None
    path, source = found[0], sources[found[0]]
    start = source.index(old)
    line = source.count(b"\n", 0, start) + 1
    scope = scope_at(source, line) if path.endswith(".py") else ""
    return Fault(path, line, scope, fault.name, start, start + len(old), fault.new)


@functools.cache
def _sources(root: Path, folders: tuple[str, ...]) -> dict[str, bytes]:
    paths = (path for folder in folders for path in sorted((root / folder).rglob("*.*")) if path.suffix != ".pyc")
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in paths if path.is_file()}


def drawn(number: int, seed: int, within: str) -> list[Fault]:
    """As many of each kind, anywhere in the files whose path begins so."""
    by_kind: dict[str, list[Fault]] = defaultdict(list)
    for path in sorted((ROOT / "kvmodel").rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        for fault in faults(name, path.read_bytes()) if name.startswith(within) else ():
            by_kind[fault.kind].append(fault)
    chance = random.Random(seed)
    for each in by_kind.values():
        chance.shuffle(each)
    kinds = sorted(by_kind)
    order = [by_kind[kind][turn] for turn in range(number) for kind in kinds if turn < len(by_kind[kind])]
    return order[:number]


def mapped(folders: Queue[Path], kept: Path) -> runs.Notes:
    kept.mkdir(parents=True, exist_ok=True)
    files = runs.test_files()
    notes = dict(zip(files, _each(folders, files, lambda file, folder: runs.notes_of(folder, file, kept)), strict=True))
    for file, noted in notes.items():
        for test in noted.get("failed", ()):
            print(f"left out, fails without a fault: {test} ({file})")
    return notes


def _each(folders: Queue[Path], things: Iterable[Any], work: Callable[[Any, Path], Any]) -> Iterable[Any]:
    """Two at a time, each in a copy of its own."""

    def in_a_copy(thing: Any) -> Any:
        folder = folders.get()
        try:
            return work(thing, folder)
        finally:
            folders.put(folder)

    with ThreadPoolExecutor(WORKERS) as pool:
        yield from pool.map(in_a_copy, things)


def described(fault: Fault) -> str:
    old = (ROOT / fault.path).read_bytes()[fault.start : fault.end].decode()
    return re.sub(r"\s+", " ", f"{fault.path}:{fault.line} {fault.kind}: {old}  ->  {fault.new}")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("words", nargs="*")
    parser.add_argument("--sample", type=int, help="how many simple faults to draw")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--within", default="kvmodel/", help="draw in files whose path begins so")
    parser.add_argument("--again", type=Path, help="faults that --keep wrote")
    parser.add_argument("--keep", type=Path, help="where to write the faults that survive")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds of tests a fault")
    parser.add_argument("--map", type=Path, default=ROOT / "build" / "mutation_map")
    asked = parser.parse_args(arguments)
    named = {}
    if asked.again:
        chosen = [Fault(**row) for row in json.loads(asked.again.read_text(encoding="utf-8"))]
    elif asked.sample:
        chosen = drawn(asked.sample, asked.seed, asked.within)
    else:
        rows = [
            one for one in planted() if not asked.words or any(word.lower() in one.name.lower() for word in asked.words)
        ]
        stale = [one.name for one in rows if place(one) is None]
        if stale:
            print(f"no longer in the code exactly once: {', '.join(stale)}")
            return 1
        chosen = [fault for one in rows if (fault := place(one)) is not None]
        named = {one.name: one.noticed_by for one in rows if one.noticed_by}
    with tempfile.TemporaryDirectory() as temporary:
        folders: Queue[Path] = Queue()
        for number in range(WORKERS):
            folders.put(runs.copied(Path(temporary) / str(number)))
        survivors = tried(chosen, named, mapped(folders, asked.map), folders, asked.budget, asked.keep)
    return 1 if survivors > (MAY_SURVIVE * len(chosen) if asked.sample else 0) else 0


def tried(
    chosen: list[Fault],
    named: dict[str, str],
    notes: runs.Notes,
    folders: Queue[Path],
    budget_s: float,
    keep: Path | None,
) -> int:
    users = runs.users()

    def one(fault: Fault, folder: Path) -> str:
        file = named.get(fault.kind)
        can = runs.whole(file, notes) if file else runs.chosen(fault, notes, users, runs.read_by(fault))
        return runs.outcome(fault, folder, notes, can, budget_s)

    survivors, counts = [], Counter[tuple[str, bool]]()
    for fault, what in zip(chosen, _each(folders, chosen, one), strict=True):
        noticed = what.startswith(("noticed", "hangs"))
        counts[fault.kind, noticed] += 1
        if not noticed:
            survivors.append(fault)
        print(f"{described(fault)}\n    {what}", flush=True)
        if keep:
            keep.write_text(json.dumps([asdict(each) for each in survivors]), encoding="utf-8")
    for kind in sorted({kind for kind, _ in counts} if len(counts) < 20 else ()):
        print(f"{kind:12} {counts[kind, True]} of {counts[kind, True] + counts[kind, False]}")
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} noticed")
    return len(survivors)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
