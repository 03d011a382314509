"""Refusals to start, of every engine and age: what was said, what it means, and the mend.

Source of the sentences: vLLM 0.2.7 to 0.33 `worker.py`, `kv_cache_utils.py`, `gpu_worker.py`; SGLang 0.5.23
`pool_configurator.py`, `model_runner.py`; TensorRT-LLM `kvCacheManager`, `py_executor_creator.py`; llama.cpp
`llama-kv-cache.cpp`; PyTorch's allocator.
"""

from __future__ import annotations

import collections
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from kvmodel.startup_log.finding import Named, gib, rank_rate
from kvmodel.startup_log.log_reader import LONGEST_LOG, LogValues
from kvmodel.startup_log.log_rules import UNIT_BYTES, N, S, X, words
from kvmodel.startup_log.pool_checks import request_tokens, whole_model_rate
from kvmodel.units import GIB, format_bytes, format_count, significant
from kvmodel.words import say

LATER_START = words(
    r"Application startup complete|fired up and ready to roll|Engine loaded and ready to serve|server is listening on"
    r"|[GC]PU KV cache size: [0-9]|\bmax_total_num_tokens=[1-9]|Executor instance created"
)


STARTED = words(
    "Application startup complete|fired up and ready to roll|Engine loaded and ready to serve|server is listening"
)


@dataclass(frozen=True)
class Refusal:
    """Why a server did not start, or stopped after it had, in one sentence; and what mends it."""

    kind: str
    refused: str
    mend: str
    after_start: bool = False


def refusal(text: str, log: LogValues, model: Named | None = None) -> Refusal | None:
    """The last refusal of a log that no later start follows; None where the server started, or nothing says it did not.

    `log` is the reading of the same text, `model` the one it is held against.
    """
    plain = re.sub(r"\x1b\[[0-9;]{0,20}m", "", text[:LONGEST_LOG])
    started = max((match.end() for match in LATER_START.finditer(plain)), default=-1)
    said = [(last.start(), last, maker) for pattern, maker in REFUSALS if (last := last_match(pattern, plain, started))]
    causes = [entry for entry in said if entry[2] is not not_said] or said
    if causes:
        place, match, maker = max(causes, key=lambda entry: entry[0])
        after_start = STARTED.search(plain[:place]) is not None
        return replace(of_stages(maker(match, log), log, model), after_start=after_start)
    empty = (log.pool_bytes is not None and log.pool_bytes <= 0) or (log.gpu_blocks == 0 and log.engine == "vllm-v0")
    return no_blocks(None, log) if empty and started < 0 else None


def last_match(pattern: re.Pattern[str], text: str, after: int) -> re.Match[str] | None:
    """The last place of a pattern, None where it comes before `after`."""
    found = collections.deque(pattern.finditer(text, max(after, 0)), maxlen=1)
    return found[0] if found else None


def of_stages(found: Refusal, log: LogValues, model: Named | None) -> Refusal:
    """A refusal that held the whole model against one stage: a stage needs less, so it should start."""
    if found.kind != "too_long" or model is None or log.pool_bytes is None or whole_model_rate(log, model) is None:
        return found
    need = rank_rate(log, model) * request_tokens(log)
    if need > log.pool_bytes:
        return found
    sizes = {"refused": found.refused, "need": gib(need), "stages": f"{log.pp:.0f}"}
    refused = say("{refused}; but that is the whole model's need: one of {stages} stages needs {need}", **sizes)
    mend = say(
        "it should start: vLLM 0.14 and 0.15 counted so, take another version; until then {mend}", mend=found.mend
    )
    return replace(found, refused=refused, mend=mend)


Maker = Callable[..., Refusal]


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


FLOAT = r"([0-9]{1,6}(?:\.[0-9]{1,16})?)"
REFUSALS: tuple[tuple[re.Pattern[str], Maker], ...] = (  # a cause goes before what only follows from it
    (words(rf"Free memory on device(?: \w{{1,9}}:[0-9]{{1,3}})? \({X}/{S}\) on startup is less than desired GPU memory "
           rf"utilization \({X}, {S}\)"), too_little_free),
    (words(rf"max seq len \({N}\),? \(?{S} KV cache is needed, which is larger than the available KV cache memory "
           rf"\({S}\)"), too_long),
    (words(rf"max seq len \({N}\) is larger than the maximum number of tokens that can be stored in KV cache \({N}\)"),
     too_long_of_v0),
    (words("No available memory for the cache blocks"), no_blocks),
    (words(rf"max_num_seqs \({N}\) exceeds available Mamba cache blocks \({N}\)"), few_states),
    (words(rf"The memory capacity is unbalanced\.(?:.{{0,80}}?_memory={FLOAT}, "
           rf"(?:self\.)?local_\w{{1,9}}_memory={FLOAT})?"), sglang_unbalanced),
    (words("Not enough GPU memory for hybrid"), sglang_states),
    (words("Not enough memory. Please try to increase --mem-fraction-static|Loaded weights leave no GPU memory for"),
     sglang_memory),
    (words(rf"max KV cache length of input sequences \({N}\) exceeds the KV cache manager's maximum supported length "
           rf"\({N}\)"), trt_too_long),
    (words("Impossible to fit any sequence in kvCache|must be large enough to process at least 1 sequence to completion"
           "|No free blocks left"), trt_no_sequence),
    (words(r"Executor creation failed due to insufficient GPU memory(?:\.\s{1,9}The following component could not be "
           rf"created: ([A-Za-z ]{{1,40}})\s{{1,9}}Total GPU memory \(GiB\): {FLOAT}\s{{1,9}}Free GPU memory before "
           rf"component creation attempt \(GiB\): {FLOAT})?"), trt_executor),
    (words(r"(?:failed to allocate \w{1,12} buffer of size ([0-9]{1,18})[^\x00]{0,300}?)?"
           "failed to allocate buffer for kv cache"), llama_kv),
    (words(rf"out of memory(?:\. Tried to allocate {S}(?:\.? GPU [0-9]{{1,3}} has a total capacity of "
           rf"{S} of which {S} is free)?)?"), out_of_memory),
    (words("Engine core initialization failed|EngineCore failed to start|Engine process failed to start"), not_said),
)  # fmt: skip
