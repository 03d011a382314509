"""The guided path: every step opens cold, a question comes before its answer, and the URL holds the progress."""

import functools
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from streamlit.testing.v1 import AppTest

from explorer import prose
from explorer.frame import PAGES
from explorer.sections.path import AFTER, CURVES, TRACES, VIEWS
from kvmodel.catalog import prices
from kvmodel.errors import CaseError
from kvmodel.explain import guided_path
from kvmodel.inputs.case import DEFAULTS
from kvmodel.recovery.comparison import compare_case
from kvmodel.texts import guide
from tests.helpers import visit

STEPS = guided_path.steps()
IDS = [step.id for step in STEPS]
SERVER = guided_path.default_server()


opened = functools.partial(visit.opened, "path")


def said(at: AppTest) -> str:
    return "\n".join(element.value for element in at.markdown).replace("\N{NO-BREAK SPACE}", " ")


def pressed(at: AppTest, key: str) -> AppTest:
    next(button for button in at.button if key in (button.key, button.label)).click().run()
    assert not at.exception
    return at


def keys(at: AppTest) -> set[str]:
    return {str(button.key) for button in at.button}


def model_answer(number: int) -> float | str:
    step = STEPS[number - 1]
    return guided_path.answer(step, compare_case(guided_path.case_of(step, DEFAULTS)), SERVER)


def shown_answer(number: int) -> str:
    step, answer = STEPS[number - 1], model_answer(number)
    if step.options:
        return prose.label("path", f"option.{answer}")
    return guide.IN_UNIT[step.unit](float(answer))


def test_ten_steps_lead_from_a_token_to_a_remedy() -> None:
    assert 8 <= len(STEPS) <= 10
    assert (IDS[0], IDS[-1]) == ("token", "remedy")
    assert len(set(IDS)) == len(IDS)
    for step in STEPS:
        assert bool(step.unit) != bool(step.options)
        assert set(step.controls) <= set(DEFAULTS)


@pytest.mark.parametrize("number", range(1, len(STEPS) + 1))
def test_a_step_opens_cold_and_asks_before_it_answers(number: int) -> None:
    at = opened(step=str(number))
    assert not at.warning
    assert not at.info
    assert [header.value for header in at.header] == [prose.label("path", f"name.{IDS[number - 1]}")]
    assert "[[" not in said(at)
    assert not at.get("plotly_chart"), "the curve comes after the guess"
    assert f"**{shown_answer(number)}**" not in said(at)


@pytest.mark.parametrize("number", range(1, len(STEPS) + 1))
def test_skipping_reveals(number: int) -> None:
    at = pressed(opened(step=str(number)), prose.label("path", "skip"))
    assert at.query_params["answers"] == f"{IDS[number - 1]}-skip"
    assert f"**{shown_answer(number)}**" in said(at)
    has_chart = IDS[number - 1] in {"token", *CURVES, *VIEWS}
    assert bool(at.get("plotly_chart")) == has_chart
    for chart in at.get("plotly_chart"):
        assert chart.proto.alt
        assert json.loads(chart.proto.spec)["data"]


@pytest.mark.parametrize("number", [step.number for step in STEPS if step.unit])
def test_a_guess_is_set_beside_the_answer_with_the_gap(number: int) -> None:
    step, answer = STEPS[number - 1], float(model_answer(number))
    at = opened(step=str(number))
    at.number_input(key=f"guess_{step.id}").set_value(answer * 3)
    pressed(at, prose.label("path", "check"))
    assert "**3.0x too high**" in said(at)
    assert shown_answer(number) in said(at)
    pressed(at, "again")
    assert "answers" not in at.query_params or not at.query_params["answers"]
    assert not at.get("plotly_chart")


def test_checking_without_a_guess_asks_for_one() -> None:
    at = pressed(opened(), prose.label("path", "check"))
    assert [info.value for info in at.info] == [prose.text("path", "guess_missing")]
    assert "answers" not in at.query_params


@pytest.mark.parametrize(("option", "section"), [("queue", "right"), ("preemption", "wrong")])
def test_a_choice_is_right_or_wrong(option: str, section: str) -> None:
    at = pressed(opened(step="9"), f"option_{option}")
    label = prose.label("path", f"option.{option}")
    answer = prose.label("path", "option.queue")
    assert prose.text("path", section, {"guess": label, "answer": answer}) in said(at)


def test_next_and_back_move_through_all_steps_and_keep_the_answers() -> None:
    at = pressed(opened(), prose.label("path", "skip"))
    for number in range(2, len(STEPS) + 1):
        pressed(at, "next")
        assert at.query_params["step"] == str(number)
        pressed(at, prose.label("path", "skip"))
    assert at.query_params["answers"] == "_".join(f"{step_id}-skip" for step_id in IDS)
    assert "next" not in keys(at)
    assert prose.label("path", "done") in [header.value for header in at.header]
    pages = {link.proto.page for link in at.get("page_link")}
    assert {page for page in AFTER if page in PAGES} <= pages
    pressed(at, "back")
    assert at.query_params["step"] == str(len(STEPS) - 1)
    assert all(button.label.startswith("✓") for button in at.button if str(button.key).startswith("step_"))


def test_a_link_with_answers_shows_them_again() -> None:
    at = opened(step="3", answers="token-64_copy-20_pool-skip")
    assert "You said 20 ms" in said(at)
    done = [button.label for button in at.button if str(button.key).startswith("step_")]
    assert done[:4] == ["✓1", "✓2", "✓3", "4"]


def test_progress_survives_a_visit_to_another_page() -> None:
    at = pressed(opened(step="4", answers="token-64"), prose.label("path", "skip"))
    at.query_params.clear()  # as a browser does on a change of page
    at.switch_page(PAGES["crossover"]).run()
    at.query_params.clear()
    at.switch_page(PAGES["path"]).run()
    assert at.query_params["step"] == "4"
    assert at.query_params["answers"] == "token-64_prefill-skip"


def test_the_readers_model_stays_from_step_to_step() -> None:
    at = opened(model="llama-2-7b", answers="token-skip")
    assert "**512 KiB**" in said(at)
    pressed(at, "next")
    assert "Llama 2 7B" in said(at)
    assert at.query_params["model"] == "llama-2-7b"


@pytest.mark.parametrize("step", ["0", "11", "-1", "1.5", "abc", "²", "9" * 50])
def test_a_step_that_does_not_exist_gives_one_sentence_and_the_first(step: str) -> None:
    at = opened(step=step)
    (warning,) = at.warning
    assert warning.value.replace("\\", "").startswith(
        f"step: '{step[:40]}' given; allowed: a whole number from 1 to 10"
    )
    assert at.header[0].value == prose.label("path", "name.token")


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ({"answers": "foo-1"}, "answers: 'foo' is no step; allowed: token, pool"),
        ({"answers": "token-abc"}, "answers: 'abc' given for token; allowed: skip, a number from 0"),
        ({"answers": "token-inf"}, "answers: 'inf' given for token"),
        ({"answers": "matter-rain"}, "answers: 'rain' given for matter; allowed: skip, preemption, queue"),
        ({"events": "-3"}, "events: '-3' given; allowed: a number from 0"),
        ({"finished": "0"}, "finished: '0' given; allowed: a number from 1"),
        ({"wait_s": "nan"}, "wait_s: 'nan' given; allowed: a number from 0.001 to 999,999,999"),
        ({"model": "gpt-9"}, "model: unknown id 'gpt-9'; nearest"),
        ({"model": "llama-3-70b", "gpu": "l4"}, "model: llama-3-70b needs"),
    ],
)
def test_garbage_gives_one_sentence(query: dict[str, str], sentence: str) -> None:
    at = opened(**query)
    (warning,) = at.warning
    assert sentence in warning.value.replace("\\", "")


def test_the_servers_own_numbers_turn_the_answer() -> None:
    """1,000 preemptions in 100 requests, each a prefill of 0.28 s: 2.8 s of a wait of 3 s."""
    at = opened(step="9", events="1000", finished="100", wait_s="3", answers="matter-skip")
    assert prose.label("path", "option.preemption") in said(at)
    assert "95 %" in said(at)
    at.number_input(key="path_wait_s").set_value(60.0).run()
    assert at.query_params["wait_s"] == "60"
    assert prose.text("path", "learn.matter.hardly") in said(at)
    at.number_input(key="path_wait_s").set_value(10.0).run()
    assert prose.text("path", "learn.matter.in part") in said(at), "28 %"


@pytest.mark.parametrize("number", [step.number for step in STEPS if step.id in TRACES])
def test_the_arithmetic_is_one_toggle_away(number: int) -> None:
    step = STEPS[number - 1]
    at = opened(step=str(number), answers=f"{step.id}-skip")
    before = said(at)
    at.toggle(key="why").set_value(True).run()
    assert not at.exception
    assert len(said(at)) > len(before) + 100


def test_only_leaves_the_controls_it_names() -> None:
    at = opened(step="3", only="tokens")
    assert {widget.key for widget in at.number_input} == {"tokens", "guess_copy"}
    assert not at.selectbox


def test_answers_by_hand() -> None:
    """Llama 3 8B: 2 x 32 layers x 8 heads x 128 x 2 bytes = 128 KiB; of 2.15 and 0.54 GB at equal work, 4 to 1."""
    by_id = {step.id: model_answer(step.number) for step in STEPS}
    assert by_id["token"] == 128
    assert by_id["gqa"] == pytest.approx(4, rel=0.1)
    assert by_id["paper"] == pytest.approx(float(by_id["prefill"]) / float(by_id["copy"]))
    assert by_id["even"] == pytest.approx(2 * 0.536870912 / (float(by_id["prefill"]) / 1000))
    assert float(by_id["pieces"]) > float(by_id["copy"])
    assert (by_id["matter"], by_id["remedy"]) == ("queue", "utilization")


def test_remedies_that_leave_the_pool_alone_hold_no_more_requests() -> None:
    step = STEPS[-1]
    result = compare_case(guided_path.case_of(step, DEFAULTS))
    now = guided_path.requests_held(result)
    held = {remedy: guided_path.requests_held_after(remedy, result) for remedy in step.options}
    assert held["offload"] == held["requests"] == now
    assert held["fp8-kv"] == pytest.approx(2 * now, abs=1)
    assert now < held["utilization"] < held["gpus"]
    alone = compare_case(replace(result.case, tp=32))
    assert ("gpus", "hardware", "", "–") in guide.remedy_rows(step, alone), "64 GPUs do not divide 32 heads"


def test_the_order_is_that_of_a_diagnosis_without_a_simulation() -> None:
    """The rows of one file, in one order: `advice` of a vLLM under pressure has them so too (test_causes)."""
    order = guided_path.in_order(STEPS[-1].options)
    assert order == ("utilization", "requests", "fp8-kv", "gpus", "offload")
    assert [prices.effect_of(prices.advice_row(name)) for name in order] == ["helps"] * 4 + ["little"]


@given(st.floats(1e-6, 1e9), st.floats(1e-3, 1e6))
def test_a_gap_is_a_factor_of_at_least_one(guess: float, answer: float) -> None:
    which, factor = guided_path.gap(guess, answer)
    assert factor >= 1
    assert which == ("near" if factor <= guided_path.NEAR else "high" if guess > answer else "low")


def test_a_guess_of_nothing_has_no_factor() -> None:
    assert guided_path.gap(0.0, 5.0)[0] == "nothing"


def test_inputs_that_a_step_does_not_set_are_the_defaults() -> None:
    """A reader who comes with preemptions and survival of their own finds the path's questions as they are meant."""
    case = guided_path.case_of(STEPS[3], DEFAULTS | {"preemptions": 3, "survival": 0.9, "tokens": 1000})
    assert (case.preemptions, case.survival, case.tokens) == (1, 0.0, 1000)


def test_every_word_for_a_price_and_an_option_exists() -> None:
    for step in STEPS:
        for option in step.options:
            assert prose.label("path", f"option.{option}")
    for remedy in STEPS[-1].options:
        assert prose.label("path", f"price.{guided_path.price_of(remedy)}")
    with pytest.raises(CaseError, match="no step"):
        guided_path.guess_of("", "1")
