"""README and docs: examples print what they say, and what they name exists.

python tests/test_readme.py    # paste what the README's examples print now
"""

import ast
import doctest
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from kvmodel.catalog import assumptions

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
DOCUMENTS = ("README.md", "docs/model.md", "docs/nomenclature.md", "docs/operations.md")
SHELL = re.compile(r"```console\n(.*?)```", re.DOTALL)
PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)
LINK = re.compile(r"\[([^\]]*)\]\(([^)#]+)\)")
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL


def text_of(document: str) -> str:
    return (ROOT / document).read_text(encoding="utf-8")


@cache
def printed(*arguments: str) -> str:
    """What a command of this interpreter prints, in the project's folder."""
    done = subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, check=True, encoding="utf-8")
    return done.stdout


def shell_examples() -> Iterator[tuple[str, str]]:
    """Commands of the README and the output printed under each."""
    for block in SHELL.findall(text_of("README.md")):
        for example in block.split("$ ")[1:]:
            command, _, output = example.partition("\n")
            yield command, output


def without_answers(text: str) -> str:
    """The text with the commands of its examples alone: answers name flags of engines, and are held word for word."""
    return SHELL.sub(lambda block: "\n".join(re.findall(r"^\$ .*$", block[1], re.MULTILINE)), text)


def kvmodel_commands() -> set[str]:
    return set(re.findall(r"^  ([a-z][\w-]*)  ", printed("-m", "kvmodel", "--help"), re.MULTILINE))


def test_the_shell_example_prints_what_it_says() -> None:
    examples = list(shell_examples())
    assert examples
    for command, output in examples:
        python, *arguments = command.split()
        assert python == "python"
        assert printed(*arguments).strip() == output.strip(), "python tests/test_readme.py pastes the new answer"


@pytest.mark.parametrize("document", DOCUMENTS)
def test_the_python_examples_print_what_they_say(document: str) -> None:
    blocks = [block for block in PYTHON.findall(text_of(document)) if ">>>" in block]
    assert blocks or document == "docs/nomenclature.md"
    test = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, document, document, 0)
    report: list[str] = []
    doctest.DocTestRunner(verbose=False, optionflags=OPTIONS).run(test, out=report.append)
    assert not report, "".join(report)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_command_and_flag_exists(document: str) -> None:
    text = without_answers(text_of(document))
    commands = kvmodel_commands()
    named = {name for name in re.findall(r"python -m kvmodel ([a-z][\w-]*)", text) if name != "COMMAND"}
    assert named <= commands
    assert set(re.findall(r"python3 run\.py ([a-z]+)", text)) <= set(
        re.findall(r"python3 run\.py \[?([a-z]+)", printed("run.py", "--help"))
    )
    known = {name: set(FLAG.findall(printed("-m", "kvmodel", name, "--help"))) | {"--help"} for name in commands}
    for line in text.splitlines():
        whole = re.search(r"python -m kvmodel ([a-z][\w-]*)([^`]*)", line)
        if whole:
            assert set(FLAG.findall(whole[2])) <= known[whole[1]], line
        else:
            assert set(FLAG.findall(line)) <= set().union(*known.values()), line


def test_flags_that_only_some_commands_take() -> None:
    """The README says which commands take `--rows`, and that all take `--json`."""
    takes = {name: printed("-m", "kvmodel", name, "--help") for name in kvmodel_commands()}
    assert all("--json" in help_text for help_text in takes.values())
    assert {name for name, help_text in takes.items() if "--rows" in help_text.replace("--rows:", "")} == {
        "size", "prefill", "copy", "compare",
    }  # fmt: skip


def test_the_readme_names_a_chart_that_exists() -> None:
    pytest.importorskip("plotly")
    from kvmodel import charts

    drawn = re.findall(r"kvmodel chart ([a-z0-9-]+)", text_of("README.md"))
    assert drawn
    assert set(drawn) <= set(charts.NAMES)


def test_every_folder_is_named() -> None:
    named = set(re.findall(r"^- `([\w.]+)`: ", text_of("README.md"), re.MULTILINE))
    assert all((ROOT / folder).is_dir() for folder in named)
    if not (ROOT / ".git").exists() or not shutil.which("git"):
        pytest.skip("no git checkout to ask for its folders")
    paths = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert {path.split("/")[0] for path in paths.splitlines() if "/" in path} <= named


@pytest.mark.parametrize("document", DOCUMENTS)
def test_linked_files_exist_and_hold_what_the_link_names(document: str) -> None:
    """`[step_time.linear_s](../kvmodel/timing/step_time.py)` names a function of that file."""
    folder = (ROOT / document).parent
    links = LINK.findall(text_of(document))
    for words, target in links:
        if "://" in target:
            continue
        path = folder / target
        assert path.exists(), target
        named = re.fullmatch(r"`(\w+)\.(\w+)`", words)
        if named and path.suffix == ".py":
            assert named[1] == path.stem, words
            assert named[2] in defined(path), words


@cache
def defined(path: Path) -> frozenset[str]:
    """Functions, classes, methods and module constants of a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    names |= {target.id for node in tree.body if isinstance(node, ast.Assign) for target in node.targets
              if isinstance(target, ast.Name)}  # fmt: skip
    return frozenset(names)


@cache
def names_in_code() -> frozenset[str]:
    """Every name in kvmodel and explorer, and every key of the data files."""
    names: set[str] = set()
    for path in [*(ROOT / "kvmodel").rglob("*.py"), *(ROOT / "explorer").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names |= {getattr(node, field) for field in ("id", "attr", "arg", "name") if hasattr(node, field)}
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                names.add(node.value)
    for path in (ROOT / "kvmodel" / "data").glob("*.toml"):
        names |= set(keys(tomllib.loads(path.read_text(encoding="utf-8"))))
    return frozenset(names)


def keys(table: object) -> Iterator[str]:
    if isinstance(table, dict):
        for key, value in table.items():
            yield key
            yield from keys(value)


def nomenclature_rows() -> list[list[str]]:
    lines = [line for line in text_of("docs/nomenclature.md").splitlines() if line.startswith("| ")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in rows if row[0] != "letter" and not set(row[0]) <= set("-: ")]


def test_every_code_name_of_the_nomenclature_is_in_the_code() -> None:
    rows = nomenclature_rows()
    assert len(rows) > 60
    assert {len(row) for row in rows} == {5}
    for row in rows:
        for name in re.findall(r"`([^`]+)`", row[1]):
            assert name in names_in_code(), row
    assert all(row[3] and row[4] for row in rows), "every term in both languages"


def test_the_nomenclature_has_every_input() -> None:
    import kvmodel

    named = {name for row in nomenclature_rows() for name in re.findall(r"`([^`]+)`", row[1])}
    assert set(kvmodel.compare()["case"]) <= named


def test_the_sections_of_the_assumptions_are_those_of_the_file() -> None:
    """docs/model.md has a row for each section, and no other."""
    tables: set[str] = set()
    for name in assumptions.FILES:
        tables |= tomllib.loads(text_of(f"kvmodel/data/{name}.toml")).keys()
    table = text_of("docs/model.md").partition("## Assumptions")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)", table, re.MULTILINE)) == tables


def test_the_picture_is_small() -> None:
    assert (ROOT / "docs" / "pictures" / "crossover.png").stat().st_size < 200_000


def paste() -> None:
    """Put what the examples print now into the README."""
    text = text_of("README.md")

    def shell(block: re.Match[str]) -> str:
        commands = [example.partition("\n")[0] for example in block[1].split("$ ")[1:]]
        answers = [f"$ {command}\n{printed(*command.split()[1:]).rstrip()}\n" for command in commands]
        return "```console\n" + "".join(answers) + "```"

    def python(block: re.Match[str]) -> str:
        names: dict[str, object] = {}
        lines = []
        for line in (line for line in block[1].splitlines() if line.startswith(">>> ")):
            lines.append(line)
            try:
                value = eval(line[4:], names)
            except SyntaxError:
                exec(line[4:], names)
                continue
            except ValueError as error:
                kind = f"{type(error).__module__}.{type(error).__qualname__}"
                lines += ["Traceback (most recent call last):", "  ...", f"{kind}: {error}"]
                continue
            lines.append(repr(value))
        return "```python\n" + "\n".join(lines) + "\n```"

    README.write_text(PYTHON.sub(python, SHELL.sub(shell, text)), encoding="utf-8")


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    paste()
