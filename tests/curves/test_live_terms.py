"""Terms against the cost model: every stop of every slider, hand-picked and random Cases, and what is sent."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from explorer.sections import live
from kvmodel import catalog
from kvmodel.arrays import Floats
from kvmodel.curves import live_terms
from kvmodel.curves.live_terms import ALONE, STRATEGIES, LiveTerms, crossing, seconds
from kvmodel.curves.slider_stops import COUNT, LENGTH, RATE, SHARE, SURVIVAL
from kvmodel.errors import CaseError
from kvmodel.inputs.case import Case
from kvmodel.recovery import parts
from kvmodel.recovery.comparison import Comparison, compare_case
from kvmodel.recovery.costs import at

MOST_SENT_BYTES = 20 * 1024
EXACT = 1e-9
CASES = {
    "default": Case(),
    "windows, loads under the cliff": Case(
        model="gemma-3-27b", gpu="h100-sxm5-80gb", policy="vllm-v1-offload", layout="per-layer-kv", block_tokens=1,
    ),
    "experts and latent attention": Case(model="deepseek-v3", gpu="h200-sxm-141gb", tp=8, kv_dtype="fp8"),
    "two GPUs, an engine of 2023": Case(model="opt-13b", tp=2, timing="2023", policy="vllm-v0", block_tokens=256),
    "three preemptions, prompt kept alone": Case(preemptions=3, survival=0.35, policy="vllm-v1-offload", tokens=10_001),
    "figures of the reader": Case(copy_gb_per_s=3.3, gemm_efficiency=0.61, per_copy_us=7.0, request_overhead_ms=3.0),
    "memory locked at first use": Case(pinning="first-use", numa="far", preemptions=2),
    "all of it survives": Case(survival=1.0),
    "one token": Case(tokens=1),
}  # fmt: skip


def found_for(case: Case) -> tuple[LiveTerms, dict[str, int]]:
    found = live_terms.live_terms(compare_case(case))
    return found, {name: slider.case_stop for name, slider in found.sliders.items()}


def moved_case(case: Case, found: LiveTerms, stops: dict[str, int]) -> Comparison:
    """The Case that these stops stand for."""
    values = {name: found.sliders[name].values[stop] for name, stop in stops.items()}
    return compare_case(replace(case, **values))  # type: ignore[arg-type]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_every_length_at_every_copy_rate_costs_what_the_model_says(case: Case) -> None:
    found, stops = found_for(case)
    for rate, value in list(enumerate(found.sliders[RATE].values))[::7]:
        inputs = compare_case(replace(case, copy_gb_per_s=value)).inputs
        for name, priced in STRATEGIES.items():
            got = seconds(found, name, stops | {RATE: rate})
            want = priced(at(inputs, tokens=found.lengths)).victim_delay_s
            assert got == pytest.approx(np.broadcast_to(want, got.shape), rel=EXACT), (name, value)


@pytest.mark.parametrize("slider", ALONE)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_every_stop_of_a_slider_that_goes_alone_costs_what_the_model_says(case: Case, slider: str) -> None:
    found, stops = found_for(case)
    for stop in range(len(found.sliders[slider].values)):
        moved = stops | {slider: stop, RATE: 20}
        inputs = moved_case(case, found, moved).inputs
        for name, priced in STRATEGIES.items():
            got = seconds(found, name, moved, slider)
            want = priced(at(inputs, tokens=found.lengths[found.sparse])).victim_delay_s
            assert got == pytest.approx(np.broadcast_to(want, got.shape), rel=EXACT), (name, stop)


def test_another_round_length_is_priced_by_what_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """And gives the same as pricing it anew, for lengths at which the pool holds fewer preemptions too."""
    case = Case(model="llama-2-7b", tokens_between=40_000, preemptions=2)
    live_terms._cached_sparse_terms.cache_clear()
    live_terms.live_terms(compare_case(case))
    for tokens in (128, 5120, 20_480, 65_536):
        result = compare_case(replace(case, tokens=tokens))
        with monkeypatch.context() as patch:
            patch.setattr(live_terms, "_terms", None)
            found = live_terms.live_terms(result)
        anew = live_terms._sparse_terms(result.case, tuple(found.sparse)).live_terms
        stops = {name: slider.case_stop for name, slider in found.sliders.items()}
        for name in STRATEGIES:
            assert seconds(found, name, stops) == pytest.approx(seconds(anew, name, stops), rel=EXACT)
            for slider in ALONE:
                assert list(found.sliders[slider].numbers) == list(anew.sliders[slider].numbers)
                for stop in range(len(found.sliders[slider].values)):
                    moved = stops | {slider: stop}
                    kept = seconds(found, name, moved, slider)
                    assert kept == pytest.approx(anew_at(anew, found, name, moved, slider), rel=EXACT)
    assert live_terms._cached_sparse_terms.cache_info().misses == 1


def anew_at(anew: LiveTerms, found: LiveTerms, name: str, stops: dict[str, int], slider: str) -> Floats:
    return seconds(replace(anew, regular=found.regular), name, stops, slider)


@settings(max_examples=25, deadline=None, phases=(Phase.reuse, Phase.generate))
@given(data=st.data())
def test_random_cases_cost_what_the_model_says(data: st.DataObject) -> None:
    case = data.draw(random_cases())
    try:
        result = compare_case(case)
    except CaseError:
        return
    found, stops = found_for(case)
    here = found.sliders[LENGTH].case_stop
    for name in STRATEGIES:
        want = float(np.asarray(result.prices[name].victim_delay_s))
        assert seconds(found, name, stops)[here] == pytest.approx(want, rel=EXACT)
    slider = data.draw(st.sampled_from(ALONE))
    moved = stops | {slider: data.draw(st.integers(0, len(found.sliders[slider].values) - 1))}
    answer = moved_case(case, found, moved)
    for name in STRATEGIES:
        want = float(np.asarray(answer.prices[name].victim_delay_s))
        got = seconds(found, name, moved, slider)[found.sparse.index(here)]
        assert got == pytest.approx(want, rel=EXACT)


def random_cases() -> st.SearchStrategy[Case]:
    return st.builds(
        Case,
        model=st.sampled_from(catalog.model_ids()),
        gpu=st.sampled_from(catalog.gpu_ids()),
        tokens=st.integers(1, 300_000),
        block_tokens=st.sampled_from([1, 16, 32, 256]),
        layout=st.sampled_from(["per-layer-kv", "per-layer", "contiguous"]),
        preemptions=st.integers(1, 8),
        tokens_between=st.integers(0, 2000),
        survival=st.floats(0, 1).map(lambda share: round(share, 2)),
        copy_gb_per_s=st.none() | st.floats(0.1, 900),
        gemm_efficiency=st.none() | st.floats(0.05, 1.2),
        max_num_batched_tokens=st.sampled_from([512, 2048, 8192]),
        timing=st.sampled_from(["kernels", "today", "2023"]),
        policy=st.sampled_from(["ideal", "vllm-v0", "vllm-v1-offload", "lmcache"]),
        pinning=st.sampled_from(["ready", "first-use"]),
    )


def sent_bytes(found: LiveTerms) -> int:
    return len(json.dumps(live.payload(found, turn=None, fields=tuple(found.sliders))).encode())


def test_shapes() -> None:
    found, _ = found_for(Case())
    lengths, few = len(found.lengths), len(found.sparse)
    assert lengths == 81  # ten octaves in eight steps, both ends
    assert found.lengths[0] == 128
    assert found.lengths[-1] == 131072
    assert few == 21
    assert found.terms["swap"][SURVIVAL] == {}, "nothing of a copy survives on the GPU"
    for along in found.terms.values():
        assert all(base.shape == (lengths,) for base in along[LENGTH].values())
        for slider in ALONE:
            stops = len(found.sliders[slider].values)
            assert all(rows.shape == (stops, few) for rows in along[slider].values())
            assert along[slider].keys() <= along[LENGTH].keys()
    for slider, named in found.parts.items():
        for row in named.values():
            assert row.shape == (len(found.sliders[slider].values),)
    assert found.coefficients["out"].shape == (len(found.sliders[RATE].values),)


def test_a_swap_by_hand() -> None:
    """512 MiB out and in at 20 GB/s, 1 us a copy of 256 blocks each way, nothing else: kernels have no engine."""
    case = Case(timing="kernels", copy_gb_per_s=20, per_copy_us=1)
    found, stops = found_for(case)
    here = stops[LENGTH]
    terms = found.terms["swap"][LENGTH]
    assert terms["out"][here] == pytest.approx(512 * 2**20)
    assert terms["in"][here] == pytest.approx(512 * 2**20)
    assert terms["rest"][here] == pytest.approx(2 * 256e-6, rel=1e-6)
    assert seconds(found, "swap", stops)[here] == pytest.approx(2 * 512 * 2**20 / 20e9 + 512e-6, rel=1e-6)


@pytest.mark.parametrize("case", [CASES["default"], CASES["experts and latent attention"]], ids=["dense", "experts"])
def test_parts_are_those_of_the_stacked_bars(case: Case) -> None:
    found, stops = found_for(case)
    bars = parts.parts(compare_case(case).inputs)["recompute"]
    for slider in (LENGTH, *ALONE):
        assert found.parts[slider]["matrix"][stops[slider]] == pytest.approx(bars["linear"], rel=1e-6)
        assert found.parts[slider]["attention"][stops[slider]] == pytest.approx(bars["attention"], rel=1e-6)


def test_no_stop_needs_more_than_the_pool() -> None:
    case = Case(model="llama-2-7b", gpu="a10g", tokens=8000, tokens_between=2500, decode_batch=1)
    found, stops = found_for(case)
    longest, most = len(found.lengths) - 1, len(found.sliders[COUNT].values) - 1
    assert moved_case(case, found, stops | {LENGTH: longest}).prices
    assert moved_case(case, found, stops | {COUNT: most}).prices
    assert most < 4, "five preemptions do not fit"


def test_stops_rise_and_hold_the_cases_own() -> None:
    case = Case(tokens=5000, copy_gb_per_s=3.3, gemm_efficiency=0.61, survival=0.33, preemptions=9)
    found, stops = found_for(case)
    for name, slider in found.sliders.items():
        assert (np.diff(slider.numbers) >= 0).all()
        assert slider.values[stops[name]] == asdict(case)[name]
    for name in (RATE, SHARE):
        given = found.sliders[name].catalog_stop
        assert given is not None
        assert found.sliders[name].values[given] is None
    assert found.sliders[RATE].numbers[found.sliders[RATE].catalog_stop] == pytest.approx(25.0)


@pytest.mark.parametrize(
    ("first", "second", "chosen", "where"),
    [
        pytest.param([1, 4, 16], [2, 2, 2], 1, 2**0.5, id="straight on log scales: half way to a doubling of x"),
        pytest.param([1, 2, 4], [4, 8, 16], 1, None, id="never"),
        pytest.param([1, 4, 1], [2, 2, 2], 1.1, 2**0.5, id="the nearest of two, from the left"),
        pytest.param([1, 4, 1], [2, 2, 2], 3.9, 2**1.5, id="the nearest of two, from the right"),
        pytest.param([0, 4, 16], [2, 2, 2], 1, None, id="nothing is no point of a log scale"),
    ],
)
def test_where_curves_meet(first: list[float], second: list[float], chosen: float, where: float | None) -> None:
    found = crossing(np.array([1.0, 2.0, 4.0]), np.array(first, float), np.array(second, float), chosen)
    assert found == (None if where is None else pytest.approx(where))


def test_the_meeting_point_is_near_the_models_break_even() -> None:
    case = Case(copy_gb_per_s=3.6)
    found, stops = found_for(case)
    few = list(found.regular)
    swap, recompute = (seconds(found, name, stops)[few] for name in ("swap", "recompute"))
    even = compare_case(case).even.context_tokens
    assert crossing(found.lengths[few], swap, recompute, case.tokens) == pytest.approx(even, rel=0.05)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_is_sent_is_small(case: Case) -> None:
    found, _ = found_for(case)
    assert sent_bytes(found) <= MOST_SENT_BYTES


@pytest.mark.parametrize(
    ("figure", "text"),
    [(4100.0, "4,100"), (1000.0, "1,000"), (25.0, "25"), (2.2, "2.2"), (0.1, "0.1"), (31.84, "31.8")],
)
def test_a_copy_rate_is_written_without_what_it_does_not_need(figure: float, text: str) -> None:
    assert live.stop_text(RATE, figure) == text
