"""The figures of a start-up log against each other and against the model: what each means, and which cannot be true.

Printed figures are rounded, so each check compares ranges: a figure agrees when some value that rounds to it fits.
"""

from __future__ import annotations

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
from kvmodel.startup_log.groups import groups, state_block
from kvmodel.startup_log.log_reader import LogValues
from kvmodel.startup_log.open_settings import fitting
from kvmodel.startup_log.pool_checks import concurrency, longest, needed, pool_against_tokens
from kvmodel.units import GIB, format_bytes, format_count
from kvmodel.words import say

__all__ = ["Finding", "Named", "check", "consistent", "implied_bytes_per_token", "rank_rate"]

ABOVE_ZERO = ("total_bytes", "usable_bytes", "weight_bytes", "key_bytes", "value_bytes", "host_bytes")
FROM_ONE = ("tp", "pp", "dp", "block_tokens", "max_model_len", "max_num_seqs")
SHARES = ("utilization", "mem_fraction")
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
        pool_against_tokens(log, rate, model),
        groups(log, model) if model is not None and rate is None else None,
        state_block(log, model) if model is not None else None,
        cpu_blocks(log, rate, model),
        concurrency(log, model),
        block_identity(log),
        states(log, model),
        needed(log, model, rate),
        longest(log, model),
        weights(log, model),
        graphs(log),
        host_pool(log),
    ]
    return [*impossible(log), *(finding for finding in findings if finding is not None)]


def impossible(log: LogValues) -> list[Finding]:
    """Figures that no engine can have: a size below zero, no rank, a block without tokens, more than all memory.

    An engine that prints a pool below zero ends there; with tokens beside it the two are not of one start.
    """
    sizes = [name for name in ABOVE_ZERO if (getattr(log, name) or 0) < 0]
    if log.pool_bytes is not None and log.pool_bytes <= 0 and pool_tokens(log):
        sizes.append("pool_bytes")
    counts = [name for name in FROM_ONE if getattr(log, name) == 0]
    means = say("no engine runs with this")
    rows = [(name, gib(getattr(log, name)), say("more than 0")) for name in sizes]
    rows += [(name, "0", say("1 or more")) for name in counts]
    shares = [(name, getattr(log, name)) for name in SHARES if getattr(log, name) is not None]
    rows += [(name, f"{share:g}", say("more than 0 and up to 1")) for name, share in shares if not 0 < share <= 1]
    return [Finding(name, printed, means, expected=expected, agrees=False) for name, printed, expected in rows]


def consistent(findings: Sequence[Finding]) -> bool:
    """Whether no figure is at odds with another or with the model."""
    return all(finding.agrees is not False for finding in findings)


def cpu_blocks(log: LogValues, rate: float | None, model: Named | None) -> Finding | None:
    """V0's CPU blocks = floor(swap space / block): the model's size, free of what the GPU does."""
    if log.cpu_blocks is None or (log.cpu_blocks == 0 and not log.swap_gib):
        return None
    says = format_count(log.cpu_blocks)
    swap = (log.swap_gib or 4) * GIB
    if rate is None:
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
    if expected == log.cpu_blocks:
        return Finding("cpu_blocks", says, means, f"{expected:,}", True)
    per_token = swap / block_size(log)
    low, high = per_token / (log.cpu_blocks + 1), per_token / max(log.cpu_blocks, 1)
    cause = fitting(log, model, low, high) if model else None
    if cause:
        return Finding("cpu_blocks", says, say("{means}; {more}", means=means, more=cause), f"{expected:,}")
    return Finding("cpu_blocks", says, means, f"{expected:,}", False)


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


def weights(log: LogValues, model: Named | None) -> Finding | None:
    """Weights as loaded; engines pad and repack them, so no size of theirs contradicts the file's."""
    if log.weight_bytes is None:
        return None
    means = say("weights on one GPU, as loaded")
    if model is None or not model.weight_bytes:
        return Finding("weights", format_bytes(log.weight_bytes), means)
    of_file = model.weight_bytes / ((log.tp or 1) * (log.pp or 1))
    more = say("{size} of them in the model's file", size=gib(of_file))
    return Finding("weights", gib(log.weight_bytes), say("{means}; {more}", means=means, more=more))


def budget(log: LogValues) -> Finding | None:
    """Pool = total x utilisation - weights - other - activation peak; CUDA graphs lie outside, or in the peak."""
    if log.usable_bytes is not None and log.in_use_bytes is not None:
        return budget_of_v1(log, log.usable_bytes, log.in_use_bytes)
    spent = spent_bytes(log)
    usable, slack = log.usable_bytes, BUDGET_ROUNDING_BYTES
    if usable is None and log.total_bytes is not None and log.utilization is not None:
        usable = log.total_bytes * log.utilization
        rounded = len(f"{log.utilization:g}".partition(".")[2]) <= 2
        slack += log.total_bytes * UTILIZATION_ROUNDING if rounded and log.utilization not in (0.9, 0.92) else 0.0
    if usable is None or spent is None or log.pool_bytes is None or is_set_by_hand(log):
        return None
    expected = usable - spent
    means = say("total x utilisation, less weights, other memory and the activation peak")
    agrees = abs(expected - log.pool_bytes) <= slack
    return Finding("budget", gib(log.pool_bytes), means, gib(expected), agrees)


def budget_of_v1(log: LogValues, usable: float, in_use: float) -> Finding | None:
    """As :func:`budget`, of V1's line after the graphs were captured: one rank's figures, all in one sentence."""
    weight_and_other = log.consumed_bytes
    if weight_and_other is None and log.weight_bytes is not None:
        weight_and_other = log.weight_bytes + (log.non_torch_bytes or 0.0)
    if weight_and_other is None or log.activation_bytes is None:
        return None
    expected = usable - weight_and_other - log.activation_bytes
    means = say("total x utilisation, less weights, other memory and the activation peak")
    if is_set_by_hand(log):
        more = say("the pool is set by hand")
        return Finding("budget", gib(in_use), say("{means}; {more}", means=means, more=more), gib(expected))
    options = [expected - graphs for graphs in (0.0, log.graph_estimate_bytes or 0.0, log.graph_bytes or 0.0)]
    agrees = any(abs(option - in_use) <= BUDGET_ROUNDING_BYTES for option in options)
    return Finding("budget", gib(in_use), means, gib(expected), agrees)


def is_set_by_hand(log: LogValues) -> bool:
    """Whether blocks or bytes were given, so that the pool is not what memory leaves."""
    return log.pinned_bytes is not None or log.blocks_override is not None


def spent_bytes(log: LogValues) -> float | None:
    """Weights, other memory and activations: V0 printed them apart from 0.7 on, before that peak torch memory."""
    if log.peak_torch_bytes is not None:
        return log.peak_torch_bytes + (log.non_torch_bytes or 0.0)
    if log.weight_bytes is None or log.activation_bytes is None:
        return None
    return log.weight_bytes + log.activation_bytes + (log.non_torch_bytes or 0.0)


def graphs(log: LogValues) -> Finding | None:
    """CUDA graphs: what vLLM reserved for them before it captured them, and the utilisation without that."""
    if log.graph_estimate_bytes is None and log.equivalent_utilization is None:
        return None
    says = gib(log.graph_estimate_bytes) if log.graph_estimate_bytes is not None else f"{log.equivalent_utilization:g}"
    means = say("reserved for CUDA graphs before they are captured")
    if log.graph_bytes is not None:
        means = say("{means}; they took {size}", means=means, size=gib(log.graph_bytes))
    if log.utilization is not None and log.equivalent_utilization is not None:
        ends = {"now": f"{log.utilization:g}", "before": f"{log.equivalent_utilization:g}"}
        means = say("{means}; utilisation {now} gives the pool that {before} gave without", means=means, **ends)
    return Finding("graphs", says, means)


def host_pool(log: LogValues) -> Finding | None:
    """A pool in host memory beside the GPU's, in whatever unit the engine prints."""
    if log.host_tokens:
        return Finding("host_pool", say("{tokens} tokens", tokens=format_count(log.host_tokens)), say("in host memory"))
    if log.host_bytes:
        return Finding("host_pool", gib(log.host_bytes), say("in host memory"))
    if log.host_blocks:
        return Finding("host_pool", say("{count} blocks", count=format_count(log.host_blocks)), say("in host memory"))
    return None
