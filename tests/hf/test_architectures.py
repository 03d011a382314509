"""Shapes of published models that no file of the corpus has, worked by hand from their architecture; and odd files."""

import json

import pytest

from kvmodel.hf import config_file
from kvmodel.hf.fields import ConfigRefused
from kvmodel.memory import kv_cache

LLAMA = {
    "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256, "max_position_embeddings": 8192,
}  # fmt: skip
HEAD_128 = 2 * 128 * 2  # bytes of a KV head of 128, K and V, in bf16
GRANITE = ["attention" if i in (5, 15, 25, 35) else "mamba" for i in range(40)]
NEMOTRON = "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-"
FULL_OF_KIMI = [4, 8, 12, 16, 20, 24, 27]
SHARED_BLOCKS = (6, 11, 17, 23, 29, 35, 41, 47, 53, 59, 65, 71, 77)

# Name: config, bytes a token, bytes that do not grow, parameters in billions as published (None: not counted).
MODELS = {
    "Falcon-H1-34B: attention and a mixer in every layer": (
        {"model_type": "falcon_h1", "hidden_size": 5120, "num_hidden_layers": 72, "num_attention_heads": 20,
         "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": 21504, "mamba_d_ssm": 4096,
         "mamba_n_heads": 32, "mamba_d_head": 128, "mamba_d_state": 256, "mamba_n_groups": 2, "mamba_d_conv": 4,
         "mamba_rms_norm": False, "vocab_size": 261120, "tie_word_embeddings": False},
        72 * 4 * HEAD_128, 72 * ((4096 + 2 * 2 * 256) * 3 * 2 + 32 * 128 * 256 * 4), 33.64,
    ),
    "Jamba-1.5-mini": (
        {"model_type": "jamba", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
         "num_key_value_heads": 8, "attn_layer_period": 8, "attn_layer_offset": 4, "expert_layer_period": 2,
         "expert_layer_offset": 1, "num_experts": 16, "num_experts_per_tok": 2, "mamba_d_state": 16,
         "mamba_d_conv": 4, "mamba_expand": 2, "mamba_dt_rank": 256, "mamba_conv_bias": True,
         "intermediate_size": 14336, "vocab_size": 65536, "tie_word_embeddings": False},
        4 * 8 * HEAD_128, 28 * (8192 * 16 * 4 + 8192 * 3 * 2), 51.57,
    ),
    "Zamba2-7B: 13 of 81 layers have the shared block beside their mixer": (
        {"model_type": "zamba2", "hidden_size": 3584, "num_hidden_layers": 81,
         "layers_block_type": ["hybrid" if i in SHARED_BLOCKS else "mamba" for i in range(81)],
         "num_attention_heads": 32, "num_key_value_heads": 32, "attention_hidden_size": 7168,
         "attention_head_dim": 224, "intermediate_size": 14336, "mamba_d_state": 64, "mamba_d_conv": 4,
         "mamba_expand": 2, "mamba_ngroups": 2, "n_mamba_heads": 112, "mamba_headdim": 64, "vocab_size": 32000},
        13 * 32 * 2 * 224 * 2, 81 * ((7168 + 2 * 2 * 64) * 3 * 2 + 112 * 64 * 64 * 4), None,
    ),
    "MiniMax-01": (
        {"model_type": "minimax_text_01", "hidden_size": 6144, "num_hidden_layers": 80, "num_attention_heads": 64,
         "num_key_value_heads": 8, "head_dim": 128, "attn_type_list": ([0] * 7 + [1]) * 10, "vocab_size": 200064,
         "intermediate_size": 9216, "num_local_experts": 32, "num_experts_per_tok": 2},
        10 * 8 * HEAD_128, 70 * 64 * 128 * 128 * 4, 456.09,
    ),
    "Kimi-Linear-48B": (
        {"model_type": "kimi_linear", "hidden_size": 2304, "num_hidden_layers": 27, "num_attention_heads": 32,
         "num_key_value_heads": 32, "head_dim": 72, "kv_lora_rank": 512, "q_lora_rank": None,
         "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "intermediate_size": 9216,
         "moe_intermediate_size": 1024, "num_experts": 256, "num_experts_per_token": 8, "num_shared_experts": 1,
         "first_k_dense_replace": 1, "vocab_size": 163840, "tie_word_embeddings": False,
         "linear_attn_config": {"full_attn_layers": FULL_OF_KIMI, "head_dim": 128, "num_heads": 32,
                                "short_conv_kernel_size": 4}},
        7 * 576 * 2, 20 * (32 * 128 * 128 * 4 + 3 * 4096 * 3 * 2), 49.12,
    ),
    "GLM-4.5: 96 heads of 128 are not the hidden size": (
        {"model_type": "glm4_moe", "hidden_size": 5120, "num_hidden_layers": 92, "num_attention_heads": 96,
         "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 12288, "moe_intermediate_size": 1536,
         "n_routed_experts": 160, "num_experts_per_tok": 8, "n_shared_experts": 1, "first_k_dense_replace": 3,
         "attention_bias": True, "use_qk_norm": True, "vocab_size": 151552, "tie_word_embeddings": False},
        92 * 8 * HEAD_128, 0, 352.80,
    ),
    "Nemotron-H-8B": (
        {"model_type": "nemotron_h", "hidden_size": 4096, "num_hidden_layers": 52,
         "hybrid_override_pattern": NEMOTRON, "num_attention_heads": 32, "num_key_value_heads": 8,
         "attention_head_dim": 128, "mamba_num_heads": 128, "mamba_head_dim": 64, "n_groups": 8,
         "ssm_state_size": 128, "conv_kernel": 4, "intermediate_size": 21504, "use_conv_bias": True,
         "vocab_size": 131072, "tie_word_embeddings": False},
        4 * 8 * HEAD_128, 24 * ((8192 + 2 * 8 * 128) * 3 * 2 + 128 * 64 * 128 * 4), 8.10,
    ),
    "Granite-4-H-small": (
        {"model_type": "granitemoehybrid", "hidden_size": 4096, "num_hidden_layers": 40, "layer_types": GRANITE,
         "num_attention_heads": 32, "num_key_value_heads": 8, "mamba_n_heads": 128, "mamba_d_head": 64,
         "mamba_d_state": 128, "mamba_n_groups": 1, "mamba_d_conv": 4, "intermediate_size": 768,
         "shared_intermediate_size": 1536, "num_local_experts": 72, "num_experts_per_tok": 10,
         "vocab_size": 100352, "tie_word_embeddings": True},
        4 * 8 * HEAD_128, 36 * ((8192 + 256) * 3 * 2 + 128 * 64 * 128 * 4), 32.21,
    ),
    "Command-A": (
        {"model_type": "cohere2", "hidden_size": 12288, "num_hidden_layers": 64, "num_attention_heads": 96,
         "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 36864, "sliding_window": 4096,
         "sliding_window_pattern": 4, "vocab_size": 256000, "tie_word_embeddings": True},
        16 * 8 * HEAD_128, 48 * 4096 * 8 * HEAD_128, 111.06,
    ),
    "DBRX: experts in a section of their own": (
        {"model_type": "dbrx", "d_model": 6144, "n_heads": 48, "n_layers": 40, "max_seq_len": 32768,
         "vocab_size": 100352, "attn_config": {"kv_n_heads": 8}, "tie_word_embeddings": False,
         "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4}},
        40 * 8 * HEAD_128, 0, 131.60,
    ),
    "Phi-3.5-MoE: the window is as long as the longest context, so it never closes": (
        {"model_type": "phimoe", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
         "num_key_value_heads": 8, "intermediate_size": 6400, "num_local_experts": 16, "num_experts_per_tok": 2,
         "sliding_window": 131072, "max_position_embeddings": 131072, "attention_bias": True, "lm_head_bias": True,
         "vocab_size": 32064, "tie_word_embeddings": False},
        32 * 8 * HEAD_128, 0, 41.87,
    ),
    "Ring-linear: the last layer of each group is full": (
        {"model_type": "bailing_moe_linear", "hidden_size": 2048, "num_hidden_layers": 20, "num_attention_heads": 16,
         "num_key_value_heads": 4, "head_dim": 128, "layer_group_size": 5, "vocab_size": 157184},
        4 * 4 * HEAD_128, 16 * 16 * 128 * 128 * 4, None,
    ),
    "DeepSeek-OCR's decoder: the latent is off, its widths are 0": (
        {"model_type": "deepseek_v2", "hidden_size": 1280, "num_hidden_layers": 12, "num_attention_heads": 10,
         "num_key_value_heads": 10, "use_mla": False, "kv_lora_rank": None, "q_lora_rank": None,
         "qk_nope_head_dim": 0, "qk_rope_head_dim": 0, "v_head_dim": 0, "vocab_size": 129280,
         "intermediate_size": 6848, "moe_intermediate_size": 896, "n_routed_experts": 64, "n_shared_experts": 2,
         "num_experts_per_tok": 6, "first_k_dense_replace": 1, "tie_word_embeddings": False},
        12 * 10 * HEAD_128, 0, 2.93,
    ),
    "ERNIE 4.5 VL: experts of two sizes, so no count of parameters": (
        {"model_type": "ernie4_5_moe_vl", "hidden_size": 2560, "num_hidden_layers": 28, "num_attention_heads": 20,
         "num_key_value_heads": 4, "head_dim": 128, "moe_num_experts": [64, 64],
         "moe_intermediate_size": [1536, 512], "intermediate_size": 12288, "vocab_size": 103424},
        28 * 4 * HEAD_128, 0, None,
    ),
    "T5-large: its decoder is as deep as its encoder": (
        {"model_type": "t5", "d_model": 1024, "num_layers": 24, "d_kv": 64, "d_ff": 4096, "num_heads": 16,
         "vocab_size": 32128, "is_encoder_decoder": True},
        24 * 16 * 2 * 64 * 2, 0, None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_published_shapes_by_hand(name):
    config, growth, fixed, billions = MODELS[name]
    reading = config_file.read(config)
    layers = reading.model.kv_layers
    assert kv_cache.growth_bytes_per_token(layers, bytes_per_value=2) == growth
    assert kv_cache.fixed_bytes(layers, bytes_per_value=2) == fixed
    assert (reading.parameters is None) == (billions is None)
    if billions:
        assert reading.parameters.total / 1e9 == pytest.approx(billions, abs=0.005)
    else:
        assert any(note.startswith("parameters are not counted") for note in reading.notes)


def test_parameters_of_dbrx():
    """131,596,523,520 as its checkpoint has them."""
    d, heads, kv_heads = 6144, 48, 8
    attention = d * (heads + 2 * kv_heads) * 128 + heads * 128 * d
    layer = attention + 16 * d + 16 * 3 * d * 10752 + 2 * d
    reading = config_file.read(MODELS["DBRX: experts in a section of their own"][0])
    assert reading.parameters.total == 2 * 100352 * d + 40 * layer + d == 131_596_523_520
    assert (reading.model.num_experts, reading.model.num_experts_per_tok) == (16, 4)


def test_encoders_keep_nothing():
    bert = {"model_type": "bert", "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12}
    with pytest.raises(ConfigRefused, match=r"^model_type: bert is an encoder, which keeps nothing from one token to"):
        config_file.read(bert)
    assert config_file.read(bert | {"is_decoder": True}).model.num_hidden_layers == 12
    with pytest.raises(ConfigRefused, match=r"^model_type: vit is an encoder"):
        config_file.read(bert | {"model_type": "vit", "image_size": 224, "patch_size": 16})
    with pytest.raises(ConfigRefused, match=r"^text_config\.model_type: clip_text_model is an encoder"):
        config_file.read({"model_type": "clip", "text_config": bert | {"model_type": "clip_text_model"}})


@pytest.mark.parametrize(
    "key",
    [
        pytest.param({"mamba_d_state": 16, "mamba_expand": 2}, id="Hymba, Phi-4-mini-flash"),
        pytest.param({"hyena_layer_idxs": [0, 2, 4]}, id="StripedHyena"),
        pytest.param({"state_size": 2}, id="a state"),
    ],
)
def test_layers_with_a_state_that_no_key_places_are_refused(key):
    with pytest.raises(ConfigRefused, match=r"no known key says which layers those are$"):
        config_file.read(LLAMA | {"model_type": "new"} | key)


def test_a_window_layer_without_a_window():
    hybrid = LLAMA | {"model_type": "new", "hybrid_layer_pattern": [0, 1] * 16}
    with pytest.raises(ConfigRefused, match=r"^sliding_window: not in the file, though some of its layers need it$"):
        config_file.read(hybrid)
    assert {group.kind for group in config_file.read(hybrid | {"sliding_window": None}).model.kv_layers} == {"full"}
    named = config_file.read(hybrid | {"sliding_window_size": 128}).model.kv_layers
    assert {(group.kind, group.layers) for group in named} == {("full", 16), ("sliding", 16)}


def test_other_parts_of_the_model_are_named():
    notes = config_file.read({"text_config": LLAMA, "vision_config": {"depth": 27}, "model_type": "some_vl"}).notes
    assert any("vision_config" in note for note in notes)


# --- odd files ---

TEXT = json.dumps(LLAMA)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-be", "utf-32"])
def test_a_byte_order_mark_is_no_matter(encoding):
    assert config_file.read_text(TEXT.encode(encoding)).model.num_hidden_layers == 32


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        pytest.param('{"text_config": ' * 1000 + TEXT + "}" * 1000, "no JSON: it is nested too deep$", id="deep"),
        pytest.param(TEXT[:-1] + ', "x": ' + "9" * 5000 + "}", "thousands of digits$", id="digits"),
        pytest.param(b'{"_name_or_path": "mod\xe8le"}', "^config: no JSON: it is no UTF-8 text$", id="Latin-1"),
        pytest.param("", "^config: no JSON: Expecting value: line 1 column 1", id="empty"),
        pytest.param(f"[{TEXT}]", "^config: 'list' given; allowed: a JSON object$", id="a list"),
        pytest.param(TEXT[:-1] + ', "num_hidden_layers": 1}', "^num_hidden_layers: given twice with", id="twice"),
        pytest.param('{"model_type": "' + "x" * 1000 + '"}', "^model_type: 'x{40}' given; allowed: a name$", id="name"),
        pytest.param(TEXT.replace("32,", "NaN,", 1), "^num_hidden_layers: 'nan' given; ", id="NaN"),
        pytest.param(TEXT.replace("32,", "-32,", 1), "^num_hidden_layers: '-32' given; ", id="negative"),
        pytest.param(TEXT + " " * 20_000_000, "^config: more than 4 MiB given", id="20 MB"),
    ],
)  # fmt: skip
def test_files_that_are_no_config(content, sentence):
    with pytest.raises(ConfigRefused, match=sentence):
        config_file.read_text(content)


def test_a_value_that_is_nested_too_deep_to_be_shown():
    for depth in range(900, 1000):
        with pytest.raises(ConfigRefused):
            config_file.read_text(TEXT.replace("32,", "[" * depth + "]" * depth + ",", 1))


def test_the_same_value_twice_is_no_contradiction():
    assert config_file.read_text(TEXT[:-1] + ', "num_hidden_layers": 32}').model.num_hidden_layers == 32


@pytest.mark.parametrize(
    "key",
    [
        pytest.param({"sliding_window_layers": [1, 3], "sliding_window": 8192}, id="Baichuan-M1"),
        pytest.param({"global_attn_idx": [0, 15, 31], "sliding_window": 1024}, id="Hymba"),
        pytest.param({"kv_reuse_group": [[1, 2], [3, 4]]}, id="layers that share KV"),
    ],
)
def test_layers_told_apart_in_a_way_that_is_not_known_are_refused(key):
    with pytest.raises(ConfigRefused, match=rf"^{next(iter(key))}: tells layers apart in a way that is not known$"):
        config_file.read(LLAMA | {"model_type": "new"} | key)
    listed = config_file.read(LLAMA | {"layer_types": ["full_attention"] * 32} | key).model.kv_layers
    assert [group.kind for group in listed] == ["full"]


@pytest.mark.parametrize("huge", [10**5000, {}, 1e308], ids=["digits", "object", "float"])
def test_a_name_that_is_no_text_is_no_crash(huge):
    """Of a quantisation, and of the layers with experts; Python prints no number of so many digits."""
    assert config_file.read(LLAMA | {"quantization_config": {"quant_method": huge}}).parameters.total == 8_030_261_248
    listed = LLAMA | {"model_type": "new", "moe_num_experts": 8, "moe_intermediate_size": 64, "moe_layers_enum": huge}
    assert "moe_layers_enum: " in config_file.read(listed).notes[-1]
