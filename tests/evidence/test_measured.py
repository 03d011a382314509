"""Measured rows as they are read: published values, in base units, of things that the catalog knows."""

import pytest

from kvmodel import catalog
from kvmodel.errors import CaseError, CatalogError
from kvmodel.evidence import measured

STEP = {
    "id": "T1", "kind": "prefill", "source": "argonne-inference-bench", "gpu": "A100-SXM4-80GB", "model": "llama3-8b",
    "dtype": "fp16", "engine": "vLLM", "tp": "2", "batch": "16", "tokens": "1024", "context": "", "value": "250",
    "unit": "ms",
}  # fmt: skip


def test_a_step_in_base_units_with_the_catalogs_ids():
    row = measured.step(STEP)
    assert (row.gpu, row.model) == ("a100-sxm4-80gb", "llama-3-8b")
    assert (row.tp, row.batch, row.tokens, row.context) == (2, 16, 1024, 0)
    assert row.seconds == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("engine", "timing"),
    [
        ("vLLM", "today"),
        ("TensorRT-LLM", "today"),
        ("vLLM 0.24.0 kernels", "kernels"),
        ("vLLM 2023 (Splitwise profile)", "2023"),
        ("llama.cpp CUDA, ubatch 512", None),
    ],
)
def test_the_timing_of_an_engine(engine, timing):
    assert measured.step(STEP | {"engine": engine}).timing == timing


@pytest.mark.parametrize(
    ("column", "given", "message"),
    [
        ("value", "fast", r"^value: 'fast' given in row T1; allowed: a number of 0 or more$"),
        ("tokens", "1.5", r"^tokens: '1.5' given in row T1; allowed: a whole number$"),
        ("tokens", "-3", r"^tokens: '-3' given in row T1; allowed: a number of 0 or more$"),
        ("unit", "minutes", r"^unit: 'minutes' given in row T1; allowed: ms, s, us$"),
        ("gpu", "a100-sxm4-80g", r"^gpu: unknown id 'a100-sxm4-80g'; nearest: "),
    ],
)
def test_a_bad_row_is_one_sentence(column, given, message):
    with pytest.raises((CaseError, CatalogError), match=message):
        measured.step(STEP | {column: given})


def test_the_packages_rows():
    rows = [*measured.steps(), *measured.copies()]
    assert len({row.id + row.kind for row in rows}) == len(rows)
    assert all(row.seconds > 0 for row in measured.steps())
    assert all((row.bytes_per_s > 0) != (row.seconds > 0) for row in measured.copies())
    for row in rows:
        assert catalog.source(row.source)["url"].startswith("https://")
