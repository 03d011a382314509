"""Every text exists in every language, with the same sections in the same order and the same numbers in them."""

import pytest

from explorer import prose
from explorer.language import DEFAULT, LANGUAGES
from tests.helpers.visit import opened

FILES = sorted(path.stem for path in (prose.ROOT / DEFAULT).glob("*.md"))
OTHERS = [language for language in LANGUAGES if language != DEFAULT]


@pytest.mark.parametrize("language", OTHERS)
def test_every_file_is_translated(language: str) -> None:
    assert sorted(path.stem for path in (prose.ROOT / language).glob("*.md")) == FILES


@pytest.mark.parametrize("language", OTHERS)
@pytest.mark.parametrize("file", FILES)
def test_sections_and_numbers_are_the_same(language: str, file: str) -> None:
    ours, theirs = prose.sections_in(DEFAULT, file), prose.sections_in(language, file)
    assert list(theirs) == list(ours)
    for section, words in ours.items():
        assert sorted(prose.PLACEHOLDER.findall(theirs[section])) == sorted(prose.PLACEHOLDER.findall(words)), section
        assert bool(theirs[section].splitlines()[1:]) == bool(words.splitlines()[1:]), section


def test_an_unknown_language_is_english() -> None:
    test = opened("home", lang="xx")
    assert test.title[0].value == prose.sections_in("en", "home")["title"].splitlines()[0]
