"""Spellings of config.json, worked by hand: heads, windows, states, drafts, and what is refused with a reason."""

import time

import pytest

from kvmodel.hf import config_file
from kvmodel.hf.fields import ConfigRefused, Fields
from kvmodel.memory import kv_cache

LLAMA = {
    "model_type": "llama", "hidden_size": 512, "num_hidden_layers": 4, "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "max_position_embeddings": 4096, "vocab_size": 1000, "intermediate_size": 1024,
}  # fmt: skip
HEAD = 2 * 2 * (64 + 64)  # bytes of a layer and token in bf16: two heads of 64, K and V


def model(changes=None, *, drop=(), **options):
    config = {key: value for key, value in LLAMA.items() if key not in drop} | (changes or {})
    return config_file.read(config, **options)


def growth(reading, bytes_per_value=2):
    return float(kv_cache.growth_bytes_per_token(reading.model.kv_layers, bytes_per_value=bytes_per_value))


def kinds(reading):
    return {(group.kind, group.layers) for group in reading.model.kv_layers}


@pytest.mark.parametrize(
    ("changes", "drop", "bytes_per_token"),
    [
        pytest.param({}, (), 4 * HEAD, id="grouped heads"),
        pytest.param({"num_key_value_heads": None}, (), 4 * HEAD * 4, id="null: as many as query heads"),
        pytest.param({"head_dim": 128}, (), 4 * HEAD * 2, id="an explicit head_dim wins over hidden / heads"),
        pytest.param({"head_dim": None}, (), 4 * HEAD, id="a null head_dim is derived"),
        pytest.param({"v_head_dim": 32, "model_type": "new"}, (), 4 * 2 * 2 * (64 + 32), id="V of another width"),
        pytest.param({"quantization_config": {"quant_method": "gptq", "bits": 4}}, (), 4 * HEAD,
                 id="weights in 4 bits"),
        pytest.param({"model_type": "new", "multi_query": True}, ("num_key_value_heads",), 4 * HEAD / 2,
                 id="multi_query"),
        pytest.param(
            {"model_type": "new", "multi_query": True, "new_decoder_architecture": True, "num_kv_heads": 4},
            ("num_key_value_heads",), 4 * HEAD * 2, id="Falcon 40B says both: the given number stands",
        ),
        pytest.param({"model_type": "new", "multi_query_group_num": 1, "kv_channels": 32}, ("num_key_value_heads",),
                     4 * HEAD / 4, id="ChatGLM"),
        pytest.param({"model_type": "new", "attn_config": {"kv_n_heads": 4}}, ("num_key_value_heads",), 4 * HEAD * 2,
                     id="DBRX"),
        pytest.param({"model_type": "new", "attn_config": {"attn_type": "multiquery_attention"}},
                     ("num_key_value_heads",), 4 * HEAD / 2, id="MPT"),
        pytest.param({"kv_lora_rank": 96, "qk_rope_head_dim": 32, "model_type": "new"}, (), 4 * 128 * 2,
                     id="a latent: one vector, no factor two"),
        pytest.param({"kv_lora_rank": None, "model_type": "new"}, (), 4 * HEAD, id="a null rank is no latent"),
        pytest.param({"model_type": "longcat_flash", "kv_lora_rank": 96, "qk_rope_head_dim": 32}, (), 8 * 128 * 2,
                     id="LongCat: two attentions a layer"),
        pytest.param({"model_type": "new", "num_kv_heads": [2, 2, 4, 0]}, ("num_key_value_heads",), 4 * HEAD,
                     id="heads layer by layer"),
        pytest.param({"num_kv_shared_layers": 2}, (), 2 * HEAD, id="the last layers share"),
        pytest.param({"use_cla": True, "cla_share_factor": 2}, (), 2 * HEAD, id="every other layer shares"),
        pytest.param({"cross_attention_layers": [1]}, (), 3 * HEAD, id="a layer for images"),
        pytest.param(
            {"model_type": "new", "block_configs": [
                {"attention": {"n_heads_in_group": 4, "no_op": False}}, {"attention": {"no_op": True}},
                {"attention": {"n_heads_in_group": 2}}, {"attention": {"replace_with_linear": True}}]},
            (), HEAD + 2 * HEAD, id="blocks without attention",
        ),
        pytest.param({"per_layer_config": {"03": {"head_dim": 128}, "00": {"num_key_value_heads": 4}}}, (),
                     2 * HEAD + 2 * HEAD + 2 * HEAD, id="per_layer_config"),
    ],
)  # fmt: skip
def test_bytes_per_token_by_hand(changes, drop, bytes_per_token):
    assert growth(model(changes, drop=drop)) == bytes_per_token


def test_a_list_far_longer_than_the_layers_takes_no_time():
    began = time.process_time()
    with pytest.raises(ConfigRefused, match=r"^KV heads: 300000 entries given for 4 layers$"):
        model({"num_key_value_heads": [8] * 300_000})
    assert time.process_time() - began < 1
    with pytest.raises(ConfigRefused, match="^num_key_value_heads: 'True' given"):
        model({"num_key_value_heads": [8, 8, 8, True]})


def test_keys_for_layers_that_are_not_there_take_no_time():
    own = {str(100_000 + number): {} for number in range(100_000)} | {"3": {"head_dim": 128}}
    began = time.process_time()
    assert growth(model({"num_hidden_layers": 500, "per_layer_config": own})) == 501 * HEAD
    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({"sliding_window": 1024}, {("sliding", 4)}, id="one window for all"),
        pytest.param({"sliding_window": None}, {("full", 4)}, id="null"),
        pytest.param({"sliding_window": 0}, {("full", 4)}, id="nought"),
        pytest.param({"sliding_window": 8192}, {("full", 4)}, id="beyond the longest context it never closes"),
        pytest.param({"sliding_window": 1024, "use_sliding_window": False}, {("full", 4)}, id="not used"),
        pytest.param({"sliding_window": 1024, "use_sliding_window": True, "max_window_layers": 3},
                     {("full", 3), ("sliding", 1)}, id="from max_window_layers on"),
        pytest.param({"sliding_window": 1024, "sliding_window_pattern": 2}, {("full", 2), ("sliding", 2)},
                 id="pattern"),
        pytest.param({"sliding_window": 1024, "sliding_window_pattern": "LLLG"}, {("full", 1), ("sliding", 3)},
                     id="pattern in letters"),
        pytest.param({"sliding_window": 1024, "layer_types": ["sliding_attention"] * 3 + ["full_attention"]},
                     {("full", 1), ("sliding", 3)}, id="layer_types"),
        pytest.param({"sliding_window": 1024, "num_nextn_predict_layers": 1,
                      "layer_types": ["sliding_attention"] * 3 + ["full_attention"] * 2},
                     {("full", 1), ("sliding", 3)}, id="layer_types with a draft's entry"),
        pytest.param({"sliding_window": 128, "hybrid_layer_pattern": [0, 1, 1, 0]}, {("full", 2), ("sliding", 2)},
                     id="ones slide"),
        pytest.param({"attention_chunk_size": 256}, {("chunked", 4)}, id="chunks"),
        pytest.param({"attention_chunk_size": 256, "no_rope_layers": [1, 1, 1, 0]}, {("full", 1), ("chunked", 3)},
                     id="Llama 4: chunks where there are positions"),
        pytest.param({"model_type": "llama4_text", "head_dim": 64, "no_rope_layers": []}, {("full", 1), ("chunked", 3)},
                     id="Llama 4, by its class: chunks of 8,192, every fourth layer full"),
        pytest.param({"model_type": "gemma2", "head_dim": 64, "sliding_window": 1024}, {("full", 2), ("sliding", 2)},
                     id="Gemma 2: every other layer, by its class"),
        pytest.param({"model_type": "gpt_oss", "head_dim": 64, "sliding_window": 128}, {("full", 2), ("sliding", 2)},
                     id="gpt-oss, by its class"),
    ],
)  # fmt: skip
def test_windows_by_hand(changes, expected):
    assert kinds(model(changes)) == expected


def test_an_absent_window_is_the_classs_own_and_said_so():
    """MistralConfig fills in 4,096 where the key is absent; null means none."""
    absent = model({"model_type": "mistral", "max_position_embeddings": 32768})
    assert kinds(absent) == {("sliding", 4)}
    assert absent.assumed["sliding_window"] == 4096
    assert kinds(model({"model_type": "mistral", "sliding_window": None})) == {("full", 4)}


HYBRIDS = [
    pytest.param({"model_type": "qwen3_next", "head_dim": 64, "linear_num_value_heads": 4, "linear_num_key_heads": 2,
                  "linear_key_head_dim": 16, "linear_value_head_dim": 32, "linear_conv_kernel_dim": 4},
                 1, 3 * (4 * 16 * 32 * 4 + (2 * 2 * 16 + 4 * 32) * 3 * 2), id="gated delta rule, every fourth is full"),
    pytest.param({"model_type": "jamba", "attn_layer_period": 4, "attn_layer_offset": 1, "mamba_d_state": 16,
                  "mamba_d_conv": 4, "mamba_expand": 2}, 1, 3 * (1024 * 16 * 4 + 1024 * 3 * 2), id="Mamba"),
    pytest.param({"model_type": "nemotron_h", "head_dim": 64, "hybrid_override_pattern": "M*-M", "mamba_num_heads": 8,
                  "mamba_head_dim": 64, "ssm_state_size": 128, "n_groups": 2, "conv_kernel": 4},
                 1, 2 * (8 * 64 * 128 * 4 + (512 + 2 * 2 * 128) * 3 * 2), id="Mamba 2, by letters"),
    pytest.param({"model_type": "new", "linear_attn_config": {"full_attn_layers": [2], "num_heads": 4, "head_dim": 32,
                  "short_conv_kernel_size": 4}}, 1, 3 * (4 * 32 * 32 * 4 + 3 * 128 * 3 * 2), id="Kimi counts from one"),
    pytest.param({"model_type": "new", "attn_type_list": [0, 0, 0, 1], "head_dim": 64}, 1, 3 * 8 * 64 * 64 * 4,
                 id="lightning attention"),
    pytest.param({"model_type": "lfm2", "full_attn_idxs": [0, 3], "conv_L_cache": 3}, 2, 2 * 512 * 2 * 2,
                 id="convolution"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "full_layers", "state_bytes"), HYBRIDS)
def test_states_by_hand(changes, full_layers, state_bytes):
    reading = model(changes)
    assert growth(reading) == full_layers * HEAD
    assert kv_cache.fixed_bytes(reading.model.kv_layers, bytes_per_value=2) == state_bytes
    assert kv_cache.fixed_bytes(reading.model.kv_layers, bytes_per_value=1) == state_bytes  # fp32 whatever the KV is
    assert kv_cache.fixed_bytes(reading.model.kv_layers, bytes_per_value=2, tp=2) == state_bytes / 2
    assert reading.fixed_bytes_transformers >= state_bytes


def test_two_geometries():
    """Gemma 4: full layers with fewer and wider heads, and K for V does not halve what is kept."""
    wide = model({
        "model_type": "gemma4_text", "head_dim": 64, "global_head_dim": 128, "num_global_key_value_heads": 1,
        "attention_k_eq_v": True, "sliding_window": 256,
        "layer_types": ["sliding_attention"] * 3 + ["full_attention"],
    })  # fmt: skip
    assert growth(wide) == 1 * (128 + 128) * 2
    assert kv_cache.fixed_bytes(wide.model.kv_layers, bytes_per_value=2) == 3 * 256 * HEAD
    mimo = model({
        "model_type": "mimo_v2_flash", "head_dim": 96, "v_head_dim": 64, "swa_head_dim": 96, "swa_v_head_dim": 64,
        "swa_num_key_value_heads": 4, "sliding_window": 128, "hybrid_layer_pattern": [0, 1, 1, 1],
    })  # fmt: skip
    assert growth(mimo) == 2 * (96 + 64) * 2
    assert kv_cache.fixed_bytes(mimo.model.kv_layers, bytes_per_value=2) == 3 * 128 * 4 * (96 + 64) * 2


def test_sparse_latents_keep_an_index_key_where_they_own_an_indexer():
    """V3.2's index keys follow a 16-bit cache; in 8 bits 128 values and a scale take 132 bytes."""
    sparse = {"model_type": "glm_moe_dsa", "kv_lora_rank": 512, "qk_rope_head_dim": 64, "index_head_dim": 128}
    every = model(sparse)
    assert growth(every) == 4 * (576 * 2 + 128 * 2)
    assert growth(every, bytes_per_value=1) == 4 * (576 + 132)
    one = model({**sparse, "indexer_types": ["full", "shared", "shared", "shared"]})
    assert growth(one, bytes_per_value=1) == 4 * 576 + 132


def test_compressed_entries():
    """DeepSeek-V4: a vector every 4 or 128 tokens beside a window of 128, index keys with the ratio of 4."""
    reading = model({
        "model_type": "deepseek_v4", "head_dim": 512, "num_key_value_heads": 1, "index_head_dim": 128,
        "sliding_window": 128, "compress_ratios": [0, 4, 128, 4],
    })  # fmt: skip
    assert growth(reading) == 2 * (1024 + 256) / 4 + 1024 / 128
    assert kv_cache.fixed_bytes(reading.model.kv_layers, bytes_per_value=2) == 4 * 128 * 1024


def test_drafts_are_layers_like_the_full_ones():
    """EAGLE on Llama 3.1 8B logs 33 layers, 135,168 bytes a token."""
    llama = {"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8}
    assert growth(model(llama)) == 131_072
    assert growth(model(llama, draft_layers=1)) == 135_168
    hinted = model({"num_nextn_predict_layers": 1})
    assert growth(hinted) == 4 * HEAD
    assert any("--draft-layers" in note for note in hinted.notes)
    with pytest.raises(ConfigRefused, match=r"^draft_layers: '9' given; allowed: a whole number from 0 to 8$"):
        model(draft_layers=9)


def test_a_nested_language_model_goes_before_the_top_level():
    """The top level may describe the vision tower."""
    tower = {"model_type": "some_vl", "hidden_size": 1152, "num_hidden_layers": 33, "num_attention_heads": 16}
    reading = config_file.read(tower | {"language_config": LLAMA})
    assert growth(reading) == 4 * HEAD
    assert reading.section == "language_config"
    assert reading.used["language_config.num_hidden_layers"] == 4


REFUSED = [
    pytest.param({}, ("num_hidden_layers",), r"^num_hidden_layers: not in the file; the class llama would take 32, ",
                 id="l"),
    pytest.param({"model_type": "new"}, ("hidden_size",), r"^hidden_size: the model's width is not in the file$",
                 id="width"),
    pytest.param({"hidden_size": 500}, (),
                 r"^head_dim: not in the file, and hidden_size 500 does not divide by 8 heads$",
                 id="ambiguous head width"),
    pytest.param({"layer_types": ["full_attention"] * 3 + ["retention"]}, (),
                 r"^layer_types: 'retention' given; allowed: a known ",
                 id="unknown attention"),
    pytest.param({"layer_types": ["full_attention"] * 3}, (), r"^layer_types: 3 entries given for 4 layers$",
                 id="too few"),
    pytest.param({"layer_types": ["linear_attention"] * 4}, (), r"a linear attention layer whose state no key",
                 id="state"),
    pytest.param({"num_key_value_heads": 3}, (),
                 r"^num_key_value_heads: '3' given; allowed: a number that divides the 8 ",
                 id="heads that do not divide"),
    pytest.param({"num_hidden_layers": "4"}, (),
                 r"^num_hidden_layers: '4' given; allowed: a whole number from 1 to 500$",
                 id="text"),
    pytest.param({"num_hidden_layers": 10**30}, (), r"^num_hidden_layers: '10{30}' given; allowed: ", id="huge"),
    pytest.param({"num_hidden_layers": True}, (), r"^num_hidden_layers: 'True' given; ", id="a truth value"),
    pytest.param({"kv_lora_rank": 512, "model_type": "new"}, (),
                 r"^qk_rope_head_dim: the latent's part with positions is not",
                 id="half a latent"),
    pytest.param({"text_config": 5}, (), r"^text_config: '5' given; allowed: an object$", id="no section"),
    pytest.param({"num_global_key_value_heads": 16, "head_dim": 64, "global_head_dim": 64,
                  "model_type": "gemma4_text"}, (),
                 r"^num_global_key_value_heads: '16' given; allowed: a number that divides the 8 attention heads$",
                 id="more KV heads in full layers"),
    pytest.param({"swa_num_key_value_heads": 16, "model_type": "new"}, (),
                 r"^swa_num_key_value_heads: '16' given; allowed: a number that divides the 8 ", id="in window layers"),
    pytest.param({"per_layer_config": {"03": {"num_key_value_heads": 16}}}, (),
                 r"^per_layer_config\.03\.num_key_value_heads: '16' given; allowed: a number that divides the 8 ",
                 id="in one layer"),
    pytest.param({"num_key_value_heads": [2, 2, 16, 2], "model_type": "new"}, (),
                 r"^num_key_value_heads: '16' given; allowed: a number that divides the 8 ", id="in a list"),
    pytest.param({"attention_other_setting": {"num_attention_heads": 4, "num_attention_groups": 8}}, (),
                 r"num_attention_groups: '8' given; allowed: a number that divides the 4 ", id="of Step's windows"),
    pytest.param({"head_dim": 8193}, (), r"^head_dim: '8193' given; allowed: a whole number from 1 to 8,192$",
                 id="a head too wide"),
    pytest.param({"hidden_size": 8 * 8193}, (), r"^hidden_size: '65544' given; allowed: at most 8,192 for each of 8 h",
                 id="a model too wide for its heads"),
    pytest.param({}, ("model_type",), r"^model_type: not in the file, nor are architectures; ", id="no class"),
    pytest.param({"model_type": "deepseek_v3"}, (),
                 r"^kv_lora_rank: not in the file; the class deepseek_v3 would take 512, ",
                 id="a latent's class without its rank"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "drop", "sentence"), REFUSED)
def test_refusals_name_the_key(changes, drop, sentence):
    with pytest.raises(ConfigRefused, match=sentence):
        model(changes, drop=drop)


def test_files_that_are_no_config(tmp_path):
    for name, content, sentence in (
        ("a.json", b"{", r"^config: no JSON: "),
        ("b.json", b"[1]", r"^config: 'list' given; allowed: a JSON object$"),
        ("c.json", b"\xff\xfe{", r"^config: no JSON: "),
        ("d.json", b" " * 4_200_000, r"^config: more than 4 MiB given; "),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ConfigRefused, match=sentence):
            config_file.read_file(str(tmp_path / name))
    with pytest.raises(ConfigRefused, match=r"cannot be read: No such file"):
        config_file.read_file(str(tmp_path / "none.json"))


def test_what_was_used_is_shown():
    reading = model()
    assert reading.used["num_key_value_heads"] == 2
    assert reading.section == "top level"
    assert reading.parameters is not None
    # a head of its own, two norms of 512 a layer, no biases
    attention = 512 * 512 + 2 * 512 * 128 + 512 * 512
    assert reading.parameters.total == 2 * 1000 * 512 + 4 * (attention + 3 * 512 * 1024 + 2 * 512) + 512


def test_more_parameters_than_any_model_has_are_doubted():
    experts = {"model_type": "qwen3_moe", "moe_intermediate_size": 2560, "num_experts_per_tok": 8, "head_dim": 64}
    few, many = (model(experts | {"num_experts": count}) for count in (128, 10_000_000))
    assert not any("no published model has" in note for note in few.notes)
    assert any("billion, and no published model has 10,000 billion" in note for note in many.notes)


def test_the_widest_head_is_taken():
    assert growth(model({"head_dim": 8192})) == 4 * HEAD * 128


@pytest.mark.parametrize(
    ("names", "most"),
    [
        ("head_dim v_head_dim linear_key_head_dim mamba_headdim mamba_d_head attention_head_size kv_channels", 8192),
        ("kv_lora_rank mamba_dt_rank time_step_rank mamba_d_state ssm_state_size state_size head_size d_kv", 8192),
        ("num_attention_heads num_key_value_heads kv_n_heads linear_num_value_heads n_groups mamba_ngroups", 8192),
        ("num_attention_groups mamba_n_groups index_n_heads n_mamba_heads", 8192),
        ("conv_kernel linear_conv_kernel_dim mamba_d_conv conv_L_cache conv1d_width mamba_expand", 1024),
        ("hidden_size intermediate_size vocab_size num_experts lru_width", 10_000_000),
    ],
)
def test_the_most_of_a_dimension_goes_by_its_name(names: str, most: int) -> None:
    for name in names.split():
        assert Fields({name: most}, "").whole(name) == most
        with pytest.raises(ConfigRefused, match=f"^{name}: '{most + 1}' given; allowed: .* to {most:,}$"):
            Fields({name: most + 1}, "").whole(name)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"linear_num_key_heads": 3}, "linear_num_key_heads: '3' given; allowed: a number that divides the 32 heads"),
        ({"linear_num_key_heads": 64}, "linear_num_key_heads: '64' given; allowed: a number that divides the 32 heads"),
        ({"linear_num_key_heads": 32}, ""),
    ],
)
def test_heads_of_a_state_are_shared_out_evenly(changes: dict[str, int], sentence: str) -> None:
    states = {
        "model_type": "qwen3_next", "linear_num_key_heads": 16, "linear_num_value_heads": 32,
        "linear_key_head_dim": 8, "linear_value_head_dim": 8, "linear_conv_kernel_dim": 4, "full_attention_interval": 4,
    }  # fmt: skip
    try:
        model(states | changes, assume_defaults=True)
        said = ""
    except ConfigRefused as refusal:
        said = str(refusal)
    assert said.startswith(sentence)
    assert bool(said) == bool(sentence), said


def test_heads_of_a_layers_own_section_are_named_there() -> None:
    with pytest.raises(ConfigRefused, match=r"^attn_config.kv_n_heads: '3' given; allowed: .* the 8 attention heads"):
        model({"model_type": "dbrx", "attn_config": {"kv_n_heads": 3}}, assume_defaults=True)
