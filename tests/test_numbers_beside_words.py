"""Which number stands beside which word, in every sentence of two numbers or more and its Korean.

`data/numbers_beside_words.toml` holds the words around each number in both languages, as a reader of both has found
them to belong together. Where a text is changed, read the two side by side and write its lines anew:

    python -m tests.test_numbers_beside_words
"""

import itertools
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from explorer import language, prose
from explorer.language import words_of

REVIEWED = Path(__file__).parent / "data" / "numbers_beside_words.toml"
NUMBER = re.compile(r"\[\[(\w+)\]\]|%?\{([\w]+)[^{}]*\}")
MARKUP = re.compile(r"\*\*|`|<[^>]*>|(?<!\[)\[(?!\[)|(?<!\])\](?!\])(?:\([^)]*\))?")
WORDS = {"en": 2, "ko": 2}  # on each side
BEGIN, END = "^", "$"


def sentences() -> Iterator[tuple[str, str, str]]:
    """Id, English and Korean of every text with two different numbers or more."""
    for path in sorted((prose.ROOT / "en").glob("*.md")):
        english, korean = (prose.sections_in(code, path.stem) for code in ("en", "ko"))
        for section, text in english.items():
            yield f"{path.stem} {section}", text, korean[section]
    for text, korean_text in words_of("ko").items():
        yield text, text, korean_text


def several() -> dict[str, tuple[str, str]]:
    return {name: (one, two) for name, one, two in sentences() if len({*names(one)}) > 1}


def names(text: str) -> list[str]:
    return [match[1] or match[2] for match in NUMBER.finditer(text)]


def around(text: str, words: int) -> list[str]:
    """For each number, in order, its name and the words on both sides, not across another number."""
    plain = MARKUP.sub("", text)
    pieces = NUMBER.split(plain)[::3]
    found = []
    for place, name in enumerate(names(plain)):
        before, after = pieces[place].split(), pieces[place + 1].split(" ")
        left = " ".join(before[-words:]) or BEGIN
        right = " ".join(" ".join(after).split()[:words]) or END
        glued = "" if pieces[place + 1][:1].isspace() else "+"  # a particle or a unit that is written together
        found.append(f"{name}: {left} _{glued} {right}")
    return found


def lines(english: str, korean: str) -> list[str]:
    """What is kept of a sentence: each number with its words in both languages, in the order of the Korean."""
    said = dict(each.split(": ", 1) for each in around(english, WORDS["en"]))
    return [f"{name}: {said[name]} = {here}" for name, here in (
        each.split(": ", 1) for each in around(korean, WORDS["ko"]))]  # fmt: skip


def swapped(text: str, one: str, two: str) -> str:
    """The text with two of its numbers in each other's place."""
    other = {one: two, two: one}

    def put(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        return match[0].replace(name, other.get(name, name), 1)

    return NUMBER.sub(put, text)


@pytest.fixture(scope="module")
def reviewed() -> dict[str, list[str]]:
    return tomllib.loads(REVIEWED.read_text(encoding="utf-8"))


def test_every_number_stands_beside_its_word(reviewed: dict[str, list[str]]) -> None:
    found = {name: lines(*texts) for name, texts in several().items()}
    assert found.keys() == reviewed.keys(), "a sentence that nobody has read in both languages"
    assert {name: kept for name, kept in found.items() if kept != reviewed[name]} == {}


def test_both_languages_have_the_same_numbers() -> None:
    assert {name: texts for name, *texts in sentences() if {*names(texts[0])} != {*names(texts[1])}} == {}


def test_two_numbers_in_each_others_place_are_noticed(reviewed: dict[str, list[str]]) -> None:
    tried, missed = 0, []
    for name, (english, korean) in several().items():
        for one, two in itertools.combinations(dict.fromkeys(names(korean)), 2):
            tried += 1
            if lines(english, swapped(korean, one, two)) == reviewed[name]:
                missed.append((name, one, two))
    assert missed == []
    assert tried > 500


def test_there_is_no_third_language_without_such_a_list() -> None:
    assert set(language.LANGUAGES) == set(WORDS)


if __name__ == "__main__":
    REVIEWED.write_text(
        "# Each number with the words around it, English = Korean; see test_numbers_beside_words.py.\n"
        + "".join(
            f"{json.dumps(name, ensure_ascii=False)} = {json.dumps(lines(*texts), ensure_ascii=False)}\n"
            for name, texts in several().items()
        ),
        encoding="utf-8",
    )
