"""The ledger as a whole: the same ids everywhere, every number used, every link good, docs/claims.md up to date."""

import ast
import json
import re
from pathlib import Path

import pytest

from docs.claims_page import markdown
from kvmodel import catalog
from kvmodel.claims import ledger
from kvmodel.claims.numbers import texts
from kvmodel.cli import command_line
from kvmodel.errors import CatalogError
from kvmodel.inputs.case import case_from

ROOT = Path(__file__).resolve().parents[2]
IDS = ledger.claim_ids()


def test_the_ids_are_those_of_the_article_and_the_paper():
    """In order and without a gap: those of the article, then those of the paper."""
    article = [f"A{number + 1:02}" for number in range(sum(name.startswith("A") for name in IDS))]
    paper = [f"P{number + 1:02}" for number in range(len(IDS) - len(article))]
    assert list(IDS) == article + paper
    assert len(article) >= 31
    assert len(paper) >= 9


def test_every_id_has_a_test_of_its_own():
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in Path(__file__).parent.glob("test_claims_*.py")]
    names = [node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    tested = [found.group(1).upper() for name in names if (found := re.match(r"test_([ap]\d\d)_", name))]
    assert sorted(tested) == sorted(IDS)


def test_every_id_has_its_numbers():
    assert tuple(ledger.NUMBERS) == IDS


def test_docs_claims_has_the_same_ids_and_is_up_to_date():
    """If this fails: python -m docs.claims_page > docs/claims.md, then read what has changed."""
    written = (ROOT / "docs" / "claims.md").read_text(encoding="utf-8")
    assert re.findall(r"^### ([AP]\d\d): ", written, re.MULTILINE) == list(IDS)
    assert written == markdown()


@pytest.mark.parametrize("claim_id", IDS)
def test_a_row_is_complete(claim_id):
    entry = ledger.claim(claim_id)
    assert entry.verdict in ledger.VERDICTS
    assert entry.by in ledger.SPEAKERS
    assert (entry.by == "article") == claim_id.startswith("A")
    assert all(getattr(entry, name).strip() for name in ledger.TEXTS)
    assert not ledger.PLACEHOLDER.search(entry.says), "what is said is said, not computed"
    cited = [catalog.source(each.source) for each in entry.sources]
    assert cited
    if entry.by == "vllm-paper":
        assert any("section" in str(each.where) or "figure" in str(each.where) for each in entry.sources)


@pytest.mark.parametrize("claim_id", IDS)
def test_every_number_is_finite_and_stands_in_a_text(claim_id):
    entry = ledger.claim(claim_id)
    shown = texts(entry.numbers, entry.digits)
    used = set(ledger.PLACEHOLDER.findall(entry.ours + entry.condition))
    assert used, "a verdict without a number"
    assert used <= set(shown)
    assert all(shown[name] not in ("", "–") for name in used)


@pytest.mark.parametrize("claim_id", IDS)
def test_a_link_opens_the_case_of_the_claim(claim_id):
    """All inputs that differ from the defaults, and at least one: a bare page keeps the reader's own."""
    entry = ledger.claim(claim_id)
    inputs = {field: value for field, value in entry.query.items() if field != "view"}
    assert inputs
    assert case_from(inputs) == entry.case


def test_json_of_the_command(capsys):
    assert command_line.main(["claims", "--json"]) == 0
    answered = json.loads(capsys.readouterr().out)["claims"]
    assert [entry["id"] for entry in answered] == list(IDS)
    for entry in answered:
        assert {"id", "verdict", "says", "ours", "condition", "sources", "link", "by", "numbers"} <= set(entry)
        assert "[[" not in entry["ours"] + entry["condition"]
        assert entry["link"].startswith("/")
        assert all(cited["id"] and cited["text"] for cited in entry["sources"])


def test_text_of_the_command(capsys):
    assert command_line.main(["claims"]) == 0
    out = capsys.readouterr().out
    assert re.findall(r"^([AP]\d\d)  ", out, re.MULTILINE) == list(IDS)
    assert max(map(len, out.splitlines())) < 400  # links are not broken
    assert "131,072 B a token" in out


def test_an_unknown_id_is_refused_in_a_sentence():
    with pytest.raises(CatalogError, match=r"^claim: unknown id 'Z99'; allowed: A01, "):
        ledger.claim("Z99")


def test_a_number_that_is_missing_raises():
    with pytest.raises(KeyError):
        ledger.with_numbers("[[nothing_s]]", {})


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("swap_s", 0.0433, "43 ms"), ("copy_bytes_per_s", 12.3e9, "12 GB/s"),
        ("kv_bytes_per_token", 131072, "131,072 B"),
        ("pool_bytes", 4 * 2**30, "4.00 GiB"), ("lost_share", 0.0624, "6.2 %"), ("over_ratio", 5.62, "5.6x"),
        ("ridge_flop_per_byte", 153.02, "153 FLOP/byte"), ("equal_about_tokens", 53248, "53,000"),
        ("copies", 32768, "32,768"),
        ("script_factor", 0.9, "0.9"), ("article_printed_s", 0.034, "34 ms"), ("gone", "0.11.0", "0.11.0"),
        ("even_bytes", None, "–"),
    ],
)  # fmt: skip
def test_a_number_is_written_with_the_unit_its_name_ends_in(name, value, text):
    assert texts({name: value}) == {name: text}
