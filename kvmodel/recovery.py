"""What a preempted request costs: wait, recompute, swap, offload or both, priced for the same inputs.

Three prices, never added up: the victim's delay, GPU time taken from others, and the host link. The wait for free
blocks is paid by every strategy and stands apart. All of it broadcasts over arrays in :class:`kvmodel.resolve.Inputs`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from kvmodel import kv_cache, step_time, transfer
from kvmodel.arrays import Numbers, nowhere
from kvmodel.resolve import Inputs

STRATEGIES = ("wait", "recompute", "swap", "offload", "both")
BLOCK_CASES = 32768  # arrays of 256 KiB
FIXED = ("shape", "gpu", "kv_layers", "layout", "available", "objective")  # inputs that are no numbers
TINY_S = 1e-12
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
    cut = {name: column for name, column in columns.items() if column.ndim}
    whole: dict[str, dict[str, Any]] = {name: {} for name in STRATEGIES}
    for start in range(0, length, BLOCK_CASES):
        block = slice(start, start + BLOCK_CASES)
        for name, part in _price_block(at(inputs, **{key: column[block] for key, column in cut.items()})).items():
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


def moved_bytes(inputs: Inputs, tokens: Numbers) -> Numbers:
    """Bytes of whole blocks that one GPU copies for `tokens`."""
    return kv_cache.kv_bytes_in_blocks(
        inputs.kv_layers,
        tokens,
        block_tokens=inputs.block_tokens,
        bytes_per_value=inputs.bytes_per_value,
        tp=inputs.tp,
    )


def copy_count(inputs: Inputs, tokens: Numbers) -> Numbers:
    """Copies that each GPU makes one way for `tokens`."""
    return kv_cache.copies(
        inputs.kv_layers,
        tokens,
        block_tokens=inputs.block_tokens,
        layout=inputs.layout,
        runs_per_block=inputs.runs_per_block,
    )


def out_s(inputs: Inputs, tokens: Numbers) -> Numbers:
    """Seconds to copy the KV of `tokens` to the host (D2H)."""
    rate = transfer.shared_rate_bytes_per_s(inputs.d2h_bytes_per_s, inputs.tp, inputs.host_memory_bytes_per_s)
    return transfer.copy_s(
        copy_count(inputs, tokens), moved_bytes(inputs, tokens), per_copy_s=inputs.per_copy_d2h_s, link_bytes_per_s=rate
    )


def in_s(inputs: Inputs, tokens: Numbers) -> Numbers:
    """Seconds to bring the KV of `tokens` back (H2D), the engine's overhead of one load included."""
    rate = transfer.shared_rate_bytes_per_s(inputs.h2d_bytes_per_s, inputs.tp, inputs.host_memory_bytes_per_s)
    copying_s = transfer.copy_s(
        copy_count(inputs, tokens), moved_bytes(inputs, tokens), per_copy_s=inputs.per_copy_h2d_s, link_bytes_per_s=rate
    )
    return (copying_s + inputs.load_overhead_s) * (tokens > 0)


def prefill_alone_s(inputs: Inputs, new_tokens: Numbers, past_tokens: Numbers) -> Numbers:
    """Seconds to prefill with the GPU to itself, as the engine of the chosen timing takes."""
    if nowhere(new_tokens):
        return 0.0
    kernels_s = step_time.prefill_s(
        new_tokens, past_tokens, inputs.shape, inputs.gpu, tp=inputs.tp, chunk_tokens=inputs.max_num_batched_tokens
    )
    return (inputs.engine_factor * kernels_s + inputs.request_overhead_s) * (new_tokens > 0)


def prefill_marginal_s(inputs: Inputs, new_tokens: Numbers, past_tokens: Numbers) -> Numbers:
    """Seconds that a prefill adds to the running batch's steps; NaN where that batch exceeds the pool."""
    if nowhere(new_tokens):
        return 0.0
    kernels_s = step_time.marginal_prefill_s(
        new_tokens,
        past_tokens,
        inputs.shape,
        inputs.gpu,
        decode_sequences=inputs.decode_batch,
        decode_kv_bytes_per_gpu=batch_kv_bytes(inputs),
        max_num_batched_tokens=inputs.max_num_batched_tokens,
        tp=inputs.tp,
    )
    unknown = ~batch_fits(inputs) & np.greater(new_tokens, 0)
    return np.where(unknown, np.nan, inputs.engine_factor * kernels_s)


def batch_kv_bytes(inputs: Inputs) -> Numbers:
    """KV of the running decodes on each GPU. [bytes]"""
    return inputs.decode_batch * moved_bytes(inputs, inputs.decode_context)


def batch_fits(inputs: Inputs) -> np.ndarray:
    """Whether the running batch's own KV fits in the pool."""
    return batch_kv_bytes(inputs) <= inputs.pool_bytes_per_gpu


def decode_step_s(inputs: Inputs) -> Numbers:
    """Seconds of one step of the running batch, the host's part included."""
    kernels_s = step_time.decode_s(inputs.decode_batch, batch_kv_bytes(inputs), inputs.shape, inputs.gpu, tp=inputs.tp)
    host_s = inputs.decode_host_s + inputs.decode_batch * inputs.decode_host_s_per_sequence
    return inputs.engine_factor * kernels_s + host_s


def wait_for_blocks_s(inputs: Inputs) -> Numbers:
    r"""Seconds until the running batch has released the blocks that the victim needs; every strategy pays it.

    .. math:: t = \frac{S\, R}{D\, c}\, t_\text{step}

    D requests of context c finish every R steps and release `D (c + R)` tokens while the others take `D R`.
    NaN without a running batch that fits. An estimate: the scheduler simulation gives the real one.
    """
    return _released_after_s(inputs, inputs.tokens, inputs.decode_context)


def queue_s(inputs: Inputs) -> Numbers:
    r"""Seconds in the queue where prompt and output are reserved before a request starts.

    .. math:: t = \frac{(S + R)\, R}{D\, (c + R)}\, t_\text{step}

    Nobody grows into free blocks then, so each finished request releases its whole reservation. An estimate.
    """
    reserved = inputs.tokens + inputs.remaining_output
    return _released_after_s(inputs, reserved, inputs.decode_context + inputs.remaining_output)


def _released_after_s(inputs: Inputs, tokens: Numbers, released_per_request: Numbers) -> Numbers:
    released = inputs.decode_batch * released_per_request
    running = (released > 0) & batch_fits(inputs)
    steps = np.multiply(tokens, inputs.remaining_output) / np.where(running, released, np.nan)
    return steps * decode_step_s(inputs)


def wait(inputs: Inputs) -> Price:
    """Never preempt: the price is the queue before the first token (:func:`queue_s`), paid once."""
    nothing = 0.0
    return Price(
        victim_delay_s=queue_s(inputs),
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
    for preempted, context in _preemptions(inputs):
        past = inputs.survival * context
        new = context - past
        delay = delay + preempted * prefill_alone_s(inputs, new, past)
        gpu = gpu + preempted * prefill_marginal_s(inputs, new, past)
        tokens = tokens + preempted * new
    nothing = 0.0
    return Price(delay, nothing, nothing, gpu, nothing, nothing, nothing, tokens, inputs.prefill_band)


def swap(inputs: Inputs) -> Price:
    """Copy the KV out and in again, at every preemption: the host copy is freed when it is read back.

    On an engine that copies on the compute stream (vLLM V0) the whole batch waits for both.
    """
    out = back = size = 0.0
    for preempted, context in _preemptions(inputs):
        out = out + preempted * out_s(inputs, context)
        back = back + preempted * in_s(inputs, context)
        size = size + preempted * 2 * moved_bytes(inputs, context)
    delay = out + back
    return Price(
        victim_delay_s=delay,
        out_s=out,
        in_s=back,
        gpu_s=delay if inputs.swap_on_compute_stream else 0.0,
        link_bytes=size * inputs.tp,
        link_s=delay,
        host_bytes=moved_bytes(inputs, last_context(inputs)) * inputs.tp,
        recomputed_tokens=0.0,
        band=inputs.copy_band,
    )


def offload(inputs: Inputs) -> Price:
    """Keep a host copy as KV is produced, each token written once; load it at every resume.

    What survives in the GPU's prefix cache is not loaded. With `offload_prompt_only` the generated part is
    recomputed after the load. Writing is off the critical path: in `out_s` and on the link, not in the delay.
    """
    delay = gpu = back = read = tokens = 0.0
    for preempted, context in _preemptions(inputs):
        kept = inputs.survival * context
        stored = stored_tokens(inputs, context)
        load = np.maximum(stored - kept, 0.0)
        past = np.maximum(stored, kept)
        new = context - past
        loading = in_s(inputs, load)
        delay = delay + preempted * (loading + prefill_alone_s(inputs, new, past))
        gpu = gpu + preempted * prefill_marginal_s(inputs, new, past)
        back = back + preempted * loading
        read = read + preempted * moved_bytes(inputs, load)
        tokens = tokens + preempted * new
    stored_last = stored_tokens(inputs, last_context(inputs))
    written = moved_bytes(inputs, stored_last)
    writing = out_s(inputs, stored_last)
    return Price(
        victim_delay_s=delay,
        out_s=writing,
        in_s=back,
        gpu_s=gpu,
        link_bytes=(read + written) * inputs.tp,
        link_s=back + writing,
        host_bytes=written * inputs.tp,
        recomputed_tokens=tokens,
        band=np.maximum(inputs.copy_band, np.where(tokens > 0, inputs.prefill_band, 0.0)),
    )


def both(inputs: Inputs) -> Price:
    r"""Recompute the first x tokens while the rest is loaded from a whole host copy; x is chosen.

    .. math:: t = \min_x \max(t_\text{prefill}(x), t_\text{in}(S - x))
    """
    delay = gpu = back = read = tokens = 0.0
    for preempted, context in _preemptions(inputs):
        past = inputs.survival * context
        split, slower_s = _best_split(inputs, past, context)
        load = context - past - split
        loading = in_s(inputs, load)
        delay = delay + preempted * slower_s
        gpu = gpu + preempted * prefill_marginal_s(inputs, split, past)
        back = back + preempted * loading
        read = read + preempted * moved_bytes(inputs, load)
        tokens = tokens + preempted * split
    last = last_context(inputs)
    written = moved_bytes(inputs, last)
    writing = out_s(inputs, last)
    return Price(
        victim_delay_s=delay,
        out_s=writing,
        in_s=back,
        gpu_s=gpu,
        link_bytes=(read + written) * inputs.tp,
        link_s=back + writing,
        host_bytes=written * inputs.tp,
        recomputed_tokens=tokens,
        band=np.maximum(inputs.copy_band, inputs.prefill_band),
    )


def _best_split(inputs: Inputs, past: Numbers, context: Numbers) -> tuple[Numbers, Numbers]:
    """Tokens to recompute, in whole blocks, and the delay then: where prefill and load meet, or none, or all.

    Regula falsi (Anderson and Bjoerck) over whole blocks on the difference of the two, which grows with the split.
    """
    missing, block = context - past, inputs.block_tokens
    load_all_s, recompute_all_s = in_s(inputs, missing), prefill_alone_s(inputs, missing, past)
    best = np.where(recompute_all_s < load_all_s, missing, 0.0)
    best_s = np.minimum(recompute_all_s, load_all_s)
    low, high = np.zeros(np.shape(missing)), missing
    low_s, high_s = prefill_alone_s(inputs, np.minimum(1.0, missing), past) - load_all_s, recompute_all_s
    for _ in range(SPLIT_STEPS):
        root = low - low_s * (high - low) / np.maximum(high_s - low_s, TINY_S)
        split = np.clip(np.floor(root / block) * block, low + block, high)
        computing_s, loading_s = prefill_alone_s(inputs, split, past), in_s(inputs, missing - split)
        slower_s = np.maximum(computing_s, loading_s)
        best, best_s = np.where(slower_s < best_s, split, best), np.minimum(slower_s, best_s)
        split_s = computing_s - loading_s
        beyond = split_s > 0
        with np.errstate(divide="ignore", invalid="ignore"):  # an end that is the root already
            kept = 1 - split_s / np.where(beyond, high_s, low_s)
        kept = np.where(kept > 0, kept, 0.5)
        low, low_s = np.where(beyond, low, split), np.where(beyond, low_s * kept, split_s)
        high, high_s = np.where(beyond, split, high), np.where(beyond, split_s, high_s * kept)
    return best, best_s


def stored_tokens(inputs: Inputs, context: Numbers) -> Numbers:
    """Tokens that have a host copy: all, or those of the prompt."""
    if not inputs.offload_prompt_only:
        return context
    return np.maximum(inputs.tokens - inputs.generated_tokens, 0.0)


def _preemptions(inputs: Inputs) -> list[tuple[Numbers, Numbers]]:
    """For each preemption: whether it happens (arrays differ in number) and the context then."""
    return [
        (1.0 * (index < inputs.preemptions), inputs.tokens + index * inputs.tokens_between)
        for index in range(int(np.max(inputs.preemptions)))
    ]


def last_context(inputs: Inputs) -> Numbers:
    """Context at the last preemption. [tokens]"""
    return inputs.tokens + (inputs.preemptions - 1.0) * inputs.tokens_between


def each_preemption(inputs: Inputs, number: int) -> Inputs:
    """The first `number` preemptions as separate cases of one preemption: the context grows, the prompt does not."""
    later = np.arange(number) * inputs.tokens_between
    return at(
        inputs,
        tokens=inputs.tokens + later,
        generated_tokens=inputs.generated_tokens + later,
        preemptions=1,
    )


def at(inputs: Inputs, **changed: object) -> Inputs:
    """The same inputs with some replaced: `at(inputs, tokens=np.geomspace(128, 131072, 160))`."""
    return replace(inputs, **changed)  # type: ignore[arg-type]
