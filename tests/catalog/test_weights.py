from dataclasses import replace

import pytest

from kvmodel import catalog
from kvmodel.catalog import Model, model, model_ids, weights
from kvmodel.errors import CatalogError
from kvmodel.units import GIB


def active_layer_parameters(row: Model) -> int:
    """Layer matrices that one token is multiplied with."""
    return weights.layer_matrix_parameters(row) + row.num_experts_per_tok * weights.expert_parameters(row)


def test_dense_by_hand() -> None:
    """Llama 3 8B: 32 layers, width 4096, 32 query and 8 KV heads of 128, gated MLP of 14336, 128,256 tokens."""
    llama = model("llama-3-8b")
    attention = 4096 * 4096 + 2 * 4096 * 1024 + 4096 * 4096
    mlp = 3 * 4096 * 14336
    assert weights.layer_matrix_parameters(llama) == 32 * (attention + mlp) == 6_979_321_856
    assert weights.expert_parameters(llama) == 0
    assert weights.head_parameters(llama) == 128_256 * 4096
    assert weights.embedding_parameters(llama) == 2 * 128_256 * 4096
    assert weights.small_parameters(llama) == (2 * 32 + 1) * 4096
    assert weights.parameter_count(llama) == 6_979_321_856 + 2 * 525_336_576 + 266_240 == 8_030_261_248
    assert weights.weight_bytes(llama) == 2 * 8_030_261_248


def test_biases_and_learned_positions_by_hand() -> None:
    """OPT 13B: plain MLP of 20480, biases everywhere, norms with bias, 2,050 positions, head tied to the embedding."""
    opt = model("opt-13b")
    matrices = 40 * (4 * 5120 * 5120 + 2 * 5120 * 20480)
    biases = 40 * (4 * 5120 + 20480 + 5120)
    norms = (2 * 40 + 1) * 2 * 5120
    assert weights.layer_matrix_parameters(opt) == matrices
    assert weights.small_parameters(opt) == biases + norms
    assert weights.embedding_parameters(opt) == (50_272 + 2050) * 5120
    assert weights.parameter_count(opt) == 12_853_473_280


def test_experts_by_hand() -> None:
    """Mixtral 8x7B: 8 experts of width 14336 in each of 32 layers, two a token; 46.7 B in all, 12.9 B for a token."""
    mixtral = model("mixtral-8x7b")
    expert = 32 * 3 * 4096 * 14336
    rest = 32 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 4096 * 8)
    assert weights.expert_parameters(mixtral) == expert
    assert weights.layer_matrix_parameters(mixtral) == rest
    assert active_layer_parameters(mixtral) == rest + 2 * expert
    assert weights.parameter_count(mixtral) == rest + 8 * expert + 2 * 32_000 * 4096 + 65 * 4096 == 46_702_792_704
    active = active_layer_parameters(mixtral) + weights.embedding_parameters(mixtral)
    assert round(active / 1e9, 1) == 12.9


def test_mla_by_hand() -> None:
    """DeepSeek V2 Lite: 16 heads of 128 + 64, latent of 512, no query rank; one dense layer, 26 of 64 + 2 experts."""
    lite = model("deepseek-v2-lite")
    query = 2048 * 16 * 192
    down, up = 2048 * (512 + 64), 512 * 16 * (128 + 128)
    output = 16 * 128 * 2048
    attention = 27 * (query + down + up + output)
    dense_mlp = 3 * 2048 * 10944
    shared, router = 26 * 3 * 2048 * 2816, 26 * 2048 * 64
    expert = 26 * 3 * 2048 * 1408
    norms = 27 * (2 * 2048 + 512) + 2048
    assert weights.layer_matrix_parameters(lite) == attention + dense_mlp + shared + router
    assert weights.expert_parameters(lite) == expert
    assert weights.small_parameters(lite) == norms
    total = attention + dense_mlp + shared + router + 64 * expert + 2 * 102_400 * 2048 + norms
    assert weights.parameter_count(lite) == total == 15_706_484_224


def test_a_query_rank_replaces_the_query_matrix() -> None:
    """DeepSeek V3: 7168 x 1536 and 1536 x 128 x 192 stand for the 7168 x 128 x 192 of a full query matrix."""
    full = replace(model("deepseek-v3"), q_lora_rank=None)
    saved = 7168 * 24576 - (7168 * 1536 + 1536 * 24576)
    difference = weights.layer_matrix_parameters(full) - weights.layer_matrix_parameters(model("deepseek-v3"))
    assert difference == 61 * saved


@pytest.mark.parametrize(
    ("name", "active_b", "digits"),
    [
        pytest.param("gpt-oss-20b", 3.61, 2, id="gpt-oss model card, table 1"),
        pytest.param("gpt-oss-120b", 5.13, 2, id="gpt-oss model card, table 1: 120b"),
        pytest.param("qwen3-235b-a22b", 22, 0, id="as its name says"),
    ],
)
def test_active_parameters_as_published(name: str, active_b: float, digits: int) -> None:
    """What one token is multiplied with, the head included and the embedding not."""
    row = model(name)
    assert round((active_layer_parameters(row) + weights.head_parameters(row)) / 1e9, digits) == active_b


def test_weight_bytes_follow_the_checkpoint() -> None:
    assert weights.weight_bytes(model("deepseek-v3")) == 671_026_419_200
    twenty = model("gpt-oss-20b")
    experts = 24 * 32 * 3 * 2880 * 2880
    assert weights.weight_bytes(twenty) == 2 * (20_914_757_184 - experts) + experts * 17 / 32
    # the sizes printed in the gpt-oss model card, table 1
    assert weights.weight_bytes(twenty) / GIB == pytest.approx(12.8, abs=0.05)
    assert weights.weight_bytes(model("gpt-oss-120b")) / GIB == pytest.approx(60.8, abs=0.05)


@pytest.mark.parametrize("name", model_ids())
def test_the_parts_add_up(name: str) -> None:
    row = model(name)
    active = active_layer_parameters(row)
    assert weights.layer_matrix_parameters(row) <= active < weights.parameter_count(row)
    assert weights.small_parameters(row) < 0.002 * weights.parameter_count(row)
    assert weights.weight_bytes(row) <= 2 * weights.parameter_count(row)
    assert (weights.expert_parameters(row) > 0) == (row.num_experts > 0)


def test_a_shape_that_is_missing_is_named() -> None:
    row = catalog.validated(
        "model",
        Model,
        "part",
        {
            "label": "A part",
            "family": "test",
            "source": "a-source",
            "basis": "datasheet",
            "num_hidden_layers": 2,
            "hidden_size": 64,
            "num_attention_heads": 4,
            "intermediate_size": 128,
        },
    )
    assert weights.layer_matrix_parameters(row) == 2 * (4 * 64 * 64 + 3 * 64 * 128)
    with pytest.raises(CatalogError, match=r"^model part: vocab_size is missing$"):
        weights.parameter_count(row)
    with pytest.raises(CatalogError, match=r"^model part: intermediate_size is missing$"):
        weights.layer_matrix_parameters(replace(row, intermediate_size=None))
