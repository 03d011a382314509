"""Files of mixed precision: experts narrower than the rest, parts left alone; counts of parameters that are doubted."""

import json
from pathlib import Path

import pytest

from kvmodel.hf import config_file
from kvmodel.memory import as_kept
from kvmodel.units import GIB

FOLDER = Path(__file__).parent
V4 = json.loads((FOLDER / "field" / "23-fp4-experts.json").read_text(encoding="utf-8"))
EXPERTS = 4 * 256 * 3 * 4096 * 2048
MOE = {
    "model_type": "qwen3_moe", "hidden_size": 2048, "num_hidden_layers": 4, "num_attention_heads": 32,
    "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": 6144, "moe_intermediate_size": 768,
    "num_experts": 128, "num_experts_per_tok": 8, "vocab_size": 1000, "tie_word_embeddings": True,
    "decoder_sparse_step": 1, "mlp_only_layers": [],
}  # fmt: skip
ROUTED = 4 * 128 * 3 * 2048 * 768


def weight_bytes(config):
    return config_file.read(config).model.counts.weight_bytes


def expert_bytes(quantization):
    """Bytes of a routed expert's parameter; the rest of the file does not depend on it."""
    return config_file.read(MOE | {"quantization_config": quantization}).model.expert_weight_bytes_per_parameter


def test_experts_in_4_bits_of_an_fp8_file():
    """25.8 billion in 4 bits with a byte for 32 are 12.8 GiB; DeepSeek-V4-Flash of 43 layers then has about 148."""
    narrow, wide = weight_bytes(V4), weight_bytes(V4 | {"expert_dtype": None})
    assert wide - narrow == pytest.approx(EXPERTS * (1 + 4 / 128**2 - 0.53125))
    assert pytest.approx(12.75) == EXPERTS * 0.53125 / GIB
    assert narrow / GIB == pytest.approx(15.3, abs=0.1)
    flash = V4 | {"num_hidden_layers": 43, "compress_ratios": [0, 0, *([4, 128] * 20), 4]}
    assert weight_bytes(flash) / GIB == pytest.approx(148, abs=5)


OF_EXPERTS = {"targets": ["re:.*mlp.experts.*"], "weights": {"num_bits": 4, "group_size": 32}}
ODD_GROUPS = ("x", 7, None, [], {}, {"targets": ["Linear"]}, {"weights": None}, {"weights": [8]}, {"weights": "8"})


@pytest.mark.parametrize(
    ("quantization", "expected"),
    [
        pytest.param({"quant_method": "fp8", "weight_block_size": [128, 128]}, 1 + 4 / 128**2, id="all alike"),
        pytest.param({"quant_method": "w4afp8"}, 0.5 + 2 / 128, id="W4AFP8"),
        pytest.param(
            {"quant_method": "compressed-tensors", "config_groups": {
                "group_0": {"targets": ["Linear"], "weights": {"num_bits": 8}},
                "group_1": {"targets": ["re:.*mlp.experts.*"], "weights": {"num_bits": 4, "group_size": 32}}}},
            0.5 + 2 / 32, id="a group of its own",
        ),
        pytest.param(
            {"quant_algo": "MIXED_PRECISION", "quantized_layers": {
                "model.layers.0.self_attn.q_proj": {"quant_algo": "FP8"},
                "model.layers.0.mlp.experts.0.up_proj": {"quant_algo": "NVFP4", "group_size": 16}}},
            0.5 + 1 / 16, id="ModelOpt, layer by layer",
        ),
        *(pytest.param(
            {"quant_method": "compressed-tensors", "config_groups": {"group_0": odd, "group_1": OF_EXPERTS}},
            0.5 + 2 / 32, id=f"beside a group that is {odd}",
        ) for odd in ODD_GROUPS),
        pytest.param({"quant_method": "gptq", "config_groups": {"group_0": "x"}}, 0.5 + 2 / 128, id="no group is one"),
        pytest.param({"quant_method": "gptq", "config_groups": [OF_EXPERTS]}, 0.5 + 2 / 128, id="a list of groups"),
        *(pytest.param(
            {"quant_method": "compressed-tensors", "config_groups": {
                "group_0": {"weights": {"num_bits": 8}}, "group_1": OF_EXPERTS | {"targets": targets}}},
            1, id=f"not of experts: {targets}",
        ) for targets in ([], None, "re:.*experts.*", ["re:.*mlp.experts.*", "Linear"], [7], ["shared_experts"])),
        pytest.param({"quant_method": "fp8", "modules_to_not_convert": ["re:.*mlp.experts.*"]}, 2, id="left alone"),
        pytest.param({"quant_method": "fp8", "ignore": ["re:.*shared_experts.*"]}, 1, id="only the shared one is"),
    ],
)  # fmt: skip
def test_the_experts_own_width(quantization, expected):
    assert expert_bytes(quantization) == pytest.approx(expected, rel=1e-6)


def test_the_rest_keeps_its_width():
    mixed = {"quant_algo": "MIXED_PRECISION", "quantized_layers": {
        "model.layers.0.self_attn.q_proj": {"quant_algo": "FP8"},
        "model.layers.0.mlp.experts.0.up_proj": {"quant_algo": "NVFP4", "group_size": 16}}}  # fmt: skip
    plain = weight_bytes(MOE | {"quantization_config": {"quant_algo": "FP8"}})
    assert plain - weight_bytes(MOE | {"quantization_config": mixed}) == pytest.approx(ROUTED * (1 - 0.5625))


GPT_OSS = {
    "model_type": "gpt_oss", "hidden_size": 2880, "num_hidden_layers": 36, "num_attention_heads": 64,
    "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 2880, "vocab_size": 201088, "sliding_window": 128,
}  # fmt: skip


def doubtful(config, name="config"):
    return [note for note in config_file.read(config, name=name).notes if "doubtful" in note]


def test_a_file_without_its_experts_is_doubted():
    (note,) = doubtful(GPT_OSS)
    assert "num_local_experts" in note
    assert "3,010,077,504" in note
    assert doubtful(GPT_OSS | {"num_local_experts": 128, "num_experts_per_tok": 4}, "gpt-oss-120b") == []


@pytest.mark.parametrize("name", ["gpt-oss-120b", "acme/GPT_OSS_120B", "oss-8x15b"])
def test_a_size_in_the_name_is_held_against_the_count(name):
    assert any("the name says 120 billion" in note for note in doubtful(GPT_OSS, name))


@pytest.mark.parametrize("name", ["phi-2", "qwen3-30B-A3B", "model-1.3b", "x_0_5b", "gpt-oss-2.9b"])
def test_a_name_that_fits_or_says_nothing_is_not(name):
    sizes = {"qwen3-30B-A3B": 30.5, "model-1.3b": 1.3}
    layers = MOE | {"num_hidden_layers": 48, "vocab_size": 151936}
    config = layers if name in sizes and name.startswith("qwen") else GPT_OSS
    expected = 1 if name == "model-1.3b" else 0
    assert sum("the name says" in note for note in doubtful(config, name)) == expected


def test_index_keys_that_are_not_counted_are_named():
    marks = {"sparse_attention_freq": [0, 1, 1, 1], "sparse_index_dim": 128, "sparse_num_index_heads": 4}
    said = config_file.read(MOE | {"model_type": "minimax_m3", "sparse_attention_config": marks}).notes
    assert any("index key of each token in 3 layers, which is not counted" in note for note in said)


def test_a_draft_of_a_sparse_model_has_an_indexer_of_its_own():
    """GLM-5.2: 21 of 78 layers own one, and so does the draft: 54,728 bytes a token were measured."""
    config = {
        "model_type": "glm_moe_dsa", "hidden_size": 6144, "num_hidden_layers": 78, "num_attention_heads": 64,
        "kv_lora_rank": 512, "q_lora_rank": 2048, "qk_rope_head_dim": 64, "qk_nope_head_dim": 192, "v_head_dim": 256,
        "index_head_dim": 128, "index_n_heads": 32, "indexer_types": ["full"] * 21 + ["shared"] * 57,
    }  # fmt: skip
    layers = config_file.read(config, draft_layers=1).model.kv_layers
    assert sum(group.layers for group in layers if group.index_dim) == 22
    assert sum(group.layers for group in layers) == 79


HYBRID = {
    "model_type": "qwen3_next", "hidden_size": 512, "num_hidden_layers": 4, "num_attention_heads": 8,
    "num_key_value_heads": 2, "head_dim": 64, "linear_num_value_heads": 4, "linear_num_key_heads": 2,
    "linear_key_head_dim": 16, "linear_value_head_dim": 32, "linear_conv_kernel_dim": 4,
}  # fmt: skip
VALUES, CONVOLUTION = 4 * 16 * 32, (2 * 2 * 16 + 4 * 32) * 3 * 2


@pytest.mark.parametrize(
    ("changes", "options", "read", "in_vllm"),
    [
        ({}, {}, 4, 2),
        ({"mamba_ssm_dtype": "float32"}, {}, 4, 4),
        ({"mamba_ssm_dtype": "bfloat16"}, {}, 2, 2),
        ({"mamba_ssm_cache_dtype": "torch.float32"}, {}, 4, 4),
        ({}, {"state_dtype": "fp32"}, 4, 4),
        ({"mamba_ssm_dtype": "float32"}, {"state_dtype": "16-bit"}, 2, 2),
    ],
)
def test_states_are_as_wide_as_the_file_or_a_flag_says_else_the_engine(changes, options, read, in_vllm):
    layers = config_file.read(HYBRID | changes, **options).model.kv_layers
    for width, groups in ((read, layers), (in_vllm, as_kept.vllm_states(layers))):
        (state,) = {group.fixed_bytes for group in groups if group.kind == "state"}
        assert state == VALUES * width + CONVOLUTION


def test_kimis_states_are_fp32_in_every_engine():
    config = {key: value for key, value in HYBRID.items() if not key.startswith("linear")} | {
        "model_type": "new",
        "linear_attn_config": {"full_attn_layers": [2], "num_heads": 4, "head_dim": 32, "short_conv_kernel_size": 4},
    }
    layers = config_file.read(config).model.kv_layers
    assert as_kept.vllm_states(layers) == layers
