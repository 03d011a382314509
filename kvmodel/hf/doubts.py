"""Counts of parameters that are hardly what the reader means: experts left out, another size in the name."""

from __future__ import annotations

import math
import re

from kvmodel.hf.experts import COUNT
from kvmodel.hf.fields import Fields
from kvmodel.hf.parameters import Parameters
from kvmodel.units import BILLION, format_count
from kvmodel.words import say

LARGEST = 10_000 * BILLION  # parameters: the largest that is published has 2,000 billion
FAR = 2.0  # times: names leave out embeddings, and count experts in several ways
SIZE = re.compile(r"(?<![a-z0-9.])(?<![0-9]_)(?:([0-9]{1,3})x)?([0-9]{1,4}(?:\.[0-9]{1,2})?)b(?![a-z0-9])")


def doubts(fields: Fields, totals: Parameters | None, label: str) -> tuple[str, ...]:
    """What speaks against the parameters that were counted, a sentence each."""
    if totals is None:
        return ()
    sentences = []
    default = next((name for name in COUNT if isinstance(fields.defaults.get(name), int)), None)
    if default and not totals.experts and not fields.has(*COUNT) and fields.defaults[default] > 1:
        sentences.append(
            say(
                "parameters are doubtful: the class {model_type} has experts and the file names none "
                "({field}), so {count} are those of a dense model",
                model_type=fields.model_type,
                field=fields.path + default,
                count=format_count(totals.total),
            )
        )
    if totals.total > LARGEST:
        values = {"count": f"{totals.total / BILLION:,.0f}", "most": f"{LARGEST / BILLION:,.0f}"}
        sentences.append(
            say(
                "parameters are doubtful: {count} billion, and no published model has {most} billion; a number may be "
                "wrong",
                **values,
            )
        )
    named = named_size(label)
    if named is not None and not 1 / FAR < totals.total / named < FAR:
        sentences.append(
            say(
                "parameters are doubtful: the name says {named} billion, the shapes add up to {count}; a key may be "
                "missing or belong to another model",
                named=f"{named / BILLION:g}",
                count=format_count(totals.total),
            )
        )
    return tuple(sentences)


def named_size(label: str) -> float | None:
    """Parameters that a model's name states: the largest of its sizes, as one of active parameters may stand beside it.

    >>> named_size("gpt-oss-120b"), named_size("Qwen3-30B-A3B"), named_size("Mixtral-8x7B"), named_size("phi-2")
    (120000000000.0, 30000000000.0, 56000000000.0, None)
    """
    sizes = [math.prod(float(part) for part in found if part) for found in SIZE.findall(label.lower())]
    return max(sizes) * BILLION if sizes else None
