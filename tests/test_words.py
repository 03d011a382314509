"""Every text that the code says is translated, with the same values in it, and no translation is left over."""

import ast
import string
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

from kvmodel import words

ROOT = Path(__file__).parents[1]
FILES_THAT_SAY = sorted(file for package in ("kvmodel", "explorer") for file in (ROOT / package).rglob("*.py"))
FILES = sorted((ROOT / "assets" / "prose" / "ko" / "words").glob("*.toml"))
KOREAN = {english: korean for file in FILES for english, korean in tomllib.loads(file.read_text("utf-8")).items()}


def said() -> Iterator[tuple[str, int, ast.expr]]:
    """Module, line and first argument of every call of say, and of Later, which says it afterwards."""
    for file in FILES_THAT_SAY:
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            called = isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", None))
            if called in ("say", "Later"):
                yield str(file.relative_to(ROOT)), node.lineno, node.args[0]


def literals() -> set[str]:
    return {text.value for _, _, text in said() if isinstance(text, ast.Constant)}


def constants() -> set[str]:
    """Every text in the package and its data: what `say` is given by name comes from one of them."""
    trees = (ast.parse(file.read_text("utf-8")) for file in FILES_THAT_SAY)
    data = (tomllib.loads(file.read_text("utf-8")) for file in (ROOT / "kvmodel" / "data").glob("*.toml"))
    in_code = {node.value for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    return in_code | set(texts(data))


def texts(data: object) -> Iterator[str]:
    """Every text and name in tables and lists."""
    if isinstance(data, str):
        yield data
    elif isinstance(data, dict):
        yield from texts([*data, *data.values()])
    elif isinstance(data, Iterable):
        for value in data:
            yield from texts(value)


def fields(text: str) -> list[str]:
    return sorted(name for _, name, _, _ in string.Formatter().parse(text) if name)


def test_no_text_is_put_together_before_it_is_said() -> None:
    for file, line, text in said():
        assert not isinstance(text, ast.JoinedStr | ast.BinOp), f"{file}:{line}"


def test_every_text_is_translated() -> None:
    assert not literals() - KOREAN.keys()


def test_no_translation_is_left_over() -> None:
    assert not KOREAN.keys() - constants()


def test_no_text_is_translated_twice() -> None:
    assert len(KOREAN) == sum(len(tomllib.loads(file.read_text("utf-8"))) for file in FILES)


def test_the_values_are_the_same() -> None:
    for english, korean in KOREAN.items():
        assert fields(korean) == fields(english), english


def test_a_text_is_said_in_the_language_that_is_spoken() -> None:
    words.speak({"{n} blocks": "블록 {n}개"})
    try:
        assert words.say("{n} blocks", n=3) == "블록 3개"
        assert words.say("untranslated {n}", n=3) == "untranslated 3"
    finally:
        words.speak({})
    assert words.say("{n} blocks", n=3) == "3 blocks"
