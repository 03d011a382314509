"""How a config.json was read, as text: the model in numbers, the fields used, what was assumed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from kvmodel.hf.config_file import Reading
from kvmodel.memory import kv_cache
from kvmodel.units import format_bytes, format_count

BYTES_PER_VALUE = 2
LONGEST_VALUE = 160
FEW = 8  # values of a list that are written out


def reading_texts(reading: Reading) -> dict[str, str]:
    """Placeholder name -> text: bytes per token and fixed bytes in 16 bits, weights and parameters."""
    model, parameters = reading.model, reading.parameters
    texts = {
        "name": model.label,
        "growth": format_bytes(
            float(kv_cache.growth_bytes_per_token(model.kv_layers, bytes_per_value=BYTES_PER_VALUE))
        ),
        "fixed": format_bytes(_fixed_bytes(reading)),
    }
    if parameters is not None and model.counts is not None:
        texts |= {
            "weights": format_bytes(model.counts.weight_bytes),
            "parameters": format_count(parameters.total),
            "active": format_count(parameters.active),
        }
    return texts


def _fixed_bytes(reading: Reading) -> float:
    return float(kv_cache.fixed_bytes(reading.model.kv_layers, bytes_per_value=BYTES_PER_VALUE))


def has_fixed_part(reading: Reading) -> bool:
    return _fixed_bytes(reading) > 0


def weights_known(reading: Reading) -> str:
    """Which sentence the weights get: "" for a dense model, "_active" for experts, "_unknown"."""
    parameters = reading.parameters
    if parameters is None:
        return "_unknown"
    return "" if parameters.active == parameters.total else "_active"


def default_texts(reading: Reading) -> list[str]:
    return [f"{field} = {value_text(value)}" for field, value in reading.assumed.items()]


def field_rows(reading: Reading) -> list[list[str]]:
    """Field and value, a row each; a long list as how often each value stands in it."""
    return [[field, value_text(value)] for field, value in reading.used.items()]


def value_text(value: Any) -> str:
    """A value of the file in one line.

    >>> value_text(["full"] * 2 + ["sliding"] * 10), value_text([1, 2]), value_text(None)
    ('12: 2 x full, 10 x sliding', '1, 2', 'null')
    """
    if isinstance(value, (list, tuple)):
        return _list_text(value)[:LONGEST_VALUE]
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return str(value)[:LONGEST_VALUE]


def _list_text(values: Sequence[Any]) -> str:
    if len(values) <= FEW:
        return ", ".join(map(value_text, values))
    counts = Counter(map(value_text, values))
    return f"{len(values)}: " + ", ".join(f"{count} x {value}" for value, count in counts.items())
