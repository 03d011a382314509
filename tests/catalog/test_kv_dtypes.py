"""KV dtypes as engines store them: bytes of a token by hand, engines' names for them, and what is said of others."""

import pytest

from kvmodel import catalog
from kvmodel.catalog import KvLayers, kv_dtypes
from kvmodel.cli import answers
from kvmodel.diagnosis import served
from kvmodel.errors import CaseError
from kvmodel.inputs.case import BYTES_PER_VALUE, Case
from kvmodel.memory import kv_cache, printouts
from kvmodel.metrics.server_state import Engine
from kvmodel.recovery.comparison import compare

HEADS = KvLayers(kind="full", layers=32, kv_heads=8, key_dim=128, value_dim=128)  # Llama 3.1 8B
SPARSE = KvLayers(kind="mla", layers=61, kv_heads=1, key_dim=576, value_dim=0, index_dim=128)  # DeepSeek-V3.2
SHARED_INDEX = (  # GLM-5.2 with its draft layer: 79 latents, 22 of them with an index key
    KvLayers(kind="mla", layers=22, kv_heads=1, key_dim=576, value_dim=0, index_dim=128),
    KvLayers(kind="mla", layers=57, kv_heads=1, key_dim=576, value_dim=0),
)
COMPRESSED = KvLayers(  # DeepSeek-V4: an entry for four tokens
    kind="compressed", layers=1, kv_heads=1, key_dim=512, value_dim=0, tokens_per_entry=4, index_dim=128
)
WINDOW = KvLayers(kind="sliding", layers=1, kv_heads=1, key_dim=512, value_dim=0, bound_tokens=128)


def rate(layers, name, **options):
    kept = kv_dtypes.stored(tuple(layers), name, **options)
    return printouts.rank_bytes_per_token(kept.layers, bytes_per_value=kept.bytes_per_value)


@pytest.mark.parametrize(
    ("name", "head_bytes"),
    [
        ("bf16", 256 + 256), ("fp16", 512), ("fp32", 1024), ("fp8", 256), ("int8", 256),
        ("nvfp4", 2 * (128 // 2 + 128 // 16)),
        ("mxfp8", 2 * (128 + 128 // 32)),
        ("fp8_per_token_head", 2 * (128 + 4)), ("int8_per_token_head", 2 * (128 + 4)),
        ("int4_per_token_head", 2 * (64 + 4)),
    ],
)  # fmt: skip
def test_bytes_of_a_token_by_hand(name, head_bytes):
    """Values and scales of 8 heads in 32 layers; a test of vLLM 0.33's page sizes has the same numbers."""
    assert rate([HEADS], name) == 32 * 8 * head_bytes


@pytest.mark.parametrize(
    ("name", "slot"),
    [
        ("turboquant_k8v4", 128 + (64 + 4)), ("turboquant_4bit_nc", (64 + 2) + (64 + 4)),
        ("turboquant_k3v4_nc", (48 + 2) + (64 + 4)), ("turboquant_3bit_nc", (48 + 2) + (48 + 4)),
    ],
)  # fmt: skip
def test_turboquant_leaves_two_layers_at_either_end_in_16_bits(name, slot):
    assert rate([HEADS], name) == 8 * (28 * slot + 4 * 512)
    state = KvLayers(kind="state", layers=3, kv_heads=0, key_dim=0, value_dim=0, fixed_bytes=8.0)
    assert rate([HEADS, state], name) == 8 * 32 * slot, "but in a hybrid all are packed"


def test_a_slot_of_an_odd_number_of_bytes_is_padded():
    narrow = KvLayers(kind="full", layers=5, kv_heads=1, key_dim=4, value_dim=4)  # 2 + 2 and 2 + 4 bytes in 3 bits
    odd = KvLayers(kind="full", layers=5, kv_heads=1, key_dim=8, value_dim=4)  # 3 + 2 and 2 + 4
    assert rate([narrow], "turboquant_3bit_nc") == 10 + 4 * 16
    assert rate([odd], "turboquant_3bit_nc") == (5 + 6 + 1) + 4 * 24


def test_records_of_sparse_attention():
    """656 = 512 fp8 + 4 scales of 4 bytes + 64 rotated in 16 bits; an index key is 132 in every cache."""
    assert rate([SPARSE], "fp8_ds_mla") == 61 * (656 + 132) == 48_068
    assert rate(SHARED_INDEX, "fp8_ds_mla") == 79 * 656 + 22 * 132 == 54_728
    assert rate([SPARSE], "bf16") == 61 * (576 * 2 + 132)
    assert rate([SPARSE], "nvfp4_ds_mla") == 61 * (256 + 32 + 16 + 128 + 132)
    assert rate([COMPRESSED], "fp8_ds_mla") == (448 + 8 + 128 + 132) / 4
    assert rate([COMPRESSED, WINDOW], "fp8_ds_mla") == (584 + 132) / 4 + 584


def test_engines_make_a_record_of_fp8_in_a_sparse_model():
    """GLM-5.3 ran in plain fp8: 78 x 576 + 21 x 132 (a start-up log); vLLM makes fp8_ds_mla of it by default."""
    assert rate([SPARSE], "fp8") == 48_068
    assert rate([SPARSE], "fp8", plain=True) == 61 * (576 + 132)
    dense = KvLayers(kind="mla", layers=61, kv_heads=1, key_dim=576, value_dim=0)
    assert rate([dense], "fp8") == 61 * 576
    said = kv_dtypes.notes((SPARSE,), "fp8")
    assert "fp8_ds_mla" in said[0]
    assert "576 bytes" in said[0]
    assert kv_dtypes.notes((dense,), "fp8") == ()


@pytest.mark.parametrize(
    ("given", "row_id"),
    [
        ("auto", "bf16"), ("bfloat16", "bf16"), ("BF16", "bf16"), ("torch.bfloat16", "bf16"), ("float16", "fp16"),
        ("half", "fp16"), ("fp8_e4m3", "fp8"), ("fp8_e5m2", "fp8"), ("fp8_inc", "fp8"), ("nvfp4_4over6", "nvfp4"),
        ("fp4_e2m1", "nvfp4"), ("fp8_ds_mla", "fp8_ds_mla"), ("int4_per_token_head", "int4_per_token_head"),
    ],
)  # fmt: skip
def test_engines_names_are_taken(given, row_id):
    assert Case(kv_dtype=given).kv_dtype == row_id
    assert served.kv_dtype(Engine(config={"cache_dtype": given})) == row_id


@pytest.mark.parametrize("given", ["fp4", "int3", "", "float64", 8])
def test_a_dtype_that_no_engine_has_is_refused_with_the_list(given):
    with pytest.raises(CaseError, match=r"^kv_dtype: .* given; allowed: bf16, fp16, fp8, int8, fp32, fp8_ds_mla, .*"):
        Case(kv_dtype=given)


def test_every_row_is_whole():
    for name, row in kv_dtypes.kv_dtypes().items():
        assert row.engines
        assert row.speed in ("known", "unknown"), name
        assert catalog.source(row.source)["title"]
    names = [name for row in kv_dtypes.kv_dtypes().values() for name in row.names]
    assert len({*names, *kv_dtypes.kv_dtypes()}) == len(names) + len(kv_dtypes.kv_dtypes()), "one name, one row"
    assert BYTES_PER_VALUE["bf16"] == 2
    assert isinstance(BYTES_PER_VALUE["fp8"], int)


def test_an_unknown_speed_is_said_and_a_known_one_is_not():
    said = compare(kv_dtype="nvfp4")["notes"]
    assert any("how fast attention reads nvfp4 is not known" in note for note in said)
    assert compare(kv_dtype="fp8")["notes"] == compare()["notes"] == []


def test_sizes_use_what_is_stored():
    case = Case(model="llama-3.1-8b", kv_dtype="nvfp4")
    size = answers.size(case, vars(case))
    assert size["growth_bytes_per_token"] == 32 * 8 * 144
    assert answers.fields_used(case)["bytes_per_value"] == 0.5 + 1 / 16
    assert float(kv_cache.kv_bytes(case.stored.layers, 10, bytes_per_value=case.stored.bytes_per_value)) == 368_640


def test_sizes_say_what_to_know_of_the_dtype_and_nothing_of_its_speed():
    case = Case(model="llama-3.1-8b", kv_dtype="nvfp4")
    assert answers.kv_notes(case) == {}
    (note,) = answers.kv_notes(Case(kv_dtype="fp8_ds_mla"))["kv_notes"]
    assert note == "kv_dtype: no engine is known to keep layers of this kind in fp8_ds_mla"
