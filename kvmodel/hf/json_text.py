"""The text of a config.json -> its object. Python's own reader, with a sentence for each way a file can be no JSON."""

from __future__ import annotations

import json
from typing import Any

from kvmodel.errors import shown_name
from kvmodel.hf.fields import ConfigRefused, refusal
from kvmodel.words import say

LONGEST_REASON = 80


def json_object(content: bytes | str) -> dict[str, Any]:
    """UTF-8, UTF-16 or UTF-32, with a byte-order mark or without.

    Raises
    ------
    ConfigRefused : no JSON, no object, or a key that is given twice with different values.
    """
    try:
        config = json.loads(content, object_pairs_hook=each_key_once)
    except ConfigRefused:
        raise
    except (ValueError, RecursionError) as error:
        raise ConfigRefused(say("config: no JSON: {reason}", reason=reason(error))) from None
    if not isinstance(config, dict):
        raise refusal("config", type(config).__name__, say("a JSON object"))
    return config


def each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    by_key = dict(pairs)
    if len(by_key) != len(pairs):
        for key, value in pairs:
            if by_key[key] != value:
                raise ConfigRefused(
                    say("{key}: given twice with different values; allowed: each key once", key=shown_name(key))
                )
    return by_key


def reason(error: Exception) -> str:
    """Python's own words for where the text goes wrong, ours for what it says of itself in place of the text."""
    if isinstance(error, json.JSONDecodeError):
        return str(error)[:LONGEST_REASON]
    if isinstance(error, UnicodeDecodeError):
        return say("it is no UTF-8 text")
    if isinstance(error, RecursionError):
        return say("it is nested too deep")
    return say("it has a number of thousands of digits")
