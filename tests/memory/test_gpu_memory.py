"""Memory budget and pool, added up by hand."""

import numpy as np
import pytest

from kvmodel import catalog
from kvmodel.errors import DoesNotFit
from kvmodel.memory import gpu_memory

GIB = 2**30
LLAMA_WEIGHTS = 8_030_261_248 * 2  # parameters of Llama 3 8B on Hugging Face, bf16
BUDGET = {"max_num_batched_tokens": 2048}


def test_budget_of_llama_3_8b_on_an_a100():
    gpu = catalog.gpu("a100-sxm4-80gb")
    budget = gpu_memory.memory_budget(catalog.model("llama-3-8b"), gpu, **BUDGET, utilization=0.9)
    assert budget.total_bytes == gpu.memory_bytes
    assert 79 * GIB < budget.total_bytes < 80 * GIB
    assert budget.usable_bytes == pytest.approx(0.9 * gpu.memory_bytes)
    assert budget.weight_bytes == LLAMA_WEIGHTS
    assert budget.activation_bytes == 2048 * (3 * 4096 + 3 * 14336) * 2
    assert budget.engine_bytes == pytest.approx(1.0 * GIB)
    assert budget.pool_bytes == pytest.approx(
        0.9 * gpu.memory_bytes - LLAMA_WEIGHTS - 2048 * (3 * 4096 + 3 * 14336) * 2 - GIB
    )


def test_utilization_defaults_to_the_engines_own():
    budget = gpu_memory.memory_budget(catalog.model("llama-3-8b"), catalog.gpu("a100-sxm4-80gb"), **BUDGET)
    assert budget.usable_bytes == pytest.approx(0.92 * budget.total_bytes)  # vLLM 0.33


def test_tensor_parallel_splits_weights_and_the_mlp_part_of_activations():
    llama, a100 = catalog.model("llama-3-8b"), catalog.gpu("a100-sxm4-80gb")
    four = gpu_memory.memory_budget(llama, a100, tp=4, **BUDGET)
    assert four.weight_bytes == LLAMA_WEIGHTS / 4
    assert four.activation_bytes == 2048 * (3 * 4096 + 3 * 14336 / 4) * 2


def test_activations_grow_by_107_kib_a_token():
    """vLLM issue 10517, Llama 3.1 8B."""
    a_token = gpu_memory.activation_bytes(1, hidden_size=4096, intermediate_size=14336)
    assert a_token / 1024 == pytest.approx(107, rel=0.02)
    assert a_token == (3 * 4096 + 3 * 14336) * 2


def test_activations_of_an_array_equal_their_scalars():
    tokens, widths, ffn, tps = (
        np.array([1, 100, 2048]),
        np.array([10, 20, 30]),
        np.array([7, 8, 9]),
        np.array([1, 2, 4]),
    )
    together = gpu_memory.activation_bytes(tokens, hidden_size=widths, intermediate_size=ffn, tp=tps)
    for i in range(3):
        alone = {"hidden_size": int(widths[i]), "intermediate_size": int(ffn[i]), "tp": int(tps[i])}
        assert together[i] == gpu_memory.activation_bytes(int(tokens[i]), **alone)


@pytest.mark.parametrize(
    ("model", "width"),
    [
        ("llama-3-8b", 14336),
        ("opt-13b", 20480),
        ("mixtral-8x7b", 2 * 14336),  # two experts a token
        ("deepseek-v3", (3 * 18432 + 58 * (8 * 2048 + 2048)) / 61),  # three dense layers, then 8 routed and 1 shared
    ],
)
def test_active_width_of_the_mlp(model, width):
    assert gpu_memory.active_intermediate_size(catalog.model(model)) == pytest.approx(width)


def test_pool_holds_what_it_says():
    llama, a100 = catalog.model("llama-3-8b"), catalog.gpu("a100-sxm4-80gb")
    report = gpu_memory.pool_report(llama, a100, max_num_batched_tokens=2048, max_model_len=8192)
    assert report["pool_blocks"] == int(report["pool_bytes"] // (16 * 131072))
    assert report["max_concurrency"] == pytest.approx(report["pool_bytes"] / (8192 * 131072))
    assert report["pool_tokens"] == int(report["pool_bytes"] / 131072)
    spent = sum(report[key] for key in ("weight_bytes", "activation_bytes", "engine_bytes", "pool_bytes"))
    assert spent == pytest.approx(report["usable_bytes"])


def test_fp8_kv_and_tensor_parallel_make_room():
    llama, a100 = catalog.model("llama-3-8b"), catalog.gpu("a100-sxm4-80gb")
    asked = {"max_num_batched_tokens": 2048, "max_model_len": 8192}
    plain = gpu_memory.pool_report(llama, a100, **asked)
    halved = gpu_memory.pool_report(llama, a100, kv_dtype="fp8", **asked)
    split = gpu_memory.pool_report(llama, a100, tp=2, **asked)
    assert halved["max_concurrency"] == pytest.approx(2 * plain["max_concurrency"])
    assert split["max_concurrency"] == pytest.approx(split["pool_bytes"] / (8192 * 131072 / 2))


def test_requests_are_held_in_whole_blocks():
    llama, a100 = catalog.model("llama-3-8b"), catalog.gpu("a100-sxm4-80gb")
    report = gpu_memory.pool_report(llama, a100, block_tokens=1024, max_num_batched_tokens=2048, max_model_len=1025)
    assert report["max_concurrency"] == pytest.approx(report["pool_bytes"] / (2048 * 131072))


def test_weights_without_room_are_refused():
    with pytest.raises(DoesNotFit, match=r"^model: llama-3-70b needs .* on each of 1 l4 .*; allowed: more GPUs"):
        gpu_memory.pool_report(catalog.model("llama-3-70b"), catalog.gpu("l4"), **BUDGET, max_model_len=1)


def test_a_request_that_does_not_fit_is_refused():
    with pytest.raises(DoesNotFit, match=r"^max_model_len: one request of 9,000,000 tokens needs .*; allowed: "):
        gpu_memory.pool_report(
            catalog.model("llama-3-8b"), catalog.gpu("a100-sxm4-80gb"), **BUDGET, max_model_len=9_000_000
        )
