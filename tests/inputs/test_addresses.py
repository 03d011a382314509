"""Links: every input in them, today's ones held, and one sentence for what cannot be taken."""

from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvmodel import catalog
from kvmodel.errors import LONGEST_ECHO, CaseError
from kvmodel.inputs import addresses
from kvmodel.inputs.case import DEFAULTS, Case, options_of
from kvmodel.recovery.comparison import compare_case

HELD = [line for line in (Path(__file__).parents[1] / "data" / "links.txt").read_text().splitlines() if line[:1] == "/"]
PAGE_STATE = ("view",)


def inputs_of(link: str) -> list[tuple[str, str]]:
    return [(key, value) for key, value in parse_qsl(urlsplit(link).query) if key not in PAGE_STATE]


@pytest.mark.parametrize("link", HELD)
def test_todays_links_keep_their_inputs(link: str) -> None:
    """A field or an id that is gone, renamed without an alias, or refused now, breaks a link somebody has pasted."""
    written = dict(inputs_of(link))
    case = addresses.case_of(written.items())
    assert addresses.query(case).items() >= written.items()
    prices = compare_case(case).prices
    assert all(price.victim_delay_s >= 0 for name, price in prices.items() if name != "wait" or case.decode_batch)


def test_the_held_links_name_every_field_and_each_kind_of_word() -> None:
    """Numbers that a reader may leave empty included; so a new field has to be added to the file."""
    named = {key for link in HELD for key, _ in inputs_of(link)}
    assert named == {*DEFAULTS, addresses.FORMAT_KEY}


@given(
    st.fixed_dictionaries(
        {
            field: st.sampled_from(options_of(field))
            for field in DEFAULTS
            if options_of(field) and field != "host_memory"
        }
        | {"gpu": st.sampled_from(catalog.gpu_ids()), "link": st.sampled_from(("auto", *catalog.link_ids()))}
        | {"tokens": st.integers(1, 10_000_000), "survival": st.floats(0, 1), "decode_batch": st.integers(0, 10_000)}
        | {"copy_gb_per_s": st.none() | st.floats(0.001, 10_000)}
    )
)
@settings(max_examples=60, deadline=None)
def test_a_case_survives_the_way_through_a_link(chosen: dict[str, object]) -> None:
    case = Case(**chosen)
    address = addresses.page_address("https://kv.example.com/tools/kv/", "crossover", case)
    assert urlsplit(address).path == "/tools/kv/crossover"
    assert addresses.case_of(parse_qsl(urlsplit(address).query)) == case


def test_a_link_names_every_input_also_those_at_their_defaults() -> None:
    written = addresses.query(Case())
    assert written["v"] == "1"
    assert written["tokens"] == "4096"
    assert {*written} == {"v"} | {field for field, value in DEFAULTS.items() if value is not None}


def test_a_link_is_short_enough_to_paste() -> None:
    longest = Case(copy_gb_per_s=12.3456, per_copy_us=2.5, gemm_efficiency=0.71, request_overhead_ms=8.25)
    assert len(addresses.page_address("https://kv.example.com/kv", "crossover", longest)) < 700


@pytest.mark.parametrize(
    ("items", "sentence"),
    [
        ([("v", "2")], "v: '2' given; allowed: 1"),
        ([("tokens", "1"), ("tokens", "1")], "tokens: given twice; allowed: once"),
        ([("colour", "red")], "colour: no such input"),
        ([("x" * 5000, "1")], f"{'x' * LONGEST_ECHO}: no such input"),
        ([("tokens", "9" * 5000)], f"tokens: '{'9' * LONGEST_ECHO}' given"),
    ],
)
def test_what_cannot_be_taken_gets_one_sentence(items: list[tuple[str, str]], sentence: str) -> None:
    with pytest.raises(CaseError) as refused:
        addresses.case_of(items)
    assert str(refused.value).startswith(sentence)
    assert len(str(refused.value)) < 700


@pytest.mark.parametrize("good", ["http://localhost:8501", "https://kv.example.com/kv/", "https://[::1]:8501"][:2])
def test_an_app_may_stand_below_a_path(good: str) -> None:
    assert addresses.app_address(good) == good.rstrip("/")


@pytest.mark.parametrize(
    "bad", ["javascript:alert(1)", "kv.example.com", "https://", "https://a b", "https://a/<b>", "https://a?x=1",
            "https://a/#b", 'https://a/"b', "http://[", "https://a/\n"],
)  # fmt: skip
def test_an_address_that_markup_could_act_on_is_refused(bad: str) -> None:
    with pytest.raises(CaseError, match="^app_url: "):
        addresses.app_address(bad)
