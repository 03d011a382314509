"""KV bytes by hand: layers x heads x widths x bytes x tokens, for every kind of layer."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvmodel import catalog
from kvmodel.memory import kv_cache


@dataclass(frozen=True)
class Group:
    kind: str = "full"
    layers: int = 3
    kv_heads: int = 2
    key_dim: int = 5
    value_dim: int = 7
    bound_tokens: float = math.inf
    fixed_bytes: float = 0.0
    tokens_per_entry: int = 1
    index_dim: int = 0


FULL = Group()
WINDOW = Group(kind="sliding", layers=4, bound_tokens=10)
LATENT = Group(kind="mla", layers=6, kv_heads=1, key_dim=11, value_dim=0)
STATE = Group(kind="state", layers=2, kv_heads=0, key_dim=0, value_dim=0, fixed_bytes=100.0)
SHARED = Group(kind="shared", layers=9, kv_heads=0, key_dim=0, value_dim=0)
MIXED = (FULL, WINDOW, LATENT, STATE)


@pytest.mark.parametrize(
    ("groups", "tokens", "changed", "size_bytes"),
    [
        pytest.param([FULL], 1, {}, 3 * 2 * (5 + 7) * 2, id="K and V of one token"),
        pytest.param([FULL], 100, {}, 100 * 3 * 2 * 12 * 2, id="grows with every token"),
        pytest.param([FULL], 100, {"bytes_per_value": 1}, 100 * 3 * 2 * 12, id="fp8 halves bf16"),
        pytest.param([FULL], 100, {"tp": 2}, 100 * 3 * 1 * 12 * 2, id="tp 2 halves two heads"),
        pytest.param([FULL], 100, {"tp": 4}, 100 * 3 * 1 * 12 * 2, id="below one head a GPU it is repeated"),
        pytest.param([WINDOW], 7, {}, 7 * 4 * 2 * 12 * 2, id="inside the window"),
        pytest.param([WINDOW], 1000, {}, 10 * 4 * 2 * 12 * 2, id="beyond the window"),
        pytest.param([LATENT], 100, {}, 100 * 6 * 11 * 2, id="MLA: one vector, no factor two"),
        pytest.param([LATENT], 100, {"tp": 8}, 100 * 6 * 11 * 2, id="MLA: whole on every GPU"),
        pytest.param([STATE], 100, {}, 2 * 100, id="a state does not grow"),
        pytest.param([SHARED], 100, {}, 0, id="shared layers keep nothing"),
        pytest.param(MIXED, 20, {}, 20 * 144 + 10 * 192 + 20 * 132 + 200, id="groups add up"),
    ],
)
def test_bytes_by_hand(groups, tokens, changed, size_bytes):
    assert kv_cache.kv_bytes(groups, tokens, **({"bytes_per_value": 2} | changed)) == size_bytes


@pytest.mark.parametrize(
    ("model", "per_token"),
    [
        ("llama-3-8b", 2 * 32 * 8 * 128 * 2),
        ("llama-2-7b", 2 * 32 * 32 * 128 * 2),
        ("llama-3-70b", 2 * 80 * 8 * 128 * 2),
        ("opt-13b", 2 * 40 * 40 * 128 * 2),
        ("deepseek-v3", 61 * (512 + 64) * 2),
    ],
)
def test_published_models(model, per_token):
    layers = catalog.model(model).kv_layers
    assert kv_cache.kv_bytes(layers, 1000, bytes_per_value=2) == 1000 * per_token
    assert kv_cache.growth_bytes_per_token(layers, bytes_per_value=2) == per_token


def test_whole_blocks_are_held_in_every_layer():
    held = {"block_tokens": 16, "bytes_per_value": 2}
    assert kv_cache.kv_bytes_in_blocks([FULL], 16, **held) == 16 * 144
    assert kv_cache.kv_bytes_in_blocks([FULL], 17, **held) == 32 * 144
    assert kv_cache.kv_bytes_in_blocks([FULL], 1, **held) == 16 * 144
    assert kv_cache.kv_bytes_in_blocks([WINDOW], 500, **held) == 16 * 192  # a window of 10 is one block of 16
    assert kv_cache.kv_bytes_in_blocks([STATE], 17, **held) == 200
    assert kv_cache.blocks(17, 16) == 2
    assert kv_cache.blocks(16, 16) == 1


def test_growth_and_what_does_not_grow():
    assert kv_cache.growth_bytes_per_token(MIXED, bytes_per_value=2) == 3 * 2 * 12 * 2 + 6 * 11 * 2
    assert kv_cache.fixed_bytes(MIXED, bytes_per_value=2) == 10 * 4 * 2 * 12 * 2 + 2 * 100
    assert kv_cache.growth_bytes_per_token(MIXED, bytes_per_value=2, tp=2) == 3 * 1 * 12 * 2 + 6 * 11 * 2


def test_without_a_hybrid_manager_windows_keep_every_token():
    assert kv_cache.kv_bytes_hybrid_off([WINDOW], 1000, bytes_per_value=2) == 1000 * 4 * 2 * 12 * 2
    assert kv_cache.kv_bytes_hybrid_off([FULL], 1000, bytes_per_value=2) == kv_cache.kv_bytes(
        [FULL], 1000, bytes_per_value=2
    )


@pytest.mark.parametrize(
    ("groups", "layout", "pieces"),
    [
        pytest.param([FULL], "per-layer-kv", 2 * 3 * 7, id="K and V apart, a layer each"),
        pytest.param([FULL], "per-layer", 3 * 7, id="K with V"),
        pytest.param([FULL], "contiguous", 7, id="all layers together"),
        pytest.param([LATENT], "per-layer-kv", 6 * 7, id="MLA has no V part"),
        pytest.param([WINDOW], "per-layer-kv", 2 * 4 * 1, id="a window of 10 is one block"),
        pytest.param([FULL, WINDOW], "contiguous", 7 + 1, id="each group is one piece"),
        pytest.param([STATE], "per-layer", 2, id="one state a layer"),
    ],
)
def test_copies_of_100_tokens_in_blocks_of_16(groups, layout, pieces):
    assert kv_cache.copies(groups, 100, block_tokens=16, layout=layout) == pieces
    assert kv_cache.copies(groups, 100, block_tokens=16, layout=layout, runs_per_block=3) == 3 * pieces


def test_the_v0_layout_copies_llama_3_8b_in_pieces_of_32_kib():
    layers = catalog.model("llama-3-8b").kv_layers
    assert kv_cache.copies(layers, 4096, block_tokens=16, layout="per-layer-kv") == 64 * 256
    size = kv_cache.kv_bytes_in_blocks(layers, 4096, block_tokens=16, bytes_per_value=2)
    assert size / (64 * 256) == 32 * 1024


@pytest.mark.parametrize("kind", ["shared", "cross"])
@pytest.mark.parametrize("layout", kv_cache.LAYOUTS)
def test_layers_without_kv_are_not_copied(kind, layout):
    bare = Group(kind=kind, layers=9, kv_heads=0, key_dim=0, value_dim=0)
    with_them = kv_cache.copies([FULL, bare], 100, block_tokens=16, layout=layout)
    assert with_them == kv_cache.copies([FULL], 100, block_tokens=16, layout=layout)


def test_an_unknown_layout_is_refused():
    with pytest.raises(ValueError, match="layout: unknown 'diagonal'; allowed: per-layer-kv, per-layer, contiguous"):
        kv_cache.copies([FULL], 1, block_tokens=1, layout="diagonal")


def test_an_array_equals_its_scalars():
    tokens, widths, tps = np.array([1, 9, 10, 11, 500]), np.array([[1], [2], [4]]), np.array([1, 2, 4, 8, 1])
    for function in (kv_cache.kv_bytes, kv_cache.kv_bytes_hybrid_off):
        together = function(MIXED, tokens, bytes_per_value=widths, tp=tps)
        assert together.shape == (3, 5)
        for row, width in enumerate((1, 2, 4)):
            for column, (n, tp) in enumerate(zip(tokens, tps, strict=True)):
                assert together[row, column] == function(MIXED, int(n), bytes_per_value=width, tp=int(tp))
    blocks = np.array([1, 3, 16, 64, 7])
    rounded = kv_cache.kv_bytes_in_blocks(MIXED, tokens, block_tokens=blocks, bytes_per_value=2, tp=tps)
    pieces = kv_cache.copies(MIXED, tokens, block_tokens=blocks, layout="per-layer", runs_per_block=np.arange(1, 6))
    for i in range(5):
        alone = {"block_tokens": int(blocks[i])}
        assert rounded[i] == kv_cache.kv_bytes_in_blocks(
            MIXED, int(tokens[i]), bytes_per_value=2, tp=int(tps[i]), **alone
        )
        assert pieces[i] == kv_cache.copies(MIXED, int(tokens[i]), layout="per-layer", runs_per_block=i + 1, **alone)
    for function in (kv_cache.growth_bytes_per_token, kv_cache.fixed_bytes):
        assert function(MIXED, bytes_per_value=2, tp=tps).tolist() == [
            function(MIXED, bytes_per_value=2, tp=int(tp)) for tp in tps
        ]


@settings(derandomize=True, deadline=None, max_examples=100)
@given(
    st.sampled_from(["llama-3-8b", "gemma-3-12b", "deepseek-v3", "gpt-oss-20b", "llama-4-scout", "phi-3-mini-4k"]),
    st.integers(0, 500_000),
    st.integers(1, 5_000),
    st.integers(1, 4096),
)
def test_more_tokens_never_take_less_and_blocks_never_take_less_than_tokens(model, tokens, more, block):
    layers = catalog.model(model).kv_layers
    alone, longer = kv_cache.kv_bytes(layers, [tokens, tokens + more], bytes_per_value=2)
    assert alone <= longer
    in_blocks = kv_cache.kv_bytes_in_blocks(layers, [tokens, tokens + more], block_tokens=block, bytes_per_value=2)
    assert alone <= in_blocks[0] <= in_blocks[1]
    one_block_more = sum(g.layers * g.kv_heads * (g.key_dim + g.value_dim) * 2 * block for g in layers)
    assert in_blocks[0] - alone < one_block_more
    assert alone <= kv_cache.kv_bytes_hybrid_off(layers, tokens, bytes_per_value=2)
    assert alone <= tokens * kv_cache.growth_bytes_per_token(layers, bytes_per_value=2) + kv_cache.fixed_bytes(
        layers, bytes_per_value=2
    )
