"""Logs of servers that keep KV in records, or states in 16 bits or 32: both are told by the log's own figures."""

from pathlib import Path

import pytest

from kvmodel.hf import config_file
from kvmodel.inputs.case import Case
from kvmodel.startup_log import log_answer

FIELD = Path(__file__).parent / "field"
GDN = (FIELD / "12-gdn-16-bit-state.log").read_text(encoding="utf-8")
DSA = (FIELD / "20-fp8-ds-mla.log").read_text(encoding="utf-8")
FULL = (("1072", "2096"), ("90,048", "90,128"), ("1.66x", "1.63x"))  # of the same pool with states in fp32


def explained(text, config, **options):
    model = config_file.read_file(str(FIELD / config), **options).text
    return log_answer.explain_text(text, Case(), {"model": model})


def marks(answer):
    return {finding["figure"]: finding["agrees"] for finding in answer["findings"]}


def replaced(text, pairs):
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return text


def test_states_in_16_bits():
    """vLLM issue 26646: a page of 524,288 + 24,576 bytes, 339 blocks of 12 layers, 84 x 1,072 tokens, 339 / 204."""
    said = explained(GDN, "12-gdn-hybrid.json")
    assert said["consistent"]
    assert marks(said) == {"pool": None, "tokens": True, "block_tokens": True, "concurrency": True}
    figures = {finding["figure"]: finding["expected"] for finding in said["findings"]}
    assert figures["tokens"] == "90,048 to 90,048"
    assert (figures["block_tokens"], figures["concurrency"]) == ("1,072", "1.66x")


@pytest.mark.parametrize("state_dtype", ["auto", "fp32"])
def test_another_width_is_told_by_the_block(state_dtype):
    """173 blocks of 1,073,152 bytes: 43 x 2,096 tokens, 173 / (103 + 3)."""
    said = explained(replaced(GDN, FULL), "12-gdn-hybrid.json", state_dtype=state_dtype)
    assert said["consistent"]
    assert marks(said)["block_tokens"] is True


@pytest.mark.parametrize("changed", [("90,048", "95,408"), ("1.66x", "2.66x")])
def test_a_changed_digit_is_caught(changed):
    assert not explained(replaced(GDN, [changed]), "12-gdn-hybrid.json")["consistent"]


def test_a_figure_beside_what_the_groups_give_is_not_explained():
    said = explained(replaced(GDN, [("90,048", "90,049")]), "12-gdn-hybrid.json")
    assert marks(said)["tokens"] is None


def test_records_of_latents():
    said = explained(DSA, "20-dsa-61-layers.json")
    assert said["consistent"]
    assert marks(said) == {"pool": True, "concurrency": True}
    assert said["model_bytes_per_token"] == 61 * (656 + 132)


@pytest.mark.parametrize(
    ("dtype", "tokens", "each"),
    [("fp8", 446_720, 61 * 788), ("fp8_e4m3", 497_216, 61 * (576 + 132)), ("auto", 274_176, 61 * (1152 + 132))],
)
def test_fp8_of_a_sparse_model_is_a_record_or_plain(dtype, tokens, each):
    """The log's figures tell which: 20 GiB over so many bytes, in blocks of 64."""
    concurrency = f"{tokens / 163_840:.2f}x"
    text = replaced(DSA, [("fp8_ds_mla", dtype), ("446,720", f"{tokens:,}"), ("2.73x", concurrency)])
    said = explained(text, "20-dsa-61-layers.json")
    assert said["consistent"]
    assert said["model_bytes_per_token"] == each


def test_a_pool_of_another_dtype_is_caught():
    assert not explained(replaced(DSA, [("fp8_ds_mla", "bfloat16")]), "20-dsa-61-layers.json")["consistent"]


def test_auto_in_a_log_leaves_the_readers_word():
    """A checkpoint may ask for 8-bit KV under "auto"."""
    text = replaced(DSA, [("fp8_ds_mla", "auto")])
    model = config_file.read_file(str(FIELD / "20-dsa-61-layers.json")).text
    assert log_answer.explain_text(text, Case(kv_dtype="fp8"), {"model": model})["consistent"]
