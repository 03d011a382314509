"""Every config.json of tests/data/hf_configs against its known KV size and parameters, and 5,000 damaged variants."""

import copy
import csv
import json
import math
import random
import time
from pathlib import Path

import pytest

from kvmodel import catalog
from kvmodel.errors import CatalogError
from kvmodel.hf import config_file
from kvmodel.hf.fields import ConfigRefused
from kvmodel.memory import kv_cache

FOLDER = Path(__file__).parents[1] / "data" / "hf_configs"
INDEX = list(csv.DictReader((FOLDER / "index.csv").open(encoding="utf-8")))
KNOWN = [row for row in INDEX if row["confidence"] in ("high", "medium")]
ASKED = [row for row in INDEX if row["confidence"] == "ask"]
BF16 = {"bytes_per_value": 2}
OTHER_COUNT = {
    # The index counts the other parts of these models too, and of no other: vision, audio, audio's projections.
    "hfdef-phi4_multimodal.json": 441_550_016 + 441_254_144 + 25_178_112,
    # The index counts `Qwen2VLTextModel`, which has no head; the file's own is untied.
    "nxd-qwen2_vl-4L.json": -152_064 * 3584,
    # transformers puts a default Llama 7B, 6,738,415,616, in place of the one layer that this file has.
    "ipex-test-llava.json": 6_738_415_616 - 464_531_456,
}
VARIANTS, SECONDS_EACH = 5_000, 0.05


def read(row, **options):
    return config_file.read_file(str(FOLDER / row["file"]), **options)


def number(text):
    return float(text) if text else None


@pytest.mark.parametrize("row", KNOWN, ids=lambda row: row["file"])
def test_kv_bytes_per_token_are_exact(row):
    layers = read(row).model.kv_layers
    assert kv_cache.growth_bytes_per_token(layers, **BF16) == number(row["expected_kv_bytes_per_token_long_bf16"])
    short = number(row["kv_bytes_per_token_short_bf16"])
    if short is not None:
        one, none = (kv_cache.kv_bytes_hybrid_off(layers, tokens, **BF16) for tokens in (1, 0))
        assert one - none == short


@pytest.mark.parametrize("row", KNOWN, ids=lambda row: row["file"])
def test_windows_and_states_are_right_to_one_percent(row):
    reading = read(row)
    window, state = number(row["window_fixed_bytes_bf16"]), number(row["fixed_state_bytes_engine"])
    by_kind = {"state": 0.0, "window": 0.0}
    for group in reading.model.kv_layers:
        kind = "state" if group.kind == "state" else "window"
        by_kind[kind] += kv_cache.fixed_bytes([group], **BF16)
    if window is not None:
        assert by_kind["window"] == pytest.approx(window, rel=0.01)
    if state is not None:
        assert by_kind["state"] == pytest.approx(state, rel=0.01)
        assert reading.fixed_bytes_transformers == pytest.approx(number(row["fixed_state_bytes_hf"]), rel=0.01)


@pytest.mark.parametrize("row", ASKED, ids=lambda row: row["file"])
def test_absent_dimensions_are_asked_for_and_then_exact(row):
    with pytest.raises(ConfigRefused, match=r"not in the file; the class .* which --assume-defaults accepts$"):
        read(row)
    reading = read(row, assume_defaults=True)
    growth = kv_cache.growth_bytes_per_token(reading.model.kv_layers, **BF16)
    assert growth == number(row["expected_kv_bytes_per_token_long_bf16"])
    assert any("num_hidden_layers" in key or "num_attention_heads" in key for key in reading.assumed)


@pytest.mark.parametrize("row", [row for row in INDEX if row["confidence"] == "error"], ids=lambda row: row["file"])
def test_malformed_files_are_refused(row):
    for assume in (False, True):
        with pytest.raises(ConfigRefused):
            read(row, assume_defaults=assume)


@pytest.mark.parametrize("row", [row for row in KNOWN + ASKED if row["params_total"]], ids=lambda row: row["file"])
def test_parameters_are_exact(row):
    counted = read(row, assume_defaults=row["confidence"] == "ask").parameters
    assert counted.total == int(row["params_total"]) - OTHER_COUNT.get(row["file"], 0)
    assert counted.total == counted.layer_matrices + counted.experts * counted.expert + (
        counted.embedding + counted.head + counted.small
    )


@pytest.mark.parametrize("row", [row for row in INDEX if row["confidence"] in ("low", "none")], ids=lambda r: r["file"])
def test_unsettled_files_get_an_answer_or_one_sentence(row):
    answer_or_sentence(json.loads((FOLDER / row["file"]).read_text(encoding="utf-8")), assume=False)


VALUES = [
    None, 0, -1, 1, 2, 3, 10**30, 10**400, 10**5000, 1e308, math.inf, math.nan, "x", "", [], {}, [1, 2], {"a": 1}, True,
    False, 2.5, -5, "32", [None] * 40, 10**7, 9999, ["full_attention"] * 32, [0] * 1000, "M" * 40,
]  # fmt: skip


def keys_of(value, path=()):
    if not isinstance(value, dict):
        return []
    return [(path, key) for key in value] + [found for key in value for found in keys_of(value[key], (*path, key))]


def damaged(config, choose):
    config = copy.deepcopy(config)
    for _ in range(choose.choice([1, 1, 1, 2, 4])):
        keys = keys_of(config)
        if not keys:
            break
        path, key = choose.choice(keys)
        section = config
        for name in path:
            section = section[name]
        if choose.random() < 0.25:
            del section[key]
        else:
            section[key] = copy.deepcopy(choose.choice(VALUES))
    return config


def answer_or_sentence(config, *, assume):
    """The reading, or None where it is refused in one sentence; anything else fails the test."""
    try:
        reading = config_file.read(config, assume_defaults=assume)
    except CatalogError as error:
        sentence = str(error)
    else:
        assert catalog.model(reading.text) == reading.model
        assert kv_cache.kv_bytes(reading.model.kv_layers, 8192, **BF16) >= 0
        return reading
    assert 0 < len(sentence) < 300
    assert "\n" not in sentence
    return None


def test_damaged_files_get_an_answer_or_one_sentence(capsys):
    """Keys dropped, nulled, of a wrong type or huge. The time is shown; only a runaway, 40 times it, is a failure."""
    choose = random.Random(4)
    configs = [json.loads((FOLDER / row["file"]).read_text(encoding="utf-8")) for row in INDEX]
    config_file.read(configs[0])  # pydantic is imported with the first one
    slowest = 0.0
    for _ in range(VARIANTS):
        config = damaged(choose.choice(configs), choose)
        start = time.perf_counter()
        answer_or_sentence(config, assume=choose.random() < 0.5)
        slowest = max(slowest, time.perf_counter() - start)
    with capsys.disabled():
        print(f"\n{VARIANTS:,} damaged files, slowest {slowest * 1e3:.0f} ms (wanted: {SECONDS_EACH * 1e3:.0f})")
    assert slowest < 40 * SECONDS_EACH
