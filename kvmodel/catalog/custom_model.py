"""A model row as short text: how a model that is not in the catalog travels in a link, a command line or a Case.

`custom~NAME~l32_d4096_h32_g8_w128_..._full32x8x128x128` holds only the numbers that the answers follow from, in
characters that no URL needs to escape. NAME is for people. A catalog id never begins with "custom~".

Numbers, each a letter and its value: l layers, d hidden size, h attention heads, g KV heads, w and u width of a head's
keys and values, v vocabulary, x longest context, m matrices in the layers, s one expert summed over layers,
e experts, k experts a token, i width of an expert, o other parameters, f MLP width, b weight bytes, r and q bytes of a
layer's and of an expert's parameter. Groups of layers: kind, then `layers x heads x key width x value width`, then
w window, b fixed bytes, c tokens an entry, i index width, s values of a state x the bytes that are said of each.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from kvmodel.catalog.rows import KvLayers, Model, ParameterCounts
from kvmodel.errors import CatalogError
from kvmodel.words import say

PREFIX = "custom~"
LONGEST = 2000
NAME = re.compile(r"(?!www\.)[a-z0-9](?:[a-z0-9.-]{0,48}[a-z0-9])?")  # nothing that a page makes a link of
NUMBER = r"[0-9]{1,20}(?:\.[0-9]{1,17})?"
PART = re.compile(rf"([a-z])({NUMBER})")
GROUP = re.compile(
    rf"(full|sliding|chunked|mla|compressed|state|shared|cross)([0-9]{{1,6}})"
    rf"(?:x([0-9]{{1,8}})x([0-9]{{1,8}})x([0-9]{{1,8}}))?"
    rf"(?:w({NUMBER}))?(?:b({NUMBER}))?(?:c([0-9]{{1,8}}))?(?:i([0-9]{{1,8}}))?(?:s([0-9]{{1,15}})x([0-8]))?"
)
WHOLE = {
    "l": "num_hidden_layers", "d": "hidden_size", "h": "num_attention_heads", "g": "num_key_value_heads",
    "w": "head_dim", "u": "v_head_dim", "v": "vocab_size", "x": "max_position_embeddings", "e": "num_experts",
    "k": "num_experts_per_tok", "i": "moe_intermediate_size",
}  # fmt: skip
RATES = {"r": "weight_bytes_per_parameter", "q": "expert_weight_bytes_per_parameter"}
COUNTS = {"m": "layer_matrices", "s": "expert", "o": "other", "f": "mlp_width", "b": "weight_bytes"}
NEEDED = ("l", "d", "h", "g", "w")
MOST = 10**18  # of any number


def is_text(name: str) -> bool:
    """Whether a model's name is such a text, not an id of the catalog."""
    return name.strip().lower().startswith(PREFIX)


def as_text(model: Model) -> str:
    """The text of a row. What the row says beside these numbers (label, sources, aliases) is left out."""
    numbers = [(letter, getattr(model, name)) for letter, name in (WHOLE | RATES).items()]
    if model.counts:
        numbers += [(letter, getattr(model.counts, name)) for letter, name in COUNTS.items()]
    parts = [f"{letter}{_plain(value)}" for letter, value in numbers if value and (letter, value) != ("r", 2.0)]
    return PREFIX + "~".join([slug(model.label), "_".join([*parts, *map(_group_text, model.kv_layers)])])


def slug(label: str) -> str:
    """A label in the characters of a name."""
    plain = re.sub(r"[^a-z0-9.]+", "-", label.lower())
    return re.sub(r"^[-.]*(?:www\.[-.]*)+", "", plain)[:50].strip("-.") or "model"


def _plain(value: float) -> str:
    """A number without an exponent or a needless fraction.

    >>> _plain(4096.0), _plain(0.5625), _plain(16060522496)
    ('4096', '0.5625', '16060522496')
    """
    return str(int(value)) if float(value).is_integer() else f"{value:.12f}".rstrip("0")


def _group_text(group: KvLayers) -> str:
    text = f"{group.kind}{group.layers}"
    if group.kv_heads:
        text += f"x{group.kv_heads}x{group.key_dim}x{group.value_dim}"
    if math.isfinite(group.bound_tokens):
        text += f"w{_plain(group.bound_tokens)}"
    if group.fixed_bytes:
        text += f"b{_plain(group.fixed_bytes)}"
    if group.tokens_per_entry > 1:
        text += f"c{group.tokens_per_entry}"
    text += f"i{group.index_dim}" if group.index_dim else ""
    return text + (f"s{group.state_values}x{group.said_bytes}" if group.state_values else "")


def from_text(text: str) -> Model:
    """The row of a text. Raises CatalogError, one sentence, where it is not such a text or its numbers cannot be."""
    plain = text.strip().lower()
    if len(plain) > LONGEST:
        counts = {"count": f"{len(plain):,}", "most": f"{LONGEST:,}"}
        raise CatalogError(say("model: a text of {count} characters given; allowed: up to {most}", **counts))
    name, _, body = plain.removeprefix(PREFIX).partition("~")
    if not NAME.fullmatch(name):
        message = say("model: name {name!r} given; allowed: letters, digits, dots and dashes", name=name[:40])
        raise CatalogError(message)
    numbers: dict[str, float] = {}
    groups: list[KvLayers] = []
    try:
        for part in body.split("_"):
            _read(part, numbers, groups)
        return _row(name, plain, numbers, tuple(groups))
    except (ValueError, TypeError, KeyError) as error:
        raise CatalogError(say("model: {name} is refused: {error}", name=name, error=error)) from None


def _read(part: str, numbers: dict[str, float], groups: list[KvLayers]) -> None:
    """One part of a text into a number or a group."""
    number = PART.fullmatch(part)
    if number and number[1] in WHOLE | RATES | COUNTS:
        value = float(number[2]) if "." in number[2] else int(number[2])
        if not 0 < value <= MOST or number[1] in numbers:
            raise ValueError(say("{part!r} is given twice or out of range", part=part[:40]))
        numbers[number[1]] = value
        return
    group = GROUP.fullmatch(part)
    if not group:
        raise ValueError(say("{part!r} is no number or group of layers", part=part[:40]))
    kind, layers, heads, key_dim, value_dim, bound, fixed, entry, index, values, value_bytes = group.groups(default="")
    groups.append(
        KvLayers(
            kind=kind,  # type: ignore[arg-type]
            layers=int(layers),
            kv_heads=int(heads or 0),
            key_dim=int(key_dim or 0),
            value_dim=int(value_dim or 0),
            bound_tokens=float(bound or math.inf),
            fixed_bytes=float(fixed or 0),
            tokens_per_entry=int(entry or 1),
            index_dim=int(index or 0),
            state_values=int(values or 0),
            said_bytes=int(value_bytes or 0),
        )
    )


def _row(name: str, text: str, numbers: dict[str, float], groups: Iterable[KvLayers]) -> Model:
    """Raises ValueError or KeyError naming what is missing."""
    missing = [WHOLE[letter] for letter in NEEDED if letter not in numbers]
    if missing:
        raise ValueError(say("{name} is missing", name=missing[0]))
    whole = {WHOLE[letter]: _integer(letter, value) for letter, value in numbers.items() if letter in WHOLE}
    rates = {RATES[letter]: float(value) for letter, value in numbers.items() if letter in RATES}
    count_values = {COUNTS[letter]: value for letter, value in numbers.items() if letter in COUNTS}
    counts = None
    if count_values:
        if not {"layer_matrices", "other", "weight_bytes"} <= set(count_values):
            raise ValueError(say("m, o and b are given together or not at all"))
        exact = {
            key: _integer(key, value) for key, value in count_values.items() if key not in ("mlp_width", "weight_bytes")
        }
        counts = ParameterCounts(
            **exact, mlp_width=float(count_values.get("mlp_width", 0)), weight_bytes=float(count_values["weight_bytes"])
        )
    return Model(
        id=text, label=name, family="custom", source="reader", basis="assumed", counts=counts,
        kv_layers=tuple(groups), **whole, **rates,  # type: ignore[arg-type]
    )  # fmt: skip


def _integer(name: str, value: float) -> int:
    if not isinstance(value, int):
        raise ValueError(say("{name} must be a whole number: {value}", name=name, value=value))
    return value
