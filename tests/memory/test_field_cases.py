"""Cases from the field, each with the numbers that settle it. The issues are named in the docstrings."""

import json
from pathlib import Path

import pytest

from kvmodel import catalog
from kvmodel.hf import config_file
from kvmodel.hf.fields import ConfigRefused
from kvmodel.memory import as_kept, gpu_memory, kv_cache, printouts
from kvmodel.units import GB, GIB, KIB, MB, MIB

CONFIGS = Path(__file__).parents[1] / "data" / "hf_configs"
BF16, FP8 = {"bytes_per_value": 2}, {"bytes_per_value": 1}


def layers_of(name, **options):
    return config_file.read_file(str(CONFIGS / f"config_{name}.json"), **options).model.kv_layers


def growth(layers, **width):
    return float(kv_cache.growth_bytes_per_token(layers, **(width or BF16)))


def all_layers(layers, **width):
    """Bytes a token while every layer grows: an engine that charges windows in full."""
    return float(kv_cache.kv_bytes_hybrid_off(layers, 1, **(width or BF16)))


def test_d01_a_pool_in_tokens_and_the_requests_it_holds():
    """Tandemn-Labs/tandemn-system#11: 77,088 tokens on an A10G, 72 requests running of 256."""
    layers = catalog.model("qwen2.5-7b").kv_layers
    assert growth(layers) == 57_344
    assert pytest.approx(4.12, abs=0.005) == 77_088 * 57_344 / GIB
    resident = 77_088 / 72
    assert resident == pytest.approx(1_071, abs=0.5)
    line = printouts.v0(4.12 * GIB, 57_344, max_model_len=4096)
    assert line.tokens == pytest.approx(77_088, rel=2e-3)
    assert line.blocks == pytest.approx(77_088 / 16, rel=2e-3)  # the 77,088 are no blocks: that is 16 times as much


def test_d02_a_longer_limit_leaves_a_smaller_pool():
    """vllm-project/vllm#10517: RTX 3090, Llama 3.1 8B; 20,000 starts, 29,000 does not, 35,000 does."""
    model = catalog.model("llama-3.1-8b")
    usable, other, loaded = 0.9 * 23.58 * GIB, 0.35 * GIB, 14.9888 * GIB

    def pool(peak_torch_gib):
        return usable - other - peak_torch_gib * GIB

    for max_model_len, peak, blocks, starts in ((20_000, 17.06, 1952, True), (29_000, 17.98, 1478, False)):
        line = printouts.v0(pool(peak), 131_072, max_model_len=max_model_len)
        assert line.blocks == pytest.approx(blocks, abs=3)  # the peak is printed to 0.01 GiB
        assert (line.concurrency >= 1) == starts
        predicted = gpu_memory.unchunked_activation_bytes(model, max_model_len=max_model_len)
        assert loaded + predicted == pytest.approx(peak * GIB, rel=0.005)
    a_token = (17.98 - 17.06) * GIB / 9000
    assert a_token / KIB == pytest.approx(107, rel=0.005)
    chunked = float(gpu_memory.activation_bytes(512, hidden_size=4096, intermediate_size=14336))
    assert loaded + chunked == pytest.approx(15.05 * GIB, rel=0.001)
    assert printouts.v0(pool(15.05), 131_072, max_model_len=35_000).concurrency > 1


def test_d07_bits_weights_and_hidden_size_are_no_kv():
    """vllm-project/vllm#22291: Qwen2.5-7B GPTQ-Int8, 3,072 tokens: 168 MiB, not 4.6 GB."""
    layers = layers_of("qwen2_5_7b_gptq_int8")
    assert growth(layers) == 56 * KIB == 57_344
    size = kv_cache.kv_bytes(layers, 3072, **BF16)
    assert (round(size / MB), size / MIB) == (176, 168)
    assert 0.160 < size / GIB < 0.170  # as measured
    assert 2 * 3584 * 28 * 8 / growth(layers) == 28


def test_d08_a_head_is_not_hidden_size_over_heads():
    """NVIDIA/Model-Optimizer#2482, LMCache/LMCache#688, vllm-project/vllm#2622."""
    assert growth(layers_of("mistral_small_24b")) == 163_840
    derived = json.loads((CONFIGS / "config_mistral_small_24b.json").read_text(encoding="utf-8")) | {"head_dim": None}
    assert growth(config_file.read(derived).model.kv_layers) == 204_800
    assert all_layers(catalog.model("gpt-oss-20b").kv_layers) == 49_152
    assert all_layers(catalog.model("gemma-3-12b").kv_layers) == 393_216
    qwen = {"model_type": "qwen3", "hidden_size": 2560, "num_hidden_layers": 36, "num_attention_heads": 32,
            "num_key_value_heads": 8, "head_dim": 128}  # fmt: skip
    assert growth(config_file.read(qwen).model.kv_layers) == 147_456
    assert growth(config_file.read(qwen | {"head_dim": None}).model.kv_layers) == 92_160
    with pytest.raises(ConfigRefused, match="head_dim: not in the file; the class qwen3 would take 128"):
        config_file.read({key: value for key, value in qwen.items() if key != "head_dim"})


def test_d09_kv_is_a_function_of_length():
    """alvarobartt/hf-mem#60: gpt-oss-120b logs 78,384 tokens in 5.38 GiB; another tool says half."""
    layers = layers_of("gpt_oss_120b")
    assert (all_layers(layers), growth(layers)) == (73_728, 36_864)
    assert pytest.approx(78_384, rel=0.001) == 5.38 * GIB / 73_728
    assert kv_cache.kv_bytes(layers, 8192, **BF16) / MIB == 292.5
    assert kv_cache.kv_bytes_hybrid_off(layers, 8192, **BF16) / MIB == 576
    assert kv_cache.kv_bytes(layers, 128, **BF16) == 128 * 73_728


def test_d10_two_geometries_and_what_is_in_flight():
    """ollama/ollama#16958: Gemma 4 26B; the engine keeps the window and one micro-batch of 512."""
    layers = layers_of("gemma4_26b_a4b_like")
    assert growth(layers) == 5 * 4096
    lengths = (4096, 8192, 32_768, 131_072)
    in_flight = as_kept.with_window_slack(layers, 512)
    held = [kv_cache.kv_bytes(in_flight, tokens, **BF16) / GB for tokens in lengths]
    assert held == pytest.approx([0.40, 0.48, 0.99, 3.00], abs=0.005)
    bare = [kv_cache.kv_bytes(layers, tokens, **BF16) / GB for tokens in lengths]
    assert bare == pytest.approx([0.29, 0.38, 0.88, 2.89], abs=0.005)
    averaged = [30 * 7 * (512 + 512) * 2 * tokens / GB for tokens in lengths]
    assert averaged == pytest.approx([1.76, 3.52, 14.09, 56.37], abs=0.005)


def test_d11_a_latent_before_and_after_its_kernels():
    """vllm-project/vllm#10927: DeepSeek-V2-Lite, 35.42 GiB held 5,373 blocks, then 14 times as much."""
    layers = layers_of("deepseek_v2_lite")
    expanded = as_kept.expanded_latent(layers, heads=16, head_dim=128 + 64)
    assert growth(expanded) == 2 * 27 * 16 * 256 * 2
    before = printouts.v0(35.42 * GIB, growth(expanded), max_model_len=8192)
    assert before.blocks == pytest.approx(5373, abs=1)
    assert f"{before.concurrency:.2f}" == "10.49"
    assert growth(layers) == 31_104
    after = printouts.v0(35.42 * GIB, growth(layers), max_model_len=8192)
    assert after.tokens == pytest.approx(1.22e6, rel=0.005)
    assert after.tokens / before.tokens == pytest.approx(14.2, abs=0.05)


def test_d12_a_refusal_in_numbers():
    """vllm-project/vllm#25350: Qwen3-30B-A3B, fp8 KV; the pool itself shrank with the longer limit."""
    layers = layers_of("qwen3_30b_a3b")
    assert growth(layers, **FP8) == 49_152
    kinds = printouts.pages(layers, **FP8)
    started = printouts.v1(
        10.553 * GIB, kinds, max_model_len=100_000, max_num_batched_tokens=8192, generation="vllm-v1"
    )
    assert started.tokens == pytest.approx(230_528, rel=1e-3)
    assert f"{started.concurrency:.2f}" == "2.31"
    assert pytest.approx(10.12, abs=0.005) == 221_000 * 49_152 / GIB
    longest = printouts.longest_request(5.59 * GIB, kinds, most=221_000, max_num_batched_tokens=8192)
    assert longest == pytest.approx(122_080, abs=110)  # 5.59 is rounded: 0.005 GiB are 109 tokens


def test_d24_the_nested_language_model():
    """alvarobartt/hf-mem#26, jundot/omlx#1448, jranaraki/vllm-fit#31."""
    assert growth(layers_of("vlm_nested_complete")) == 2 * 40 * 40 * 128 * 2 == 819_200
    with pytest.raises(ConfigRefused, match=r"^text_config\.num_hidden_layers: not in the file; the class llama would"):
        layers_of("vlm_nested_omits_dims")
    assumed = config_file.read_file(str(CONFIGS / "config_vlm_nested_omits_dims.json"), assume_defaults=True)
    assert growth(assumed.model.kv_layers) == 524_288
    assert assumed.assumed["text_config.hidden_size"] == 4096
    top = config_file.read_file(str(CONFIGS / "config_vlm_top_level_is_vision.json"))
    assert (growth(top.model.kv_layers), top.section) == (163_840, "language_config")


def test_d25_old_names_and_multi_query_together():
    """lablup/mlxcel#957: 8,192 tokens of GPT-BigCode and GPT-2 in fp16."""
    bigcode = layers_of("gpt_bigcode_multi_query")
    assert kv_cache.kv_bytes(bigcode, 8192, **BF16) == 100_663_296
    config = json.loads((CONFIGS / "config_gpt_bigcode_multi_query.json").read_text(encoding="utf-8"))
    every_head = config_file.read(config | {"multi_query": False}).model.kv_layers
    assert kv_cache.kv_bytes(every_head, 8192, **BF16) == 1_610_612_736
    assert kv_cache.kv_bytes(layers_of("gpt2"), 8192, **BF16) == 301_989_888


def test_d15_gib_read_as_gb():
    """ai-dynamo/dynamo#6101: 20,000 tokens of Llama 3.1 8B are the report's "2.4 GB" in GiB."""
    size = kv_cache.kv_bytes(catalog.model("llama-3.1-8b").kv_layers, 20_000, **BF16)
    assert (round(size / GB, 2), round(size / GIB, 2)) == (2.62, 2.44)


def test_d17_cpu_blocks_name_the_model():
    """vllm-project/aibrix: Qwen2.5-Coder-1.5B, 81,767 blocks, and 9,362 of 4 GiB of swap space."""
    config = {"model_type": "qwen2", "hidden_size": 1536, "num_hidden_layers": 28, "num_attention_heads": 12,
              "num_key_value_heads": 2, "use_sliding_window": False}  # fmt: skip
    rate = growth(config_file.read(config).model.kv_layers)
    assert (rate, rate * 16) == (28_672, 458_752)
    line = printouts.v0(81_767.5 * rate * 16, rate, max_model_len=32_768, swap_bytes=4 * GIB)
    assert (line.blocks, line.cpu_blocks, line.tokens) == (81_767, 9_362, 1_308_272)
    assert pytest.approx(34.9, abs=0.05) == line.tokens * rate / GIB
