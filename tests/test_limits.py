"""Limits: what each kind takes, what it refuses, and the sentence in which it does."""

import math

import pytest

from kvmodel import words
from kvmodel.errors import CaseError, bad_value
from kvmodel.limits import number, one_of, switch, text, whole, written


def refusal(limits, value, **how):
    with pytest.raises(CaseError) as refused:
        limits.read("field", value, **how)
    return str(refused.value)


def halved(given):
    return float(given) / 2


@pytest.mark.parametrize(
    ("limits", "value", "read"),
    [
        (whole(1, 64), "8", 8), (whole(1, 64), " 8 ", 8), (whole(1, 64), 8.0, 8),
        (whole(0, 2**63 - 1), 2**63 - 1, 2**63 - 1),
        (number(0, 1), "0.5", 0.5), (number(0, 1), 1, 1.0), (number(1e-6, 1), "1e-6", 1e-6),
        (one_of("near", "far"), "far", "far"), (switch(), "yes", True), (switch(), "0", False), (switch(), True, True),
        (text("a path"), "\udcff.csv", "\udcff.csv"), (written(halved, "a number"), "3", 1.5),
    ],
)  # fmt: skip
def test_what_is_taken(limits, value, read):
    got = limits.read("field", value)
    assert got == read
    assert type(got) is type(read)


@pytest.mark.parametrize(
    ("limits", "value", "sentence"),
    [
        (whole(1, 65_535), "0", "'0' given; allowed: a whole number from 1 to 65,535"),
        (whole(1, 64), "1.5", "'1.5' given; allowed: a whole number from 1 to 64"),
        (whole(1, 64), True, "'True' given; allowed: a whole number from 1 to 64"),
        (whole(1, 64), None, "'None' given; allowed: a whole number from 1 to 64"),
        (whole(1, 64), "9" * 5000, f"'{'9' * 40}' given; allowed: a whole number from 1 to 64"),
        (number(0.001, 10_000), "nan", "'nan' given; allowed: a number from 0.001 to 10,000"),
        (number(0, 1), math.inf, "'inf' given; allowed: a number from 0 to 1"),
        (number(0, 1, "a share from {least} to {greatest}"), 2, "'2' given; allowed: a share from 0 to 1"),
        (one_of("near", "far"), ["near"], "\"['near']\" given; allowed: near, far"),
        (switch(), "maybe", "'maybe' given; allowed: true or false"),
        (text("an id, such as {example}", "l4"), 4, "'4' given; allowed: an id, such as l4"),
        (written(halved, "a number"), "x", "'x' given; allowed: a number"),
    ],
)
def test_what_is_refused(limits, value, sentence):
    assert refusal(limits, value) == f"field: {sentence}"


@pytest.mark.parametrize(
    ("limits", "value"), [(whole(1, 64), "8"), (whole(1, 64), 8.0), (number(0, 1), "0"), (switch(), 1)]
)
def test_a_file_of_types_gives_no_text_in_place_of_a_number(limits, value):
    assert refusal(limits, value, strict=True, shown=repr) == f"field: {value!r} given; allowed: {limits.allowed}"


@pytest.mark.parametrize(("given", "shown"), [(0, "0"), (2_000_001, "2,000,001"), (math.nan, "nan")])
def test_a_number_of_the_program_is_shown_as_a_number(given, shown):
    whole(1, 2_000_000).require("requests", 2_000_000)
    with pytest.raises(CaseError) as refused:
        whole(1, 2_000_000).require("requests", given)
    assert str(refused.value) == f"requests: {shown} given; allowed: 1 to 2,000,000"


def test_a_number_that_python_cannot_print_is_described():
    assert refusal(whole(1, 2), 10**5000).startswith("field: 'a number of thousands of digits' given; allowed: ")


def test_ends_are_of_the_type_of_the_numbers():
    assert [type(end) for end in (*whole(1, 2).ends, *number(1, 2).ends)] == [int, int, float, float]


def test_a_refusal_is_said_in_the_language_that_is_spoken():
    words.speak({"{field}: {given} given; allowed: {allowed}": "{field}: {allowed}!", "true or false": "ja"})
    try:
        assert refusal(switch(), "x") == "field: ja!"
    finally:
        words.speak({})
    assert str(bad_value("field", "x", "y")) == "field: 'x' given; allowed: y"
