"""Where the sliders of the live crossover stop: round figures, the Case's own, and the catalog's where there is one."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

import numpy as np

from kvmodel.arrays import Floats, Numbers
from kvmodel.curves.curves import LONGEST_TOKENS, SHORTEST_TOKENS
from kvmodel.inputs.case import Case
from kvmodel.recovery import resolve, strategies
from kvmodel.recovery.costs import at
from kvmodel.recovery.resolve import Inputs
from kvmodel.timing import step_time
from kvmodel.timing.copy_path import CopyPath, copy_path
from kvmodel.timing.step_time import GpuRates
from kvmodel.units import GB

LENGTH, RATE, SHARE, SURVIVAL, COUNT = "tokens", "copy_gb_per_s", "gemm_efficiency", "survival", "preemptions"
STEPS_PER_OCTAVE, SPREAD_PER_OCTAVE, MOST_OCTAVES = 8, 2, 11
RATES_PER_DECADE = (1, 1.1, 1.25, 1.4, 1.6, 1.8, 2, 2.2, 2.5, 2.8, 3.2, 3.6, 4, 4.5, 5, 5.6, 6.3, 7.1, 8, 9)
GB_PER_S: Floats = np.array([round(rate * decade, 3) for decade in (0.1, 1, 10, 100) for rate in RATES_PER_DECADE])
SLOWEST_GB_PER_S, FASTEST_GB_PER_S = 0.5, 500.0
SHARES_OF_PEAK: Floats = np.arange(4, 21) / 20
SURVIVALS: Floats = np.arange(20) / 20
PREEMPTIONS: Floats = np.arange(1.0, 6.0)


@dataclass(frozen=True)
class Slider:
    """Stops of one input of the Case, rising: the input at each, and the figure that it means.

    They differ where the input is None: the catalog's figure. `case_stop` is the index of the Case's own stop,
    `catalog_stop` that of the catalog's, None for inputs without one.
    """

    values: tuple[float | None, ...]
    numbers: Floats
    case_stop: int
    catalog_stop: int | None = None


def sliders(case: Case, inputs: Inputs) -> dict[str, Slider]:
    """The sliders of a Case by its fields; no stop needs more memory than the pool has, all else as it is."""
    return {
        LENGTH: _slider(_round_lengths(inputs, STEPS_PER_OCTAVE), case.tokens),
        RATE: _rates(case),
        SHARE: _shares_of_peak(case, inputs),
        SURVIVAL: _slider(SURVIVALS, case.survival),
        COUNT: _slider(PREEMPTIONS[_fits(inputs, inputs.tokens, PREEMPTIONS)], case.preemptions),
    }


@functools.lru_cache(maxsize=64)
def from_catalog(case: Case) -> tuple[GpuRates, CopyPath]:
    """Rates of the GPU and the path of the copies as they would be without figures of the reader's."""
    plain = replace(case, copy_gb_per_s=None, gemm_efficiency=None)
    return resolve.case_rates(plain), copy_path(plain)


def spread(lengths: Slider, inputs: Inputs) -> tuple[int, ...]:
    """Indices of a few of the lengths: the same tokens whichever is chosen; that one alone where no round one fits."""
    few = _round_lengths(inputs, SPREAD_PER_OCTAVE)
    places = np.searchsorted(lengths.numbers, few) if few.size else np.array([lengths.case_stop])
    return tuple(int(place) for place in places)


def is_round(tokens: int, inputs: Inputs) -> bool:
    """Whether the slider of lengths stops there for every Case that differs from this one in its length alone."""
    return SHORTEST_TOKENS <= tokens <= LONGEST_TOKENS and bool(
        (_round_lengths(inputs, STEPS_PER_OCTAVE) == tokens).any()
    )


def _round_lengths(inputs: Inputs, steps: int) -> Floats:
    """Lengths from 128 to 131,072 tokens, or to the chosen one, in `steps` even steps an octave, as far as they fit.

    Over a long way half as many: what a page sends is bounded.
    """
    shortest, longest = min(SHORTEST_TOKENS, float(inputs.tokens)), max(LONGEST_TOKENS, float(inputs.tokens))
    first, last = int(np.floor(np.log2(shortest))), int(np.ceil(np.log2(longest)))
    steps = steps if last - first <= MOST_OCTAVES else steps // 2
    lengths = np.unique(np.rint(np.outer(np.exp2(np.arange(first, last + 1)), 1 + np.arange(steps) / steps)))
    within = (lengths >= shortest) & (lengths <= longest)
    return lengths[within & _fits(inputs, lengths, inputs.preemptions)]


def _fits(inputs: Inputs, tokens: Numbers, preemptions: Numbers) -> Numbers:
    """Whether the pool holds a request of `tokens` at its last preemption."""
    last = strategies.last_context(at(inputs, tokens=tokens, preemptions=preemptions))
    return resolve.moved_bytes(inputs, last) <= inputs.pool_bytes_per_gpu


def _slider(stops: Floats, case_value: float) -> Slider:
    """Stops of an input that is never None, the Case's own among them."""
    numbers = np.union1d(stops, [float(case_value)])
    values = tuple(int(number) if number.is_integer() else number for number in numbers.tolist())
    return Slider(values, numbers, int(np.searchsorted(numbers, case_value)))


def _catalog_slider(stops: Floats, catalog_value: float, case_value: float | None) -> Slider:
    """Stops of an input that may be None, the catalog's figure and the Case's own among them."""
    others = stops if case_value is None else np.union1d(stops, [case_value])
    place = int(np.searchsorted(others, catalog_value))
    values = (*others[:place].tolist(), None, *others[place:].tolist())
    return Slider(values, np.insert(others, place, catalog_value), values.index(case_value), place)


def _rates(case: Case) -> Slider:
    """Rates of large copies; the catalog's may differ by direction and stands at its mean."""
    link = from_catalog(case)[1]
    mean_gb_per_s = 2 / (1 / link.h2d_bytes_per_s + 1 / link.d2h_bytes_per_s) / GB
    within = (GB_PER_S >= SLOWEST_GB_PER_S) & (GB_PER_S <= FASTEST_GB_PER_S)
    return _catalog_slider(GB_PER_S[within], mean_gb_per_s, case.copy_gb_per_s)


def _shares_of_peak(case: Case, inputs: Inputs) -> Slider:
    """Shares of the peak that matrix products reach; the model's own is that of the type it multiplies in."""
    shape, gpu = inputs.shape, from_catalog(case)[0]
    peak_s = step_time.linear_flop(1.0, shape) / step_time.matrix_peak_flop_per_s(shape, gpu)
    return _catalog_slider(SHARES_OF_PEAK, float(peak_s / step_time.compute_s(1.0, shape, gpu)), case.gemm_efficiency)
