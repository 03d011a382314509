"""The Case: everything a reader may choose, with limits and one-sentence errors.

A field's name is also its name in the URL and, with dashes, on the command line.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvmodel import catalog
from kvmodel.catalog import kv_dtypes
from kvmodel.catalog.kv_dtypes import Stored
from kvmodel.errors import CaseError, CatalogError, shown_name
from kvmodel.limits import number, one_of, text, whole
from kvmodel.words import say

BYTES_PER_VALUE = {name: row.bytes_per_value for name, row in kv_dtypes.kv_dtypes().items()}
AN_ID = "an id of the catalog, such as {example}"
LIMITS = {
    "model": text(AN_ID, "llama-3-8b"),
    "gpu": text(AN_ID, "a100-sxm4-80gb"),
    "link": text(AN_ID, "pcie4-x16"),
    "rate": one_of("measured", "link"),
    "tp": whole(1, 64),
    "kv_dtype": one_of(*BYTES_PER_VALUE),
    "tokens": whole(1, 10_000_000),
    "block_tokens": whole(1, 8192),
    "layout": one_of("per-layer-kv", "per-layer", "contiguous"),
    "runs_per_block": whole(1, 10_000),
    "copy_gb_per_s": number(0.001, 10_000),
    "per_copy_us": number(0, 100_000),
    "gemm_efficiency": number(0.001, 1.5),
    "request_overhead_ms": number(0, 100_000),
    "preemptions": whole(1, 1000),
    "tokens_between": whole(0, 1_000_000),
    "generated_tokens": whole(0, 10_000_000),
    "decode_batch": whole(0, 10_000),
    "decode_context": whole(1, 10_000_000),
    "remaining_output": whole(1, 1_000_000),
    "max_num_batched_tokens": whole(16, 1_000_000),
    "survival": number(0, 1),
    "timing": one_of("kernels", "today", "2023"),
    "policy": one_of(
        "vllm-v0", "vllm-v1", "vllm-v1-offload", "lmcache", "sglang", "sglang-hicache",
        "trtllm-no-evict", "trtllm-suspend", "ideal",
    ),
    "objective": one_of("victim-delay", "gpu-time"),
    "copy_method": one_of("auto", "per-copy", "batched", "kernel"),
    "host_memory": one_of("pinned", "pageable"),
    "pinning": one_of("ready", "first-use"),
    "numa": one_of("near", "far"),
    "duplex": one_of("alone", "both-ways"),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Case:
    """One preempted request and what surrounds it. `link` "auto" is the GPU's own, `copy_method` "auto" the policy's.

    Raises CaseError where a field is out of its limits; ids may be given as any alias, numbers as text.
    """

    model: str = "llama-3-8b"
    gpu: str = "a100-sxm4-80gb"
    link: str = "auto"
    rate: str = "measured"
    tp: int = 1
    kv_dtype: str = "bf16"
    tokens: int = 4096
    block_tokens: int = 16
    layout: str = "contiguous"
    runs_per_block: int = 1
    copy_gb_per_s: float | None = None  # None: the catalog's figure, as for the next three
    per_copy_us: float | None = None
    gemm_efficiency: float | None = None
    request_overhead_ms: float | None = None
    preemptions: int = 1
    tokens_between: int = 256
    generated_tokens: int = 1024
    decode_batch: int = 32
    decode_context: int = 2048
    remaining_output: int = 256
    max_num_batched_tokens: int = 2048
    survival: float = 0.0
    timing: str = "today"
    policy: str = "ideal"
    objective: str = "victim-delay"
    copy_method: str = "auto"
    host_memory: str = "pinned"
    pinning: str = "ready"
    numa: str = "near"
    duplex: str = "alone"

    def __post_init__(self) -> None:
        for field, value in typed_values(vars(self)).items():
            object.__setattr__(self, field, value)

    @property
    def stored(self) -> Stored:
        """The model's layers as they are kept in this KV dtype, and the bytes of one of their values."""
        return kv_dtypes.stored(catalog.model(self.model).kv_layers, self.kv_dtype)

    @property
    def link_id(self) -> str:
        return catalog.gpu(self.gpu).link if self.link == "auto" else self.link


DEFAULTS: dict[str, Any] = {field.name: field.default for field in dataclasses.fields(Case)}


def case_from(choices: Mapping[str, Any]) -> Case:
    """A Case from what a URL, a form or a command line gave. Raises CaseError with one sentence."""
    for field in choices:
        if field not in DEFAULTS:
            texts = {"field": shown_name(field), "allowed": ", ".join(DEFAULTS)}
            raise CaseError(say("{field}: no such input; allowed: {allowed}", **texts))
    return Case(**choices)


def typed_values(choices: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a Case in their types, ids as the catalog writes them. Raises CaseError."""
    objective = choices["objective"]
    dashed = objective.replace("_", "-") if isinstance(objective, str) else ""
    spelling = {"objective": dashed} if dashed in options_of("objective") else {}
    dtype = choices["kv_dtype"]
    if isinstance(dtype, str) and (dtype_id := kv_dtypes.kv_dtype_id(dtype)) is not None:
        spelling["kv_dtype"] = dtype_id
    values: dict[str, Any] = {
        field: None if value is None and DEFAULTS[field] is None else LIMITS[field].read(field, value)
        for field, value in {**choices, **spelling}.items()
    }
    try:
        ids = {field: catalog.id_of(field, values[field]) for field in ("model", "gpu")}
        is_auto = values["link"].strip().lower() == "auto"
        ids["link"] = "auto" if is_auto else catalog.id_of("link", values["link"])
    except CatalogError as error:
        raise CaseError(str(error)) from None
    require_tp_divides_heads(ids["model"], values["tp"])
    if values["copy_method"] == "kernel" and values["host_memory"] == "pageable":
        raise CaseError(
            say("copy_method: 'kernel' given with pageable memory, which no kernel can read; allowed: pinned memory")
        )
    return values | ids


def require_tp_divides_heads(model_id: str, tp: int) -> None:
    """Raises CaseError where the heads of a model cannot be split over `tp` GPUs."""
    model = catalog.model(model_id)
    heads, kv_heads = model.num_attention_heads, model.num_key_value_heads

    def splits(gpus: int) -> bool:
        return heads % gpus == 0 and (kv_heads % gpus == 0 or gpus % kv_heads == 0)

    if not splits(tp):
        possible = ", ".join(str(gpus) for gpus in range(1, int(limits("tp")[1]) + 1) if splits(gpus))
        raise CaseError(
            say(
                "tp: {tp} given for {heads} query and {kv_heads} KV heads of {model}; allowed: {possible}",
                tp=tp,
                heads=heads,
                kv_heads=kv_heads,
                model=model.name,
                possible=possible,
            )
        )


def values_text(field: str) -> str:
    """The values a field takes, in words: a range, a list, or ids of the catalog."""
    return LIMITS[field].allowed


def limits(field: str) -> tuple[float, float]:
    """Least and greatest value of a numeric field."""
    return LIMITS[field].ends


def options_of(field: str) -> tuple[str, ...]:
    """The choices of a field that takes one of a few words; empty for numbers and catalog ids."""
    return LIMITS[field].options
