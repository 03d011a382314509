"""What each refusal to start means and what mends it, from its sentence and the figures of the log."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace

from kvmodel.startup_log.finding import Named, gib
from kvmodel.startup_log.log_reader import LogValues
from kvmodel.startup_log.log_rules import UNIT_BYTES
from kvmodel.startup_log.pool_checks import stage_need
from kvmodel.units import GIB, format_bytes, format_count, significant
from kvmodel.words import say

WHOLE_MODEL = re.compile(r"0\.1[45]\b")  # versions that did (vllm#32105, #34076)


@dataclass(frozen=True)
class Refusal:
    """Why a server did not start, or stopped after it had, in one sentence; and what mends it."""

    kind: str
    refused: str
    mend: str
    after_start: bool = False


def of_stages(found: Refusal, log: LogValues, model: Named | None) -> Refusal:
    """A refusal that held the whole model against one stage: a stage needs less, so it should start."""
    if found.kind == "too_long" and model is None and (log.pp or 1) > 1 and WHOLE_MODEL.match(log.version or ""):
        mend = say("{mend}; vLLM 0.14 and 0.15 held the whole model against one stage: name the model", mend=found.mend)
        return replace(found, mend=mend)
    need = stage_need(log, model) if found.kind == "too_long" else None
    if need is None or log.pool_bytes is None or need > log.pool_bytes:
        return found
    sizes = {"refused": found.refused, "need": gib(need), "stages": f"{log.pp:.0f}"}
    refused = say("{refused}; but that is the whole model's need: one of {stages} stages needs {need}", **sizes)
    mend = say(
        "it should start: vLLM 0.14 and 0.15 counted so, take another version; until then {mend}", mend=found.mend
    )
    return replace(found, refused=refused, mend=mend)


def number(text: str) -> float:
    return float(text.replace(",", ""))


def size(text: str, unit: str) -> float:
    return number(text) * UNIT_BYTES[unit.lower()]


# --- vLLM ---


def too_long(match: re.Match[str], log: LogValues) -> Refusal:
    """V1: one request of max_model_len needs more than the pool has."""
    length, needed, pool = number(match[1]), size(match[2], match[3]), size(match[4], match[5])
    sizes = {"needed": gib(needed), "pool": gib(pool), "length": format_count(length)}
    refused = say("one request of {length} tokens needs {needed}, and the pool has {pool}", **sizes)
    if log.longest_tokens:
        return Refusal("too_long", refused, shorter(log.longest_tokens))
    share = max(0.0, min(1.0, pool / needed)) if needed > 0 else 0.0
    mend = say("--max-model-len {tokens} at most, roughly, or more memory for KV", tokens=f"{length * share:.0f}")
    return Refusal("too_long", refused, mend)


def too_long_of_v0(match: re.Match[str], log: LogValues) -> Refusal:
    """V0: the pool holds fewer tokens than max_model_len."""
    length, tokens = number(match[1]), number(match[2])
    share = significant(tokens / length, 2) if length else "–"
    said = {"tokens": format_count(tokens), "share": share, "length": format_count(length)}
    return Refusal(
        "too_long", say("the pool holds {tokens} tokens, {share} of one request of {length}", **said), shorter(tokens)
    )


def shorter(tokens: float) -> str:
    return say("--max-model-len {tokens} at most, or a higher --gpu-memory-utilization", tokens=f"{tokens:.0f}")


def no_blocks(match: re.Match[str] | None, log: LogValues) -> Refusal:
    """Nothing is left for KV: weights and the rest take more than the engine may use."""
    refused = say("no memory is left for KV")
    if log.pool_bytes is not None and log.pool_bytes <= 0:
        refused = say("no memory is left for KV: the pool is {pool}", pool=gib(log.pool_bytes))
    mend = say(
        "a higher --gpu-memory-utilization where the GPU has room, a smaller --max-num-batched-tokens, more GPUs "
        "(--tensor-parallel-size), or smaller weights"
    )
    if log.graph_estimate_bytes and log.graph_estimate_bytes > -(log.pool_bytes or 0.0):
        size_of = gib(log.graph_estimate_bytes)
        mend = say(
            "{mend}; {size} are reserved for CUDA graphs: fewer capture sizes free them", mend=mend, size=size_of
        )
    return Refusal("no_blocks", refused, mend)


def too_little_free(match: re.Match[str], log: LogValues) -> Refusal:
    """Less is free at the start than the engine is told to take."""
    free, total = number(match[1]) * GIB, size(match[2], match[3])
    wanted = size(match[5], match[6])
    sizes = {"free": gib(free), "total": gib(total), "wanted": gib(wanted), "held": gib(total - free)}
    refused = say("{free} of {total} are free and {wanted} are asked for: other processes hold {held}", **sizes)
    most = math.floor(free / total * 100 + 1e-9) / 100 if total > 0 else 0.0
    return Refusal(
        "too_little_free", refused,
        say("end what holds the memory (nvidia-smi), or --gpu-memory-utilization {most:.2f} at most", most=most),
    )  # fmt: skip


def few_states(match: re.Match[str], log: LogValues) -> Refusal:
    """Fewer states of linear attention than requests at a time."""
    seats, states = number(match[1]), number(match[2])
    said = {"seats": format_count(seats), "states": format_count(states)}
    return Refusal(
        "few_states", say("{seats} requests may run at a time, and there are states for {states}", **said),
        say("--max-num-seqs {states} at most, or a higher --gpu-memory-utilization", states=f"{states:.0f}"),
    )  # fmt: skip


# --- SGLang ---


def sglang_memory(match: re.Match[str], log: LogValues) -> Refusal:
    """Weights take what --mem-fraction-static allows, so that no token fits."""
    if log.mem_fraction is not None:
        given = f"{log.mem_fraction:g}"
        refused = say("no memory is left for KV within --mem-fraction-static {given}", given=given)
    else:
        refused = say("no memory is left for KV within --mem-fraction-static")
    mend = say("a higher --mem-fraction-static, more GPUs (--tp-size), or smaller weights")
    return Refusal("no_blocks", refused, mend)


def sglang_unbalanced(match: re.Match[str], log: LogValues) -> Refusal:
    """One GPU has over a tenth less free than another."""
    mend = say("end what holds memory on one of the GPUs (nvidia-smi), or choose GPUs that are free alike")
    if match[1] is None:
        return Refusal("unbalanced", say("the GPUs do not have the same memory free"), mend)
    least, mine = number(match[1]) * GIB, number(match[2]) * GIB
    sizes = {"least": gib(least), "mine": gib(mine), "held": gib(mine - least)}
    refused = say("one GPU has {least} free, another {mine}: other processes hold {held} more of it", **sizes)
    return Refusal("unbalanced", refused, mend)


def sglang_states(match: re.Match[str], log: LogValues) -> Refusal:
    """No room for the states of linear attention."""
    mend = say("a smaller --max-running-requests, a higher --mem-fraction-static, or more GPUs (--tp-size)")
    return Refusal("few_states", say("no memory is left for the states of linear attention"), mend)


# --- TensorRT-LLM ---


def trt_too_long(match: re.Match[str], log: LogValues) -> Refusal:
    """A sequence is longer than the KV cache manager was made for."""
    said = {"length": format_count(number(match[1])), "most": format_count(number(match[2]))}
    mend = say("requests of {most} tokens at most, or a higher max_seq_len and free_gpu_memory_fraction", **said)
    return Refusal("too_long", say("a sequence of {length} tokens, and the KV cache holds {most} of one", **said), mend)


def trt_no_sequence(match: re.Match[str], log: LogValues) -> Refusal:
    """Not one sequence of the longest length fits."""
    mend = say("a higher kv_cache_free_gpu_memory_fraction, or a smaller max_seq_len and max_batch_size")
    if log.tokens:
        mend = say("max_seq_len {tokens} at most, or {mend}", tokens=f"{log.tokens:.0f}", mend=mend)
    return Refusal("too_long", say("not one sequence of the longest length fits in the KV cache"), mend)


def trt_executor(match: re.Match[str], log: LogValues) -> Refusal:
    """The PyTorch backend says which part did not fit, and what was free before."""
    mend = say("a smaller free_gpu_memory_fraction, max_num_tokens or max_batch_size, or more GPUs")
    if match[1] is None:
        return Refusal("out_of_memory", say("the GPU's memory is too small for the engine"), mend)
    free = gib(number(match[3]) * GIB)
    said = {"part": match[1].strip(), "free": free, "total": gib(number(match[2]) * GIB)}
    refused = say("no memory for {part}: {free} of {total} were free before it", **said)
    return Refusal("out_of_memory", refused, mend)


# --- llama.cpp, PyTorch, and what no line explains ---


def llama_kv(match: re.Match[str], log: LogValues) -> Refusal:
    """The KV buffer could not be had."""
    refused = say("the KV cache could not be allocated")
    if match[1] is not None:
        refused = say("the KV cache could not be allocated: a buffer of {size}", size=gib(number(match[1])))
    mend = say(
        "a smaller context (-c), KV in 8 bits (-ctk q8_0 -ctv q8_0), fewer slots (-np), or fewer layers on the GPU"
    )
    return Refusal("out_of_memory", refused, mend)


def out_of_memory(match: re.Match[str], log: LogValues) -> Refusal:
    """PyTorch's allocator: what was asked for and what was free."""
    mend = say("another process may hold memory (nvidia-smi); else smaller or split weights, or a lower utilisation")
    if match[1] is None:
        return Refusal("out_of_memory", say("the GPU ran out of memory"), mend)
    asked = format_bytes(size(match[1], match[2]))
    if match[3] is None:
        return Refusal("out_of_memory", say("the GPU ran out of memory at {asked} more", asked=asked), mend)
    sizes = {"asked": asked, "total": gib(size(match[3], match[4])), "free": format_bytes(size(match[5], match[6]))}
    refused = say("the GPU ran out of memory at {asked} more: {free} of {total} were free", **sizes)
    return Refusal("out_of_memory", refused, mend)


def not_said(match: re.Match[str], log: LogValues) -> Refusal:
    """The last line of a failed start, without the cause."""
    refused = say("the engine did not start; its cause stands above the lines that were given")
    return Refusal("not_said", refused, say("give the whole log, from the first error on"))
