"""Refusals to start, of every engine and age: the sentences, as data, and which one of a log counts.

Source of the sentences: vLLM 0.2.7 to 0.33 `worker.py`, `kv_cache_utils.py`, `gpu_worker.py`; SGLang 0.5.23
`pool_configurator.py`, `model_runner.py`; TensorRT-LLM `kvCacheManager`, `py_executor_creator.py`; llama.cpp
`llama-kv-cache.cpp`; PyTorch's allocator.
"""

from __future__ import annotations

import collections
import re
from collections.abc import Callable
from dataclasses import replace

from kvmodel.startup_log import refusal_words as means
from kvmodel.startup_log.finding import Named
from kvmodel.startup_log.log_reader import LONGEST_LOG, LogValues
from kvmodel.startup_log.log_rules import N, S, X, words
from kvmodel.startup_log.refusal_words import Refusal

LATER_START = tuple(  # apart: a pattern that begins with a word is found faster than one of several
    words(pattern) for pattern in (
        "Application startup complete", "fired up and ready to roll", "Engine loaded and ready to serve",
        "server is listening on", "PU KV cache size: [0-9]", "max_total_num_tokens=[1-9]", "Executor instance created",
    )
)  # fmt: skip
STARTED = words(
    "Application startup complete|fired up and ready to roll|Engine loaded and ready to serve|server is listening"
)


def refusal(text: str, log: LogValues, model: Named | None = None) -> Refusal | None:
    """The last refusal of a log that no later start follows; None where the server started, or nothing says it did not.

    `log` is the reading of the same text, `model` the one it is held against.
    """
    plain = re.sub(r"\x1b\[[0-9;]{0,20}m", "", text[:LONGEST_LOG])
    started = max((match.end() for pattern in LATER_START for match in pattern.finditer(plain)), default=-1)
    said = [(last.start(), last, maker) for pattern, maker in REFUSALS if (last := last_match(pattern, plain, started))]
    causes = [entry for entry in said if entry[2] is not means.not_said] or said
    if causes:
        place, match, maker = max(causes, key=lambda entry: entry[0])
        after_start = STARTED.search(plain[:place]) is not None
        return replace(means.of_stages(maker(match, log), log, model), after_start=after_start)
    empty = (log.pool_bytes is not None and log.pool_bytes <= 0) or (log.gpu_blocks == 0 and log.engine == "vllm-v0")
    return means.no_blocks(None, log) if empty and started < 0 else None


def last_match(pattern: re.Pattern[str], text: str, after: int) -> re.Match[str] | None:
    """The last place of a pattern, None where it comes before `after`."""
    found = collections.deque(pattern.finditer(text, max(after, 0)), maxlen=1)
    return found[0] if found else None


Maker = Callable[..., Refusal]
FLOAT = r"([0-9]{1,6}(?:\.[0-9]{1,16})?)"
REFUSALS: tuple[tuple[re.Pattern[str], Maker], ...] = (  # a cause goes before what only follows from it
    (words(rf"Free memory on device(?: \w{{1,9}}:[0-9]{{1,3}})? \({X}/{S}\) on startup is less than desired GPU memory "
           rf"utilization \({X}, {S}\)"), means.too_little_free),
    (words(rf"max seq len \({N}\),? \(?{S} KV cache is needed, which is larger than the available KV cache memory "
           rf"\({S}\)"), means.too_long),
    (words(rf"max seq len \({N}\) is larger than the maximum number of tokens that can be stored in KV cache \({N}\)"),
     means.too_long_of_v0),
    (words("No available memory for the cache blocks"), means.no_blocks),
    (words(rf"max_num_seqs \({N}\) exceeds available Mamba cache blocks \({N}\)"), means.few_states),
    (words(rf"The memory capacity is unbalanced\.(?:.{{0,80}}?_memory={FLOAT}, "
           rf"(?:self\.)?local_\w{{1,9}}_memory={FLOAT})?"), means.sglang_unbalanced),
    (words("Not enough GPU memory for hybrid"), means.sglang_states),
    (words(r"Not enough memory\. Please try to increase --mem-fraction-static"), means.sglang_memory),
    (words("Loaded weights leave no GPU memory for the KV cache"), means.sglang_memory),
    (words(rf"max KV cache length of input sequences \({N}\) exceeds the KV cache manager's maximum supported length "
           rf"\({N}\)"), means.trt_too_long),
    (words("Impossible to fit any sequence in kvCache|must be large enough to process at least 1 sequence to completion"
           "|No free blocks left"), means.trt_no_sequence),
    (words(r"Executor creation failed due to insufficient GPU memory(?:\.\s{1,9}The following component could not be "
           rf"created: ([A-Za-z ]{{1,40}})\s{{1,9}}Total GPU memory \(GiB\): {FLOAT}\s{{1,9}}Free GPU memory before "
           rf"component creation attempt \(GiB\): {FLOAT})?"), means.trt_executor),
    (words(r"failed to allocate (?:\w{1,12} buffer of size ([0-9]{1,18})[^\x00]{0,300}?failed to allocate )?"
           "buffer for kv cache"), means.llama_kv),
    (words(rf"out of memory(?:\. Tried to allocate {S}(?:\.? GPU [0-9]{{1,3}} has a total capacity of "
           rf"{S} of which {S} is free)?)?"), means.out_of_memory),
    (words("Engine core initialization failed|EngineCore failed to start|Engine process failed to start"),
     means.not_said),
)  # fmt: skip
