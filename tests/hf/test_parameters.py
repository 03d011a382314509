"""Weight bytes by dtype, active parameters, and the shapes that a step's time needs, from config.json."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from kvmodel import catalog
from kvmodel.catalog import weights
from kvmodel.errors import CatalogError
from kvmodel.hf import config_file
from kvmodel.memory.gpu_memory import active_intermediate_size
from kvmodel.recovery import resolve
from kvmodel.units import GIB

FOLDER = Path(__file__).parents[1] / "data" / "hf_configs"
LLAMA = json.loads((FOLDER / "Meta-Llama-3.1-8B.json").read_text(encoding="utf-8"))
LAYERS, REST = 6_979_321_856, 2 * 525_336_576 + 266_240  # matrices of the layers; embedding, head and norms


def weight_bytes(quantization, **changes):
    return config_file.read(LLAMA | changes | {"quantization_config": quantization}).model.counts.weight_bytes


@pytest.mark.parametrize(
    ("quantization", "layer_bytes"),
    [
        pytest.param(None, 2, id="bf16"),
        pytest.param({"quant_method": "fp8", "weight_block_size": [128, 128]}, 1 + 4 / 128**2, id="fp8 in blocks"),
        pytest.param({"quant_method": "gptq", "bits": 4, "group_size": 128}, 0.5 + 2 / 128, id="GPTQ"),
        pytest.param({"quant_method": "awq", "bits": 4, "group_size": 64}, 0.5 + 2 / 64, id="AWQ"),
        pytest.param({"quant_algo": "NVFP4", "group_size": 16}, 0.5 + 1 / 16, id="NVFP4"),
        pytest.param({"quant_method": "bitsandbytes", "load_in_4bit": True}, 0.5, id="bitsandbytes"),
        pytest.param({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {
            "num_bits": 8, "group_size": None}}}}, 1, id="compressed-tensors, one scale a row"),
    ],
)  # fmt: skip
def test_layers_are_quantised_and_the_rest_is_not(quantization, layer_bytes):
    assert weight_bytes(quantization) == pytest.approx(LAYERS * layer_bytes + REST * 2, rel=1e-6)


def test_what_a_file_excludes_stays_in_16_bits():
    attention = 32 * (2 * 4096 * 4096 + 2 * 4096 * 1024)
    every = {"quant_method": "fp8", "modules_to_not_convert": ["re:.*self_attn.*"]}
    assert weight_bytes(every) == pytest.approx(LAYERS + attention + REST * 2)
    listed = [f"model.layers.{i}.mlp.{name}_proj" for i in (0, 31) for name in ("gate", "up", "down")]
    two_of_32 = 2 / 32 * (LAYERS - attention)
    assert weight_bytes({"quant_method": "fp8", "ignore": listed}) == pytest.approx(LAYERS + two_of_32 + REST * 2)


def test_experts_alone_are_quantised_in_mxfp4():
    """gpt-oss-120b's 116.8 billion parameters load as 60.8 GiB."""
    config = {
        "model_type": "gpt_oss", "hidden_size": 2880, "num_hidden_layers": 36, "num_attention_heads": 64,
        "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 2880, "num_local_experts": 128,
        "num_experts_per_tok": 4, "vocab_size": 201088, "sliding_window": 128, "attention_bias": True,
        "quantization_config": {"quant_method": "mxfp4"},
    }  # fmt: skip
    reading = config_file.read(config)
    assert reading.parameters.total == 116_829_156_672
    assert reading.parameters.active == pytest.approx(5.7e9, rel=0.01)  # 5.1 without the embedding
    assert reading.model.counts.weight_bytes / GIB == pytest.approx(60.8, abs=0.05)


def test_a_float32_checkpoint_is_twice_as_large():
    assert config_file.read(LLAMA | {"torch_dtype": "float32"}).model.counts.weight_bytes == 4 * 8_030_261_248


@pytest.mark.parametrize(
    ("name", "file"),
    [("llama-3.1-8b", "Meta-Llama-3.1-8B"), ("mixtral-8x7b", "Mixtral-8x7B-v0.1"), ("gemma-3-27b", "gemma-3-27b-it")],
)
def test_a_config_gives_the_same_shapes_as_the_catalogs_row(name, file):
    """Then every price is the same too."""
    known, read = catalog.model(name), config_file.read_file(str(FOLDER / f"{file}.json")).model
    assert weights.parameter_count(read) == weights.parameter_count(known)
    assert weights.layer_matrix_parameters(read) == weights.layer_matrix_parameters(known)
    assert weights.expert_parameters(read) == weights.expert_parameters(known)
    assert read.num_experts_per_tok == known.num_experts_per_tok
    assert active_intermediate_size(read) == active_intermediate_size(known)
    shapes = [resolve.model_shape(model) for model in (read, known)]
    assert set(shapes[0].attention) == set(shapes[1].attention)
    assert replace(shapes[0], attention=()) == replace(shapes[1], attention=())


def test_active_parameters_of_deepseek_v3():
    """37 billion of 671 are active, as its report says, the embedding among them."""
    counted = config_file.read_file(str(FOLDER / "DeepSeek-V3.json")).parameters
    assert counted.total == 671_026_404_352
    assert counted.active == pytest.approx(37.55e9, rel=0.001)


def test_a_class_without_a_check_says_so():
    unknown = config_file.read(LLAMA | {"model_type": "new_llama"})
    assert unknown.parameters.total == 8_030_261_248
    assert any("estimate" in note for note in unknown.notes)
    assert not any("estimate" in note for note in config_file.read(LLAMA).notes)
    short = config_file.read(
        {key: value for key, value in LLAMA.items() if key != "vocab_size"} | {"model_type": "new"}
    )
    assert short.parameters is None
    assert any("not counted" in note for note in short.notes)


@pytest.mark.parametrize(
    "key",
    [
        "num_nextn_predict_layers", "num_mtp_layers", "n_shared_experts", "num_experts", "num_local_experts",
        "n_routed_experts", "first_k_dense_replace", "moe_intermediate_size", "sliding_window", "num_kv_shared_layers",
        "q_lora_rank", "kv_lora_rank", "attn_layer_offset", "shared_expert_intermediate_size",
    ],
)  # fmt: skip
def test_nought_of_what_a_model_may_have_is_as_if_the_file_did_not_name_it(key):
    plain, named = config_file.read(LLAMA), config_file.read(LLAMA | {key: 0})
    assert (named.text, named.parameters) == (plain.text, plain.parameters)


@pytest.mark.parametrize("pattern", ["M*-x", "", 5, ["M", "*"], None])
def test_a_pattern_of_layers_is_of_its_letters(pattern):
    config = LLAMA | {"num_hidden_layers": 4, "hybrid_override_pattern": pattern}
    if pattern is None:
        assert (
            config_file.read(config).model.kv_layers
            == config_file.read(LLAMA | {"num_hidden_layers": 4}).model.kv_layers
        )
    else:
        with pytest.raises(CatalogError, match="hybrid_override_pattern"):
            config_file.read(config)
