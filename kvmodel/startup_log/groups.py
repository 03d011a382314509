"""A log of a model whose layers do not all grow alike, against the groups of layers that vLLM V1 makes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

from kvmodel.memory import as_kept, printouts
from kvmodel.startup_log.finding import Finding, Named, attention_tp, count_range, gib, partition_layers, unexplained
from kvmodel.startup_log.log_reader import LogValues
from kvmodel.units import format_bytes, format_count
from kvmodel.words import say

USUAL_BATCHED_TOKENS = (2048, 8192, 16384, 4096, 512, 1024)  # vLLM's defaults by version and GPU, and round choices
CONCURRENCY_ROUNDING = 0.005
ROOM = 1.05  # padding and block sizes differ by version and setting
LONGEST_CHOSEN_BLOCK = 256  # tokens: no flag takes more, so a longer one was made for a state


def groups(log: LogValues, model: Named | None) -> Finding | None:
    """Tokens of a model with windows or states, by the groups that vLLM V1 makes; the manager may be off."""
    if model is None or log.tokens is None or log.pool_bytes is None or log.engine not in ("vllm", "vllm-v1"):
        return None
    if log.blocks_override is not None:
        return None
    slack = log.rounding_bytes("pool_bytes")
    ranges = []
    for generation, hybrid, batched, states in arrangements(log, model):
        low, high = (
            lines_of(log, model, pool, batched, hybrid=hybrid, generation=generation, states=states).tokens
            for pool in (log.pool_bytes - slack, log.pool_bytes + slack)
        )
        ranges.append((float(low), float(high)))
        if low <= log.tokens <= high:
            ends = count_range(low, high)
            return Finding("tokens", format_count(log.tokens), shared(model, hybrid=hybrid), ends, True)
    generation, hybrid, batched, states = next(arrangements(log, model))
    expected = lines_of(log, model, log.pool_bytes, batched, hybrid=hybrid, generation=generation, states=states).tokens
    means = say("the pool in groups of layers")
    means = say("{means}; {more}", means=means, more=unexplained(log.tokens, expected))
    agrees = verdict(log.tokens, ranges)
    return Finding("tokens", format_count(log.tokens), means, format_count(expected), agrees)


def verdict(found: float, ranges: Sequence[tuple[float, float]]) -> bool | None:
    """Of a figure that no arrangement of the groups gives: impossible, or not explained where it is near one."""
    near = min(low for low, _ in ranges) / ROOM <= found <= max(high for _, high in ranges) * ROOM
    return None if near else False


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


def arrangements(log: LogValues, model: Named) -> Iterator[tuple[str, bool, int, int]]:
    """What may have shaped the groups: the engine's age where the log leaves it open, the manager, a step's tokens,
    and the blocks that a request has of a state: with prefix caching, and without."""
    own = log.engine if log.engine in printouts.NEARLY_EQUAL else "vllm"
    ages = (own or "vllm",) if log.version is not None or own == "vllm" else ("vllm-v1", "vllm")
    has_states = any(group.kind == "state" for group in model.layers)
    states = (printouts.STATE_BLOCKS, printouts.STATE_BLOCKS_UNCACHED) if has_states else (printouts.STATE_BLOCKS,)
    return itertools.product(ages, (True, False), batched_tokens(log), states)


def lines_of(
    log: LogValues, model: Named, pool_bytes: float, batched: int, *, hybrid: bool, generation: str, states: int
) -> printouts.Printed:
    """The lines that an engine of this generation would print of a pool."""
    kinds = kinds_of(log, model, hybrid=hybrid)
    return printouts.v1(
        pool_bytes, kinds, max_model_len=int(log.max_model_len or 8192), max_num_batched_tokens=batched,
        generation=generation, dcp=int(log.dcp or 1), state_blocks=states,
    )  # fmt: skip


def group_concurrency(log: LogValues, model: Named, says: str, means: str) -> Finding | None:
    if log.pool_bytes is None:
        return Finding("concurrency", says, means)
    slack = log.rounding_bytes("pool_bytes")
    expected = 0.0
    ranges = []
    for generation, hybrid, batched, states in arrangements(log, model):
        low, high = (
            lines_of(log, model, pool, batched, hybrid=hybrid, generation=generation, states=states).concurrency
            for pool in (log.pool_bytes - slack, log.pool_bytes + slack)
        )
        expected = expected or (low + high) / 2
        ranges.append((low - CONCURRENCY_ROUNDING, high + CONCURRENCY_ROUNDING))
        if low - CONCURRENCY_ROUNDING <= (log.concurrency or 0) <= high + CONCURRENCY_ROUNDING:
            means = say("{means}, with {batched:,} batched tokens", means=means, batched=batched)
            return Finding("concurrency", says, means, f"{low:.2f}x", True)
    agrees = verdict(log.concurrency or 0.0, ranges)
    means = say("{means}; {more}", means=means, more=unexplained(log.concurrency or 0.0, expected))
    return Finding("concurrency", says, means, f"{expected:.2f}x", agrees)


def group_needed(log: LogValues, model: Named, says: str, means: str) -> Finding:
    """What one request of full length takes of every group's blocks."""
    options, whole, of_stage = group_needs(log, model), group_needs(log, model, stages=1), group_stage_need(log, model)
    slack = log.rounding_bytes("needed_bytes")
    found = log.needed_bytes or 0.0
    if any(abs(option - found) <= slack for option in options):
        return Finding("needed", says, means, gib(options[0]), True)
    if of_stage is not None:
        more = say("the whole model, of which a stage keeps {size}", size=gib(of_stage))
        return Finding("needed", says, say("{means}; {more}", means=means, more=more), gib(whole[0]), True)
    means = say("{means}; {more}", means=means, more=unexplained(found, options[0]))
    open_stages = whole if (log.pp or 1) > 1 and not log.partition else []
    agrees = verdict(found, [(option - slack, option + slack) for option in (*options, *open_stages)])
    return Finding("needed", says, means, gib(options[0]), agrees)


def group_stage_need(log: LogValues, model: Named) -> float | None:
    """A stage's need where the printed one is that of the whole model, else None. [bytes]"""
    if (log.pp or 1) <= 1 or log.needed_bytes is None:
        return None
    slack = log.rounding_bytes("needed_bytes")
    pairs = zip(group_needs(log, model, stages=1), group_needs(log, model), strict=True)
    return next((stage for whole, stage in pairs if abs(whole - log.needed_bytes) <= slack), None)


def group_needs(log: LogValues, model: Named, *, stages: int | None = None) -> list[float]:
    """Bytes of one request of full length on one rank, by the tokens of a step; of another number of stages. [bytes]"""
    of_stages = log if stages is None else replace(log, pp=float(stages), partition=None)
    first = next(arrangements(log, model))[0]
    size = printouts.block_bytes(kinds_of(of_stages, model, hybrid=True), first)
    lines = [
        lines_of(of_stages, model, 0.0, batched, hybrid=True, generation=first, states=states)
        for generation, hybrid, batched, states in arrangements(log, model)
        if hybrid and generation == first
    ]
    return [line.blocks_per_request * size for line in lines]


def kinds_of(log: LogValues, model: Named, *, hybrid: bool) -> tuple[printouts.Pages, ...]:
    layers, pp = model.layers, int(log.pp or 1)
    if log.partition:
        layers, pp = partition_layers(log.partition, layers), 1
    return printouts.pages(layers, bytes_per_value=model.bytes_per_value, tp=attention_tp(log), pp=pp, hybrid=hybrid)
