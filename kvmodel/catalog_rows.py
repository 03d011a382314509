"""The shapes of catalog rows: a model, a GPU, a link, and one printed figure with its source.

Keys are in the unit the source prints (`hbm_gb_per_s`); properties give base units (`hbm_bytes_per_s`).
"""

import math
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt, model_validator

from kvmodel.units import GB, GIB, TFLOP, US

Basis = Literal["datasheet", "measured", "assumed"]


class CatalogError(ValueError):
    """An unknown id, or a row that lacks a figure; the message is one sentence."""


class Row(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Figure(Row):
    """One printed number, with where it comes from. `source` is an id in sources.toml."""

    value: float = Field(gt=0, allow_inf_nan=False)
    basis: Basis
    source: str
    note: str | None = None
    low: float | None = None
    high: float | None = None


class KvLayers(Row):
    """Layers that keep KV in the same way.

    Per layer and token: `kv_heads * (key_dim + value_dim)` values, up to `bound_tokens`; `fixed_bytes` is a constant
    of a layer per request. MLA keeps one latent vector: one head, `value_dim` 0. `shared` layers read the KV of
    another layer and keep none; `cross` layers keep some per image or encoder input, none per text token.
    """

    kind: Literal["full", "sliding", "chunked", "mla", "state", "shared", "cross"]
    layers: PositiveInt
    kv_heads: NonNegativeInt
    key_dim: NonNegativeInt
    value_dim: NonNegativeInt
    bound_tokens: float = Field(default=math.inf, gt=0)
    fixed_bytes: float = Field(default=0.0, ge=0)

    @model_validator(mode="after")
    def _bounded_where_the_kind_says_so(self) -> Self:
        if (self.kind in ("sliding", "chunked")) == math.isinf(self.bound_tokens):
            raise ValueError(f"bound_tokens belongs to sliding and chunked layers, and only to them: {self.kind}")
        return self


class Model(Row):
    """Shapes of one model under their Hugging Face config.json names, and what its parameters add up from."""

    id: str
    label: str
    family: str
    repository: str | None = None
    aliases: tuple[str, ...] = ()
    source: str
    basis: Basis
    figure_sources: dict[str, str] = {}

    num_hidden_layers: PositiveInt
    hidden_size: PositiveInt
    intermediate_size: PositiveInt | None = None
    num_attention_heads: NonNegativeInt
    num_key_value_heads: NonNegativeInt
    head_dim: NonNegativeInt
    vocab_size: PositiveInt | None = None
    max_position_embeddings: PositiveInt | None = None
    tie_word_embeddings: bool = False
    gated_mlp: bool = True
    # mixture of experts; the shared width is that of all shared experts together
    num_experts: NonNegativeInt = 0
    num_experts_per_tok: NonNegativeInt = 0
    moe_intermediate_size: PositiveInt | None = None
    shared_expert_intermediate_size: NonNegativeInt = 0
    num_dense_layers: NonNegativeInt = 0
    # multi-head latent attention
    kv_lora_rank: PositiveInt | None = None
    qk_rope_head_dim: NonNegativeInt = 0
    qk_nope_head_dim: NonNegativeInt = 0
    v_head_dim: PositiveInt | None = None
    q_lora_rank: PositiveInt | None = None
    # small parameters; norms_per_layer are of hidden_size, qk_norm is a pair of head_dim
    qkv_bias: bool = False
    attention_out_bias: bool = False
    mlp_bias: bool = False
    norms_per_layer: NonNegativeInt = 2
    norm_bias: bool = False
    qk_norm: bool = False
    learned_positions: NonNegativeInt = 0
    extra_parameters_per_layer: NonNegativeInt = 0
    extra_parameters: NonNegativeInt = 0

    published_parameters: PositiveInt | None = None
    published_parameters_rounded_b: float | None = None
    weight_bytes_per_parameter: float = Field(default=2.0, gt=0)
    expert_weight_bytes_per_parameter: float | None = None
    kv_layers: tuple[KvLayers, ...]

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, fields: dict[str, Any]) -> dict[str, Any]:
        """head_dim, KV heads and the groups of layers follow from the rest where a row does not give them."""
        row = dict(fields)
        heads, width = row.get("num_attention_heads"), row.get("hidden_size")
        if heads is None or width is None or row.get("num_hidden_layers") is None:
            return row  # pydantic names the missing key
        if row.get("num_key_value_heads") is None:
            row["num_key_value_heads"] = heads
        latent = row.get("kv_lora_rank")
        if row.get("head_dim") is None:
            if latent:
                row["head_dim"] = row.get("qk_nope_head_dim", 0) + row.get("qk_rope_head_dim", 0)
            elif heads and width % heads:
                raise ValueError(f"head_dim is not given and hidden_size {width} does not divide by {heads} heads")
            else:
                row["head_dim"] = width // heads if heads else 0
        if latent:
            group = {"kind": "mla", "kv_heads": 1, "key_dim": latent + row.get("qk_rope_head_dim", 0), "value_dim": 0}
        else:
            value_dim = row.get("v_head_dim") or row["head_dim"]
            group = {
                "kind": "full",
                "kv_heads": row["num_key_value_heads"],
                "key_dim": row["head_dim"],
                "value_dim": value_dim,
            }
        groups = row.get("kv_layers") or [{"layers": row["num_hidden_layers"]}]
        nothing = {"kv_heads": 0, "key_dim": 0, "value_dim": 0}  # of layers that keep no KV per token
        row["kv_layers"] = tuple(
            {**group, **(nothing if part.get("kind") in ("state", "shared", "cross") else {}), **part}
            if isinstance(part, dict)
            else part
            for part in groups
        )
        return row

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
        if value is None:
            raise CatalogError(f"model {self.id}: {key} is missing")
        return int(value)

    def source_of(self, key: str) -> str:
        return self.figure_sources.get(key, self.source)


class Gpu(Row):
    """One GPU. Peaks are dense: a datasheet's figure "with sparsity" is twice these."""

    id: str
    label: str
    aliases: tuple[str, ...] = ()
    variant: str | None = None
    sixteen_bit_dtype: Literal["bf16", "fp16"]
    link: str
    dense_16bit_tflop_per_s: Figure
    fp8_dense_tflop_per_s: Figure | None = None
    hbm_gb_per_s: Figure
    memory_gb: Figure
    driver_memory_gib: Figure | None = None
    nvlink_one_way_gb_per_s: Figure | None = None

    @property
    def peak_flop_per_s(self) -> float:
        """Dense 16-bit peak. [FLOP/s]"""
        return self.dense_16bit_tflop_per_s.value * TFLOP

    @property
    def fp8_peak_flop_per_s(self) -> float:
        """Dense 8-bit float peak. [FLOP/s] Raises CatalogError where the GPU has none."""
        if self.fp8_dense_tflop_per_s is None:
            raise CatalogError(f"gpu {self.id}: fp8_dense_tflop_per_s is missing")
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


class Link(Row):
    """Host to device (H2D) and back (D2H): the link's own rate, and what large copies from pinned memory get."""

    id: str
    label: str
    aliases: tuple[str, ...] = ()
    link_gb_per_s: Figure
    h2d_gb_per_s: Figure
    d2h_gb_per_s: Figure
    per_copy_h2d_us: Figure
    per_copy_d2h_us: Figure

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
