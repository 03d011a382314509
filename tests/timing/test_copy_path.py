"""How copies are made: by hand for each input, against published rates, and what it does to the prices."""

import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from kvmodel import catalog, compare
from kvmodel.catalog import assumptions
from kvmodel.cli import answers
from kvmodel.errors import CaseError, CatalogError
from kvmodel.evidence import measured
from kvmodel.inputs.case import case_from, options_of
from kvmodel.memory import kv_cache
from kvmodel.recovery import break_even, costs, resolve, strategies
from kvmodel.recovery.costs import at
from kvmodel.sweeps.choices import read_choices
from kvmodel.timing.copy_path import STAGED, assumptions_used, copy_path

PATH_FIELDS = ("copy_method", "host_memory", "pinning", "numa", "duplex")
CLIFF = 28 * 1024
METHODS = {  # as published -> as a Case names it
    "DMA cudaMemcpyAsync": "per-copy", "memcpy": "per-copy", "DMA": "per-copy",
    "custom copy kernel": "kernel", "copy kernel (SM)": "kernel", "copy kernel": "kernel",
    "cuMemcpyBatchAsync, one call": "batched",
}  # fmt: skip
CHECKED = settings(
    derandomize=True, deadline=None, max_examples=150, suppress_health_check=[HealthCheck.filter_too_much]
)


def path_of(**choices):
    return copy_path(case_from(choices))


def inputs_of(**choices):
    return resolve.inputs(case_from(choices))


def answer(**choices):
    case, own = read_choices(choices, ("bytes_per_copy", "copies", "direction"))
    return answers.copy(case, vars(case) | own)


# rates and costs, by hand


@pytest.mark.parametrize(
    ("choices", "h2d", "d2h", "per_copy_in", "per_copy_out"),
    [
        pytest.param({}, 25e9, 25e9, 2.0e-6, 3.1e-6, id="the link's row, a call for each"),
        pytest.param({"copy_method": "batched"}, 25e9, 25e9, 0.08e-6, 0.08e-6, id="one call for all"),
        pytest.param({"copy_method": "kernel"}, 24.5e9, 24.5e9, 0.21e-6, 0.21e-6, id="0.98 of the rate by a kernel"),
        pytest.param({"host_memory": "pageable"}, 12.5e9, 12.5e9, 20e-6, 13e-6, id="staged at 25 GB/s: half of 25"),
        pytest.param({"numa": "far"}, 7.75e9, 5e9, 2.0e-6, 3.1e-6, id="the far socket"),
        pytest.param({"duplex": "both-ways"}, 11.5e9, 24e9, 2.0e-6, 3.1e-6, id="both ways: H2D gives way on PCIe 4"),
        pytest.param({"duplex": "both-ways", "gpu": "h100-sxm5-80gb"}, 44.856e9, 44.856e9, 3.5e-6, 3.5e-6, id="PCIe 5"),
        pytest.param(
            {"duplex": "both-ways", "gpu": "h100-sxm5-80gb", "copy_method": "kernel"}, 0.98 * 0.7 * 50.4e9,
            0.98 * 0.7 * 50.4e9, 0.21e-6, 0.21e-6, id="kernels in each other's way",
        ),
        pytest.param({"gpu": "rtx-4090"}, 25e9, 26.8e9, 2.0e-6, 3.1e-6, id="a GPU with a rate of its own, out"),
        pytest.param({"gpu": "rtx-4090", "link": "pcie3-x16"}, 12.5e9, 12.5e9, 2.0e-6, 3.1e-6, id="in another slot"),
        pytest.param({"gpu": "h200-sxm-141gb"}, 55.4e9, 55.1e9, 3.5e-6, 3.5e-6, id="H200"),
    ],
)  # fmt: skip
def test_rates_and_costs(choices, h2d, d2h, per_copy_in, per_copy_out):
    path = path_of(**choices)
    assert (path.h2d_bytes_per_s, path.d2h_bytes_per_s) == pytest.approx((h2d, d2h))
    assert (path.per_copy_h2d_s, path.per_copy_d2h_s) == pytest.approx((per_copy_in, per_copy_out))


@pytest.mark.parametrize("choices", [{"copy_gb_per_s": 7.0}, {"rate": "link"}])
def test_a_rate_of_ones_own_and_the_wires_stand_as_they_are(choices):
    plain = path_of(**choices)
    for worse in ({"numa": "far"}, {"duplex": "both-ways"}, {"copy_method": "kernel"}, {"host_memory": "pageable"}):
        path = path_of(**choices, **worse)
        assert (path.h2d_bytes_per_s, path.d2h_bytes_per_s) == (plain.h2d_bytes_per_s, plain.d2h_bytes_per_s)


def test_a_cost_of_ones_own_stands_for_every_method():
    for method in ("per-copy", "batched", "kernel"):
        path = path_of(per_copy_us=9.0, copy_method=method)
        assert (path.per_copy_h2d_s, path.per_copy_d2h_s) == pytest.approx((9e-6, 9e-6))


def test_no_kernel_reads_pageable_memory():
    with pytest.raises(CaseError, match=r"^copy_method: 'kernel' given with pageable memory, .*; allowed: pinned"):
        case_from({"copy_method": "kernel", "host_memory": "pageable"})
    assert path_of(host_memory="pageable", policy="lmcache").method == STAGED
    assert path_of(host_memory="pageable", copy_method="batched").small_loads is None


@pytest.mark.parametrize(
    ("policy", "method", "small"),
    [
        ("vllm-v0", "per-copy", None), ("vllm-v1", "per-copy", None), ("vllm-v1-offload", "batched", "kernel"),
        ("lmcache", "kernel", None), ("sglang-hicache", "kernel", None), ("trtllm-suspend", "kernel", None),
        ("ideal", "per-copy", None),
    ],
)  # fmt: skip
def test_auto_is_what_the_engine_does(policy, method, small):
    path = path_of(policy=policy)
    assert (path.method, path.small_loads and path.small_loads.method) == (method, small)
    assert path_of(policy=policy, copy_method="per-copy").method == "per-copy"


def test_every_engine_names_a_method_that_a_case_can_choose():
    for engine in catalog.table("engines").values():
        assert {engine["copy_method"], engine.get("small_loads", "kernel")} <= set(options_of("copy_method")) - {"auto"}


def test_the_default_case_and_the_articles_conditions_copy_as_before():
    scenarios = catalog.table("scenarios")
    for choices in ({}, scenarios["conditions"]["article"], scenarios["presets"]["figure19"]):
        path = path_of(**choices)
        assert (path.method, path.small_loads, path.sm_share, path.pin_s_per_byte) == ("per-copy", None, 0, 0)


def test_the_narrow_range_is_for_copies_made_as_in_the_sweep():
    h100 = {"gpu": "h100-sxm5-80gb"}
    assert inputs_of(**h100).copy_band == inputs_of(**h100, copy_method="kernel").copy_band == 0.06
    for choices in ({"copy_method": "batched"}, {"host_memory": "pageable"}, {"numa": "far"}, {"duplex": "both-ways"}):
        assert inputs_of(**h100, **choices).copy_band == inputs_of().copy_band == 0.20


# the cliff of a batched call


@pytest.mark.parametrize(
    ("size", "direction", "policy", "per_copy_s", "gb_per_s", "method"),
    [
        pytest.param(CLIFF, "h2d", "ideal", 0.08e-6, 50.4, "batched", id="at the cliff: fast"),
        pytest.param(CLIFF - 1, "h2d", "ideal", 0.53e-6, 7.95, "batched", id="below: the driver's slow path"),
        pytest.param(CLIFF - 1, "d2h", "ideal", 0.08e-6, 50.4, "batched", id="no cliff on the way out"),
        pytest.param(CLIFF - 1, "h2d", "vllm-v1-offload", 0.21e-6, 50.4, "kernel", id="vLLM: a kernel in its place"),
    ],
)
def test_the_cliff_by_hand(size, direction, policy, per_copy_s, gb_per_s, method):
    chosen = "auto" if policy == "vllm-v1-offload" else "batched"
    copied = answer(
        gpu="h100-sxm5-80gb", policy=policy, copy_method=chosen, bytes_per_copy=size, copies=50_000, direction=direction
    )
    assert copied["copy_s"] == pytest.approx(50_000 * (per_copy_s + size / (gb_per_s * 1e9)))
    assert copied["method"] == method
    assert copied["gpu_s"] == pytest.approx((0.09 if method == "kernel" else 0) * copied["copy_s"])


def test_a_slow_link_is_not_made_faster_by_the_cliff():
    slow = answer(copy_gb_per_s=2.0, copy_method="batched", bytes_per_copy=8192, copies=1000)
    assert slow["link_bytes_per_s"] == 2e9


def test_loads_of_a_case_fall_off_the_cliff_with_their_layout():
    """One layer of a block of Llama 3 70B at tp 8 is 8 KiB; all 80 layers together 640 KiB."""
    case = {"model": "llama-3-70b", "gpu": "h100-sxm5-80gb", "tp": 8, "timing": "kernels", "copy_method": "batched"}
    small, large = (inputs_of(**case, layout=layout) for layout in ("per-layer", "contiguous"))
    size = 4096 * 80 * 2 * 128 * 2  # bytes on each GPU: one KV head of 128, K and V, two bytes
    slow_s = 256 * 80 * 0.53e-6 + size / 7.95e9
    assert costs.load(small, 4096).copy.seconds == pytest.approx(slow_s)
    assert costs.load(large, 4096).copy.seconds == pytest.approx(
        256 * 0.08e-6 + size / 25e9
    )  # eight share the host's 200 GB/s
    vllm = inputs_of(**case | {"copy_method": "auto", "policy": "vllm-v1-offload"}, layout="per-layer")
    assert costs.load(vllm, 4096).copy.seconds == pytest.approx(256 * 80 * 0.21e-6 + size / 25e9)


def test_break_even_bytes_per_copy_stops_at_the_cliff():
    """Slow below, fast above: where recompute lies between the two, the cliff is the turn."""
    inputs = inputs_of(
        gpu="h100-sxm5-80gb", timing="kernels", copy_method="batched", layout="per-layer-kv", tokens=4096
    )
    just = {"h2d_bytes_per_s": 50e9, "d2h_bytes_per_s": 10e9}
    assert break_even.bytes_per_copy(at(inputs, **just)) == CLIFF
    free = at(inputs, small_loads=None, per_copy_h2d_s=1e-6, per_copy_d2h_s=1e-6)
    assert break_even.bytes_per_copy(free) < CLIFF


# multiprocessors, pinning, the engine's part of a load


def test_a_copy_kernel_takes_its_share_of_the_gpu():
    kernel, driver = (inputs_of(copy_method=method, timing="kernels") for method in ("kernel", "per-copy"))
    one_way_s = 256 * 0.21e-6 + 2**29 / 24.5e9
    assert strategies.swap(kernel).gpu_s == pytest.approx(0.09 * 2 * one_way_s)
    assert strategies.swap(driver).gpu_s == 0
    assert strategies.offload(kernel).gpu_s == pytest.approx(0.09 * 2 * one_way_s)  # written once, read once
    twice = at(kernel, preemptions=2, tokens_between=0)
    assert strategies.offload(twice).gpu_s == pytest.approx(0.09 * 3 * one_way_s)
    assert strategies.swap(at(kernel, swap_on_compute_stream=True)).gpu_s == pytest.approx(2 * one_way_s)
    split = strategies.both(kernel)
    loaded = 4096 - split.recomputed_tokens
    own_s = costs.prefill_marginal_s(kernel, split.recomputed_tokens, 0)
    assert split.gpu_s == pytest.approx(
        float(own_s + costs.load(kernel, loaded).copy.gpu_s + costs.copy_out(kernel, 4096).gpu_s)
    )


def test_pinning_is_paid_once_for_the_longest_context():
    """0.1 s a GB: 54 ms for 512 MiB, 57 ms for 32 MiB more."""
    ready, first = (inputs_of(timing="kernels", pinning=pinning) for pinning in ("ready", "first-use"))
    grown = {"preemptions": 2, "tokens_between": 256}
    for changed, size in (({}, 2**29), (grown, 2**29 + 2**25)):
        before, after = strategies.swap(at(ready, **changed)), strategies.swap(at(first, **changed))
        assert after.victim_delay_s - before.victim_delay_s == pytest.approx(0.1e-9 * size)
        assert after.link_s == before.link_s
    stored, pinned = strategies.offload(ready), strategies.offload(first)
    assert pinned.out_s - stored.out_s == pytest.approx(0.1e-9 * 2**29)
    assert pinned.victim_delay_s == stored.victim_delay_s
    assert path_of(pinning="first-use", host_memory="pageable").pin_s_per_byte == 0
    assert answer(pinning="first-use", bytes_per_copy=1e9)["pin_s"] == pytest.approx(0.1)


def test_a_load_of_today_has_the_engines_time_and_the_step_to_its_token():
    inputs, kernels = inputs_of(gpu="h100-sxm5-80gb"), inputs_of(gpu="h100-sxm5-80gb", timing="kernels")
    copying_s = costs.load(inputs, 4096).copy.seconds
    assert costs.load(inputs, 4096).load_s == pytest.approx(copying_s + 0.0022 + 256 * 5e-6)
    assert costs.load(inputs, 4096).in_s - costs.load(inputs, 4096).load_s == pytest.approx(float(inputs.next_token_s))
    assert 0.005 < inputs.next_token_s < 0.009  # 16 GB of weights at 3.35 TB/s, and launches
    assert costs.load(inputs, 0).in_s == costs.load(inputs, 0).load_s == 0
    assert costs.load(kernels, 4096).in_s == costs.load(kernels, 4096).copy.seconds
    recomputes = at(inputs, offload_prompt_only=True)
    prompt = costs.load(inputs, 3072).load_s + costs.prefill_alone_s(inputs, 1024, 3072)
    assert strategies.offload(recomputes).victim_delay_s == pytest.approx(float(prompt))  # the prefill gives the token


# against published rates


def errors(*kinds, methods=("per-copy", "kernel"), host_memory="pinned"):
    found = []
    for row in measured.copies():
        if row.kind in kinds and METHODS[row.method] in methods and row.host_memory == host_memory:
            copied = answer(
                gpu=row.gpu, link=row.link, copy_method=METHODS[row.method], direction=row.direction,
                bytes_per_copy=row.bytes_per_copy, copies=row.copies, host_memory=host_memory,
            )  # fmt: skip
            found.append(copied["effective_bytes_per_s"] / row.bytes_per_s - 1)
    assert len(found) > 2
    return np.abs(found)


def test_rates_by_block_size_and_of_large_pinned_copies():
    assert np.median(errors("bw_vs_block", "bw_vs_size")) < 0.02


def test_batched_loads_below_their_cliff():
    """Published for 10,000 to 100,000 pieces in one call; with 10,000 they are up to four times faster than this."""
    small = errors("bw_vs_block", methods=("batched",))[:12]  # 4 to 24 KiB
    assert np.median(small) < 0.03
    assert np.median(errors("bw_vs_block", methods=("batched",))) < 0.06


def test_pageable_memory_within_what_the_processors_cache_hides():
    """1 to 16 MiB fit in the cache and read faster (14 to 18 GB/s) than a KV pool in memory, 12.9 at 64 MiB."""
    assert np.max(errors("bw_vs_size", methods=("per-copy",), host_memory="pageable")) < 0.35


@pytest.mark.parametrize(
    ("model", "method", "most"),
    [("llama-3.1-8b", "DMA", 0.08), ("llama-3.2-1b", "DMA", 0.05), ("llama-3.2-1b", "copy kernel", 0.08)],
)
def test_loads_through_a_whole_engine_above_5_000_tokens(model, method, most):
    """vLLM on an H100, blocks of 2 MiB and 0.5 MiB: link, calls, 5 us a block, 2 ms and the step to the token."""
    rows = [row for row in measured.copies() if row.kind == "ttft_load" and (row.model, row.method) == (model, method)]
    rows = [row for row in rows if row.tokens > 5000]
    assert len(rows) == 10
    inputs = inputs_of(model=model, gpu="h100-sxm5-80gb", copy_method=METHODS[method], decode_batch=0)
    model_s = costs.load(inputs, np.array([row.tokens for row in rows], float)).in_s
    assert np.median(np.abs(model_s / np.array([row.seconds for row in rows]) - 1)) < most


# properties


PATHS = st.fixed_dictionaries(
    {
        "gpu": st.sampled_from(catalog.gpu_ids()),
        "link": st.sampled_from(("auto", *catalog.link_ids())),
        "policy": st.sampled_from(options_of("policy")),
        **{field: st.sampled_from(options_of(field)) for field in PATH_FIELDS},
        "direction": st.sampled_from(["h2d", "d2h"]),
        "bytes_per_copy": st.integers(1, 2**26),
        "copies": st.integers(1, 10**6),
    }
)


def copied(choices):
    assume((choices["copy_method"], choices["host_memory"]) != ("kernel", "pageable"))
    return answer(**choices)


@CHECKED
@given(PATHS, st.integers(1, 1000))
def test_more_copies_take_longer_and_larger_ones_too_on_each_side_of_the_cliff(choices, times):
    here = copied(choices)
    assert copied(choices | {"copies": choices["copies"] * times})["copy_s"] == pytest.approx(here["copy_s"] * times)
    larger = choices["bytes_per_copy"] * times
    if (choices["bytes_per_copy"] < CLIFF) == (larger < CLIFF):
        assert copied(choices | {"bytes_per_copy": larger})["copy_s"] >= here["copy_s"] * (1 - 1e-12)


@CHECKED
@given(PATHS)
def test_nothing_is_faster_than_the_wire(choices):
    """Nor than near, pinned memory with the link to itself."""
    here = copied(choices)
    link = catalog.link(case_from({key: choices[key] for key in ("gpu", "link")}).link_id)
    assert here["effective_bytes_per_s"] <= link.link_bytes_per_s
    calm = choices | {"numa": "near", "duplex": "alone"}
    assert here["link_bytes_per_s"] <= copied(calm)["link_bytes_per_s"]
    if choices["copy_method"] == "per-copy":
        assert here["link_bytes_per_s"] <= copied(calm | {"host_memory": "pinned"})["link_bytes_per_s"]


@CHECKED
@given(PATHS)
def test_a_kernel_is_never_slower_than_a_call_a_copy_while_pieces_are_small(choices):
    """Its rate is 2 % less, its cost of a copy 1.8 us and more: up to 64 KiB that wins on every link."""
    small = choices | {"bytes_per_copy": min(choices["bytes_per_copy"], 2**16), "host_memory": "pinned"}
    by_kernel, by_call = (copied(small | {"duplex": "alone", "copy_method": m}) for m in ("kernel", "per-copy"))
    assert by_kernel["copy_s"] <= by_call["copy_s"]


@CHECKED
@given(PATHS, st.lists(st.integers(1, 2**20), min_size=2, max_size=5))
def test_an_array_of_sizes_equals_its_scalars(choices, sizes):
    case, own = read_choices(
        {k: v for k, v in choices.items() if k != "bytes_per_copy"} | {"host_memory": "pinned"}, ("copies", "direction")
    )
    together = answers.copy(case, vars(case) | own | {"bytes_per_copy": np.array(sizes, float)})
    for index, size in enumerate(sizes):
        alone = answers.copy(case, vars(case) | own | {"bytes_per_copy": float(size)})
        for key, value in alone.items():
            assert np.broadcast_to(together[key], len(sizes))[index] == value, key


@pytest.mark.parametrize("layout", kv_cache.LAYOUTS)
@pytest.mark.parametrize("policy", ["vllm-v1-offload", "lmcache"])
def test_prices_over_arrays_equal_their_scalars(layout, policy):
    inputs = inputs_of(
        model="llama-3-70b", gpu="h100-sxm5-80gb", tp=8, policy=policy, layout=layout, pinning="first-use"
    )
    tokens = np.array([17.0, 1000.0, 30_000.0])
    together = strategies.price(at(inputs, tokens=tokens))
    for index, length in enumerate(tokens):
        for name, alone in strategies.price(at(inputs, tokens=length)).items():
            for key in ("victim_delay_s", "out_s", "in_s", "gpu_s", "link_s"):
                whole = np.broadcast_to(getattr(together[name], key), 3)
                assert whole[index] == pytest.approx(float(getattr(alone, key)), rel=1e-12), (name, key)


# the data, and what is shown of it


def figures():
    for section, rows in catalog.table("copies").items():
        for key, row in rows.items():
            if isinstance(row, dict) and "value" in row:
                yield section, key
            elif isinstance(row, dict):
                yield from ((f"{section}.{key}", inner) for inner in row)


@pytest.mark.parametrize(("section", "key"), list(figures()))
def test_every_figure_has_a_unit_a_basis_and_a_source(section, key):
    row = assumptions.assumption(section, key, "copies")
    assert row.unit
    assert row.value >= 0
    assert row.basis in ("measured", "assumed")
    assert catalog.source(row.source)["title"]
    assert row.unit != "share" or row.value <= 1


def test_rows_by_link_and_gpu_name_known_ones():
    for section, rows in catalog.table("copies").items():
        keys = set(rows) - {"unit", "default"}
        if section.startswith(("far_node", "both_ways")):
            assert "default" in rows
            assert keys <= set(catalog.link_ids())
        if section.startswith("gpu_"):
            assert keys <= set(catalog.gpu_ids())


def test_a_missing_figure_is_named():
    with pytest.raises(CatalogError, match=r"^copies kernel: no_such_figure is missing$"):
        assumptions.value("kernel", "no_such_figure", "copies")


def test_every_combination_shows_figures_that_exist():
    for values in itertools.product(*(options_of(field) for field in PATH_FIELDS)):
        choices = dict(zip(PATH_FIELDS, values, strict=True))
        if (choices["copy_method"], choices["host_memory"]) == ("kernel", "pageable"):
            continue
        for gpu in ("a100-sxm4-80gb", "h200-sxm-141gb"):
            case = case_from(choices | {"gpu": gpu, "policy": "vllm-v1-offload"})
            names = [
                name for name, section, key in assumptions_used(case) if assumptions.assumption(section, key, "copies")
            ]
            assert len(set(names)) == len(names)


def test_compare_takes_the_path():
    slow = compare(host_memory="pageable", numa="far", duplex="both-ways", pinning="ready")
    quick = compare()
    for name in ("swap", "offload"):
        assert slow["strategies"][name]["victim_delay_s"] > quick["strategies"][name]["victim_delay_s"]
    assert slow["strategies"]["recompute"] == quick["strategies"]["recompute"]
