"""Plant a fault in a copy of the project and run the tests that can notice it."""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.mutation_sites import MODULE, Fault, functions

ROOT = Path(__file__).resolve().parent.parent
PYTHON = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "benchmarks.mutation_map", "--tb=no", "-q"]
FIXED = ["--hypothesis-seed=0", "-p", "no:xdist"]
NOT_RUN = ("browser", "hosting", "test_run.py", "test_mutations.py", "test_mutation_sampler.py")  # of other programs
IGNORED = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".hypothesis", ".*_cache", "build", "dist")
MOST_BYTES = 8 * 2**30
FIRST_S = 5.0  # of tests in the first run; each later run takes four times as much
PORTION_S = 3.0  # of a file's tests before those of the next file
HOLDS_WHOLE_ANSWERS = "/test_kept_"  # such tests notice most, and go next to those of the fault's package
TRACED = 3.0  # times as long a test takes while its calls are noted
COLLECTING_S = 0.4  # a test file's own start

Notes = dict[str, dict[str, Any]]  # test file -> what `benchmarks.mutation_map` wrote of it


def copied(folder: Path) -> Path:
    return shutil.copytree(ROOT, folder, ignore=IGNORED, dirs_exist_ok=True)


def test_files() -> list[str]:
    names = (path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "tests").rglob("test_*.py")))
    return [name for name in names if name.removeprefix("tests/").split("/")[0] not in NOT_RUN]


def run(folder: Path, arguments: Iterable[str], limit_s: float, **variables: str) -> subprocess.CompletedProcess[str]:
    """Raises TimeoutExpired, with all that it started ended."""
    environment = os.environ | {"HYPOTHESIS_STORAGE_DIRECTORY": f"{folder}.examples", "PYTHONHASHSEED": "0"} | variables
    with subprocess.Popen(
        [*PYTHON, *FIXED, *arguments], cwd=folder, env=environment, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, preexec_fn=_bounded,
    ) as process:  # fmt: skip
        try:
            output, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.communicate()
            raise
    shutil.rmtree(f"{folder}.examples", ignore_errors=True)
    return subprocess.CompletedProcess(process.args, process.returncode, output)


def _bounded() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))


def notes_of(folder: Path, file: str, kept: Path) -> dict[str, Any]:
    """What the tests of a file run; from the folder `kept` where the file is as it was.

    Tests that fail without a fault are named under "failed": they notice nothing.
    """
    state = hashlib.sha256((ROOT / file).read_bytes()).hexdigest()[:16]
    path = kept / f"{file.replace('/', '.')}.{state}.json"
    if not path.exists():
        for old in kept.glob(f"{file.replace('/', '.')}.*.json"):
            old.unlink()
        run(folder, [file], limit_s=1800, MUTATION_NOTES=str(path.resolve()))
    noted = dict(json.loads(path.read_text(encoding="utf-8")))
    failed = [name for name, test in noted["tests"].items() if test.get("failed")]
    if failed:  # some only when traced, or before what the file reads was mended
        again = run(folder, ["-rfE", *failed], limit_s=1800)
        noted["failed"] = re.findall(r"^(?:FAILED|ERROR) (\S+?::.*?)(?: - .*)?$", again.stdout, re.MULTILINE)
    return noted


@dataclass(frozen=True)
class Chosen:
    """Tests of one file that can notice a fault."""

    file: str
    tests: tuple[str, ...]
    seconds: float


def chosen(fault: Fault, notes: Notes, users: dict[str, set[str]], read_by: Set[str] = frozenset()) -> list[Chosen]:
    """The tests that run the fault's function: of each file the cheapest first, those of its package before others'.

    Of a fault at import: first the tests that run a function of `read_by`, which read what is assigned there; then
    those that run any function of its module, or of one that imports it.
    """
    paths = {fault.path, *users.get(fault.path, ())}

    def of_users(functions: Iterable[str]) -> bool:
        named = (name.partition(":") for name in functions)
        return any(path in paths and function != MODULE for path, _, function in named)

    def of_readers(functions: Iterable[str]) -> bool:
        return not read_by.isdisjoint(functions)

    def of_itself(functions: Iterable[str]) -> bool:
        return f"{fault.path}:{fault.scope}" in functions

    found = []
    given: set[str] = set()
    for rank, runs in enumerate([of_readers, of_users] if fault.scope == MODULE else [of_itself]):
        for file, noted in notes.items():
            tests = {name: test for name, test in noted["tests"].items() if name not in noted.get("failed", ())}
            shared = runs is not of_users and runs(noted["shared"])
            can = [name for name, test in tests.items() if name not in given and (shared or runs(test.get("ran", ())))]
            given.update(can)
            found += [(rank, turn, one) for turn, one in enumerate(_portions(file, can, tests))]
    own = f"tests/{fault.path.split('/')[1].removesuffix('.py')}/"

    def first(one: Chosen) -> int:
        return 0 if one.file.startswith(own) else 1 if HOLDS_WHOLE_ANSWERS in one.file else 2

    found.sort(key=lambda each: (each[0], each[1] > 0, first(each[2]), each[2].seconds))
    return [one for _, _, one in found]


def _portions(file: str, can: list[str], tests: dict[str, Any]) -> Iterator[Chosen]:
    """The tests of a file in portions of some seconds, the cheapest first."""
    portion: list[str] = []
    seconds = COLLECTING_S
    for name in sorted(can, key=lambda name: tests[name]["seconds"]):
        takes = tests[name]["seconds"] / TRACED
        if portion and seconds + takes > PORTION_S:
            yield Chosen(file, tuple(portion), seconds)
            portion, seconds = [], COLLECTING_S
        portion.append(name)
        seconds += takes
    if portion:
        yield Chosen(file, tuple(portion), seconds)


def whole(file: str, notes: Notes) -> list[Chosen]:
    """All tests of a file."""
    tests = notes[file]["tests"]
    return [Chosen(file, tuple(tests), COLLECTING_S + sum(test["seconds"] for test in tests.values()))]


def users() -> dict[str, set[str]]:
    """File of the model -> files that import it."""
    found: dict[str, set[str]] = {}
    for path in (ROOT / "kvmodel").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("kvmodel"):
                for name in (f"{node.module}.{alias.name}" for alias in node.names):
                    for module in (name, name.rpartition(".")[0]):
                        file = f"{module.replace('.', '/')}.py"
                        found.setdefault(file, set()).add(path.relative_to(ROOT).as_posix())
    return found


def read_by(fault: Fault) -> set[str]:
    """Functions of the model that read what a fault at import assigns: a constant, or a field of a class."""
    assigned = {
        name
        for node in ast.walk(ast.parse((ROOT / fault.path).read_bytes()))
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.lineno <= fault.line <= (node.end_lineno or 0)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        for name in _names(target)
    }
    return {function for function, names in _names_by_function() if names & assigned}


@functools.cache
def _names_by_function() -> list[tuple[str, set[str]]]:
    return [
        (f"{path.relative_to(ROOT).as_posix()}:{scope}", _names(node))
        for path in sorted((ROOT / "kvmodel").rglob("*.py"))
        for node, scope in functions(ast.parse(path.read_bytes()), MODULE)
    ]


def _names(node: ast.AST) -> set[str]:
    nodes = list(ast.walk(node))
    return {one.id for one in nodes if isinstance(one, ast.Name)} | {
        one.attr for one in nodes if isinstance(one, ast.Attribute)
    }


def outcome(fault: Fault, folder: Path, notes: Notes, can: list[Chosen], budget_s: float) -> str:
    """ "noticed by ...", "hangs", "survived N tests" or "no test runs it"."""
    path = folder / fault.path
    source, times = path.read_bytes(), path.stat()
    within = list(_within(can, budget_s))
    try:
        path.write_bytes(fault.planted(source))
        os.utime(path, (times.st_atime, times.st_mtime - 1e6))  # not what its bytecode was compiled from
        for batch in _batches(within):
            known = [name for one in batch for name in notes[one.file]["tests"]]
            done = _noticed(folder, batch, known)
            if done:
                return done
    finally:
        path.write_bytes(source)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    ran = sum(len(one.tests) for one in within)
    left = sum(len(one.tests) for one in can) - ran
    return f"survived {ran} tests" + (f", {left} more not run" if left else "") if can else "no test runs it"


def _within(can: list[Chosen], budget_s: float) -> Iterator[Chosen]:
    spent = 0.0
    for one in can:
        spent += one.seconds
        if spent <= budget_s or one is can[0]:
            yield one


def _batches(can: list[Chosen]) -> Iterator[list[Chosen]]:
    batch: list[Chosen] = []
    most = FIRST_S
    for one in can:
        if batch and sum(each.seconds for each in (*batch, one)) > most:
            yield batch
            batch, most = [], most * 4
        batch.append(one)
    if batch:
        yield batch


def _noticed(folder: Path, batch: list[Chosen], known: list[str]) -> str:
    seconds = sum(one.seconds for one in batch)
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as choice:
        json.dump({"chosen": [name for one in batch for name in one.tests], "known": known}, choice)
        choice.flush()
        try:
            arguments = ["-x", "-rfE", *(one.file for one in batch)]
            done = run(folder, arguments, limit_s=30 + 6 * TRACED * seconds, MUTATION_CHOICE=choice.name,
                       PYTHONDONTWRITEBYTECODE="1")  # fmt: skip
        except subprocess.TimeoutExpired:
            return "hangs"
    if done.returncode in (0, 5):  # 5: no test was left to run
        return ""
    if done.returncode > 2:  # pytest could not begin
        return f"not tried: {done.stdout[-300:]!r}"
    killer = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", done.stdout, flags=re.MULTILINE)
    return f"noticed by {killer.group(1) if killer else f'exit status {done.returncode}'}"
