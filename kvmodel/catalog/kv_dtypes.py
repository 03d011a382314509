"""KV dtypes of engines: what a layer keeps of a token in each, with scales and padding, from data/kv_dtypes.toml.

A dtype with scales beside each vector is written as layers whose vectors are as wide as what is stored, of one byte a
value: every formula of sizes then holds as it is.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from kvmodel.catalog.lookup import table
from kvmodel.catalog.rows import KvLayers
from kvmodel.words import say

SIXTEEN_BITS = 2  # bytes
LATENTS = ("mla", "compressed")  # kinds of one vector for all heads


@dataclass(frozen=True, kw_only=True)
class KvDtype:
    """One row: bits of a value, the scales beside it, the engines that take it, and the names these have for it."""

    bits: int
    value_bits: int | None = None
    group: int = 0
    group_scale_bytes: int = 0
    key_bytes: int = 0
    value_bytes: int = 0
    latent_only: bool = False
    sparse_as: str | None = None
    edge_layers: int = 0
    record: Mapping[str, int] = field(default_factory=dict)
    record_compressed: Mapping[str, int] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    engines: tuple[str, ...]
    speed: str
    source: str
    note: str | None = None

    @property
    def bytes_per_value(self) -> float:
        """Of a value with its share of a group's scale; scales beside a vector, and records, are not in it."""
        plain = self.bits // 8 if self.bits % 8 == 0 else self.bits / 8
        return plain + self.group_scale_bytes / self.group if self.group else plain

    @property
    def packs_vectors(self) -> bool:
        """Whether what a vector takes is more than its values times their width."""
        return bool(self.key_bytes or self.value_bytes or self.value_bits or self.record)


@dataclass(frozen=True)
class Stored:
    """Layers as an engine keeps them in a dtype, and the bytes that one of their values takes."""

    layers: tuple[KvLayers, ...]
    bytes_per_value: float


@functools.cache
def kv_dtypes() -> dict[str, KvDtype]:
    """Every dtype by its id."""
    lists = ("names", "engines")
    return {
        name: KvDtype(**row | {key: tuple(row.get(key, ())) for key in lists})
        for name, row in table("kv_dtypes").items()
    }


@functools.cache
def kv_dtype_names() -> dict[str, str]:
    """Id of every id and of every engine's name for it."""
    own = {name: name for name in kv_dtypes()}
    return {name: row_id for row_id, row in kv_dtypes().items() for name in row.names} | own


def kv_dtype_id(name: str) -> str | None:
    """The id behind a name that an engine has for a dtype; None for one that no engine takes.

    >>> kv_dtype_id("bfloat16"), kv_dtype_id("torch.float8_e4m3fn"), kv_dtype_id("fp4_e2m1"), kv_dtype_id("fp2")
    ('bf16', 'fp8', 'nvfp4', None)
    """
    return kv_dtype_names().get(name.strip().lower().removeprefix("torch."))


def is_latent(group: KvLayers) -> bool:
    """Whether a token keeps one vector for all heads; DeepSeek-V4's windows do so too."""
    return group.kind in LATENTS or (group.kv_heads == 1 and group.key_dim > 0 and not group.value_dim)


def is_sparse(layers: Iterable[KvLayers]) -> bool:
    """Whether latents are read by sparse attention, which an indexer beside some of them tells."""
    return any(group.index_dim and group.kind in LATENTS for group in layers)


def stored_as(layers: Iterable[KvLayers], name: str) -> str:
    """The id of what an engine makes of a dtype: fp8 of a sparse model is a record with scales of its own."""
    sparse_as = kv_dtypes()[name].sparse_as
    return sparse_as if sparse_as and is_sparse(layers) else name


def notes(layers: Iterable[KvLayers], name: str) -> tuple[str, ...]:
    """What a reader of times should know of a dtype for such layers, a sentence each; empty where nothing is."""
    kept = stored_as(layers, name)
    if kv_dtypes()[kept].speed == "known":
        return size_notes(layers, name)
    speed = say(
        "kv_dtype: how fast attention reads {name} is not known here; its bytes are counted as stored, its reads at "
        "the memory's rate, which is the least that they can take",
        name=kept,
    )
    return (*size_notes(layers, name), speed)


def size_notes(layers: Iterable[KvLayers], name: str) -> tuple[str, ...]:
    """What a reader of sizes should know of a dtype for such layers."""
    kept = stored_as(layers, name)
    row, sentences = kv_dtypes()[kept], []
    latent = any(group.kind in LATENTS for group in layers)
    if row.latent_only != latent and row.packs_vectors:
        sentences.append(say("kv_dtype: no engine is known to keep layers of this kind in {name}", name=kept))
    if kept != name:
        plain = stored(tuple(layers), name, plain=True)
        sentences.append(
            say(
                "kv_dtype: under sparse attention engines make {kept} of {name}; in plain {name}, which some kernels "
                "read too, a layer keeps {plain} bytes of a token",
                kept=kept,
                name=name,
                plain=max(group.key_dim for group in plain.layers) * round(plain.bytes_per_value),
            )
        )
    return tuple(sentences)


def stored(layers: tuple[KvLayers, ...], name: str, *, plain: bool = False) -> Stored:
    """Layers as they are kept in the dtype of that id; `plain` leaves fp8 of a sparse model without its record.

    Source: vLLM 0.33 `kv_cache_interface.py`, `TurboQuantConfig`, `flashmla_sparse.py`; SGLang `quant_k_cache.py`.
    """
    row = kv_dtypes()[name if plain else stored_as(layers, name)]
    if not row.packs_vectors:
        return Stored(layers, row.bytes_per_value)
    has_states = any(group.kind == "state" for group in layers)
    edges = 0 if has_states else 2 * row.edge_layers
    return Stored(tuple(part for group in layers for part in _packed(group, row, edges, layers)), 1)


def _packed(group: KvLayers, row: KvDtype, edges: int, layers: tuple[KvLayers, ...]) -> list[KvLayers]:
    """A group with vectors as wide as what is stored, in bytes; without its layers at the model's two ends."""
    if not group.key_dim:
        return [group]
    if row.record and is_latent(group) and group.key_dim > row.record["rotated"]:
        return [replace(group, key_dim=_record_bytes(group, row))]
    key, value = (
        math.ceil(dim * bits / 8) + more
        for dim, bits, more in (
            (group.key_dim, row.bits, row.key_bytes),
            (group.value_dim, row.value_bits or row.bits, row.value_bytes if group.value_dim else 0),
        )
    )
    packed = replace(group, key_dim=key, value_dim=value + (key + value) % 2)
    first = next(other for other in layers if other.key_dim)
    kept = min(edges, group.layers - 1) if group is first else 0
    if not kept:
        return [packed]
    key, value = SIXTEEN_BITS * group.key_dim, SIXTEEN_BITS * group.value_dim
    return [replace(packed, layers=group.layers - kept), replace(group, layers=kept, key_dim=key, value_dim=value)]


def _record_bytes(group: KvLayers, row: KvDtype) -> int:
    """Of one latent vector: values in few bits, their scales, padding, and the rotated ones in 16 bits."""
    shape = row.record if group.kind == "mla" else row.record_compressed
    values = group.key_dim - shape["rotated"]
    scales = shape["scale_bytes"] * math.ceil(values / shape["group"])
    scales = math.ceil(scales / shape.get("align", 1)) * shape.get("align", 1)
    packed = math.ceil(values * shape["bits"] / 8)
    return packed + scales + shape.get("padding", 0) + SIXTEEN_BITS * shape["rotated"]
