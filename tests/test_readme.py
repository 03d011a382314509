"""README and docs: examples print what they say, and what they name exists.

python tests/test_readme.py    # paste what the examples print now
"""

import ast
import contextlib
import doctest
import json
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from kvmodel.catalog import assumptions  # noqa: E402
from kvmodel.cli import command_line  # noqa: E402
from tests.test_imports import LAYERS, PACKAGE, tree_of  # noqa: E402

DOCUMENTS = (
    "README.md", "CONTRIBUTING.md", "docs/commands.md", "docs/python.md", "docs/operations.md", "docs/model.md",
    "docs/nomenclature.md",
)  # fmt: skip
MOST_LINES = 150  # of the README: a door
SHELL = re.compile(r"```console\n(.*?)```", re.DOTALL)
PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)
LINK = re.compile(r"\[([^\]]*)\]\(([^)#]+)\)")
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def text_of(document: str) -> str:
    return (ROOT / document).read_text(encoding="utf-8")


@cache
def printed(*arguments: str) -> str:
    """What a command of this interpreter prints, in the project's folder; commands of kvmodel in this process."""
    if arguments[:2] != ("-m", "kvmodel"):
        return printed_by_itself(*arguments)
    name, *rest = arguments[2:]
    if name == "--help":
        return command_line.overview()
    if "--help" in rest:
        return command_line.parser(name, with_help=True).format_help()
    with tempfile.TemporaryDirectory() as folder:  # where examples may write
        for read in ("kvmodel", "tests"):
            (Path(folder) / read).symlink_to(ROOT / read)
        with contextlib.chdir(folder):
            return command_line.run([name, *rest])


def printed_by_itself(*arguments: str) -> str:
    done = subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, check=True, encoding="utf-8")
    return done.stdout


def shell_examples(document: str) -> list[tuple[str, str]]:
    """Commands of a document and the output printed under each."""
    examples = [example for block in SHELL.findall(text_of(document)) for example in block.split("$ ")[1:]]
    return [(command, output) for command, _, output in (example.partition("\n") for example in examples)]


def without_answers(text: str) -> str:
    """The text with the commands of its examples alone: answers name flags of engines, and are held word for word."""
    return SHELL.sub(lambda block: "\n".join(re.findall(r"^\$ .*$", block[1], re.MULTILINE)), text)


def kvmodel_commands() -> set[str]:
    return set(re.findall(r"^  ([a-z][\w-]*)  ", printed("-m", "kvmodel", "--help"), re.MULTILINE))


WITH_EXAMPLES = [document for document in DOCUMENTS if SHELL.search(text_of(document))]
WITH_PYTHON = [document for document in DOCUMENTS if ">>> " in text_of(document)]


def test_the_documents_with_examples() -> None:
    assert WITH_EXAMPLES == ["README.md", "docs/commands.md", "docs/operations.md"]
    assert WITH_PYTHON == ["README.md", "docs/python.md", "docs/operations.md", "docs/model.md"]


@pytest.mark.parametrize("document", WITH_EXAMPLES)
def test_the_shell_examples_print_what_they_say(document: str) -> None:
    for command, output in shell_examples(document):
        python, *arguments = command.split()
        assert python == "python"
        assert printed(*arguments).strip() == output.strip(), "python tests/test_readme.py pastes the new answer"


def test_the_first_example_is_what_a_shell_prints() -> None:
    command, output = shell_examples("README.md")[0]
    assert printed_by_itself(*command.split()[1:]).strip() == output.strip()


@pytest.mark.parametrize("document", WITH_PYTHON)
def test_the_python_examples_print_what_they_say(document: str) -> None:
    """Refusals too, under the name of the class that Python prints."""
    blocks = [block for block in PYTHON.findall(text_of(document)) if ">>>" in block]
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
    """docs/commands.md says which commands take `--rows`, and that all take `--json`."""
    takes = {name: printed("-m", "kvmodel", name, "--help") for name in kvmodel_commands()}
    assert all("--json" in help_text for help_text in takes.values())
    assert {name for name, help_text in takes.items() if "--rows" in help_text.replace("--rows:", "")} == {
        "size", "prefill", "copy", "compare",
    }  # fmt: skip


def test_the_documents_name_charts_that_exist() -> None:
    pytest.importorskip("plotly")
    from kvmodel import charts

    drawn = {name for document in DOCUMENTS for name in re.findall(r"kvmodel chart ([a-z0-9-]+)", text_of(document))}
    assert drawn - {"--help"}
    assert drawn <= {*charts.NAMES, "--help"}


def test_every_command_is_explained() -> None:
    table = text_of("docs/commands.md").partition("\n## ")[0]
    assert set(re.findall(r"`([a-z][\w-]*)`", table)) >= kvmodel_commands()


def test_the_readme_is_a_door() -> None:
    assert len(text_of("README.md").splitlines()) <= MOST_LINES


def test_every_folder_is_named() -> None:
    named = set(re.findall(r"^\| \[`([\w.]+)`\]", text_of("README.md"), re.MULTILINE))
    if not (ROOT / ".git").exists() or not shutil.which("git"):
        pytest.skip("no git checkout to ask for its folders")
    paths = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert {path.split("/")[0] for path in paths.splitlines() if "/" in path} <= named


def test_the_readme_says_what_each_package_says_of_itself() -> None:
    assert text_of("README.md").endswith(PACKAGES + package_rows()), "python tests/test_readme.py pastes them"


PACKAGES = "| package | what is in it |\n|---|---|\n"


def package_rows() -> str:
    """A row a package of kvmodel: the first line of its docstring, in the order of imports."""
    places = [PACKAGE / name for layer in LAYERS for name in layer]
    faces = [(place / "__init__.py") if place.is_dir() else place.with_suffix(".py") for place in places]
    said = [str(ast.get_docstring(tree_of(face))).partition("\n\n")[0].replace("\n", " ") for face in faces]
    names = [(face.parent if face.name == "__init__.py" else face).relative_to(ROOT).as_posix() for face in faces]
    return "".join(f"| [`{Path(name).stem}`]({name}) | {words} |\n" for name, words in zip(names, said, strict=True))


TRUST = "## How far to trust it\n\n"


def trust_lines() -> str:
    """Three lines with figures of `evidence --json`."""
    answer = json.loads(printed("-m", "kvmodel", "evidence", "--json"))
    rows, held_out = ({row["kind"]: row for row in answer[part]} for part in ("rows", "held_out"))
    prefill, copies = rows["prefill"], rows["copy"]
    number = sum(row["n"] for row in rows.values())
    told = (
        f"Against {prefill['n']} published prefills of modern engines the median error is "
        f"{prefill['median_percent']:.1f} %, and nine in ten are within {prefill['p90_percent']:.0f} %; on a GPU that "
        f"the fit has not seen, within {held_out['prefill_other_gpu']['p90_percent']:.0f} %.",
        f"Against {copies['n']} published copies the median error is {copies['median_percent']:.1f} %, and nine in ten "
        f"are within {copies['p90_percent']:.0f} %.",
        f"All {number} measured rows, each with its source, are on the page **Evidence** and in "
        "[kvmodel/data/measured](kvmodel/data/measured). `python -m kvmodel evidence` prints the whole table.",
    )
    return "".join(textwrap.fill(line, 120, initial_indent="- ", subsequent_indent="  ") + "\n" for line in told)


def test_the_readme_trusts_itself_as_far_as_the_evidence() -> None:
    section = text_of("README.md").partition(TRUST)[2].partition("\n## ")[0]
    assert section == trust_lines(), "python tests/test_readme.py pastes the new figures"


@pytest.mark.parametrize("document", DOCUMENTS)
def test_exceptions_are_named_as_python_prints_them(document: str) -> None:
    for module, name in re.findall(r"\b(kvmodel(?:\.[a-z_]+)+)\.([A-Z]\w+)\b", text_of(document)):
        named = getattr(import_module(module), name)
        assert named.__module__ == module, f"{module}.{name}"


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


def test_every_file_that_a_recipe_names_exists() -> None:
    words = re.findall(r"`([^`\n]+)`", text_of("CONTRIBUTING.md"))
    paths = [word for word in words if re.fullmatch(r"[\w.]+(/[\w.]+)+|pages", word)]
    assert len(paths) > 40
    assert not [path for path in paths if not (ROOT / path).exists()]


def test_every_recipe_names_a_test() -> None:
    recipes_text = text_of("CONTRIBUTING.md").partition("## Data\n")[2].partition("## From a page")[0]
    recipes = re.findall(
        r"^\*\*(An? [\w ]+|Measured rows)\.\*\*(.*?)(?=^\*\*|^## |\Z)", recipes_text, re.MULTILINE | re.DOTALL
    )
    assert len(recipes) == 11
    for name, words in recipes:
        assert re.search(r"`tests/[\w/]+\.py`", words), name
        assert re.search(r"`(python|\?lang)", words), name


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


def test_the_picture_moves_and_is_small() -> None:
    image = pytest.importorskip("PIL.Image")
    place = ROOT / "docs" / "pictures" / "live_chart.webp"
    assert place.stat().st_size < 1_000_000
    with image.open(place) as picture:
        assert picture.n_frames > 20


def with_answers(block: re.Match[str]) -> str:
    """A block of shell examples with what they print now."""
    commands = [example.partition("\n")[0] for example in block[1].split("$ ")[1:]]
    answers = [f"$ {command}\n{printed(*command.split()[1:]).rstrip()}\n" for command in commands]
    return "```console\n" + "".join(answers) + "```"


def with_values(block: re.Match[str], names: dict[str, object]) -> str:
    """A block of Python examples of one line each with what they give now; others stay as they are."""
    if "\n... " in block[1] or ">>> " not in block[1]:
        exec("\n".join(line[4:] for line in block[1].splitlines() if line[:4] in (">>> ", "... ")), names)
        return block[0]
    lines = []
    for line in (line for line in block[1].splitlines() if line.startswith(">>> ")):
        lines.append(line)
        try:
            value = eval(line[4:], names)
        except SyntaxError:
            exec(line[4:], names)
        except ValueError as error:
            kind = f"{type(error).__module__}.{type(error).__qualname__}"
            lines += ["Traceback (most recent call last):", "  ...", f"{kind}: {error}"]
        else:
            lines += [line.rstrip() for line in repr(value).splitlines()]
    return "```python\n" + "\n".join(lines) + "\n```"


def between(text: str, start: str, end: str, new: str) -> str:
    before, _, rest = text.partition(start)
    return before + start + new + (end + rest.partition(end)[2] if end else "")


def paste() -> None:
    """Put what the examples print now, and what is computed, into the documents."""
    for document in DOCUMENTS:
        names: dict[str, object] = {}
        text = SHELL.sub(with_answers, text_of(document))
        if document in ("README.md", "docs/python.md"):
            text = PYTHON.sub(lambda block, names=names: with_values(block, names), text)
        if document == "README.md":
            text = between(between(text, TRUST, "\n## ", trust_lines()), PACKAGES, "", package_rows())
        (ROOT / document).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    paste()
