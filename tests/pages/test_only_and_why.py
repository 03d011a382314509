"""Links that hide controls (`?only=`), and the arithmetic behind a toggle, on every page that prices a Case."""

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from explorer.controls import MAIN
from explorer.frame import PAGES
from kvmodel.inputs.case import DEFAULTS
from tests.helpers.visit import inputs, opened

ROOT = Path(__file__).resolve().parents[2]
PRICED = ("home", "kv_size", "roofline", "crossover", "scenarios", "evidence")
WITH_TOGGLE = tuple(page for page in PRICED if page != "kv_size")  # there the formula is what the page is about


def controls(at: AppTest) -> set[str]:
    return {str(widget.key) for kind in (at.selectbox, at.number_input, at.slider) for widget in kind} & set(DEFAULTS)


@pytest.mark.parametrize("page", PRICED)
def test_only_shows_the_named_inputs_and_keeps_the_others(page: str) -> None:
    at = opened(page, only="link, survival", tokens="10000")
    assert not at.warning
    assert controls(at) == {"link", "survival"}
    assert "more_inputs" not in {toggle.key for toggle in at.toggle}
    assert inputs(at)["tokens"] == 10000
    assert (at.query_params["only"], at.query_params["tokens"]) == ("link, survival", "10000")


@pytest.mark.parametrize("given", ["speed", "tokens,speed", "", ",", "<b>"])
def test_wrong_names_give_one_sentence_and_all_controls(given: str) -> None:
    at = opened("crossover", only=given)
    (warning,) = at.warning
    assert warning.value.replace("\\", "").startswith(f"only: '{given}' given; allowed: names of inputs")
    assert controls(at) == set(MAIN)


def test_hidden_controls_stay_hidden_on_the_next_page_until_all_are_asked_for() -> None:
    at = opened("home", only="tokens")
    at.query_params.clear()  # as a browser does on a change of page
    at.switch_page(PAGES["crossover"]).run()
    assert controls(at) == {"tokens"}
    assert at.query_params["only"] == "tokens"
    next(button for button in at.button if button.key == "all_inputs").click().run()
    assert controls(at) == set(MAIN)
    assert "only" not in at.query_params


def test_going_back_to_an_address_without_it_shows_all() -> None:
    at = opened("home", only="tokens")
    del at.query_params["only"]
    at.run()
    assert controls(at) == set(MAIN)


@pytest.mark.parametrize("page", WITH_TOGGLE)
def test_the_arithmetic_is_drawn_only_when_it_is_asked_for(page: str) -> None:
    at = opened(page)
    assert not any("kvmodel.costs" in element.value.replace("\\", "") for element in at.markdown)
    at.toggle(key="why").set_value(True).run()
    assert not at.exception
    shown = [element.value for element in at.markdown if element.value.startswith("**") and "$ =" not in element.value]
    assert any("costs" in text and "$t_" in text for text in shown)


def test_the_kv_page_shows_its_formula_at_once() -> None:
    said = "\n".join(element.value for element in opened("kv_size").markdown).replace("\N{NO-BREAK SPACE}", " ")
    assert "= 2 \\(K and V\\) × 32 layers × 8 KV heads × 128 values × 2 bytes = **131,072 bytes" in said


def test_nothing_to_recompute_is_said_in_place_of_its_arithmetic() -> None:
    at = opened("crossover", survival="1", why="true")
    assert any(element.value.startswith("Nothing is left to recompute") for element in at.markdown)
