"""What a preempted request costs: wait, recompute, swap, offload or both, priced for the same inputs.

Three prices, never added up: the victim's delay, GPU time taken from others, and the host link. The wait for free
blocks is paid by every strategy and stands apart. All of it broadcasts over arrays in
:class:`kvmodel.recovery.resolve.Inputs`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from kvmodel.arrays import Numbers
from kvmodel.recovery import costs, resolve
from kvmodel.recovery.resolve import Inputs
from kvmodel.timing.transfer import Transfer

STRATEGIES = ("wait", "recompute", "swap", "offload", "both")
BLOCK_CASES = 32768  # arrays of 256 KiB
TINY_S = 1e-12
MOST_IN_TURN = 16  # preemptions
AT_ONCE = 50_000  # values of an array: 400 KB
SPLIT_STEPS = 6  # evaluations for the best split of "both": its delay is then within 1 % of the least, mostly exact


@dataclass(frozen=True)
class Price:
    """One strategy, all preemptions together, in s and bytes; `low_s` to `high_s` bound the victim's delay."""

    victim_delay_s: Numbers
    out_s: Numbers
    in_s: Numbers
    gpu_s: Numbers
    link_bytes: Numbers
    link_s: Numbers
    host_bytes: Numbers
    recomputed_tokens: Numbers
    band: Numbers

    @property
    def low_s(self) -> Numbers:
        return self.victim_delay_s * (1 - self.band)

    @property
    def high_s(self) -> Numbers:
        return self.victim_delay_s * (1 + self.band)


def price(inputs: Inputs) -> dict[str, Price]:
    """Every strategy for these inputs, whether or not the policy has it; one function a strategy below.

    Where the running batch itself exceeds the pool, what rests on it (GPU time of a recompute, the queue) is NaN.
    Long arrays are priced in blocks that stay in the processor's cache.
    """
    columns = {
        field.name: value for field in fields(inputs) if isinstance(value := getattr(inputs, field.name), np.ndarray)
    }
    shapes = {column.shape for column in columns.values() if column.ndim}
    length = shapes.pop()[0] if len(shapes) == 1 and columns else 0
    if length <= BLOCK_CASES or any(column.ndim > 1 for column in columns.values()):
        return _price_block(inputs)
    long_columns = {name: column for name, column in columns.items() if column.ndim}
    whole: dict[str, dict[str, Any]] = {name: {} for name in STRATEGIES}
    for start in range(0, length, BLOCK_CASES):
        block = slice(start, start + BLOCK_CASES)
        for name, part in _price_block(
            costs.at(inputs, **{key: column[block] for key, column in long_columns.items()})
        ).items():
            _put(whole[name], part, block, length)
    return {name: Price(**values) for name, values in whole.items()}


def _price_block(inputs: Inputs) -> dict[str, Price]:
    return {
        "wait": wait(inputs),
        "recompute": recompute(inputs),
        "swap": swap(inputs),
        "offload": offload(inputs),
        "both": both(inputs),
    }


def _put(columns: dict[str, Any], part: Price, block: slice, length: int) -> None:
    """Write one block's values into whole columns; a value that is the same for all cases stays one number."""
    for field in fields(Price):
        value = getattr(part, field.name)
        if np.ndim(value) == 0:
            columns[field.name] = value
            continue
        if field.name not in columns:
            columns[field.name] = np.empty(length)
        columns[field.name][block] = value


def wait(inputs: Inputs) -> Price:
    """Never preempt: the price is the queue before the first token (`costs.queue_s`), paid once."""
    nothing = 0.0
    return Price(
        victim_delay_s=costs.queue_s(inputs),
        out_s=nothing,
        in_s=nothing,
        gpu_s=nothing,
        link_bytes=nothing,
        link_s=nothing,
        host_bytes=nothing,
        recomputed_tokens=nothing,
        band=inputs.prefill_band,
    )


def recompute(inputs: Inputs) -> Price:
    """Drop the KV and prefill again what the GPU's prefix cache has not kept (`survival`), at every preemption."""
    delay = gpu = tokens = 0.0
    for happens, context in _preemptions(inputs):
        past = inputs.survival * context
        new = context - past
        delay = delay + _in_all(inputs, happens, costs.prefill_alone_s(inputs, new, past))
        gpu = gpu + _in_all(inputs, happens, costs.prefill_marginal_s(inputs, new, past))
        tokens = tokens + _in_all(inputs, happens, new)
    nothing = 0.0
    return Price(delay, nothing, nothing, gpu, nothing, nothing, nothing, tokens, inputs.prefill_band)


def swap(inputs: Inputs) -> Price:
    """Copy the KV out and in again, at every preemption: the host copy is freed when it is read back.

    On an engine that copies on the compute stream (vLLM V0) the whole batch waits for both; else others lose the
    multiprocessors that a copy kernel holds. Host memory is locked once, for the longest context.
    """
    out = back = size = kernel = 0.0
    for happens, context in _preemptions(inputs):
        copy, load = costs.copy_out(inputs, context), costs.load(inputs, context)
        out = out + _in_all(inputs, happens, copy.seconds)
        back = back + _in_all(inputs, happens, load.in_s)
        kernel = kernel + _in_all(inputs, happens, (copy.gpu_s + load.copy.gpu_s))
        size = size + _in_all(inputs, happens, 2 * copy.size_bytes)
    link = out + back
    out = out + costs.pin_s(inputs, last_context(inputs))
    delay = out + back
    return Price(
        victim_delay_s=delay,
        out_s=out,
        in_s=back,
        gpu_s=delay if inputs.swap_on_compute_stream else kernel,
        link_bytes=size * inputs.tp,
        link_s=link,
        host_bytes=resolve.moved_bytes(inputs, last_context(inputs)) * inputs.tp,
        recomputed_tokens=0.0,
        band=inputs.copy_band,
    )


def offload(inputs: Inputs) -> Price:
    """Keep a host copy as KV is produced, each token written once; load it at every resume.

    What survives in the GPU's prefix cache is not loaded. With `offload_prompt_only` the generated part is
    recomputed after the load, and its prefill gives the next token. Writing, with locking the host memory for it, is
    off the critical path: in `out_s`, not in the delay.
    """

    def resume(context: Numbers) -> _Resume:
        gpu_tokens = inputs.survival * context
        host_tokens = stored_tokens(inputs, context)
        missing = np.maximum(host_tokens - gpu_tokens, 0.0)
        past = np.maximum(host_tokens, gpu_tokens)
        new = context - past
        load = costs.load(inputs, missing)
        loading_s = load.load_s + inputs.next_token_s * ((missing > 0) & (new <= 0))
        return _Resume(loading_s + costs.prefill_alone_s(inputs, new, past), loading_s, load.copy, new, past)

    return _from_host_copy(inputs, resume, stored_tokens(inputs, last_context(inputs)))


def both(inputs: Inputs) -> Price:
    r"""Recompute the first x tokens while the rest is loaded from a whole host copy; x is chosen.

    .. math:: t = \min_x \max(t_\text{prefill}(x), t_\text{in}(S - x))
    """

    def resume(context: Numbers) -> _Resume:
        past = inputs.survival * context
        split, slower_s = _best_split(inputs, past, context)
        load = costs.load(inputs, context - past - split)
        return _Resume(slower_s, load.in_s, load.copy, split, past)

    band = np.maximum(inputs.copy_band, inputs.prefill_band)
    return replace(_from_host_copy(inputs, resume, last_context(inputs)), band=band)


@dataclass(frozen=True)
class _Resume:
    """One resume from a host copy: its delay and its load, the tokens recomputed, and those before them."""

    delay_s: Numbers
    loading_s: Numbers
    copy: Transfer
    new: Numbers
    past: Numbers


def _from_host_copy(inputs: Inputs, resume: Callable[[Numbers], _Resume], stored_last: Numbers) -> Price:
    """All preemptions of a strategy that writes each of `stored_last` tokens once, and resumes as `resume` says."""
    delay = gpu = back = load_bytes = tokens = 0.0
    for happens, context in _preemptions(inputs):
        one = resume(context)
        delay = delay + _in_all(inputs, happens, one.delay_s)
        marginal = costs.prefill_marginal_s(inputs, one.new, one.past)
        gpu = gpu + _in_all(inputs, happens, (marginal + one.copy.gpu_s))
        back = back + _in_all(inputs, happens, one.loading_s)
        load_bytes = load_bytes + _in_all(inputs, happens, one.copy.size_bytes)
        tokens = tokens + _in_all(inputs, happens, one.new)
    write = costs.copy_out(inputs, stored_last)
    return Price(
        victim_delay_s=delay,
        out_s=write.seconds + costs.pin_s(inputs, stored_last),
        in_s=back,
        gpu_s=gpu + write.gpu_s,
        link_bytes=(load_bytes + write.size_bytes) * inputs.tp,
        link_s=back + write.seconds,
        host_bytes=write.size_bytes * inputs.tp,
        recomputed_tokens=tokens,
        band=np.maximum(inputs.copy_band, np.where(tokens > 0, inputs.prefill_band, 0.0)),
    )


def _best_split(inputs: Inputs, past: Numbers, context: Numbers) -> tuple[Numbers, Numbers]:
    """Tokens to recompute, in whole blocks, and the delay then: where prefill and load meet, or none, or all.

    Regula falsi (Anderson and Bjoerck) over whole blocks on the difference of the two, which grows with the split.
    """
    missing, block = context - past, inputs.block_tokens
    load_all_s, recompute_all_s = costs.load(inputs, missing).in_s, costs.prefill_alone_s(inputs, missing, past)
    best = np.where(recompute_all_s < load_all_s, missing, 0.0)
    best_s = np.minimum(recompute_all_s, load_all_s)
    low, high = np.zeros(np.shape(missing)), missing
    low_s, high_s = costs.prefill_alone_s(inputs, np.minimum(1.0, missing), past) - load_all_s, recompute_all_s
    for _ in range(SPLIT_STEPS):
        root = low - low_s * (high - low) / np.maximum(high_s - low_s, TINY_S)
        split = np.clip(np.floor(root / block) * block, low + block, high)
        computing_s = costs.prefill_alone_s(inputs, split, past)
        loading_s = costs.load(inputs, missing - split).in_s
        slower_s = np.maximum(computing_s, loading_s)
        best, best_s = np.where(slower_s < best_s, split, best), np.minimum(slower_s, best_s)
        split_s = computing_s - loading_s
        beyond = split_s > 0
        with np.errstate(divide="ignore", invalid="ignore"):  # an end that is the root already
            weight = 1 - split_s / np.where(beyond, high_s, low_s)
        weight = np.where(weight > 0, weight, 0.5)
        low, low_s = np.where(beyond, low, split), np.where(beyond, low_s * weight, split_s)
        high, high_s = np.where(beyond, split, high), np.where(beyond, split_s, high_s * weight)
    return best, best_s


def stored_tokens(inputs: Inputs, context: Numbers) -> Numbers:
    """Tokens that have a host copy: all, or those of the prompt."""
    if not inputs.offload_prompt_only:
        return context
    return np.maximum(inputs.tokens - inputs.generated_tokens, 0.0)


def _preemptions(inputs: Inputs) -> Iterator[tuple[Numbers, Numbers]]:
    """For each preemption: whether it happens (arrays differ in number) and the context then.

    Many preemptions of few cases come together, along an axis of their own that :func:`_in_all` sums over: one by one a
    thousand of them take seconds.
    """
    number, shape = int(np.max(inputs.preemptions)), _shape(inputs)
    together = AT_ONCE // max(math.prod(shape), 1)
    if number <= MOST_IN_TURN or together < MOST_IN_TURN:
        for index in range(number):
            yield 1.0 * (index < inputs.preemptions), inputs.tokens + index * inputs.tokens_between
        return
    for start in range(0, number, together):
        indices = np.arange(start, min(start + together, number)).reshape(-1, *(1 for _ in shape))
        happens = np.broadcast_to(1.0 * (indices < inputs.preemptions), (len(indices), *shape))
        yield happens, inputs.tokens + indices * inputs.tokens_between


def _shape(inputs: Inputs) -> tuple[int, ...]:
    """The shape of the cases; a single one has none."""
    values = (getattr(inputs, field.name) for field in fields(inputs))
    return np.broadcast_shapes(*(value.shape for value in values if isinstance(value, np.ndarray)))


def _in_all(inputs: Inputs, happens: Numbers, each: Numbers) -> Numbers:
    """What one preemption adds to the sum, or several that come together."""
    added = happens * each
    axes = np.ndim(happens)
    return np.sum(added, axis=0) if axes and axes > len(_shape(inputs)) else added


def last_context(inputs: Inputs) -> Numbers:
    """Context at the last preemption. [tokens]"""
    return inputs.tokens + (inputs.preemptions - 1.0) * inputs.tokens_between


def each_preemption(inputs: Inputs, number: int) -> Inputs:
    """The first `number` preemptions as separate cases of one preemption: the context grows, the prompt does not."""
    later = np.arange(number) * inputs.tokens_between
    return costs.at(
        inputs,
        tokens=inputs.tokens + later,
        generated_tokens=inputs.generated_tokens + later,
        preemptions=1,
    )
