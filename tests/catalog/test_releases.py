"""The table of releases: what exists when, defaults, and where a preempted request's KV goes."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvmodel import catalog
from kvmodel.catalog import releases
from kvmodel.errors import CaseError


@pytest.mark.parametrize(
    ("name", "version", "there"),
    [
        ("--preemption-mode", "0.4.3", False),
        ("--preemption-mode", "0.5.0", True),
        ("--preemption-mode", "0.10.2", True),
        ("--preemption-mode", "0.11.0", False),
        ("--preemption-mode", "0.33.0", False),
        ("--swap-space", "0.17.1", True),
        ("--swap-space", "0.18.0", False),
        ("--kv-offloading-size", "0.11.0", False),
        ("--kv-offloading-size", "0.12.0", True),
        ("--watermark", "0.23.0", False),
        ("--watermark", "0.24.0", True),
        ("--gpu-memory-utilization", "0.19.1", True),
        ("--gpu-memory-utilization", "0.33.0", True),
        ("vllm:num_requests_swapped", "0.9.2", False),
        ("vllm:gpu_cache_usage_perc", "0.12.0", True),
        ("vllm:gpu_cache_usage_perc", "0.13.0", False),
        ("vllm:kv_cache_usage_perc", "0.33.0", True),
        ("vllm:request_num_preemptions", "0.29.0", False),
        ("vllm:request_num_preemptions", "0.30.0", True),
        ("vllm:time_per_output_token_seconds", "0.17.1", False),
        ("vllm:num_requests_waiting_by_reason", "0.19.0", False),
        ("vllm:num_requests_waiting_by_reason", "0.20.0", True),
        ("--max-num-active-seqs", "0.30.0", False),
        ("--max-num-active-seqs", "0.31.0", True),
        ("--max-num-queued-reqs", "0.28.0", False),
        ("--max-num-queued-tokens", "0.29.0", True),
        ("--max-num-partial-prefills", "0.26.0", True),
        ("--max-num-partial-prefills", "0.28.0", False),
        ("TieringOffloadingSpec", "0.21.0", False),
        ("TieringOffloadingSpec", "0.22.0", True),
        ("vllm:admission_rejections_total", "0.31.0", False),
        ("vllm:admission_rejections_total", "0.33.0", True),
        ("vllm:prompt_tokens_by_source_total", "0.15.1", False),
        ("vllm:prompt_tokens_by_source_total", "0.16.0", True),
        ("vllm:kv_offload_load_bytes_total", "0.23.0", False),
        ("vllm:kv_offload_load_bytes_total", "0.24.0", True),
    ],
)
def test_what_exists_in_a_version_of_vllm(name, version, there):
    assert releases.exists(name, "vllm", version) is there


@pytest.mark.parametrize(
    ("version", "numbers"),
    [
        ("0.11.0", (0, 11)), ("0.11", (0, 11)), ("v0.11.0", (0, 11)), ("0.11.0rc2", (0, 11)), (" 0.33.0 ", (0, 33)),
        ("0.11.1.dev5+g12ab34c", (0, 11, 1)), ("0.8.5.post1", (0, 8, 5)), ("1.4.0rc4", (1, 4)), ("0.10.2", (0, 10, 2)),
    ],
)  # fmt: skip
def test_a_version_as_numbers(version, numbers):
    assert releases.release(version) == numbers


@given(*[st.lists(st.integers(0, 40), min_size=1, max_size=3)] * 2)
def test_versions_compare_as_numbers(first, second):
    """0.9 is before 0.10, and trailing zeros do not count."""
    one, other = (releases.release(".".join(map(str, numbers))) for numbers in (first, second))
    padded = [numbers + [0] * (3 - len(numbers)) for numbers in (first, second)]
    assert (one < other) == (padded[0] < padded[1])
    assert (one == other) == (padded[0] == padded[1])


def test_defaults_change_with_the_version():
    assert releases.default("--gpu-memory-utilization", "vllm", "0.19.1") == "0.90"
    assert releases.default("--gpu-memory-utilization", "vllm", "0.20.0") == "0.92"
    assert releases.default("--watermark", "vllm", "0.20.0") is None
    assert releases.default("--async-scheduling", "vllm", "0.13.0") == "off"
    assert releases.default("--async-scheduling", "vllm", "0.14.0") == "on"


def test_a_thing_that_was_only_seen_is_not_promised_for_earlier_versions():
    assert releases.exists("--max-num-seqs", "vllm", "0.33.0")
    assert not releases.exists("--max-num-seqs", "vllm", "0.32.0")


@pytest.mark.parametrize(
    ("name", "engine", "version", "sentence"),
    [
        ("--no-such-flag", "vllm", "0.33.0", "name: '--no-such-flag' of 'vllm' given"),
        ("--watermark", "tgi", "1.0", "name: '--watermark' of 'tgi' given"),
        ("--watermark", "vllm", "latest", "version: 'latest' given; allowed: numbers with dots"),
        ("--watermark", "vllm", "", "version: '' given"),
    ],
)
def test_bad_questions_get_one_sentence(name, engine, version, sentence):
    with pytest.raises(CaseError, match=f"^{sentence}"):
        releases.exists(name, engine, version)


@pytest.mark.parametrize("entry", releases.entries(), ids=lambda entry: entry.name)
def test_a_row_is_complete(entry):
    assert (entry.since is None) != (entry.seen is None), "either since when, or where it was seen"
    begins = entry.since or entry.seen
    assert entry.covers(begins)
    if entry.gone:
        assert releases.release(begins) < releases.release(entry.gone)
        assert not entry.covers(entry.gone)
    assert catalog.source(entry.source)


def test_periods_of_a_name_do_not_overlap():
    for entry in releases.entries():
        periods = releases.periods(entry.name, entry.engine)
        for before, after in itertools.pairwise(periods):
            assert before.gone == (after.since or after.seen)


def test_every_engine_has_its_place():
    """V0, V1, V1 with offloading, SGLang, TensorRT-LLM, LMCache and vllm-ascend."""
    labels = " ".join(place.label for place in releases.places())
    for engine in ("vLLM V0", "vLLM V1", "V1 with offloading", "SGLang", "TensorRT-LLM", "LMCache", "vllm-ascend"):
        assert engine in labels
    for place in releases.places():
        assert place.keeps in ("dropped", "gpu", "host", "none")
        for fact in (place.victim, place.goes, place.resume):
            assert fact.text
            assert any(character.isdigit() for character in fact.version)
            assert catalog.source(fact.source)
