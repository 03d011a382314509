"""What a log leaves open, and with which of it a figure would fit: a true log is pasted in part.

A setting that the log names is never doubted.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import replace

from kvmodel.startup_log.finding import Named, rank_rate
from kvmodel.startup_log.log_reader import LogValues
from kvmodel.words import say

WIDTHS = {1: "KV in 8 bits", 2: "KV in 16 bits"}
DEGREES = (2, 4, 8, 16)
MOST_DRAFT_LAYERS = 8
MOST_FITS = 3  # that are said
# A checkpoint that may say itself how its KV is kept: then "auto" is not the model's 16 bits.
QUANTIZED = re.compile(r"fp8|fp4|int[48]|w[48]a|awq|gptq|quant|modelopt|kv|^[./~]", re.IGNORECASE)


def fitting(log: LogValues, model: Named, low: float, high: float) -> str | None:
    """The open settings with which one rank's bytes per token lie between these, in words; None where none do."""
    fits = [words for changed, named, words in variants(log, model) if low <= rank_rate(changed, named) <= high]
    if not fits:
        return None
    return say("fits with {settings}, which the log does not name", settings=say(" or ").join(fits[:MOST_FITS]))


def variants(log: LogValues, model: Named) -> Iterator[tuple[LogValues, Named, str]]:
    """The log and the model under each choice that is open, the likeliest first."""
    widths = [(width, words) for width, words in WIDTHS.items() if width != model.bytes_per_value]
    dtypes = [(model, "")] + [(replace(model, bytes_per_value=w), say(words)) for w, words in widths] * dtype_is_open(
        log
    )
    degrees = [(log, "")]
    if not log.names("tp"):
        degrees += [(replace(log, tp=float(n)), say("tensor parallel over {n} GPUs", n=n)) for n in DEGREES]
    elif not log.names("dcp") and (log.tp or 1) > 1:
        shared = [n for n in DEGREES if (log.tp or 1) % n == 0]
        degrees += [(replace(log, dcp=float(n)), say("decode context parallel of {n}", n=n)) for n in shared]
    for (changed, ranks), (model_changed, dtype) in itertools.product(degrees, dtypes):
        if ranks or dtype:
            yield changed, model_changed, ", ".join(part for part in (ranks, dtype) if part)
    if log.draft is not None and len(model.layers) == 1:
        (group,) = model.layers
        for more in range(1, MOST_DRAFT_LAYERS + 1):
            drafted = replace(model, layers=(replace(group, layers=group.layers + more),))
            yield log, drafted, say("layers of a draft beside the model's: {n}", n=more)


def dtype_is_open(log: LogValues) -> bool:
    """Whether the log leaves the width of KV values open."""
    if log.kv_dtype not in (None, "auto"):
        return False
    return log.kv_dtype is None or log.model is None or QUANTIZED.search(log.model) is not None
