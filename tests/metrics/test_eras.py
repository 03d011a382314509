"""Which generation of vLLM a version is, on both sides of each bound, and the range of versions in words."""

import pytest

from kvmodel.errors import CaseError
from kvmodel.metrics.era import Era, given


@pytest.mark.parametrize(
    ("version", "shown", "name"),
    [
        ("0.6.6", None, "V0"), ("0.7.3", "V1", "V0"),  # nothing but V0 below 0.8
        ("0.8.0", None, None), ("0.8.0", "V0", "V0"), ("0.10.2", "V1", "V1"),  # both: the scrape tells
        ("0.11.0", None, "V1"), ("0.11.0", "V0", "V1"), ("0.33", "V1", "V1"),
    ],
)  # fmt: skip
def test_a_version_of_vllm_is_of_a_generation(version: str, shown: str | None, name: str | None) -> None:
    era = given("vllm", version, shown)
    assert era.name == name
    assert era.versions == (version if version.count(".") == 2 else f"{version}.0")


def test_another_engine_has_no_generations() -> None:
    assert [given("sglang", version).name for version in ("0.4.0", "0.12.0")] == [None, None]
    with pytest.raises(CaseError):
        given("vllm", "new")


@pytest.mark.parametrize(
    ("era", "words"),
    [
        (Era("vllm"), "version not known"), (Era("vllm", since="0.9.0"), "0.9.0 or newer"),
        (Era("vllm", gone="0.9.0"), "before 0.9.0"), (Era("vllm", mixed=True), "several versions at once"),
        (Era("vllm", since="0.9.0", gone="0.13.0"), "0.9.0 or newer, before 0.13.0"),
    ],
)  # fmt: skip
def test_a_range_in_words(era: Era, words: str) -> None:
    assert era.versions == words
