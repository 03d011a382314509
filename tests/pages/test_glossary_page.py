"""The glossary: a card a term, links to single cards, and every link in the prose leads somewhere."""

import functools
import re
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from explorer import prose
from explorer.frame import PAGES
from explorer.sections import glossary
from tests.helpers import visit

ROOT = Path(__file__).resolve().parents[2]
TERMS = glossary.terms()
LINK = re.compile(r"\]\((?!https?://)([^)\s]+)\)")


opened = functools.partial(visit.opened, "glossary")


def cards(at: AppTest) -> list[str]:
    """Names on the cards, in their order."""
    return [found[1] for found in (re.match(r"\*\*(.+?)\*\*\n\n", element.value) for element in at.markdown) if found]


def test_every_term_has_a_card_with_words_and_numbers_filled_in() -> None:
    at = opened()
    assert sorted(cards(at)) == sorted(glossary.label(term) for term in TERMS)
    assert len(TERMS) >= 25
    assert all("[[" not in element.value for element in at.markdown)
    assert all(len(element.value) > 80 for element in at.markdown)


@pytest.mark.parametrize("term", TERMS)
def test_a_link_to_a_term_puts_its_card_first(term: str) -> None:
    at = opened(term=term)
    assert not at.warning
    assert cards(at)[0] == glossary.label(term)
    assert len(cards(at)) == len(TERMS)


def test_a_term_without_a_card_gives_one_sentence_and_all_cards() -> None:
    at = opened(term="<b>flux</b>")
    (warning,) = at.warning
    assert warning.value.replace("\\", "").startswith("term: '<b>flux</b>' given; allowed: ")
    assert len(cards(at)) == len(TERMS)


def test_looking_a_term_up_shows_it_first() -> None:
    at = opened()
    at.selectbox(key="term").select("gqa").run()
    assert cards(at)[0] == "GQA"


@pytest.mark.parametrize("file", sorted(path.stem for path in (prose.ROOT / "en").glob("*.md")))
def test_links_in_the_prose_lead_to_a_page_or_a_term(file: str) -> None:
    for section, text in prose.sections(file).items():
        for target in LINK.findall(text):
            page, _, term = target.partition("?term=")
            assert page in PAGES, f"{file}.{section}: {target}"
            assert not term or (page == "glossary" and term in TERMS), f"{file}.{section}: {target}"
