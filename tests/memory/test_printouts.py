"""Blocks, tokens and concurrency as engines print them, by hand, and every row of real start-up logs."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvmodel import catalog
from kvmodel.catalog import KvLayers
from kvmodel.errors import CaseError
from kvmodel.memory import printouts
from kvmodel.units import GIB

BF16 = {"bytes_per_value": 2}
LLAMA = catalog.model("llama-3.1-8b").kv_layers
GEMMA = catalog.model("gemma-3-27b").kv_layers
LONG = {"max_model_len": 4096, "max_num_batched_tokens": 8192}


def test_v0_counts_blocks_over_all_layers():
    """RTX 3090, vLLM issue 10517: 3.81 GiB, 1,952 blocks, 2,048 CPU blocks of 4 GiB, 1.56 requests of 20,000."""
    line = printouts.v0(3.813 * GIB, 131_072, max_model_len=20_000, swap_bytes=4 * GIB)
    assert (line.blocks, line.cpu_blocks) == (1952, 2048)
    assert f"{line.concurrency:.2f}" == "1.56"
    assert line.tokens == 1952 * 16


def test_the_smallest_rank_decides():
    """Two workers returned (2064, 1638) and (2076, 1638): 2,064 blocks."""
    block = 163_840 * 16
    line = printouts.v0([2076.5 * block, 2064.5 * block], 163_840, max_model_len=4096, swap_bytes=4 * GIB)
    assert (line.blocks, line.cpu_blocks) == (2064, 1638)
    kinds = printouts.pages(LLAMA, **BF16)
    assert printouts.v1([2 * GIB, GIB], kinds, **LONG) == printouts.v1(GIB, kinds, **LONG)


def test_pipeline_stages_hold_a_part_of_each_block():
    """Llama 2 7B, 4 GiB of swap space: 512 CPU blocks, 1,024 at pp 2, 2,048 at pp 4."""
    layers = catalog.model("llama-2-7b").kv_layers
    for pp, blocks in ((1, 512), (2, 1024), (4, 2048)):
        rate = printouts.rank_bytes_per_token(layers, **BF16, pp=pp)
        assert printouts.v0(GIB, rate, max_model_len=4096, swap_bytes=4 * GIB).cpu_blocks == blocks


def test_a_latent_is_on_every_rank_unless_tokens_are_shared_out():
    """Kimi K2 at TP8: 46.80 GiB hold 715,072 tokens, with DCP8 eight times as many."""
    layers = catalog.model("deepseek-v3").kv_layers
    assert printouts.rank_bytes_per_token(layers, **BF16, tp=8) == 70_272
    assert printouts.rank_bytes_per_token(layers, **BF16, tp=8, dcp=8) == 8_784
    kinds = printouts.pages(layers, **BF16, tp=8)
    plain = printouts.v1(46.8 * GIB, kinds, generation="vllm-v1", **LONG)
    shared = printouts.v1(46.8 * GIB, kinds, generation="vllm-v1", dcp=8, **LONG)
    assert plain.tokens == pytest.approx(715_072, rel=1e-3)
    assert shared.tokens == 8 * plain.tokens


def test_gemma_3_in_seven_groups():
    """vLLM 0.10.2: 109.86 GiB, 205,696 tokens, 50.05 requests of 4,096; 8 of 70 layers are padding."""
    kinds = printouts.pages(GEMMA, **BF16)
    line = printouts.v1(109.86 * GIB, kinds, generation="vllm-v1", **LONG)
    assert line.blocks == int(109.86 * GIB // (16 * 8192 * 10))
    assert (line.groups, line.tokens) == (7, 205_696)
    assert line.blocks_per_request == 256 + 6 * 257
    assert f"{line.concurrency:.2f}" == "50.05"


def test_from_0_21_on_tokens_are_concurrency_times_length():
    kinds = printouts.pages(GEMMA, **BF16)
    old = printouts.v1(109.86 * GIB, kinds, generation="vllm-v1", **LONG)
    new = printouts.v1(109.86 * GIB, kinds, **LONG)
    assert new.concurrency == old.concurrency
    assert new.tokens == int(old.concurrency * 4096)
    full = printouts.pages(LLAMA, **BF16)
    assert printouts.v1(GIB, full, **LONG).tokens == printouts.v1(GIB, full, generation="vllm-v1", **LONG).tokens


def test_without_the_hybrid_manager_windows_are_charged_in_full():
    kinds = printouts.pages(GEMMA, **BF16, hybrid=False)
    line = printouts.v1(109.86 * GIB, kinds, **LONG)
    assert line.groups == 1
    assert line.tokens == pytest.approx(109.86 * GIB / 507_904, rel=1e-3)


QWEN_35 = (
    KvLayers(kind="full", layers=16, kv_heads=4, key_dim=256, value_dim=256),
    KvLayers(kind="state", layers=48, kv_heads=0, key_dim=0, value_dim=0, fixed_bytes=3_207_168.0),
)


def test_a_block_of_attention_grows_until_it_holds_a_state():
    """Qwen3.5-27B: 3,207,168 bytes of state, 4,096 a token and layer: vLLM sets 784 tokens a block."""
    kinds = {kind.kind: kind for kind in printouts.pages(QWEN_35, **BF16)}
    assert kinds["full"].block_tokens == 784
    assert kinds["state"].page_bytes == kinds["full"].page_bytes == 784 * 4096
    line = printouts.v1(40 * GIB, list(kinds.values()), max_model_len=262_144, max_num_batched_tokens=8192)
    assert line.groups == 4
    assert line.blocks_per_request == math.ceil(262_144 / 784) + 3 * 2
    drafted = printouts.v1(
        40 * GIB, list(kinds.values()), max_model_len=262_144, max_num_batched_tokens=8192, draft_tokens=1
    )
    assert drafted.blocks_per_request == line.blocks_per_request + 3


def test_layers_of_other_widths_take_longer_blocks():
    """Gemma 4: a token of a full layer takes half the bytes of a window layer's, so its block has twice the tokens."""
    layers = (
        KvLayers(kind="full", layers=5, kv_heads=2, key_dim=512, value_dim=512),
        KvLayers(kind="sliding", layers=25, kv_heads=8, key_dim=256, value_dim=256, bound_tokens=1024),
    )
    full, window = printouts.pages(layers, **BF16)
    assert (full.block_tokens, window.block_tokens) == (32, 16)
    assert full.page_bytes == window.page_bytes == 16 * 8192


def test_nearly_equal_kinds_are_not_split():
    assert printouts.group_size([12, 13], 1.25) == 13
    assert printouts.group_size([12, 18], 1.25) == 12
    assert printouts.group_size([10, 52], 1.5) == 10


def test_index_keys_take_132_bytes_in_engines():
    """GLM-5.3, fp8: 46.58 GiB for 1,048,576 tokens = 78 x 576 + 21 x 132."""
    layers = (
        KvLayers(kind="mla", layers=21, kv_heads=1, key_dim=576, value_dim=0, index_dim=128),
        KvLayers(kind="mla", layers=57, kv_heads=1, key_dim=576, value_dim=0),
    )
    rate = printouts.rank_bytes_per_token(layers, bytes_per_value=1)
    assert rate == 78 * 576 + 21 * 132
    assert round(rate * 1_048_576 / GIB, 2) == 46.58
    assert printouts.rank_bytes_per_token(layers, **BF16) == 78 * 576 * 2 + 21 * 132
    line = printouts.v1(46.59 * GIB, printouts.pages(layers, bytes_per_value=1), **LONG)
    assert line.groups == 1
    assert line.tokens >= 1_048_576


def test_other_engines():
    """TensorRT-LLM fills its last block only in part; SGLang prints tokens alone."""
    line = printouts.trt_llm(0.9 * 21.89 * GIB, 524_288, max_model_len=4096)
    assert line.blocks == 631
    assert printouts.sglang(5.76 * GIB, 24_576, max_model_len=4096).tokens == pytest.approx(251_788, rel=1e-3)


def test_longest_request_and_its_neighbour():
    kinds = printouts.pages(LLAMA, **BF16)
    longest = printouts.longest_request(2 * GIB, kinds, most=1_000_000, max_num_batched_tokens=2048)
    assert longest == 2 * GIB // 131_072
    assert printouts.longest_request(1.0, kinds, most=100, max_num_batched_tokens=2048) == 0


def test_a_model_without_kv_has_no_blocks():
    with pytest.raises(CaseError, match="^model: keeps no KV per token"):
        printouts.v0(GIB, 0.0, max_model_len=10)


def test_host_memory_holds_whole_blocks():
    assert printouts.host_pool_tokens(4 * GIB, 57_344) == 4681 * 16


@given(
    pool=st.floats(1e6, 1e12), heads=st.integers(1, 64), dim=st.integers(16, 256), layers=st.integers(1, 100),
    tp=st.integers(1, 8), tokens=st.integers(1, 10**6),
)  # fmt: skip
def test_a_pool_holds_no_more_than_its_bytes(pool, heads, dim, layers, tp, tokens):
    group = (KvLayers(kind="full", layers=layers, kv_heads=heads, key_dim=dim, value_dim=dim),)
    rate = printouts.rank_bytes_per_token(group, **BF16, tp=tp)
    kinds = printouts.pages(group, **BF16, tp=tp)
    for line in (
        printouts.v0(pool, rate, max_model_len=tokens),
        printouts.v1(pool, kinds, max_model_len=tokens, max_num_batched_tokens=2048, generation="vllm-v1"),
    ):
        assert line.tokens * rate <= pool
        assert pool < (line.tokens + line.block_tokens) * rate * (1 + 1e-9)


def test_an_array_of_ranks_equals_its_least():
    ranks = np.array([3.0, 1.5, 2.0]) * GIB
    assert printouts.v0(ranks, 131_072, max_model_len=100) == printouts.v0(1.5 * GIB, 131_072, max_model_len=100)
