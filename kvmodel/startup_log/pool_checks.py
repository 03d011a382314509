"""The pool against its tokens, its requests and what one request needs: true, contradictory, or not explained.

A figure contradicts only where no setting that the log leaves open, and no version's arithmetic, could print it.
"""

from __future__ import annotations

import math

from kvmodel.memory import printouts
from kvmodel.startup_log.finding import (
    Finding,
    Named,
    attention_tp,
    block_size,
    gib,
    has_plain_layers,
    implied_bytes_per_token,
    pool_tokens,
    rank_rate,
    unexplained,
)
from kvmodel.startup_log.groups import CONCURRENCY_ROUNDING, group_concurrency, group_needed, group_stage_need
from kvmodel.startup_log.log_reader import LogValues
from kvmodel.startup_log.open_settings import fitting
from kvmodel.units import format_bytes, format_count
from kvmodel.words import say

MOST_GROUPS = 64  # of layers that share a pool: concurrency is at most so many times tokens / length
SMALLEST_RANK = 0.75  # of the printed pool: ranks are GPUs of one kind


def pool_against_tokens(log: LogValues, rate: float | None, model: Named | None) -> Finding | None:
    """The pool's size against its tokens, and both against the model's bytes per token."""
    implied, tokens = implied_bytes_per_token(log), pool_tokens(log)
    if implied is None or tokens is None:
        return None
    low, high = implied
    says = say("{size} for {tokens} tokens", size=format_bytes(log.pool_bytes or 0), tokens=format_count(tokens))
    if log.blocks_override is not None:
        means = say("tokens follow from num_gpu_blocks_override, not from the memory")
        return Finding("pool", says, means)
    ends = {"low": format_count(low), "high": format_count(high)}
    means = say("{low} to {high} bytes a token on one GPU", **ends)
    if rate is None:
        return Finding("pool", says, means)
    expected = say("{rate} bytes a token", rate=format_count(rate))
    if low <= rate <= high:
        return Finding("pool", says, means, expected, True)
    difference = unexplained((low + high) / 2, rate)
    cause = fitting(log, model, low, high) if model else None
    if cause is not None:
        return Finding("pool", says, say("{means}; {more}", means=means, more=cause), expected)
    means = say("{means}; {more}", means=means, more=difference)
    if rate < low and rate >= SMALLEST_RANK * low and len(log.pools) < (log.tp or 1) * (log.pp or 1) > 1:
        more = say("one rank's pool is printed, and the smallest rank decides how many tokens there are")
        return Finding("pool", says, say("{means}; {more}", means=means, more=more), expected)
    agrees = None if of_open_stage(log, model, low) or not is_plain(log, model) else False
    return Finding("pool", says, means, expected, agrees)


def is_plain(log: LogValues, model: Named | None) -> bool:
    """Whether bytes per token say everything: all layers grow alike, or the engine treats them so."""
    return model is None or log.engine == "vllm-v0" or has_plain_layers(model, log.engine)


def of_open_stage(log: LogValues, model: Named | None, low: float) -> bool:
    """Whether another partition of the layers over stages, which the log does not name, could print it."""
    if model is None or log.partition or (log.pp or 1) <= 1:
        return False
    return low <= rank_rate(log, model, stages=1)


def of_open_stage_exactly(log: LogValues, model: Named | None, low: float, high: float) -> bool:
    """As :func:`of_open_stage`, for a need that is not rounded by ranks: a whole number of layers must give it."""
    if model is None or not of_open_stage(log, model, low) or len(model.layers) != 1:
        return of_open_stage(log, model, low)
    layer = rank_rate(log, model, stages=1) / model.layers[0].layers
    return math.floor(high / layer) >= math.ceil(low / layer)


def concurrency(log: LogValues, model: Named | None) -> Finding | None:
    """Requests of full length: tokens / length where all layers grow alike, else blocks / blocks of one request."""
    tokens = pool_tokens(log)
    if log.concurrency is None or not log.max_model_len:
        return None
    says, length = f"{log.concurrency:g}x", log.max_model_len
    means = say("requests of {tokens} tokens that fit at once", tokens=format_count(length))
    in_groups = log.engine == "vllm-v1" and model is not None and not has_plain_layers(model)
    if tokens is not None and not (in_groups and log.version is not None):
        block = block_size(log)
        whole = math.ceil(length / block) * block  # V1 counts whole blocks a request
        low, high = sorted((tokens / whole, tokens / length))
        if low - CONCURRENCY_ROUNDING <= log.concurrency <= high + 1 / length + CONCURRENCY_ROUNDING:
            return Finding("concurrency", says, means, f"{high:.2f}x", True)
        if log.concurrency < tokens / (whole + 2 * block) - CONCURRENCY_ROUNDING:  # a window holds one block more
            return Finding("concurrency", says, means, f"{high:.2f}x", False)
    if in_groups and model is not None:
        return group_concurrency(log, model, says, means)
    if tokens is None:
        return Finding("concurrency", says, means)
    if log.engine == "vllm-v1" and model is None and log.concurrency <= MOST_GROUPS * high:
        more = say("not checked: tokens / length is not this for a model with windows or states")
        return Finding("concurrency", says, say("{means}; {more}", means=means, more=more))
    return Finding("concurrency", says, means, f"{high:.2f}x", False)


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
    whole = whole_model_rate(log, model)
    if log.pool_bytes is not None:
        per_block = (whole or rate) * block_size(log)
        longest = max(0, int(log.pool_bytes // per_block)) * block_size(log)
        means = say("{means}, which holds {tokens} tokens", means=means, tokens=format_count(longest))
    tokens = request_tokens(log)
    slack = log.rounding_bytes("needed_bytes")
    low, high = (log.needed_bytes - slack) / tokens, (log.needed_bytes + slack) / tokens
    if whole is not None:
        more = say("the whole model, of which a stage keeps {size}", size=gib(rate * tokens))
        return Finding("needed", says, say("{means}; {more}", means=means, more=more), gib(whole * tokens), True)
    if low <= rate <= high:
        return Finding("needed", says, means, gib(rate * tokens), True)
    cause = fitting(log, model, low, high) if model else None
    difference = unexplained(log.needed_bytes, rate * tokens)
    means = say("{means}; {more}", means=means, more=cause or difference)
    stage = of_open_stage_exactly(log, model, low, high)
    agrees = None if cause or stage or not is_plain(log, model) else False
    return Finding("needed", says, means, gib(rate * tokens), agrees)


def longest(log: LogValues, model: Named | None) -> Finding | None:
    """The longest request that fits, as the engine counted it: of plain layers the pool's share of what one needs."""
    if log.longest_tokens is None:
        return None
    says, means = format_count(log.longest_tokens), say("the longest request that fits, as the engine counted it")
    if not log.needed_bytes or log.pool_bytes is None or not log.max_model_len:
        return Finding("longest", says, means)
    pool_slack, slack = log.rounding_bytes("pool_bytes"), log.rounding_bytes("needed_bytes")
    tokens = request_tokens(log)
    most = (log.pool_bytes + pool_slack) / max(log.needed_bytes - slack, 1.0) * tokens
    least = max(log.pool_bytes - pool_slack, 0.0) / (log.needed_bytes + slack) * tokens - block_size(log)
    expected = format_count(log.pool_bytes / log.needed_bytes * tokens)
    if least <= log.longest_tokens <= most:
        return Finding("longest", says, means, expected, True)
    if model is None or not is_plain(log, model):
        return Finding("longest", says, means)  # with windows or states a need is no multiple of its length
    return Finding("longest", says, means, expected, False)


def request_tokens(log: LogValues) -> float:
    """Tokens of one request of full length in whole blocks."""
    return math.ceil((log.max_model_len or 0) / block_size(log)) * block_size(log)


def stage_need(log: LogValues, model: Named | None) -> float | None:
    """What a stage needs for one request where a refusal held the whole model against it, else None. [bytes]"""
    if model is None or (log.pp or 1) <= 1 or log.needed_bytes is None or not log.max_model_len:
        return None
    if is_plain(log, model):
        whole = whole_model_rate(log, model)
        return None if whole is None else rank_rate(log, model) * request_tokens(log)
    return group_stage_need(log, model)


def whole_model_rate(log: LogValues, model: Named | None) -> float | None:
    """Bytes per token over all stages where a refusal counted these, else None. [bytes]

    vLLM 0.14 and 0.15 held the whole model's need against one stage's memory (vllm#32105, #34076).
    """
    if model is None or (log.pp or 1) <= 1 or log.needed_bytes is None or not log.max_model_len:
        return None
    rate = printouts.rank_bytes_per_token(
        model.layers, bytes_per_value=model.bytes_per_value, tp=attention_tp(log), dcp=int(log.dcp or 1)
    )
    off = abs(rate * request_tokens(log) - log.needed_bytes)
    return rate if off <= log.rounding_bytes("needed_bytes") else None
