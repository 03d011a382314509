"""A log of a model whose layers do not all grow alike, against the groups of layers that vLLM V1 makes."""

from __future__ import annotations

from itertools import product

from kvmodel.memory import as_kept, printouts
from kvmodel.startup_log.finding import Finding, Named, gib
from kvmodel.startup_log.log_reader import LogValues
from kvmodel.units import format_bytes, format_count
from kvmodel.words import say

USUAL_BATCHED_TOKENS = (2048, 8192, 16384, 4096, 512, 1024)  # vLLM's defaults by version and GPU, and round choices
CONCURRENCY_ROUNDING = 0.005
LONGEST_CHOSEN_BLOCK = 256  # tokens: no flag takes more, so a longer one was made for a state


def groups(log: LogValues, model: Named | None) -> Finding | None:
    """Tokens of a model with windows or states, by the groups that vLLM V1 makes; the manager may be off."""
    if model is None or log.tokens is None or log.pool_bytes is None or log.engine not in ("vllm", "vllm-v1"):
        return None
    slack = log.rounding_bytes("pool_bytes")
    for hybrid in (True, False):
        for batched in batched_tokens(log):
            low, high = (
                lines_of(log, model, log.pool_bytes + side * slack, batched, hybrid=hybrid).tokens for side in (-1, 1)
            )
            if low <= log.tokens <= high:
                ends = say("{least} to {most}", least=format_count(low), most=format_count(high))
                return Finding("tokens", format_count(log.tokens), shared(model, hybrid=hybrid), ends, True)
    expected = lines_of(log, model, log.pool_bytes, batched_tokens(log)[0], hybrid=True).tokens
    means = say("the pool in groups of layers")
    return Finding("tokens", format_count(log.tokens), means, format_count(expected), False)


def state_block(log: LogValues, model: Named) -> Finding | None:
    """The block of attention that vLLM makes as long as a state needs: it tells how wide the states are kept."""
    states = [group for group in model.layers if group.kind == "state"]
    if not states or log.block_tokens is None or log.block_tokens <= LONGEST_CHOSEN_BLOCK:
        return None
    expected = min(kind.block_tokens for kind in kinds_of(log, model, hybrid=True) if kind.kind != "state")
    page = max(group.fixed_bytes for group in as_kept.vllm_states(states)) / int(log.tp or 1)
    means = say("tokens of a block of attention that holds a state of {size}", size=format_bytes(page))
    agrees = True if expected == log.block_tokens else None
    return Finding("block_tokens", format_count(log.block_tokens), means, format_count(expected), agrees)


def shared(model: Named, *, hybrid: bool) -> str:
    """How the layers share the pool, in words."""
    if hybrid:
        return say("layers of {model} in equal groups that share blocks: not bytes per token", model=model.label)
    return say(
        "layers of {model} in equal groups that share blocks with the hybrid manager off: not bytes per token",
        model=model.label,
    )


def batched_tokens(log: LogValues) -> tuple[int, ...]:
    return (int(log.max_num_batched_tokens),) if log.max_num_batched_tokens else USUAL_BATCHED_TOKENS


def state_blocks(model: Named) -> tuple[int, ...]:
    """Blocks that a request may have of a state: with prefix caching, and without; one try where there is no state."""
    has_states = any(group.kind == "state" for group in model.layers)
    return (printouts.STATE_BLOCKS, printouts.STATE_BLOCKS_UNCACHED) if has_states else (printouts.STATE_BLOCKS,)


def lines_of(
    log: LogValues,
    model: Named,
    pool_bytes: float,
    batched: int,
    *,
    hybrid: bool,
    states: int = printouts.STATE_BLOCKS,
) -> printouts.Printed:
    """The lines that the log's engine would print of a pool."""
    kinds = kinds_of(log, model, hybrid=hybrid)
    return printouts.v1(
        pool_bytes, kinds, max_model_len=int(log.max_model_len or 8192), max_num_batched_tokens=batched,
        generation=log.engine if log.engine in printouts.NEARLY_EQUAL else "vllm", dcp=int(log.dcp or 1),
        state_blocks=states,
    )  # fmt: skip


def group_concurrency(log: LogValues, model: Named, says: str, means: str) -> Finding | None:
    if log.pool_bytes is None:
        return Finding("concurrency", says, means)
    slack = log.rounding_bytes("pool_bytes")
    expected = 0.0
    for hybrid, batched, states in product((True, False), batched_tokens(log), state_blocks(model)):
        low, high = (
            lines_of(log, model, log.pool_bytes + side * slack, batched, hybrid=hybrid, states=states).concurrency
            for side in (-1, 1)
        )
        expected = expected or (low + high) / 2
        if low - CONCURRENCY_ROUNDING <= (log.concurrency or 0) <= high + CONCURRENCY_ROUNDING:
            means = say("{means}, with {batched:,} batched tokens", means=means, batched=batched)
            return Finding("concurrency", says, means, f"{low:.2f}x", True)
    return Finding("concurrency", says, means, f"{expected:.2f}x", False)


def group_needed(log: LogValues, model: Named, says: str, means: str) -> Finding:
    """What one request of full length takes of every group's blocks."""
    size = block_bytes(log, model)
    batched = batched_tokens(log)
    lines = [
        lines_of(log, model, 0.0, tokens, hybrid=True, states=states)
        for tokens, states in product(batched, state_blocks(model))
    ]
    options = [line.blocks_per_request * size for line in lines]
    slack = log.rounding_bytes("needed_bytes")
    agrees = any(abs(option - (log.needed_bytes or 0.0)) <= slack for option in options)
    return Finding("needed", says, means, gib(options[0]), agrees)


def block_bytes(log: LogValues, model: Named) -> float:
    """Bytes of one block of a group. [bytes]"""
    kinds = kinds_of(log, model, hybrid=True)
    generation = log.engine if log.engine in printouts.NEARLY_EQUAL else "vllm"
    return printouts.block_bytes(kinds, generation or "vllm")


def kinds_of(log: LogValues, model: Named, *, hybrid: bool) -> tuple[printouts.Pages, ...]:
    return printouts.pages(
        model.layers, bytes_per_value=model.bytes_per_value, tp=int(log.tp or 1), pp=int(log.pp or 1), hybrid=hybrid
    )
