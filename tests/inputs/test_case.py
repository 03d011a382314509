"""Every field of a Case refuses what it cannot take, in one sentence that names field, value and what is allowed."""

import math
from dataclasses import FrozenInstanceError

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvmodel import catalog
from kvmodel.errors import CaseError
from kvmodel.inputs.case import DEFAULTS, Case, case_from, limits, options_of, values_text

CHECKED = settings(derandomize=True, deadline=None, max_examples=150)
IDS = ("model", "gpu", "link")
WORDS = tuple(field for field in DEFAULTS if options_of(field))
NUMBERS = tuple(field for field in DEFAULTS if field not in IDS + WORDS)
OPTIONAL = ("copy_gb_per_s", "per_copy_us", "gemm_efficiency", "request_overhead_ms")


def refusal(field, value):
    with pytest.raises(CaseError) as refused:
        case_from({field: value})
    return str(refused.value)


def case_or_sentence(choices):
    """Anything but a CaseError goes through and fails the test."""
    try:
        return case_from(choices)
    except CaseError as error:
        return str(error)


def is_one_sentence(text):
    return "\n" not in text and len(text) < 600


@pytest.mark.parametrize("field", NUMBERS)
@pytest.mark.parametrize(
    "value",
    [
        math.nan, math.inf, -math.inf, -1, -1e300, 1e300, 10**30, "abc", "", "nan", "inf", "12x", "1,000", "-1",
        [1], {}, (), b"\xff", "\x00", "x\ny", "9" * 400,
    ],
    ids=lambda value: repr(value)[:20],
)  # fmt: skip
def test_a_number_out_of_range_or_no_number(field, value):
    text = refusal(field, value)
    assert is_one_sentence(text)
    assert text.startswith(f"{field}: {str(value)[:40]!r} given; allowed: {values_text(field)}")


@pytest.mark.parametrize("field", NUMBERS)
@pytest.mark.parametrize("value", [True, False])
def test_a_truth_value_is_no_number(field, value):
    assert refusal(field, value).startswith(f"{field}: '{value}' given; allowed: ")


@pytest.mark.parametrize("field", [field for field in NUMBERS if field not in OPTIONAL])
def test_nothing_is_no_number(field):
    assert refusal(field, None).startswith(f"{field}: 'None' given; allowed: ")


@pytest.mark.parametrize("field", NUMBERS)
def test_limits_are_taken_and_what_is_beyond_them_is_not(field):
    low, high = limits(field)
    if field != "tp":  # which must divide the heads as well
        assert getattr(case_from({field: high}), field) == high
    assert getattr(case_from({field: low}), field) == low
    assert getattr(case_from({field: str(low)}), field) == low
    step = 1 if isinstance(low, int) and field not in (*OPTIONAL, "survival") else 1e-6
    for beyond in (low - step, high + step):
        assert f"allowed: {values_text(field)}" in refusal(field, beyond)


@pytest.mark.parametrize("field", [field for field in NUMBERS if field not in (*OPTIONAL, "survival")])
def test_half_a_token_is_refused(field):
    assert f"{field}: '16.5' given; allowed: a whole number from " in refusal(field, 16.5)


@pytest.mark.parametrize("field", WORDS)
@pytest.mark.parametrize(
    "value", ["", "nonsense", 0, 1, -1, True, None, math.nan, math.inf, [1], {}, "x\ny", "0" * 999]
)
def test_a_word_that_is_not_in_the_list(field, value):
    text = refusal(field, value)
    assert is_one_sentence(text)
    assert text.startswith(f"{field}: ")
    assert text.endswith(f" given; allowed: {', '.join(options_of(field))}")


@pytest.mark.parametrize("field", WORDS)
def test_every_word_of_the_list_is_taken(field):
    for option in options_of(field):
        assert getattr(case_from({field: option}), field) == option


@pytest.mark.parametrize("field", IDS)
@pytest.mark.parametrize("value", ["", "nonsense", "a100", "\x00", "x\ny", "../etc", "🙂"])
def test_an_unknown_id_names_the_nearest(field, value):
    text = refusal(field, value)
    known = {"model": catalog.model_ids, "gpu": catalog.gpu_ids, "link": catalog.link_ids}[field]()
    assert is_one_sentence(text)
    assert text.startswith(f"{field}: unknown id {value!r}; nearest: ")
    assert set(text.split("nearest: ")[1].split(", ")) <= set(known)


@pytest.mark.parametrize("field", IDS)
@pytest.mark.parametrize("value", [None, True, 0, -1, 1.5, math.nan, math.inf, 10**30, [1], {}], ids=repr)
def test_an_id_that_is_no_text(field, value):
    text = refusal(field, value)
    assert is_one_sentence(text)
    assert text.startswith(f"{field}: ")


def test_an_unknown_field_is_named_with_those_that_exist():
    text = refusal("colour", "red")
    assert text.startswith("colour: no such input; allowed: model, gpu, link, ")
    assert is_one_sentence(text)


@pytest.mark.parametrize(
    ("choices", "given_tp", "good"),
    [
        ({"model": "llama-3-8b", "tp": 3}, "3 given for 32 query and 8 KV heads", "1, 2, 4, 8, 16, 32"),
        ({"model": "opt-13b", "tp": 16}, "16 given for 40 query and 40 KV heads", "1, 2, 4, 5, 8, 10, 20, 40"),
        ({"model": "llama-3-70b", "tp": 5}, "5 given for 64 query and 8 KV heads", "1, 2, 4, 8, 16, 32, 64"),
    ],
)
def test_tensor_parallel_must_divide_the_heads(choices, given_tp, good):
    with pytest.raises(CaseError) as refused:
        case_from(choices)
    assert str(refused.value) == f"tp: {given_tp} of {choices['model']}; allowed: {good}"


def test_the_default_case_is_the_design_documents():
    case = Case()
    assert (case.model, case.gpu, case.link_id, case.rate, case.tp) == (
        "llama-3-8b", "a100-sxm4-80gb", "pcie4-x16", "measured", 1,
    )  # fmt: skip
    assert (case.tokens, case.block_tokens, case.preemptions, case.generated_tokens) == (4096, 16, 1, 1024)
    assert (case.decode_batch, case.decode_context, case.max_num_batched_tokens) == (32, 2048, 2048)
    assert (case.survival, case.objective, case.timing, case.policy) == (0, "victim-delay", "today", "ideal")


def test_ids_aliases_case_and_underscores_become_permanent_ids():
    case = case_from({"model": " LLaMA-3-8B ", "gpu": "h100-80gb", "link": " AUTO ", "objective": "gpu_time"})
    assert (case.model, case.gpu, case.link, case.objective) == ("llama-3-8b", "h100-sxm5-80gb", "auto", "gpu-time")
    assert case.link_id == "pcie5-x16"
    assert case_from({"link": "pcie3-x16"}).link_id == "pcie3-x16"


def test_a_case_does_not_change():
    with pytest.raises(FrozenInstanceError):
        Case().tokens = 1


@CHECKED
@given(st.sampled_from(sorted(DEFAULTS)), st.text(max_size=60))
def test_no_text_raises_anything_but_case_error(field, value):
    text = case_or_sentence({field: value})
    if isinstance(text, str):
        assert text.startswith(f"{field}: ")
        assert "allowed: " in text or "nearest: " in text
        assert len(text.splitlines()) == 1


@CHECKED
@given(
    st.dictionaries(st.text(max_size=12), st.text(max_size=12) | st.floats() | st.integers(), min_size=1, max_size=4)
)
def test_no_unknown_field_raises_anything_but_case_error(choices):
    unknown = {key: value for key, value in choices.items() if key not in DEFAULTS}
    if unknown:
        with pytest.raises(CaseError, match="no such input; allowed: "):
            case_from(unknown)


@CHECKED
@given(st.sampled_from(sorted(NUMBERS)), st.floats(allow_nan=True) | st.integers(-(10**40), 10**40))
def test_no_number_raises_anything_but_case_error(field, value):
    answer = case_or_sentence({field: value})
    if isinstance(answer, str):
        assert answer.startswith(f"{field}: ")
    else:
        assert limits(field)[0] <= getattr(answer, field) <= limits(field)[1]
        assert getattr(answer, field) == value
