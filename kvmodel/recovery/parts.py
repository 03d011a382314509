"""What each strategy's delay is made of at one point, for the stacked bars and the why-trace."""

from __future__ import annotations

import numpy as np

from kvmodel.recovery import costs, strategies
from kvmodel.recovery.costs import at
from kvmodel.recovery.resolve import Inputs
from kvmodel.timing import step_time

PARTS = (
    "wait for blocks", "queue", "pinning", "per-copy out", "wire out", "per-copy in", "wire in",
    "linear", "attention", "activations", "all-reduce", "launch", "engine",
)  # fmt: skip


def parts(inputs: Inputs) -> dict[str, dict[str, float]]:
    """Seconds by strategy and part for one preemption (scalars); without `wait for blocks` they add up to its delay.

    Of `both`, whose halves run at once, the slower half is shown.
    """
    one = at(inputs, preemptions=1)
    context = float(one.tokens)
    past = float(one.survival) * context
    blocks_s = {"wait for blocks": float(costs.wait_for_blocks_s(one))}
    host_tokens = float(strategies.stored_tokens(one, np.asarray(context)))
    load = max(host_tokens - past, 0.0)
    split = float(strategies.both(one).recomputed_tokens)
    recomputing, loading = recompute_parts(one, split, past), in_parts(one, context - past - split)
    return {
        "wait": {"queue": float(costs.queue_s(one))},
        "recompute": blocks_s | recompute_parts(one, context - past, past),
        "swap": blocks_s | out_parts(one, context) | in_parts(one, context),
        "offload": blocks_s
        | sum_by_part(
            in_parts(one, load, then_prefill=context > max(host_tokens, past)),
            recompute_parts(one, context - max(host_tokens, past), max(host_tokens, past)),
        ),
        "both": blocks_s | max(recomputing, loading, key=lambda half: sum(half.values())),
    }


def recompute_parts(inputs: Inputs, new_tokens: float, past_tokens: float) -> dict[str, float]:
    """A prefill alone: its kernels, and what the engine adds."""
    if new_tokens <= 0:
        return {}
    kernels = step_time.prefill_parts_s(
        new_tokens, past_tokens, inputs.shape, inputs.gpu, tp=inputs.tp, chunk_tokens=inputs.max_num_batched_tokens
    )
    whole_s = costs.prefill_alone_s(inputs, new_tokens, past_tokens)
    return {name: float(seconds) for name, seconds in kernels.items()} | {
        "engine": float(whole_s - sum(kernels.values(), start=np.zeros(())))
    }


def out_parts(inputs: Inputs, tokens: float) -> dict[str, float]:
    """A copy to the host: memory locked for it, the calls, and the bytes on the wire."""
    copy = costs.copy_out(inputs, tokens)
    return {
        "pinning": float(costs.pin_s(inputs, tokens)),
        "per-copy out": float(copy.calls_s),
        "wire out": float(copy.seconds - copy.calls_s),
    }


def in_parts(inputs: Inputs, tokens: float, *, then_prefill: bool = False) -> dict[str, float]:
    """A load: the calls, the bytes on the wire, and what the engine adds, up to the next token or a prefill."""
    if tokens <= 0:
        return {}
    load = costs.load(inputs, tokens)
    copy, loading_s = load.copy, load.load_s if then_prefill else load.in_s
    return {
        "per-copy in": float(copy.calls_s),
        "wire in": float(copy.seconds - copy.calls_s),
        "engine": float(loading_s - copy.seconds),
    }


def sum_by_part(first: dict[str, float], second: dict[str, float]) -> dict[str, float]:
    """Part by part."""
    return {name: first.get(name, 0.0) + second.get(name, 0.0) for name in {**first, **second}}
