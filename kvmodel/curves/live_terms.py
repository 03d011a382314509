r"""Terms of the live crossover: what a browser multiplies and adds while a slider is dragged.

.. math:: t(S) = \sum_k b_k(S) \, c_k

A delay is bytes of each kind, times the seconds that such a byte takes at a copy rate, the steps after loads, times
the seconds of one, and the rest. That is linear, so every length goes with every rate. A recompute is not linear in
what the other sliders move (the root of a sum of squares, chunks, the longer of host and GPU): there the terms hold
the cost model's own answer at each stop of one slider, all else as in the Case. Nothing of the model is written down a
second time, here or in the browser.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from kvmodel.arrays import Floats, Numbers
from kvmodel.curves import slider_stops
from kvmodel.curves.slider_stops import COUNT, LENGTH, RATE, SHARE, SURVIVAL, Slider
from kvmodel.inputs.case import Case
from kvmodel.recovery import resolve, strategies
from kvmodel.recovery.comparison import Comparison
from kvmodel.recovery.costs import at
from kvmodel.recovery.resolve import Inputs
from kvmodel.recovery.strategies import Price
from kvmodel.timing import transfer
from kvmodel.timing.step_time import GpuRates
from kvmodel.units import GB

STRATEGIES: dict[str, Callable[[Inputs], Price]] = {
    "recompute": strategies.recompute,
    "swap": strategies.swap,
    "offload": strategies.offload,
}
# Bytes written (D2H), bytes read (H2D), bytes read in pieces below a cliff of the copy path, steps after a load.
LINEAR = ("out", "in", "in_small", "next_token")
REST = "rest"  # seconds that stand as they are
ALONE = (SHARE, SURVIVAL, COUNT)  # one of these at a time leaves the Case; length and rate are free with any
SAME = 1e-10  # a rounding error, not a change


@dataclass(frozen=True)
class LiveTerms:
    """All that the delays of recompute, swap and offload need, for every stop of every slider.

    `terms` are by strategy, slider and term (bytes, steps, seconds). Those of `tokens` have a value a length; those of
    a slider of :data:`ALONE` a row a stop and a column a length of `sparse`, and are left out where it moves nothing.
    `coefficients` are the seconds of a byte at each stop of the copy rate, and of a step at each of the share of the
    peak. `parts` are seconds of a recompute's matrix products and attention: a value a length, and along each slider of
    ALONE a value a stop, at the chosen length. `kv_bytes` are those of one request, on one GPU.
    """

    sliders: dict[str, Slider]
    regular: tuple[int, ...]
    terms: dict[str, dict[str, dict[str, Floats]]]
    coefficients: dict[str, Floats]
    parts: dict[str, dict[str, Floats]]
    kv_bytes: Floats
    bands: dict[str, float]
    available: tuple[str, ...]

    @property
    def lengths(self) -> Floats:
        """Context lengths that curves are known at. [tokens]"""
        return self.sliders[LENGTH].numbers

    @property
    def sparse(self) -> list[int]:
        """Indices of the lengths along a slider that goes alone: evenly spread ones, and the chosen one."""
        return sorted({*self.regular, self.sliders[LENGTH].case_stop})


@dataclass(frozen=True)
class _SparseTerms:
    """What does not depend on the length that is chosen: terms with a column for each of some of its lengths."""

    live_terms: LiveTerms
    columns: tuple[int, ...]


def live_terms(result: Comparison) -> LiveTerms:
    """The terms of one Case.

    At a length where the slider stops by itself nothing is priced anew when only the length is another one.
    """
    case, inputs = result.case, result.inputs
    sliders = slider_stops.sliders(case, inputs)
    lengths, regular = sliders[LENGTH], slider_stops.spread(sliders[LENGTH], inputs)
    sparse = sorted({*regular, lengths.case_stop})
    if slider_stops.is_round(case.tokens, inputs):
        shortest = replace(case, tokens=int(lengths.numbers[0]))
        source = _cached_sparse_terms(shortest, tuple(range(lengths.numbers.size)))
    else:
        source = _sparse_terms(case, tuple(sparse))
    whole, places = source.live_terms, np.searchsorted(source.columns, sparse)
    here = source.columns.index(lengths.case_stop)
    stand = {name: np.searchsorted(whole.sliders[name].numbers, sliders[name].numbers) for name in ALONE}
    return replace(
        whole,
        sliders=sliders,
        regular=regular,
        terms={
            name: {LENGTH: along[LENGTH]}
            | {
                slider: {term: values[np.ix_(stand[slider], places)] for term, values in along[slider].items()}
                for slider in ALONE
            }
            for name, along in whole.terms.items()
        },
        parts={LENGTH: whole.parts[LENGTH]}
        | {
            slider: {name: values[stand[slider], here] for name, values in whole.parts[slider].items()}
            for slider in ALONE
        },
    )


def _sparse_terms(case: Case, columns: tuple[int, ...]) -> _SparseTerms:
    """Every stop of a Case's sliders at every length, and of those that go alone at the lengths of `columns`."""
    inputs = resolve.inputs(case)
    sliders = slider_stops.sliders(case, inputs)
    lengths, few = sliders[LENGTH].numbers, list(columns)
    stops, rows = _stop_inputs(inputs, case, sliders)
    points = _points(inputs, stops, lengths, few)

    def split(values: Floats) -> tuple[Floats, Floats]:
        """What belongs to the lengths alone, and a row a stop of the sliders that go alone."""
        return values[: lengths.size], values[lengths.size :].reshape(-1, len(few))

    def along(terms: dict[str, Floats]) -> tuple[dict[str, Floats], dict[str, Floats]]:
        whole, each = zip(*map(split, terms.values()), strict=True)
        return dict(zip(terms, whole, strict=True)), dict(zip(terms, each, strict=True))

    parts, stop_parts = along(_parts(points))
    full = LiveTerms(
        sliders=sliders,
        regular=(),
        terms={name: _along_sliders(*along(_terms(price, points)), rows, few) for name, price in STRATEGIES.items()},
        coefficients=_s_per_byte(inputs, case, sliders[RATE])
        | {"next_token": _s_per_step(inputs, case, stops.gpu, rows[SHARE])},
        parts={LENGTH: parts}
        | {slider: {name: each[place] for name, each in stop_parts.items()} for slider, place in rows.items()},
        kv_bytes=np.broadcast_to(resolve.moved_bytes(inputs, lengths), lengths.shape),
        bands={"recompute": float(inputs.prefill_band), "swap": float(inputs.copy_band)},
        available=tuple(name for name in STRATEGIES if name in inputs.available),
    )
    return _SparseTerms(full, columns)


_cached_sparse_terms = functools.lru_cache(maxsize=64)(_sparse_terms)


def _stop_inputs(inputs: Inputs, case: Case, sliders: Mapping[str, Slider]) -> tuple[Inputs, dict[str, slice]]:
    """Inputs with a value for each stop of each slider of :data:`ALONE`, all else as in the Case; and its place."""
    catalog_rates, share = slider_stops.from_catalog(case)[0], sliders[SHARE]
    ends = np.cumsum([0, *(len(sliders[name].values) for name in ALONE)])
    rows = {name: slice(int(start), int(end)) for name, start, end in zip(ALONE, ends, ends[1:], strict=False)}

    def column(slider: str, case_value: Numbers, numbers: ArrayLike) -> Floats:
        values = np.full(int(ends[-1]), case_value, dtype=float)
        values[rows[slider]] = numbers
        return values

    def shares(case_value: Numbers, catalog: Numbers) -> Floats:
        return column(SHARE, case_value, [catalog if value is None else value for value in share.values])

    gpu = replace(
        inputs.gpu,
        gemm_efficiency=shares(inputs.gpu.gemm_efficiency, catalog_rates.gemm_efficiency),
        fp8_gemm_efficiency=shares(inputs.gpu.fp8_gemm_efficiency, catalog_rates.fp8_gemm_efficiency),
    )
    survival = column(SURVIVAL, inputs.survival, sliders[SURVIVAL].numbers)
    preemptions = column(COUNT, inputs.preemptions, sliders[COUNT].numbers)
    return at(inputs, gpu=gpu, survival=survival, preemptions=preemptions), rows


def _points(case_inputs: Inputs, stops: Inputs, lengths: Floats, sparse: list[int]) -> Inputs:
    """All points that are priced, in one row: the Case at every length, then each of `stops` at a few of them."""
    stop_count = np.size(stops.survival)

    def row(case_value: Numbers, each: Numbers) -> Floats:
        return np.concatenate((np.full(lengths.size, case_value, dtype=float), np.repeat(each, len(sparse))))

    gpu = replace(
        case_inputs.gpu,
        gemm_efficiency=row(case_inputs.gpu.gemm_efficiency, stops.gpu.gemm_efficiency),
        fp8_gemm_efficiency=row(case_inputs.gpu.fp8_gemm_efficiency, stops.gpu.fp8_gemm_efficiency),
    )
    return at(
        case_inputs,
        tokens=np.concatenate((lengths, np.tile(lengths[sparse], stop_count))),
        survival=row(case_inputs.survival, stops.survival),
        preemptions=row(case_inputs.preemptions, stops.preemptions),
        gpu=gpu,
    )


def seconds(live: LiveTerms, strategy: str, at_stops: Mapping[str, int], slider: str = LENGTH) -> Floats:
    """Delay at every length, or with a slider of :data:`ALONE` moved at those of `sparse`: the browser's sum. [s]

    `at_stops` has the index of the stop that each slider stands at.
    """
    terms = live.terms[strategy]
    total = np.zeros(len(live.lengths) if slider == LENGTH else len(live.sparse))
    for term, base in terms[LENGTH].items():
        values = base
        if slider != LENGTH:
            rows = terms[slider].get(term)
            values = base[live.sparse] if rows is None else rows[at_stops[slider]]
        total = total + values * _coefficient(live, term, at_stops)
    return total


def _coefficient(live: LiveTerms, term: str, at_stops: Mapping[str, int]) -> float:
    if term == REST:
        return 1.0
    return float(live.coefficients[term][at_stops[SHARE if term == "next_token" else RATE]])


def crossing(x: Floats, first: Floats, second: Floats, here: float) -> float | None:
    """The x nearest to `here` at which two curves meet, straight on log scales between their points; None if none."""
    with np.errstate(divide="ignore", invalid="ignore"):
        gap, place = np.log(first) - np.log(second), np.log(x)
    turns = np.flatnonzero(np.isfinite(gap[:-1] + gap[1:]) & ((gap[:-1] > 0) != (gap[1:] > 0)))
    if not turns.size:
        return None
    meets = place[turns] + gap[turns] / (gap[turns] - gap[turns + 1]) * (place[turns + 1] - place[turns])
    return float(np.exp(meets[np.argmin(np.abs(meets - np.log(here)))]))


def _along_sliders(
    whole: dict[str, Floats], stops: dict[str, Floats], rows: dict[str, slice], sparse: list[int]
) -> dict[str, dict[str, Floats]]:
    """Terms of one strategy along every slider, without what stays as it is or is nothing."""
    by_slider = {
        slider: {term: values[place] for term, values in stops.items() if not _same(values[place], whole[term][sparse])}
        for slider, place in rows.items()
    }
    terms = {term for term, base in whole.items() if base.any()}.union(*by_slider.values())
    return {LENGTH: {term: base for term, base in whole.items() if term in terms}} | by_slider


def _same(rows: Floats, base: Floats) -> bool:
    return bool((np.abs(rows - base) <= SAME * np.abs(base)).all())


def _terms(price: Callable[[Inputs], Price], points: Inputs) -> dict[str, Floats]:
    """Terms of a delay at every point: at one byte a second, or a second a step, seconds are bytes or steps.

    The cost model is asked once for all: with copies and steps that take no time, and with one kind at a time slow.
    """
    links = {kind: np.full((1 + len(LINEAR), 1), np.inf) for kind in LINEAR}
    steps = np.zeros((1 + len(LINEAR), 1))
    for place, kind in enumerate(LINEAR, start=1):
        links[kind][place] = 1.0
    steps[-1] = 1.0
    loads = points.small_loads
    probe = at(
        points,
        d2h_bytes_per_s=links["out"],
        h2d_bytes_per_s=links["in"],
        host_memory_bytes_per_s=np.inf,
        small_loads=replace(loads, most_bytes_per_s=links["in_small"]) if loads else None,
        next_token_s=steps,
    )
    rest_s, *apart_s = np.broadcast_to(price(probe).victim_delay_s, (1 + len(LINEAR), np.size(points.tokens)))
    terms = {kind: seconds_s - rest_s for kind, seconds_s in zip(LINEAR, apart_s, strict=True)}
    return terms | {"in": terms["in"] - terms["in_small"], REST: rest_s}


def _parts(points: Inputs) -> dict[str, Floats]:
    """Seconds of a recompute's kernels: what is gone when matrix products, or attention, take no time."""
    no_products, no_attention = (np.array(factors).reshape(3, 1) for factors in ((1, np.inf, 1), (1, 1, np.inf)))
    gpu = replace(
        points.gpu,
        gemm_efficiency=points.gpu.gemm_efficiency * no_products,
        fp8_gemm_efficiency=points.gpu.fp8_gemm_efficiency * no_products,
        weight_read_efficiency=points.gpu.weight_read_efficiency * no_products,
        attention_efficiency=points.gpu.attention_efficiency * no_attention,
    )
    kernels = at(points, gpu=gpu, engine_factor=1.0, host_step_s=0.0, request_overhead_s=0.0)
    whole_s, *without_s = np.broadcast_to(strategies.recompute(kernels).victim_delay_s, (3, np.size(points.tokens)))
    return {name: whole_s - other_s for name, other_s in zip(("matrix", "attention"), without_s, strict=True)}


def _s_per_byte(inputs: Inputs, case: Case, rates: Slider) -> dict[str, Floats]:
    """Seconds that a byte takes at each stop of the copy rate; GPUs that copy together share the host's memory."""
    catalog_link = slider_stops.from_catalog(case)[1]
    rate_pairs = [(value, rates.numbers[index] * GB) for index, value in enumerate(rates.values)]
    out, into = (
        transfer.shared_rate_bytes_per_s(
            np.array([catalog if value is None else rate for value, rate in rate_pairs]),
            inputs.tp,
            inputs.host_memory_bytes_per_s,
        )
        for catalog in (catalog_link.d2h_bytes_per_s, catalog_link.h2d_bytes_per_s)
    )
    s_per_byte = {"out": 1 / out, "in": 1 / into}
    if inputs.small_loads:
        s_per_byte["in_small"] = 1 / np.minimum(into, inputs.small_loads.most_bytes_per_s)
    return s_per_byte


def _s_per_step(inputs: Inputs, case: Case, gpu: GpuRates, rows: slice) -> Floats:
    """Seconds of the step after a load at each share of the peak."""
    step_s = resolve.next_token_s(case, inputs.shape, gpu, inputs)
    return np.broadcast_to(step_s, np.shape(gpu.gemm_efficiency))[rows]
