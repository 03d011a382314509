"""Step times by hand on a toy model and a toy GPU, in their limits, and against their floor."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvmodel import catalog
from kvmodel.recovery import resolve
from kvmodel.timing import step_time
from kvmodel.timing.step_time import AttentionGroup, GpuRates, ModelShape

SHAPE = ModelShape(
    layers=2, hidden_size=4, intermediate_size=8, attention_width=4, vocab_size=10, layer_parameters=100,
    weight_bytes_per_parameter=2, attention=(AttentionGroup(2, np.inf),),
)  # fmt: skip
MOE = replace(SHAPE, expert_parameters=30, experts=8, experts_per_token=2, expert_weight_bytes_per_parameter=0.5)
GPU = GpuRates(
    peak_flop_per_s=1000.0, hbm_bytes_per_s=100.0, gemm_efficiency=0.5, weight_read_efficiency=0.8,
    attention_efficiency=0.25, kv_read_efficiency=0.5, kv_read_efficiency_beside_chunk=0.2,
    activation_hbm_efficiency=0.4, launch_s_per_layer=0.01, all_reduce_start_s=0.001, all_reduce_bytes_per_s=50.0,
    all_reduce_large_bytes=1e9, all_reduce_large_share=0.25, all_reduce_beyond_pair_share=1.0,
    fp8_peak_flop_per_s=2000.0, fp8_gemm_efficiency=0.6,
)  # fmt: skip
CHECKED = settings(derandomize=True, deadline=None, max_examples=100)


def test_flop_of_the_matrices():
    assert step_time.linear_flop(3, SHAPE) == 2 * 100 * 3 + 2 * 10 * 4
    assert step_time.linear_flop(3, SHAPE, sampled=3) == 2 * 100 * 3 + 3 * 2 * 10 * 4
    assert step_time.linear_flop(3, MOE) == 2 * (100 + 2 * 30) * 3 + 2 * 10 * 4


def test_weights_read_once_a_step():
    assert step_time.weight_bytes_read(3, SHAPE) == (100 + 40) * 2
    assert step_time.weight_bytes_read(3000, SHAPE) == (100 + 40) * 2


@pytest.mark.parametrize(
    ("tokens", "experts"),
    [
        pytest.param(1, 2, id="one token reads its own two"),
        pytest.param(2, 8 * (1 - 0.75**2), id="two tokens: 3.5 of 8, as they may agree"),
        pytest.param(1e6, 8, id="many tokens read all"),
    ],
)
def test_distinct_experts(tokens, experts):
    assert step_time.weight_bytes_read(tokens, MOE) == pytest.approx((100 + 40) * 2 + experts * 30 * 0.5)


def test_linear_time_is_a_smooth_maximum():
    compute_s, read_s = (600 + 80) / (0.5 * 1000), 280 / (0.8 * 100)  # 1.36 and 3.5 s
    assert step_time.linear_s(3, SHAPE, GPU) == pytest.approx((compute_s**2 + read_s**2) ** 0.5)
    assert step_time.linear_s(3, SHAPE, GPU, tp=2) == pytest.approx((compute_s**2 + read_s**2) ** 0.5 / 2)
    endless_memory = replace(GPU, hbm_bytes_per_s=np.inf)
    assert step_time.linear_s(3, SHAPE, endless_memory) == pytest.approx(compute_s)
    endless_compute = replace(GPU, peak_flop_per_s=np.inf)
    assert step_time.linear_s(3, SHAPE, endless_compute) == pytest.approx(read_s)


def test_weights_of_one_byte_use_the_8_bit_peak():
    eight_bits = replace(SHAPE, weight_bytes_per_parameter=1)
    assert step_time.compute_s(3, eight_bits, GPU) == pytest.approx((600 + 80) / (0.6 * 2000))
    narrower = replace(SHAPE, weight_bytes_per_parameter=0.5)  # widened to 16 bits first
    assert step_time.compute_s(3, narrower, GPU) == pytest.approx((600 + 80) / (0.5 * 1000))
    experts_of_one_byte = replace(MOE, expert_weight_bytes_per_parameter=1)
    flop = step_time.linear_flop(3, MOE)
    assert step_time.compute_s(3, experts_of_one_byte, GPU) == pytest.approx(flop / (0.6 * 2000))
    assert step_time.floor_s(3000, 0, eight_bits, GPU) < step_time.floor_s(3000, 0, SHAPE, GPU)


@pytest.mark.parametrize(
    ("tokens", "tp", "bytes_per_s"),
    [
        pytest.param(4, 2, 50, id="a small message between two"),
        pytest.param(5, 2, 50 * 0.25, id="from 40 bytes on, large"),
        pytest.param(4, 4, 50 * 0.1, id="among four"),
        pytest.param(5, 4, 50 * 0.25 * 0.1, id="large, among four"),
    ],
)
def test_all_reduce_slows_with_size_and_number(tokens, tp, bytes_per_s):
    gpu = replace(GPU, all_reduce_large_bytes=40, all_reduce_beyond_pair_share=0.1)
    message_bytes = tokens * 4 * 2
    expected_s = 2 * 2 * (0.001 + 2 * (tp - 1) / tp * message_bytes / bytes_per_s)
    assert step_time.all_reduce_s(tokens, SHAPE, gpu, tp=tp) == pytest.approx(expected_s)


@pytest.mark.parametrize(
    ("group", "new", "past", "pairs"),
    [
        pytest.param(AttentionGroup(2, np.inf), 6, 0, 18, id="causal: half of the square"),
        pytest.param(AttentionGroup(2, np.inf), 6, 10, 60 + 18, id="and the past in full"),
        pytest.param(AttentionGroup(2, 100), 6, 10, 60 + 18, id="inside the window as without one"),
        pytest.param(AttentionGroup(2, 4), 6, 0, 8 + 2 * 4, id="window 4: a triangle, then 4 a token"),
        pytest.param(AttentionGroup(2, 4), 6, 10, 24, id="window 4 in the past: 4 a token"),
        pytest.param(AttentionGroup(2, 4, chunked=True), 8, 0, 8 + 8, id="chunk 4: two triangles"),
        pytest.param(AttentionGroup(2, 4, chunked=True), 2, 6, 8 - 2, id="chunk 4 from its middle"),
        pytest.param(AttentionGroup(2, np.inf), 0, 10, 0, id="no new tokens"),
    ],
)
def test_attention_pairs(group, new, past, pairs):
    shape = replace(SHAPE, attention=(group,))
    assert step_time.attention_flop(new, past, shape) == 4 * 4 * 2 * pairs
    assert step_time.attention_s(new, past, shape, GPU) == pytest.approx(32 * pairs / 250)
    assert step_time.attention_s(new, past, shape, GPU, tp=2) == pytest.approx(16 * pairs / 250)


def test_attention_in_chunks_is_attention_whole():
    whole = step_time.attention_flop(10, 3, SHAPE)
    assert step_time.attention_flop(4, 3, SHAPE) + step_time.attention_flop(6, 7, SHAPE) == whole


def test_activation_traffic():
    assert step_time.traffic_s(3, SHAPE, GPU) == pytest.approx(3 * 2 * (4 * 4 + 3 * 8) * 2 / (0.4 * 100))
    assert step_time.traffic_s(3, SHAPE, GPU, tp=2) == pytest.approx(3 * 2 * (4 * 4 + 3 * 8 / 2) * 2 / (0.4 * 100))


def test_all_reduce():
    assert step_time.all_reduce_s(3, SHAPE, GPU) == 0
    two = 2 * 2 * (0.001 + 2 * 0.5 * 3 * 4 * 2 / 50)
    four = 2 * 2 * (0.001 + 2 * 0.75 * 3 * 4 * 2 / 50)
    assert step_time.all_reduce_s(3, SHAPE, GPU, tp=2) == pytest.approx(two)
    assert step_time.all_reduce_s(3, SHAPE, GPU, tp=np.array([1, 2, 4])) == pytest.approx([0, two, four])


def test_decodes_read_their_kv_more_slowly_beside_a_chunk():
    assert step_time.kv_read_s(1000, GPU, beside_chunk=False) == 1000 / 50
    assert step_time.kv_read_s(1000, GPU, beside_chunk=True) == 1000 / 20


def _step_s(tokens, sampled=1):
    linear_s = (((200 * tokens + 80 * sampled) / 500) ** 2 + (280 / 80) ** 2) ** 0.5
    return linear_s + tokens * 2 * 40 * 2 / 40 + 2 * 0.01


def test_step_and_decode():
    assert step_time.step_s(0, SHAPE, GPU) == 0
    assert step_time.step_s(3, SHAPE, GPU) == pytest.approx(_step_s(3))
    assert step_time.decode_s(3, 1000, SHAPE, GPU) == pytest.approx(_step_s(3, sampled=3) + 20)
    one, two = (float(step_time.step_s(3, SHAPE, GPU, tp=tp)) for tp in (1, 2))
    linear_s = float(step_time.linear_s(3, SHAPE, GPU))
    assert two == pytest.approx(linear_s / 2 + 3 * 2 * 28 * 2 / 40 + 0.02 + 1.924)
    assert one == pytest.approx(linear_s + 12 + 0.02)


@pytest.mark.parametrize(
    ("new", "past", "chunk", "sequences", "seconds"),
    [
        pytest.param(3, 0, 8, 1, _step_s(3) + 32 * 4.5 / 250, id="one chunk"),
        pytest.param(8, 0, 8, 1, _step_s(8) + 32 * 32 / 250, id="exactly one chunk has no second"),
        pytest.param(11, 0, 8, 1, _step_s(8) + _step_s(3) + 32 * 60.5 / 250, id="a chunk and a rest"),
        pytest.param(3, 5, 8, 1, _step_s(3) + 32 * 19.5 / 250, id="past: attention only"),
        pytest.param(3, 0, 8, 2, _step_s(6, 2) + 2 * 32 * 4.5 / 250, id="two sequences share a step"),
        pytest.param(0, 5, 8, 1, 0, id="nothing new"),
    ],
)
def test_prefill(new, past, chunk, sequences, seconds):
    assert step_time.prefill_s(new, past, SHAPE, GPU, chunk_tokens=chunk, sequences=sequences) == pytest.approx(seconds)


def test_marginal_prefill_by_hand():
    """Four decodes with 1,000 bytes of KV; a budget of 12 leaves chunks of 8: 11 tokens are a chunk and a rest."""
    slower_read_s = 1000 / 20 - 1000 / 50
    chunk_s = _step_s(12, sampled=5) - _step_s(4, sampled=4) + slower_read_s
    rest_s = _step_s(7, sampled=5) - _step_s(4, sampled=4) + slower_read_s
    marginal_s = step_time.marginal_prefill_s(
        11, 5, SHAPE, GPU, decode_sequences=4, decode_kv_bytes_per_gpu=1000, max_num_batched_tokens=12
    )
    assert marginal_s == pytest.approx(chunk_s + rest_s + 32 * (55 + 60.5) / 250)


def test_marginal_is_less_than_alone_by_the_weight_read_and_launches_that_the_decodes_pay_anyway():
    """With all arithmetic free, a chunk beside decodes costs its activation traffic alone."""
    free = replace(GPU, peak_flop_per_s=np.inf)
    beside = {"decode_sequences": 4, "decode_kv_bytes_per_gpu": 0, "max_num_batched_tokens": 1004}
    marginal_s = step_time.marginal_prefill_s(2, 0, SHAPE, free, **beside)
    alone_s = step_time.prefill_s(2, 0, SHAPE, free, chunk_tokens=1000)
    assert marginal_s == pytest.approx(2 * 2 * 40 * 2 / 40)
    assert alone_s == pytest.approx(2 * 2 * 40 * 2 / 40 + 280 / 80 + 0.02)


@CHECKED
@given(st.integers(1, 5000), st.integers(0, 5000), st.integers(1, 600), st.sampled_from([1, 2, 8]))
def test_marginal_without_decodes_is_the_prefill_alone(new, past, budget, tp):
    marginal_s = step_time.marginal_prefill_s(
        new, past, SHAPE, GPU, decode_sequences=0, decode_kv_bytes_per_gpu=0, max_num_batched_tokens=budget, tp=tp
    )
    alone_s = step_time.prefill_s(new, past, SHAPE, GPU, tp=tp, chunk_tokens=budget)
    assert marginal_s == pytest.approx(alone_s, rel=1e-12)


def test_floor_by_hand():
    flop, read_bytes = 680 + 32 * 4.5, 280
    assert step_time.floor_s(3, 0, SHAPE, GPU) == pytest.approx(max(flop / 1000, read_bytes / 100))
    assert step_time.floor_s(300, 0, SHAPE, GPU) == pytest.approx((60_080 + 32 * 45_000) / 1000)
    assert step_time.floor_s(300, 0, SHAPE, GPU, tp=2) == pytest.approx((60_080 + 32 * 45_000) / 2000)
    assert step_time.floor_s(3, 0, SHAPE, GPU, sequences=2) == pytest.approx(2.8)
    assert step_time.floor_s(0, 0, SHAPE, GPU) == 0


SHAPES = {name: resolve.model_shape(catalog.model(name)) for name in catalog.model_ids()}
RATES = {name: resolve.gpu_rates(catalog.gpu(name), "kernels") for name in catalog.gpu_ids()}
LENGTHS = np.array([1, 7, 64, 512, 2048, 2049, 8192, 65_536, 1_000_000])


@pytest.mark.parametrize("gpu", RATES)
def test_nothing_beats_the_floor_by_more_than_a_boosted_clock(gpu):
    """A GPU whose GEMM efficiency is above one runs above its datasheet's clock, and so may beat its floor by as much.

    Everywhere else (efficiencies up to one) a step is at least its compute at peak and at least its weight read.
    """
    boost = max(1.0, RATES[gpu].gemm_efficiency)
    assert boost == 1.0 or gpu == "rtx-4090"
    for shape in SHAPES.values():
        for tp in (1, 4):
            for past in (0, 10_000):
                prefill_s = step_time.prefill_s(LENGTHS, past, shape, RATES[gpu], tp=tp, chunk_tokens=2048)
                assert np.all(prefill_s * boost >= step_time.floor_s(LENGTHS, past, shape, RATES[gpu], tp=tp))


@CHECKED
@given(
    st.sampled_from(sorted(SHAPES)), st.sampled_from(sorted(RATES)), st.integers(1, 300_000), st.integers(1, 5000),
    st.integers(0, 100_000), st.sampled_from([16, 512, 2048, 16_384]), st.sampled_from([0, 4, 512]),
)  # fmt: skip
def test_more_tokens_or_more_past_never_take_less_time(model, gpu, tokens, more, past, budget, decodes):
    shape, rates = SHAPES[model], RATES[gpu]
    beside = {
        "decode_sequences": decodes, "decode_kv_bytes_per_gpu": decodes * 1e8, "max_num_batched_tokens": budget
    }  # fmt: skip
    for prefill in (
        lambda new, before: step_time.prefill_s(new, before, shape, rates, chunk_tokens=budget),
        lambda new, before: step_time.marginal_prefill_s(new, before, shape, rates, **beside),
    ):
        here = prefill(tokens, past)
        assert prefill(tokens + more, past) >= here * (1 - 1e-12)
        if all(not group.chunked for group in shape.attention):  # chunked attention forgets its past
            assert prefill(tokens, past + more) >= here * (1 - 1e-12)


@CHECKED
@given(st.sampled_from(sorted(SHAPES)), st.sampled_from(sorted(RATES)), st.integers(1, 100_000))
def test_a_larger_token_budget_never_slows_a_prefill(model, gpu, tokens):
    shape, rates = SHAPES[model], RATES[gpu]
    budgets = np.array([64, 128, 512, 2048, 8192, 131_072])  # each divides the next
    seconds = step_time.prefill_s(tokens, 0, shape, rates, chunk_tokens=budgets)
    assert np.all(np.diff(seconds) <= 1e-12 * seconds[:-1])


def test_an_array_equals_its_scalars():
    rng = np.random.default_rng(1)
    size = 40
    new, past = rng.integers(0, 3000, size), rng.integers(0, 3000, size)
    tp, chunk = rng.choice([1, 2, 4, 8], size), rng.integers(16, 600, size)
    sequences, decodes, kv = rng.integers(1, 5, size), rng.integers(0, 40, size), rng.integers(0, 10**6, size)
    names = list(GpuRates.__dataclass_fields__)
    rates = {name: getattr(GPU, name) * rng.uniform(0.5, 2, size) for name in names}
    windows = (AttentionGroup(1, np.inf), AttentionGroup(1, 700), AttentionGroup(1, 500, chunked=True))
    shape = replace(MOE, attention=windows)

    def every(n, p, gpu, t, c, s, d, b):
        return {
            "linear_flop": step_time.linear_flop(n, shape, sampled=s),
            "weight_bytes_read": step_time.weight_bytes_read(n, shape),
            "linear_s": step_time.linear_s(n, shape, gpu, tp=t, sampled=s),
            "attention_flop": step_time.attention_flop(n, p, shape),
            "attention_s": step_time.attention_s(n, p, shape, gpu, tp=t),
            "traffic_s": step_time.traffic_s(n, shape, gpu, tp=t),
            "all_reduce_s": step_time.all_reduce_s(n, shape, gpu, tp=t),
            "kv_read_s": step_time.kv_read_s(b, gpu, beside_chunk=True),
            "step_s": step_time.step_s(n, shape, gpu, tp=t, sampled=s),
            "decode_s": step_time.decode_s(d, b, shape, gpu, tp=t),
            "prefill_s": step_time.prefill_s(n, p, shape, gpu, tp=t, chunk_tokens=c, sequences=s),
            "marginal_prefill_s": step_time.marginal_prefill_s(
                n, p, shape, gpu, decode_sequences=d, decode_kv_bytes_per_gpu=b, max_num_batched_tokens=c, tp=t
            ),
            "floor_s": step_time.floor_s(n, p, shape, gpu, tp=t, sequences=s),
        }

    together = every(new, past, GpuRates(**rates), tp, chunk, sequences, decodes, kv)
    for i in range(size):
        gpu = GpuRates(**{name: float(values[i]) for name, values in rates.items()})
        numbers = (int(values[i]) for values in (new, past))
        rest = (int(values[i]) for values in (tp, chunk, sequences, decodes, kv))
        for name, alone in every(*numbers, gpu, *rest).items():
            assert together[name].shape == (size,), name
            assert together[name][i] == pytest.approx(alone, rel=1e-12), name


@CHECKED
@given(st.sampled_from(sorted(SHAPES)), st.integers(1, 100_000))
def test_two_sequences_together_cost_no_more_than_apart_and_no_less_than_one(model, tokens):
    shape, gpu = SHAPES[model], RATES["a100-sxm4-80gb"]
    one, two = step_time.prefill_s(tokens, 0, shape, gpu, chunk_tokens=10**6, sequences=np.array([1, 2]))
    assert one < two <= 2 * one * (1 + 1e-12)
