"""What kvmodel writes on the pages for running servers is Korean where the page is."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from explorer import prose
from explorer.language import words_of
from kvmodel import catalog, words
from kvmodel.catalog import prices, releases
from kvmodel.claims import ledger
from kvmodel.diagnosis import from_scrapes
from kvmodel.errors import CaseError
from kvmodel.hf import config_file
from kvmodel.inputs.case import Case, case_from
from kvmodel.metrics import samples
from kvmodel.simulation import remedy_rungs
from tests.helpers import visit

METRICS = Path(__file__).resolve().parents[1] / "data" / "metrics"
KOREAN = words_of("ko")
HANGUL = re.compile("[가-힣]")
IN_CODE = re.compile(r"`[^`]*`|\[[^\]]*\]\([^)]*\)|https?://\S+|--[\w-]+")  # code, links with their titles, flags
ENGLISH = re.compile(r"\b[a-z]{2,}(?:,? [a-z]{2,}){2,}\b")  # three words in a row
IDENTIFIERS = (
    "python -m kvmodel",  # a command
    "stop, length, abort, error, repetition",  # labels of a metric
    "max-num-seqs",
)


def shown(at: AppTest) -> Iterator[str]:
    """Every text of a page, cells of tables to sort too; not what is code."""
    for kind in ("markdown", "caption", "info", "warning", "error", "success", "subheader"):
        yield from (str(element.value) for element in getattr(at, kind))
    for table in at.dataframe:
        yield from map(str, table.value.columns)
        yield from (str(cell) for cell in table.value.to_numpy().ravel())


def english(at: AppTest) -> list[str]:
    """Texts of a page with English in them."""
    return [text for text in shown(at) if is_english(text)]


def is_english(text: str) -> bool:
    bare = IN_CODE.sub("", text.replace("\\", ""))
    for known in IDENTIFIERS:
        bare = bare.replace(known, "")
    return ENGLISH.search(bare) is not None or (" " in bare.strip() and not HANGUL.search(bare) and is_worded(bare))


def is_worded(text: str) -> bool:
    """Whether a text has words beside numbers, units and names."""
    return len(re.findall(r"(?<![\w./:-])[a-z]{4,}(?![\w./:_-])", text)) > 2


def test_english_is_found() -> None:
    assert is_english("the pool is full, so requests wait")
    assert is_english("풀: the pool is full")
    assert not is_english("풀 사용률 98 %: `vllm:num_requests_running` [a title of three words](https://x.example)")


@pytest.mark.parametrize("name", samples.SAMPLES)
def test_diagnose(name: str) -> None:
    at = visit.opened("diagnose", lang="ko", sample=name)
    assert not english(at)
    has_band = samples.SAMPLES[name].stops_s is None and samples.SAMPLES[name].num_blocks is None
    assert has_band == any(KOREAN["  the article's word for it"].strip() in text for text in shown(at))


@pytest.mark.parametrize("file", sorted(METRICS.glob("*.prom")), ids=lambda file: file.stem)
def test_an_answer_to_a_scrape(file: Path) -> None:
    words.speak(KOREAN)
    try:
        answer = from_scrapes.diagnose(file.read_text(encoding="utf-8"))
    finally:
        words.speak({})
    told = [answer["reason"], *answer["notes"], *answer.get("against", ()), answer.get("advice_rule", "판정")]
    told += [each for remedy in answer["advice"] for each in (remedy["action"], remedy["buys"]) if each]
    assert all(HANGUL.search(text) and not is_english(text) for text in told), told


def test_an_answer_follows_the_language() -> None:
    at = visit.opened("diagnose", sample="pressure")
    at.segmented_control(key="language_chosen").set_value("한국어").run()
    assert not at.exception
    assert not english(at)


def test_what_is_no_scrape() -> None:
    at = visit.opened("diagnose", lang="ko")
    at.text_area(key="scrape").set_value("<html>")
    at.button(key=f"FormSubmitter:diagnose-{prose.sections_in('ko', 'diagnose')['ask']}").click().run()
    assert HANGUL.search(at.error[0].value)
    assert not is_english(at.error[0].value)


def test_pressure_with_its_remedies() -> None:
    at = visit.opened("pressure", lang="ko", requests="50")
    at.button(key="remedies_begin").click().run()
    assert not at.exception
    assert not english(at)
    assert any(KOREAN["store the KV in 8 bits"] in text for text in shown(at))


def test_a_pool_that_is_too_small() -> None:
    at = visit.opened("pressure", lang="ko", model="llama-3-70b")
    assert HANGUL.search(at.warning[0].value)
    assert not english(at)


def test_why_a_kept_run_could_not_go_on() -> None:
    """The run is kept for all readers; each is told in the own language."""
    full = {
        "scheduler": "vllm-v0-swap",
        "host_gib": "0.2",
        "requests": "100",
        "requests_per_s": "10",
        "num_blocks": "1500",
    }
    assert any("swap space is full" in text for text in shown(visit.opened("pressure", **full)))
    at = visit.opened("pressure", lang="ko", **full)
    assert any("스왑 공간이 가득 찼다" in text for text in shown(at))
    assert not english(at)


def test_claims() -> None:
    at = visit.opened("claims", lang="ko")
    cited = prose.sections_in("ko", "claims")["sources"]
    texts = [text for text in shown(at) if not text.startswith(cited)]  # titles of papers and pages
    assert not [text for text in texts if is_english(text)]
    assert all(HANGUL.search(text) for text in texts if "badge" in text)


def test_capacity_with_a_log() -> None:
    at = visit.opened("capacity", lang="ko")
    texts = prose.sections_in("ko", "capacity")
    at.text_area(key="log_text").set_value(texts["log_sample_text"])
    at.button(key=f"FormSubmitter:start_log-{texts['log_explain']}").click().run()
    assert not at.exception
    assert not english(at)
    assert any("바이트" in text and "GPU 하나에서 토큰당" in text for text in shown(at))


def test_capacity_with_a_refusal() -> None:
    at = visit.opened("capacity", lang="ko")
    texts = prose.sections_in("ko", "capacity")
    at.text_area(key="log_text").set_value("ValueError: No available memory for the cache blocks. Try")
    at.button(key=f"FormSubmitter:start_log-{texts['log_explain']}").click().run()
    assert "시작하지 못했다" in at.error[0].value
    assert not at.success


def test_no_log() -> None:
    at = visit.opened("capacity", lang="ko")
    at.text_area(key="log_text").set_value("hello")
    at.button(key=f"FormSubmitter:start_log-{prose.sections_in('ko', 'capacity')['log_explain']}").click().run()
    assert HANGUL.search(at.error[0].value)


@pytest.mark.parametrize(
    "chosen",
    [{"tokens": 0}, {"model": "nothing"}, {"tp": 3}, {"policy": "x"}, {"survival": 2}, {"gpu": "x"}, {"nothing": 1}],
    ids=str,
)
def test_a_refusal(chosen: dict[str, object]) -> None:
    words.speak(KOREAN)
    try:
        with pytest.raises(CaseError, match=HANGUL):
            case_from(chosen)
    finally:
        words.speak({})


def test_a_config_that_is_refused() -> None:
    words.speak(KOREAN)
    try:
        with pytest.raises(CaseError, match=HANGUL):
            config_file.read_text('{"model_type": "llama"}')
    finally:
        words.speak({})


def test_claims_of_the_data_are_translated() -> None:
    texts = [text for entry in ledger.ledger() for text in (entry.says, entry.ours, entry.condition)]
    for text in texts:
        assert sorted(prose.PLACEHOLDER.findall(KOREAN[text])) == sorted(prose.PLACEHOLDER.findall(text))


def test_releases_of_the_data_are_translated() -> None:
    facts = [fact for row in releases.places() for fact in (row.victim, row.goes, row.resume)]
    assert {fact.text for fact in facts} <= KOREAN.keys()
    assert {entry.note for entry in releases.entries() if entry.note} <= KOREAN.keys()


def test_remedies_of_the_data_are_translated() -> None:
    rungs = {rung.action for rung in remedy_rungs.all_rungs()}
    rows = catalog.table("advice")["remedy"]
    buys = {row["buys"] for row in rows if not re.fullmatch(r"\{\w+\}", row["buys"])}
    assert rungs | {row["action"] for row in rows} | buys | {*prices.ORDER} <= KOREAN.keys()


def test_english_is_what_it_was() -> None:
    with pytest.raises(CaseError, match=r"^tokens: '0' given; allowed: a whole number from 1 to 10,000,000$"):
        Case(tokens=0)


def test_the_files_are_plain() -> None:
    for file in sorted((prose.ROOT / "ko" / "words").glob("*.toml")):
        assert all(isinstance(text, str) for text in tomllib.loads(file.read_text(encoding="utf-8")).values())
