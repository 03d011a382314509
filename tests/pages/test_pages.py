"""Every page through Streamlit's own test client, with good and garbage links."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from explorer import prose
from explorer.controls import MAIN, MORE
from explorer.frame import PAGES
from kvmodel.claims.scenarios import preset_case
from kvmodel.inputs import addresses
from kvmodel.inputs.case import DEFAULTS, Case
from tests.helpers.visit import components, inputs, opened, tables

ROOT = Path(__file__).resolve().parents[2]
WITHOUT_INPUTS = ("claims", "path", "glossary", "diagnose")  # they have Cases of their own, or none
WITH_INPUTS = [page for page in PAGES if page not in WITHOUT_INPUTS]


def texts(at: AppTest) -> str:
    return "\n".join(element.value for element in at.markdown)


def charts(at: AppTest) -> list[Any]:
    """Drawn by plotly, or by the page's own script (the live crossover)."""
    return [*at.get("plotly_chart"), *components(at, "kv_live_crossover")]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_opens_without_error_and_draws(page: str) -> None:
    at = opened(page)
    assert not at.warning
    assert "[[" not in texts(at), "a placeholder is left"
    assert "nan" not in texts(at).lower().replace("finance", "")
    for chart in at.get("plotly_chart"):
        assert chart.proto.alt, "a chart without words for a screen reader"
        assert json.loads(chart.proto.spec)["data"]
    if page in WITH_INPUTS:
        assert charts(at)


GARBAGE = {
    "no number, unknown model": {
        "tokens": ("abc", "tokens: 'abc' given; allowed"), "model": ("gpt-9", "model: unknown id 'gpt-9'; nearest"),
    },
    "negative, markup": {
        "tokens": ("-5", "tokens: '-5' given; allowed"), "gpu": ("<script>alert(1)</script>", "gpu: unknown id"),
    },
    "infinite, not a number": {
        "tokens": ("1e999", "tokens: '1e999' given; allowed"), "survival": ("nan", "survival: 'nan' given; allowed"),
    },
}  # fmt: skip


@pytest.mark.parametrize("page", WITH_INPUTS)
@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE)
def test_garbage_in_a_link_gives_sentences_and_the_default(page: str, garbage: dict[str, tuple[str, str]]) -> None:
    at = opened(page, **{name: given for name, (given, _) in garbage.items()})
    warnings = [warning.value.replace("\\", "") for warning in at.warning]
    for _, sentence in garbage.values():
        assert any(sentence in warning for warning in warnings), warnings
    assert charts(at), "the page still answers, with the default"


@pytest.mark.parametrize("page", PAGES)
def test_foreign_parameters_do_no_harm(page: str) -> None:
    at = opened(page, utm_source="mail", x="1" * 5000)
    assert not at.exception
    assert not at.warning


@pytest.mark.parametrize("page", [page for page in WITH_INPUTS if page != "capacity"])  # it says by how much
def test_a_model_that_does_not_fit_says_so_instead_of_a_number(page: str) -> None:
    at = opened(page, model="llama-3-70b", gpu="l4")
    assert not at.exception
    assert [warning.value.split("\\:")[0] for warning in at.warning] == ["model"]
    assert not charts(at)


def test_a_batch_that_does_not_fit_is_named_and_its_prices_left_out() -> None:
    at = opened("home", model="llama-2-7b", gpu="a10g")
    assert [info.value.split("\\:")[0] for info in at.info] == [r"decode\_batch"]
    prices = tables(at)[0]
    assert prices.set_index("strategy").loc["recompute", "GPU time of others"] == "–"


def test_the_home_page_answers_the_default_question() -> None:
    said = texts(opened("home"))
    assert "512 MiB" in said
    assert "both" in said
    assert "Copy rate 3.8 GB/s" in said


@pytest.mark.parametrize("page", WITH_INPUTS)
def test_inputs_of_a_link_reach_every_page(page: str) -> None:
    at = opened(page, model="llama-2-7b", gpu="h100-sxm5-80gb", tokens="10000", block_tokens="32", timing="kernels")
    assert not at.exception
    assert not at.warning
    held = {field: inputs(at)[field] for field in ("model", "gpu", "tokens", "block_tokens", "timing")}
    assert held == {
        "model": "llama-2-7b", "gpu": "h100-sxm5-80gb", "tokens": 10000, "block_tokens": 32, "timing": "kernels",
    }  # fmt: skip


def test_every_input_of_a_case_has_a_control() -> None:
    assert sorted((*MAIN, *MORE)) == sorted(DEFAULTS)


def test_a_case_survives_the_way_through_a_link() -> None:
    case = preset_case("figure19", Case())
    at = opened("crossover", **addresses.inputs(case))
    assert not at.warning
    assert {field: inputs(at)[field] for field in addresses.inputs(case)} == {
        field: value for field, value in asdict(case).items() if value is not None
    }


@pytest.mark.parametrize("view", ["length", "block-size", "copy-rate", "winner-map", "preemptions", "figure19"])
def test_every_view_of_crossover_opens_from_its_link(view: str) -> None:
    at = opened("crossover", view=view)
    assert not at.exception
    assert at.session_state["view"] == view
    assert len(charts(at)) == 2


@pytest.mark.parametrize("name", ["figure19", "article", "today"])
def test_a_preset_puts_its_case_into_the_controls(name: str) -> None:
    at = opened("crossover")
    labels = {
        "figure19": "Figure 19 of the vLLM paper",
        "article": "The article's assumptions",
        "today": "Today's engine",
    }
    next(button for button in at.button if button.label == labels[name]).click().run()
    assert not at.exception
    wanted = asdict(preset_case(name, Case()))
    assert {field: inputs(at)[field] for field in wanted} == wanted


def test_changing_an_input_changes_the_answer() -> None:
    at = opened("crossover", view="preemptions")
    at.selectbox(key="model").select("llama-2-7b").run()
    assert "**Swap is" in texts(at)
    assert "2.00 GiB" in texts(at)
    at.selectbox(key="link").select("pcie3-x8").run()
    assert "too close to call" in texts(at).lower() or "**Recompute is" in texts(at)


def test_scenarios_shows_every_row_with_the_articles_word() -> None:
    said = texts(opened("scenarios"))
    assert said.count("The article says") == 4
    assert said.count("**The model differs.**") == 3


def test_the_article_table_is_shown_as_printed() -> None:
    printed = tables(opened("kv_size"))[2]
    assert printed["at 30 GB/s, as printed"].tolist() == [f"{ms}\u00a0ms" for ms in (2, 4, 9, 17, 34)]
    assert printed["at 15 GB/s, as printed"].tolist() == [f"{ms}\u00a0ms" for ms in (4, 9, 17, 34, 68)]
    assert printed["size"].tolist() == [f"{size}\u00a0MiB" for size in ("64.0", "128", "256", "512")] + [
        "1.00\u00a0GiB"
    ]


def test_an_engine_without_swap_is_answered_for_what_it_has() -> None:
    said = texts(opened("crossover", view="preemptions", policy="vllm-v1"))
    assert said.index("it has nothing but **recompute**") < said.index("This engine has no swap; if it had one:")


def test_a_preset_keeps_the_readers_model_and_gpu() -> None:
    at = opened("crossover", model="llama-3.1-8b", gpu="l40s")
    label = prose.label("crossover", "preset.today")
    next(button for button in at.button if button.label == label).click().run()
    assert (inputs(at)["model"], inputs(at)["gpu"]) == ("llama-3.1-8b", "l40s")
    assert inputs(at)["policy"] == "vllm-v1-offload"
