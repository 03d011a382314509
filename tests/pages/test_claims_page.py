"""The Claims page: every claim a card with its verdict, filters, links, charts on demand, and the release tables."""

import functools
import json
import re
from pathlib import Path
from urllib.parse import urlencode

import pytest
from streamlit.testing.v1 import AppTest

from explorer import prose
from explorer.frame import PAGES
from explorer.sections import crossover
from explorer.sections.claims import COLOURS, chart, with_bold_numbers
from kvmodel.catalog import releases
from kvmodel.claims import ledger
from tests.helpers import visit

ROOT = Path(__file__).resolve().parents[2]
IDS = ledger.claim_ids()
CARD = re.compile(r"-badge\[([^\]]+)\] :small\[:gray\[(\w\d\d), ")


opened = functools.partial(visit.opened, "claims")


def shown(at: AppTest) -> dict[str, str]:
    """Id of every card -> its verdict."""
    found = [CARD.search(element.value) for element in at.markdown]
    return {card.group(2): card.group(1) for card in found if card}


def test_every_claim_has_a_card_with_its_verdict():
    at = opened()
    assert shown(at) == {claim_id: ledger.claim(claim_id).verdict for claim_id in IDS}
    assert not at.get("plotly_chart"), "no chart before one is asked for"
    said = "\n".join(element.value for element in at.markdown)
    assert "[[" not in said
    assert "131,072\u00a0B" in said


def test_the_filters_leave_what_they_name():
    assert set(shown(opened(verdict="dated")).values()) == {"dated"}
    paper = opened(by="vllm-paper")
    assert set(shown(paper)) == {claim_id for claim_id in IDS if claim_id.startswith("P")}
    both = shown(opened(verdict=["differs", "holds"], by="article"))
    assert set(both.values()) == {"differs", "holds"}
    assert all(claim_id.startswith("A") for claim_id in both)


def test_a_filter_goes_into_the_link():
    at = opened()
    at.pills(key="verdict").select("dated").run()
    assert at.query_params["verdict"] == "dated"
    assert set(shown(at).values()) == {"dated"}
    at.pills(key="verdict").unselect("dated").run()
    assert "verdict" not in at.query_params
    assert len(shown(at)) == len(IDS)


def test_filters_that_leave_nothing_say_so():
    at = opened(verdict="rule of thumb", by="vllm-paper")
    assert shown(at) == {}
    assert [info.value for info in at.info] == [prose.text("claims", "none")]


def test_a_link_to_one_claim_shows_it_with_its_chart():
    at = opened(claim="A10")
    assert list(shown(at)) == ["A10"]
    (drawn,) = at.get("plotly_chart")
    assert drawn.proto.alt
    assert json.loads(drawn.proto.spec)["data"]


@pytest.mark.parametrize("query", [{"claim": "Z99"}, {"verdict": "<script>"}, {"by": "nobody"}])
def test_garbage_in_a_link_shows_all_claims(query):
    assert len(shown(opened(**query))) == len(IDS)


def test_the_toggle_draws_the_chart_of_its_claim_alone():
    at = opened(verdict="holds")
    at.toggle(key="chart-A13").set_value(True).run()
    assert not at.exception
    assert len(at.get("plotly_chart")) == 1


@pytest.mark.parametrize("claim_id", IDS)
def test_a_claim_links_to_a_page_with_the_case_it_is_judged_in(claim_id):
    entry = ledger.claim(claim_id)
    links = [link.proto for link in opened(claim=claim_id).get("page_link")]
    page = "" if entry.page == "home" else entry.page
    assert any(link.page == page and link.query_string == urlencode(entry.query) for link in links)


@pytest.mark.parametrize("claim_id", [claim_id for claim_id in IDS if ledger.claim(claim_id).chart])
def test_a_chart_exists_for_every_claim_that_names_one(claim_id):
    entry = ledger.claim(claim_id)
    figure, alt = chart(entry)
    assert figure.to_dict()["data"]
    assert alt
    assert ("view" in entry.query) == (entry.page == "crossover")


def test_views_are_those_of_crossover():
    assert ledger.VIEWS == crossover.VIEWS


def test_every_verdict_has_a_colour_and_a_name():
    assert tuple(COLOURS) == ledger.VERDICTS
    assert len(set(COLOURS.values())) == len(COLOURS)
    assert all(prose.label("claims", f"verdict.{verdict}") for verdict in ledger.VERDICTS)


def test_numbers_are_bold_and_nothing_in_a_text_is_markup():
    assert with_bold_numbers("a_b [[x_s]] (n > 1)", {"x_s": "43 ms"}) == "a\\_b **43\u00a0ms** \\(n \\> 1\\)"


def test_the_release_tables_hold_every_row():
    places, flags, metrics = visit.tables(opened(claim="A24"))
    assert [label.replace("\u00a0", " ") for label in places["engine"]] == [place.label for place in releases.places()]
    names = [f"`{entry.name}`" for entry in releases.entries()]
    assert flags["name"].tolist() + metrics["name"].tolist() == names
    gone = flags.set_index("name")["gone since"]
    assert (gone["`--preemption-mode`"], gone["`--swap-space`"]) == ("0.11.0", "0.18.0")


def test_the_readers_inputs_wait_for_the_next_page():
    at = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
    at.query_params["tokens"] = "10000"
    at.run()
    at.switch_page(PAGES["claims"]).run()
    at.query_params.clear()
    at.switch_page(PAGES["crossover"]).run()
    assert visit.inputs(at)["tokens"] == 10000
