"""The figures of a start-up log against each other and against the model: what each means, and which cannot be true.

Printed figures are rounded, so each check compares ranges: a figure agrees when some value that rounds to it fits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from kvmodel.startup_log.finding import (
    Finding,
    Named,
    block_size,
    gib,
    has_plain_layers,
    implied_bytes_per_token,
    pool_tokens,
    rank_rate,
)
from kvmodel.startup_log.groups import CONCURRENCY_ROUNDING, group_concurrency, group_needed, groups, state_block
from kvmodel.startup_log.log_reader import LogValues
from kvmodel.units import GIB, format_bytes, format_count
from kvmodel.words import say

__all__ = ["Finding", "Named", "check", "consistent", "implied_bytes_per_token", "rank_rate"]

UTILIZATION_ROUNDING = 0.005
BUDGET_ROUNDING_BYTES = 0.06 * GIB  # five printed figures of 0.01 GiB, and what the driver holds


def check(log: LogValues, model: Named | None = None, *, bytes_per_token: float | None = None) -> list[Finding]:
    """Every figure of a log explained and, where two of them meet, checked.

    `bytes_per_token` on one rank stands for the model where its layers are not known.
    """
    rate = bytes_per_token
    if model is not None and (has_plain_layers(model, log.engine) or log.engine in ("vllm-v0", "trt-llm", "llama.cpp")):
        rate = rank_rate(log, model)
    findings = [
        budget(log),
        pool_against_tokens(log, rate),
        groups(log, model) if model is not None and rate is None else None,
        state_block(log, model) if model is not None else None,
        cpu_blocks(log, rate),
        concurrency(log, model),
        block_identity(log),
        states(log, model),
        needed(log, model, rate),
        weights(log),
    ]
    return [finding for finding in findings if finding is not None]


def consistent(findings: Sequence[Finding]) -> bool:
    """Whether no figure is at odds with another or with the model."""
    return all(finding.agrees is not False for finding in findings)


def pool_against_tokens(log: LogValues, rate: float | None) -> Finding | None:
    """The pool's size against its tokens, and both against the model's bytes per token."""
    implied, tokens = implied_bytes_per_token(log), pool_tokens(log)
    if implied is None or tokens is None:
        return None
    low, high = implied
    says = say("{size} for {tokens} tokens", size=format_bytes(log.pool_bytes or 0), tokens=format_count(tokens))
    ends = {"low": format_count(low), "high": format_count(high)}
    means = say("{low} to {high} bytes a token on one GPU", **ends)
    if rate is None:
        return Finding("pool", says, means)
    agrees, expected = low <= rate <= high, say("{rate} bytes a token", rate=format_count(rate))
    if not agrees and (log.tp or 1) * (log.pp or 1) > 1 and rate < high and rate >= 0.5 * low:
        means = say(
            "{means}; one rank's pool is printed, but the smallest rank decides: another had less room", means=means
        )
        return Finding("pool", says, means, expected, None)
    return Finding("pool", says, means, expected, agrees)


def cpu_blocks(log: LogValues, rate: float | None) -> Finding | None:
    """V0's CPU blocks = floor(swap space / block): the model's size, free of what the GPU does."""
    if log.cpu_blocks is None or (log.cpu_blocks == 0 and not log.swap_gib):
        return None
    says = format_count(log.cpu_blocks)
    if rate is None:
        swap = (log.swap_gib or 4) * GIB
        high = swap / max(log.cpu_blocks, 1) / block_size(log)
        ends = {"high": format_count(high), "swap": format_bytes(swap)}
        return Finding("cpu_blocks", says, say("at most {high} bytes a token, if {swap} are swap", **ends))
    block = rate * block_size(log)
    if log.swap_gib is None:
        sizes = [gib for gib in range(1, 1025) if int(gib * GIB // block) == log.cpu_blocks]
        means = say("no whole number of GiB of swap space gives this")
        if sizes:
            means = say("swap space of {size} GiB", size=sizes[0])
        usual = say("{blocks:,} with vLLM's 4 GiB", blocks=int(4 * GIB // block))
        return Finding("cpu_blocks", says, means, usual, bool(sizes))
    expected = int(log.swap_gib * GIB // block)
    means = say("{size:g} GiB of swap space in blocks of {block}", size=log.swap_gib, block=format_bytes(block))
    return Finding("cpu_blocks", says, means, f"{expected:,}", expected == log.cpu_blocks)


def concurrency(log: LogValues, model: Named | None) -> Finding | None:
    """Requests of full length: tokens / length where all layers grow alike, else blocks / blocks of one request."""
    tokens = pool_tokens(log)
    if log.concurrency is None or not log.max_model_len:
        return None
    says, length = f"{log.concurrency:g}x", log.max_model_len
    means = say("requests of {tokens} tokens that fit at once", tokens=format_count(length))
    if log.engine == "vllm-v1" and model is not None and not has_plain_layers(model):
        return group_concurrency(log, model, says, means)
    if tokens is None:
        return Finding("concurrency", says, means)
    block = block_size(log)
    whole = math.ceil(length / block) * block  # V1 counts whole blocks a request
    low, high = sorted((tokens / whole, tokens / length))
    agrees = low - CONCURRENCY_ROUNDING <= log.concurrency <= high + (1 / length) + CONCURRENCY_ROUNDING
    return Finding("concurrency", says, means, f"{high:.2f}x", agrees)


def states(log: LogValues, model: Named | None) -> Finding | None:
    """SGLang's pool of states: slots x what one request keeps in all layers, and one slot of padding."""
    if log.state_slots is None or log.conv_bytes is None or log.state_bytes is None:
        return None
    states_bytes = log.conv_bytes + log.state_bytes
    says = say("{size} for {requests} requests", size=gib(states_bytes), requests=format_count(log.state_slots))
    means = say("states of linear attention")
    one = sum(group.layers * group.fixed_bytes for group in model.layers) / (log.tp or 1) if model else 0.0
    if not one:
        return Finding("states", says, means)
    slack = log.rounding_bytes("conv_bytes") + log.rounding_bytes("state_bytes")
    agrees = log.state_slots * one - slack <= states_bytes <= (log.state_slots + 1) * one + slack
    means = say("{means}, {size} each", means=means, size=format_bytes(one))
    return Finding("states", says, means, gib(log.state_slots * one), agrees)


def block_identity(log: LogValues) -> Finding | None:
    """Tokens = blocks x block size, where a log prints both and one kind of layer is all there is."""
    if log.tokens is None or log.gpu_blocks is None:
        return None
    if log.engine == "vllm" and log.tokens % block_size(log):
        return None  # concurrency x length, not blocks
    return Finding(
        "gpu_blocks", format_count(log.gpu_blocks), say("tokens / block size"),
        f"{log.tokens / block_size(log):,.0f}",
        abs(log.gpu_blocks * block_size(log) - log.tokens) < block_size(log),
    )  # fmt: skip


def weights(log: LogValues) -> Finding | None:
    if log.weight_bytes is None:
        return None
    return Finding("weights", format_bytes(log.weight_bytes), say("weights on one GPU, as loaded"))


def budget(log: LogValues) -> Finding | None:
    """V0: pool = total x utilisation - weights - other - activation peak; the printed utilisation is rounded."""
    spent = spent_bytes(log)
    usable, slack = log.usable_bytes, BUDGET_ROUNDING_BYTES
    if usable is None and log.total_bytes is not None and log.utilization is not None:
        usable = log.total_bytes * log.utilization
        rounded = len(f"{log.utilization:g}".partition(".")[2]) <= 2
        slack += log.total_bytes * UTILIZATION_ROUNDING if rounded and log.utilization not in (0.9, 0.92) else 0.0
    if usable is None or spent is None or log.pool_bytes is None:
        return None
    expected = usable - spent
    means = say("total x utilisation, less weights, other memory and the activation peak")
    agrees = abs(expected - log.pool_bytes) <= slack
    return Finding("budget", gib(log.pool_bytes), means, gib(expected), agrees)


def spent_bytes(log: LogValues) -> float | None:
    """Weights, other memory and activations: V0 printed them apart from 0.7 on, before that peak torch memory."""
    if log.peak_torch_bytes is not None:
        return log.peak_torch_bytes + (log.non_torch_bytes or 0.0)
    if log.weight_bytes is None or log.activation_bytes is None:
        return None
    return log.weight_bytes + log.activation_bytes + (log.non_torch_bytes or 0.0)


def needed(log: LogValues, model: Named | None, rate: float | None) -> Finding | None:
    """A refusal: what one request of full length needs, what there is, and the longest that fits."""
    if log.needed_bytes is None or not log.max_model_len:
        return None
    says = say("{size} for {tokens} tokens", size=gib(log.needed_bytes), tokens=format_count(log.max_model_len))
    means = say("one request of max_model_len")
    if log.pool_bytes is not None:
        means = say("{means}; the pool has {size}", means=means, size=gib(log.pool_bytes))
    if rate is None and model is not None:
        return group_needed(log, model, says, means)
    if rate is None:
        return Finding("needed", says, means)
    if log.pool_bytes is not None:
        longest = int(log.pool_bytes // (rate * block_size(log))) * block_size(log)
        means = say("{means}, which holds {tokens} tokens", means=means, tokens=format_count(longest))
    expected = rate * math.ceil(log.max_model_len / block_size(log)) * block_size(log)
    agrees = abs(expected - log.needed_bytes) <= log.rounding_bytes("needed_bytes")
    return Finding("needed", says, means, gib(expected), agrees)
