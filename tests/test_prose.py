"""Prose files: every section that is used exists, every placeholder is one the model fills."""

import ast
import re
from pathlib import Path

import pytest

from explorer import prose
from explorer.frame import PAGES
from kvmodel import catalog
from kvmodel.diagnosis import queues
from kvmodel.inputs.case import DEFAULTS

ROOT = Path(__file__).resolve().parents[1]
FILES = sorted(path.stem for path in (ROOT / "assets" / "prose" / "en").glob("*.md"))


@pytest.mark.parametrize("file", FILES)
def test_a_section_is_not_empty_and_not_twice(file: str) -> None:
    raw = (prose.ROOT / "en" / f"{file}.md").read_text(encoding="utf-8")
    titles = prose.SECTION.findall(raw)
    assert len(titles) == len(set(titles)) > 0
    assert all(prose.sections(file).values())


def test_every_page_has_a_name_and_a_title() -> None:
    for page in PAGES:
        assert prose.label("nav", page)
        assert prose.label(page, "title")


def test_every_input_has_a_label_and_a_help_text() -> None:
    for field in DEFAULTS:
        assert prose.label("controls", field)
        assert prose.detail("controls", field)


@pytest.mark.parametrize("cause", [text for name, text in vars(queues).items() if name.isupper()])
def test_every_cause_of_a_queue_has_a_name_and_something_to_do(cause: str) -> None:
    assert prose.label("diagnose", f"verdict.queueing for {cause}")
    assert any(f"queueing for {cause}" in row["verdicts"] for row in catalog.table("advice")["remedy"])


def test_a_missing_number_raises_instead_of_showing_a_placeholder() -> None:
    with pytest.raises(KeyError):
        prose.text("home", "lead", {"tokens": "1"})


def test_every_section_is_used() -> None:
    """A section nobody shows is prose that nobody checks."""
    files = [
        path
        for folder in (".", "pages", "explorer")
        for path in (ROOT / folder).glob("**/*.py" if folder == "explorer" else "*.py")
    ]
    nodes = [node for path in files for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    literals = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    starts = tuple(literal for literal in literals if literal.endswith((".", "_")) and len(literal) > 3)
    names = literals | set(DEFAULTS) | set(PAGES)
    unused = [
        f"{file}.{section}"
        for file in FILES
        for section in prose.sections(file)
        if section not in names and not section.startswith(starts) and not re.match(r"tab_|article_|tokens", section)
    ]
    assert unused == []


def test_no_sentence_stands_in_python() -> None:
    """No string of six words or more in pages or explorer but docstrings: texts belong into assets/prose."""
    found = []
    for path in [ROOT / "app.py", *(ROOT / "pages").glob("*.py"), *(ROOT / "explorer").rglob("*.py")]:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        docstrings = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node)
        }
        found += [
            f"{path.name}:{node.lineno}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in docstrings
            and len(node.value.split()) >= 6
        ]
    assert found == []
