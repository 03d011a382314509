"""A Case becomes numbers in base units: every field is traced to the row or choice it comes from."""

from dataclasses import replace

import numpy as np
import pytest

from kvmodel import catalog
from kvmodel.catalog import assumptions
from kvmodel.errors import DoesNotFit
from kvmodel.inputs.case import case_from
from kvmodel.recovery import resolve


def inputs_of(**choices):
    return resolve.inputs(case_from(choices))


def test_the_default_case_in_base_units():
    inputs = inputs_of()
    assert (inputs.h2d_bytes_per_s, inputs.d2h_bytes_per_s) == (25e9, 25e9)
    assert (inputs.per_copy_h2d_s, inputs.per_copy_d2h_s) == pytest.approx((2.0e-6, 3.1e-6))
    assert (inputs.tp, inputs.bytes_per_value, inputs.tokens, inputs.block_tokens) == (1, 2, 4096, 16)
    assert (inputs.request_overhead_s, inputs.load_overhead_s, inputs.host_step_s) == pytest.approx((0.005, 0.0022, 0))
    assert inputs.engine_factor == assumptions.value("timing.today.engine_factor", "a100-sxm4-80gb")
    assert inputs.prefill_band == assumptions.value("band", "prefill")
    assert inputs.copy_band == 0.2
    assert inputs.host_memory_bytes_per_s == 200e9
    assert inputs.available == ("wait", "recompute", "swap", "offload", "both")


@pytest.mark.parametrize(
    ("choices", "h2d", "d2h"),
    [
        pytest.param({"gpu": "h100-sxm5-80gb"}, 50.4e9, 50.4e9, id="the GPU's own link, as measured"),
        pytest.param({"rate": "link"}, 31.5e9, 31.5e9, id="the link's own rate"),
        pytest.param({"link": "pcie3-x16", "rate": "link"}, 15.75e9, 15.75e9, id="another link"),
        pytest.param({"gpu": "gh200-96gb"}, 345e9, 295e9, id="in is not out on NVLink-C2C"),
        pytest.param({"copy_gb_per_s": 4.2, "rate": "link"}, 4.2e9, 4.2e9, id="a rate of one's own beats both"),
    ],
)
def test_copy_rates(choices, h2d, d2h):
    inputs = inputs_of(**choices)
    assert (inputs.h2d_bytes_per_s, inputs.d2h_bytes_per_s) == pytest.approx((h2d, d2h))


def test_cost_of_a_copy_of_ones_own_counts_both_ways():
    inputs = inputs_of(per_copy_us=7.0)
    assert (inputs.per_copy_h2d_s, inputs.per_copy_d2h_s) == pytest.approx((7e-6, 7e-6))
    assert inputs_of(per_copy_us=0).per_copy_d2h_s == 0


def test_timings_differ_in_their_engine():
    kernels, today, old = (inputs_of(timing=timing) for timing in ("kernels", "today", "2023"))
    assert (kernels.engine_factor, kernels.host_step_s, kernels.request_overhead_s) == (1, 0, 0)
    assert today.gpu == kernels.gpu
    assert 1 < today.engine_factor < 1.33  # p90 of whole engines over their kernels
    assert old.gpu.gemm_efficiency < today.gpu.gemm_efficiency
    assert old.host_step_s == assumptions.value("timing.2023.host_step_ms", "a100-sxm4-80gb") / 1000
    assert old.decode_overhead_s_per_sequence > 0


def test_the_host_of_an_h100_in_2023_is_faster():
    assert inputs_of(gpu="h100-sxm5-80gb", timing="2023").host_step_s < inputs_of(timing="2023").host_step_s


@pytest.mark.parametrize(
    ("gpu", "timing", "kind"),
    [
        ("a100-sxm4-80gb", "today", "prefill"),
        ("a100-sxm4-80gb", "2023", "prefill_2023"),
        ("h200-sxm-141gb", "today", "prefill_other_gpu"),  # its chip was measured, it was not
        ("l4", "kernels", "prefill_other_gpu"),
    ],
)
def test_a_prefill_time_is_as_sure_as_the_nearest_measured_kind(gpu, timing, kind):
    assert resolve.prefill_band_kind(gpu, timing) == kind
    assert inputs_of(gpu=gpu, timing=timing, tokens=64).prefill_band == assumptions.value("band", kind)


def test_policies():
    v0, offload, never = (inputs_of(policy=p) for p in ("vllm-v0", "vllm-v1-offload", "trtllm-no-evict"))
    assert (v0.available, v0.swap_on_compute_stream) == (("recompute", "swap"), True)
    assert (offload.available, offload.offload_prompt_only) == (("recompute", "offload"), True)
    assert never.available == ("wait",)
    assert (inputs_of().swap_on_compute_stream, inputs_of().offload_prompt_only) == (False, False)


def test_shape_of_llama_3_8b():
    shape = inputs_of().shape
    assert shape.layer_parameters == 32 * (4096 * (4096 + 2 * 1024 + 4096) + 3 * 4096 * 14336)
    assert (shape.layers, shape.hidden_size, shape.intermediate_size) == (32, 4096, 14336)
    assert (shape.attention_width, shape.vocab_size, shape.weight_bytes_per_parameter) == (32 * 128, 128256, 2)
    assert [(group.layers, group.bound_tokens) for group in shape.attention] == [(32, np.inf)]


def test_shape_of_a_mixture_of_experts_with_latent_attention():
    shape = resolve.model_shape(catalog.model("deepseek-v3"))
    assert shape.attention_width == 128 * (192 + 128) / 2  # a query head is 128 + 64 wide, a value head 128
    assert (shape.experts, shape.experts_per_token) == (256, 8)
    assert shape.expert_parameters == 58 * 3 * 7168 * 2048
    active = shape.layer_parameters + 8 * shape.expert_parameters
    assert active + 2 * 129280 * 7168 == pytest.approx(37.5e9, rel=0.01)  # "37B activated" in its paper


def test_chunked_and_window_layers_keep_their_bounds():
    scout = resolve.model_shape(catalog.model("llama-4-scout")).attention
    assert [(group.layers, group.bound_tokens, group.chunked) for group in scout] == [
        (12, np.inf, False), (36, 8192, True),
    ]  # fmt: skip
    gemma = resolve.model_shape(catalog.model("gemma-3-12b")).attention
    assert [(group.layers, group.bound_tokens, group.chunked) for group in gemma] == [
        (8, np.inf, False), (40, 1024, False),
    ]  # fmt: skip


def test_rates_of_gpus():
    a100 = resolve.gpu_rates(catalog.gpu("a100-sxm4-80gb"), "kernels")
    assert (a100.peak_flop_per_s, a100.hbm_bytes_per_s) == (312e12, 2039e9)
    assert a100.all_reduce_bytes_per_s == pytest.approx(0.74 * 300e9)  # NVLink 3, one way
    assert a100.all_reduce_start_s == pytest.approx(5e-6)
    l40s = resolve.gpu_rates(catalog.gpu("l40s"), "kernels")  # no NVLink: 2,190 ms measured at tp 4
    assert l40s.all_reduce_bytes_per_s * l40s.all_reduce_beyond_pair_share == pytest.approx(3.7e9)
    b200 = resolve.gpu_rates(catalog.gpu("b200-sxm-180gb"), "kernels")  # no data: defaults, not an error
    assert b200.gemm_efficiency == assumptions.value("gemm_efficiency", "default")
    rtx_4090 = resolve.gpu_rates(catalog.gpu("rtx-4090"), "kernels")
    assert rtx_4090.kv_read_efficiency == pytest.approx(0.88, rel=0.05)  # another fit to the same profile: .88, .42
    assert rtx_4090.kv_read_efficiency_beside_chunk == pytest.approx(0.42, rel=0.05)


def test_a_readers_own_share_and_overhead_stand_in_place_of_the_models():
    own = inputs_of(gemm_efficiency=0.5, request_overhead_ms=12)
    assert (own.gpu.gemm_efficiency, own.gpu.fp8_gemm_efficiency, own.request_overhead_s) == (0.5, 0.5, 0.012)
    modelled = inputs_of().gpu.gemm_efficiency
    assert inputs_of(gemm_efficiency=modelled).gpu == replace(inputs_of().gpu, fp8_gemm_efficiency=modelled)


def test_a_request_larger_than_the_pool_is_refused_at_its_last_preemption():
    pool_tokens = int(inputs_of().pool_bytes_per_gpu // 131072) // 16 * 16
    assert inputs_of(tokens=pool_tokens).tokens == pool_tokens
    for choices in (
        {"tokens": pool_tokens + 1},
        {"tokens": pool_tokens - 256, "preemptions": 3, "tokens_between": 256},
    ):
        with pytest.raises(DoesNotFit, match=r"^tokens: .* of llama-3-8b need .* of KV on each GPU, .*; allowed: "):
            inputs_of(**choices)
    assert inputs_of(tokens=pool_tokens - 256, preemptions=2, tokens_between=256)


def test_weights_larger_than_the_gpu_are_refused():
    with pytest.raises(DoesNotFit, match=r"^model: llama-3-70b needs .*; allowed: more GPUs \(tp\)"):
        inputs_of(model="llama-3-70b")
    assert inputs_of(model="llama-3-70b", tp=4).tp == 4


@pytest.mark.parametrize("gpu", catalog.gpu_ids())
def test_every_gpu_resolves(gpu):
    assert inputs_of(model="llama-3.2-1b", gpu=gpu).pool_bytes_per_gpu > 0


@pytest.mark.parametrize("model", catalog.model_ids())
def test_every_model_resolves(model):
    row = catalog.model(model)
    splits = row.num_attention_heads % 8 == 0 and (row.num_key_value_heads % 8 == 0 or 8 % row.num_key_value_heads == 0)
    assert inputs_of(model=model, gpu="b300-sxm-288gb", tp=8 if splits else 1).pool_bytes_per_gpu > 0
