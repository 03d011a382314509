"""What one copy, one prefill and one wait cost for a case's numbers: the pieces that every strategy is priced from.

All of it broadcasts over arrays in :class:`kvmodel.recovery.resolve.Inputs`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from kvmodel.arrays import Numbers, nowhere
from kvmodel.memory import kv_cache
from kvmodel.recovery.resolve import Inputs, copy_count, moved_bytes
from kvmodel.timing import engine_time, step_time, transfer
from kvmodel.timing.transfer import Transfer


def at(inputs: Inputs, **values: object) -> Inputs:
    """The same inputs with some replaced: `at(inputs, tokens=np.geomspace(128, 131072, 160))`."""
    return replace(inputs, **values)  # type: ignore[arg-type]


def copy_out(inputs: Inputs, tokens: Numbers) -> Transfer:
    """The KV of `tokens` copied to the host (D2H)."""
    copies, size_bytes = copy_count(inputs, tokens), moved_bytes(inputs, tokens)
    return transfer.transfer(inputs, "d2h", copies, size_bytes, tp=inputs.tp)


def out_s(inputs: Inputs, tokens: Numbers) -> Numbers:
    """Seconds to copy the KV of `tokens` to the host."""
    return copy_out(inputs, tokens).seconds


@dataclass(frozen=True)
class Load:
    """The KV of some tokens copied back (H2D), and what the engine adds to it. [s]

    `load_s` is the copy with the engine's time for each block and each load, `in_s` the time to the request's next
    token, the step after the load included.
    """

    copy: Transfer
    load_s: Numbers
    in_s: Numbers


def load(inputs: Inputs, tokens: Numbers) -> Load:
    """A load of `tokens` through the engine; none of none."""
    copies, size_bytes = copy_count(inputs, tokens), moved_bytes(inputs, tokens)
    copy = transfer.transfer(inputs, "h2d", copies, size_bytes, tp=inputs.tp)
    loading_s = (copy.seconds + inputs.load_overhead_s) * (tokens > 0)
    if not nowhere(inputs.load_s_per_block):
        blocks = kv_cache.copies(inputs.kv_layers, tokens, block_tokens=inputs.block_tokens, layout="contiguous")
        loading_s = loading_s + blocks * inputs.load_s_per_block
    return Load(copy, loading_s, loading_s + inputs.next_token_s * (tokens > 0))


def pin_s(inputs: Inputs, tokens: Numbers) -> Numbers:
    """Seconds to lock the host memory of `tokens`, once; nothing where it is locked already."""
    return 0.0 if nowhere(inputs.pin_s_per_byte) else moved_bytes(inputs, tokens) * inputs.pin_s_per_byte


def prefill_alone_s(inputs: Inputs, new_tokens: Numbers, past_tokens: Numbers) -> Numbers:
    """Seconds to prefill with the GPU to itself, as the engine of the chosen timing takes."""
    if nowhere(new_tokens):
        return 0.0
    chunk = inputs.max_num_batched_tokens
    alone_s = engine_time.prefill_s(
        new_tokens, past_tokens, inputs.shape, inputs.gpu, inputs, tp=inputs.tp, chunk_tokens=chunk
    )
    return alone_s * (new_tokens > 0)


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
    """Seconds of one step of the running batch, as the engine of the chosen timing takes."""
    kernels_s = step_time.decode_s(inputs.decode_batch, batch_kv_bytes(inputs), inputs.shape, inputs.gpu, tp=inputs.tp)
    return engine_time.decode_step_s(kernels_s, inputs.decode_batch, inputs)


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
    whole = inputs.tokens + inputs.remaining_output
    return _released_after_s(inputs, whole, inputs.decode_context + inputs.remaining_output)


def _released_after_s(inputs: Inputs, tokens: Numbers, tokens_per_request: Numbers) -> Numbers:
    total = inputs.decode_batch * tokens_per_request
    running = (total > 0) & batch_fits(inputs)
    steps = np.multiply(tokens, inputs.remaining_output) / np.where(running, total, np.nan)
    return steps * decode_step_s(inputs)
