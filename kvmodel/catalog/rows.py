"""The shapes of catalog rows: a model, a GPU, a link, and one printed figure with its source.

Keys are in the unit the source prints (`hbm_gb_per_s`); properties give base units (`hbm_bytes_per_s`).
Rows are plain dataclasses: pydantic checks the types of what comes from outside (:func:`kvmodel.catalog.validated`)
and of the whole catalog in the tests, so that a single answer does not wait for pydantic to build its classes.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from kvmodel.errors import CatalogError
from kvmodel.units import GB, GIB, TFLOP, US
from kvmodel.words import say

Basis = Literal["datasheet", "measured", "assumed"]


FULL_BYTES = 4  # of a recurrent value of which nobody says how wide it is kept
STRICT = {"extra": "forbid"}  # pydantic's configuration of a row: an unknown key is refused


def require(holds: bool, message: str) -> None:
    if not holds:
        raise ValueError(message)


@dataclass(frozen=True, kw_only=True)
class SourcedNumber:
    """One printed number, with where it comes from. `source` is an id in sources.toml."""

    __pydantic_config__ = STRICT

    value: float
    basis: Basis
    source: str
    note: str | None = None
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        require(0 < self.value < math.inf, f"value must be above 0 and finite, not {self.value}")


@dataclass(frozen=True, kw_only=True)
class KvLayers:
    """Layers that keep KV in the same way.

    Per layer and token: `kv_heads * (key_dim + value_dim)` values, up to `bound_tokens`; `fixed_bytes` is a constant
    of a layer per request. MLA keeps one latent vector: one head, `value_dim` 0. `shared` layers read the KV of
    another layer and keep none; `cross` layers keep some per image or encoder input, none per text token.
    `state_values` in a state's `fixed_bytes` are recurrent ones: of `said_bytes` each where a file or flag says how
    wide, else of 4; the rest is of a convolution.
    `compressed` layers keep one entry for `tokens_per_entry` tokens. `index_dim` is the width of the key that an
    indexer of sparse attention adds to each entry.
    """

    __pydantic_config__ = STRICT

    kind: Literal["full", "sliding", "chunked", "mla", "compressed", "state", "shared", "cross"]
    layers: int
    kv_heads: int
    key_dim: int
    value_dim: int
    bound_tokens: float = math.inf
    fixed_bytes: float = 0.0
    tokens_per_entry: int = 1
    index_dim: int = 0
    state_values: int = 0
    said_bytes: int = 0

    def __post_init__(self) -> None:
        require(self.tokens_per_entry > 0 and self.index_dim >= 0, "tokens_per_entry must be above 0")
        require(self.layers > 0 and self.bound_tokens > 0, "layers and bound_tokens must be above 0")
        recurrent = self.state_values * (self.said_bytes or FULL_BYTES)
        require(0 <= recurrent <= self.fixed_bytes, "state_values are part of fixed_bytes")
        require(min(self.kv_heads, self.key_dim, self.value_dim, self.fixed_bytes) >= 0, "no width may be negative")
        require(
            (self.kind in ("sliding", "chunked")) == math.isfinite(self.bound_tokens),
            f"bound_tokens belongs to sliding and chunked layers, and only to them: {self.kind}",
        )


@dataclass(frozen=True, kw_only=True)
class ParameterCounts:
    """Parameters counted layer by layer, for a model whose layers are not all alike; they stand before its shapes.

    `layer_matrices` are those that every token passes, `expert` one routed expert summed over the MoE layers,
    `other` embeddings, head, norms and biases; `mlp_width` is the width of the MLPs that a token passes, mean over
    layers.
    """

    __pydantic_config__ = STRICT

    layer_matrices: int
    expert: int = 0
    other: int
    mlp_width: float
    weight_bytes: float

    def __post_init__(self) -> None:
        require(min(self.layer_matrices, self.expert, self.other, self.mlp_width) >= 0, "no count may be negative")
        require(0 < self.weight_bytes < math.inf, f"weight_bytes must be above 0: {self.weight_bytes}")


@dataclass(frozen=True, kw_only=True)
class Model:
    """Shapes of one model under their Hugging Face config.json names, and what its parameters add up from."""

    __pydantic_config__ = STRICT

    id: str
    label: str
    family: str
    repository: str | None = None
    aliases: tuple[str, ...] = ()
    source: str
    basis: Basis
    figure_sources: dict[str, str] = field(default_factory=dict)

    num_hidden_layers: int
    hidden_size: int
    intermediate_size: int | None = None
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    vocab_size: int | None = None
    max_position_embeddings: int | None = None
    tie_word_embeddings: bool = False
    gated_mlp: bool = True
    # mixture of experts; the shared width is that of all shared experts together
    num_experts: int = 0
    num_experts_per_tok: int = 0
    moe_intermediate_size: int | None = None
    shared_expert_intermediate_size: int = 0
    num_dense_layers: int = 0
    # multi-head latent attention
    kv_lora_rank: int | None = None
    qk_rope_head_dim: int = 0
    qk_nope_head_dim: int = 0
    v_head_dim: int | None = None
    q_lora_rank: int | None = None
    # small parameters; norms_per_layer are of hidden_size, qk_norm is a pair of head_dim
    qkv_bias: bool = False
    attention_out_bias: bool = False
    mlp_bias: bool = False
    norms_per_layer: int = 2
    norm_bias: bool = False
    qk_norm: bool = False
    learned_positions: int = 0
    extra_parameters_per_layer: int = 0
    extra_parameters: int = 0

    published_parameters: int | None = None
    published_parameters_rounded_b: float | None = None
    weight_bytes_per_parameter: float = 2.0
    expert_weight_bytes_per_parameter: float | None = None
    counts: ParameterCounts | None = None
    kv_layers: tuple[KvLayers, ...]

    def __post_init__(self) -> None:
        counts = {name: value for name, value in vars(self).items() if isinstance(value, int | float)}
        for name, value in counts.items():
            require(value >= 0, f"{name} must not be negative: {value}")
        for name in ("num_hidden_layers", "hidden_size", "weight_bytes_per_parameter"):
            require(counts[name] > 0, f"{name} must be above 0: {counts[name]}")

    @property
    def name(self) -> str:
        """What to call it in a sentence: its id, or the label of a model that is not in the catalog."""
        return self.label if self.family == "custom" else self.id

    @property
    def qk_head_dim(self) -> int:
        """Width in which one head's scores are taken: head_dim, or for MLA the two parts of a query."""
        return self.qk_nope_head_dim + self.qk_rope_head_dim if self.kv_lora_rank else self.head_dim

    @property
    def value_head_dim(self) -> int:
        """Width of one head's output: head_dim, or v_head_dim where the row has one."""
        return self.v_head_dim or self.head_dim

    @property
    def moe_layers(self) -> int:
        return self.num_hidden_layers - self.num_dense_layers if self.num_experts else 0

    def need(self, key: str) -> int:
        """A figure that only some answers need. Raises CatalogError naming the row and the key where it is missing."""
        value = getattr(self, key)
        if value is None and self.family == "custom" and self.counts is None:
            raise CatalogError(
                say(
                    "model {name}: its config.json does not tell how many parameters it has, which this answer needs",
                    name=self.name,
                )
            )
        if value is None:
            raise CatalogError(say("{kind} {name}: {key} is missing", kind="model", name=self.name, key=key))
        return int(value)


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """One GPU. Peaks are dense: a datasheet's figure "with sparsity" is twice these."""

    __pydantic_config__ = STRICT

    id: str
    label: str
    aliases: tuple[str, ...] = ()
    variant: str | None = None
    sixteen_bit_dtype: Literal["bf16", "fp16"]
    link: str
    dense_16bit_tflop_per_s: SourcedNumber
    fp8_dense_tflop_per_s: SourcedNumber | None = None
    hbm_gb_per_s: SourcedNumber
    memory_gb: SourcedNumber
    driver_memory_gib: SourcedNumber | None = None
    nvlink_one_way_gb_per_s: SourcedNumber | None = None

    @property
    def peak_flop_per_s(self) -> float:
        """Dense 16-bit peak. [FLOP/s]"""
        return self.dense_16bit_tflop_per_s.value * TFLOP

    @property
    def fp8_peak_flop_per_s(self) -> float:
        """Dense 8-bit float peak. [FLOP/s] Raises CatalogError where the GPU has none."""
        if self.fp8_dense_tflop_per_s is None:
            values = {"kind": "gpu", "name": self.id, "key": "fp8_dense_tflop_per_s"}
            raise CatalogError(say("{kind} {name}: {key} is missing", **values))
        return self.fp8_dense_tflop_per_s.value * TFLOP

    @property
    def hbm_bytes_per_s(self) -> float:
        return self.hbm_gb_per_s.value * GB

    @property
    def memory_bytes(self) -> float:
        """What the driver reports where that was read, else the printed size. [bytes]

        Printed "80 GB" is 80 GiB less a little: NVIDIA and AMD both count memory chips in powers of two.
        """
        return (self.driver_memory_gib or self.memory_gb).value * GIB

    @property
    def nvlink_bytes_per_s(self) -> float | None:
        """One way, all links of a GPU together; None where there is no NVLink. [bytes/s]"""
        return self.nvlink_one_way_gb_per_s.value * GB if self.nvlink_one_way_gb_per_s else None


@dataclass(frozen=True, kw_only=True)
class Link:
    """Host to device (H2D) and back (D2H): the link's own rate, and what large copies from pinned memory get."""

    __pydantic_config__ = STRICT

    id: str
    label: str
    aliases: tuple[str, ...] = ()
    link_gb_per_s: SourcedNumber
    h2d_gb_per_s: SourcedNumber
    d2h_gb_per_s: SourcedNumber
    per_copy_h2d_us: SourcedNumber
    per_copy_d2h_us: SourcedNumber

    @property
    def link_bytes_per_s(self) -> float:
        """One way, after line encoding, before packet headers. [bytes/s]"""
        return self.link_gb_per_s.value * GB

    @property
    def h2d_bytes_per_s(self) -> float:
        return self.h2d_gb_per_s.value * GB

    @property
    def d2h_bytes_per_s(self) -> float:
        return self.d2h_gb_per_s.value * GB

    @property
    def per_copy_h2d_s(self) -> float:
        """Fixed cost of one cudaMemcpyAsync. [s]"""
        return self.per_copy_h2d_us.value * US

    @property
    def per_copy_d2h_s(self) -> float:
        return self.per_copy_d2h_us.value * US


def filled(fields: Mapping[str, Any]) -> dict[str, Any]:
    """A model row's fields with head_dim, KV heads and groups of layers worked out where it does not give them.

    Raises ValueError where head_dim is not given and the width does not divide by the heads.
    """
    row = dict(fields)
    heads, width = row.get("num_attention_heads"), row.get("hidden_size")
    if heads is None or width is None or row.get("num_hidden_layers") is None:
        return row  # the row's class names the missing key
    if row.get("num_key_value_heads") is None:
        row["num_key_value_heads"] = heads
    latent = row.get("kv_lora_rank")
    if row.get("head_dim") is None:
        if latent:
            row["head_dim"] = row.get("qk_nope_head_dim", 0) + row.get("qk_rope_head_dim", 0)
        else:
            divides = not heads or width % heads == 0
            require(divides, f"head_dim is not given and hidden_size {width} does not divide by {heads} heads")
            row["head_dim"] = width // heads if heads else 0
    whole = {"kind": "full", "kv_heads": row["num_key_value_heads"], "key_dim": row["head_dim"]}
    whole["value_dim"] = row.get("v_head_dim") or row["head_dim"]
    if latent:
        whole = {"kind": "mla", "kv_heads": 1, "key_dim": latent + row.get("qk_rope_head_dim", 0), "value_dim": 0}
    nothing = {"kv_heads": 0, "key_dim": 0, "value_dim": 0}  # of layers that keep no KV per token
    row["kv_layers"] = [
        {**whole, **(nothing if group.get("kind") in ("state", "shared", "cross") else {}), **group}
        for group in row.get("kv_layers") or [{"layers": row["num_hidden_layers"]}]
    ]
    return row
