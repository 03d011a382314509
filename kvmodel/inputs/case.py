"""The Case: everything a reader may choose, with limits and one-sentence errors.

A field's name is also its name in the URL and, with dashes, on the command line.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic_core import SchemaValidator, ValidationError

from kvmodel import catalog
from kvmodel.errors import LONGEST_ECHO, CatalogError
from kvmodel.errors import CaseError as CaseError
from kvmodel.errors import bad_value as bad_value
from kvmodel.words import say

BYTES_PER_VALUE = {"bf16": 2, "fp16": 2, "fp8": 1, "int8": 1, "fp32": 4}
CATALOG_FIELDS = {"model": "llama-3-8b", "gpu": "a100-sxm4-80gb", "link": "pcie4-x16"}
OPTIONS = {
    "rate": ("measured", "link"),
    "kv_dtype": tuple(BYTES_PER_VALUE),
    "layout": ("per-layer-kv", "per-layer", "contiguous"),
    "timing": ("kernels", "today", "2023"),
    "policy": (
        "vllm-v0", "vllm-v1", "vllm-v1-offload", "lmcache", "sglang", "sglang-hicache",
        "trtllm-no-evict", "trtllm-suspend", "ideal",
    ),
    "objective": ("victim-delay", "gpu-time"),
    "copy_method": ("auto", "per-copy", "batched", "kernel"),
    "host_memory": ("pinned", "pageable"),
    "pinning": ("ready", "first-use"),
    "numa": ("near", "far"),
    "duplex": ("alone", "both-ways"),
}  # fmt: skip
WHOLE_NUMBERS = {  # least and greatest
    "tp": (1, 64),
    "tokens": (1, 10_000_000),
    "block_tokens": (1, 8192),
    "runs_per_block": (1, 10_000),
    "preemptions": (1, 1000),
    "tokens_between": (0, 1_000_000),
    "generated_tokens": (0, 10_000_000),
    "decode_batch": (0, 10_000),
    "decode_context": (1, 10_000_000),
    "remaining_output": (1, 1_000_000),
    "max_num_batched_tokens": (16, 1_000_000),
}
NUMBERS = {
    "survival": (0.0, 1.0),
    "copy_gb_per_s": (0.001, 10_000.0),
    "per_copy_us": (0.0, 100_000.0),
    "gemm_efficiency": (0.001, 1.5),
    "request_overhead_ms": (0.0, 100_000.0),
}
OPTIONAL = ("copy_gb_per_s", "per_copy_us", "gemm_efficiency", "request_overhead_ms")  # None: the catalog's figure


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
    copy_gb_per_s: float | None = None
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
        for field, value in checked(vars(self)).items():
            object.__setattr__(self, field, value)

    @property
    def link_id(self) -> str:
        return catalog.gpu(self.gpu).link if self.link == "auto" else self.link


DEFAULTS: dict[str, Any] = {field.name: field.default for field in dataclasses.fields(Case)}


def case_from(choices: Mapping[str, Any]) -> Case:
    """A Case from what a URL, a form or a command line gave. Raises CaseError with one sentence."""
    for field in choices:
        if field not in DEFAULTS:
            told = {"field": str(field)[:LONGEST_ECHO], "allowed": ", ".join(DEFAULTS)}
            raise CaseError(say("{field}: no such input; allowed: {allowed}", **told))
    return Case(**choices)


def checked(choices: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a Case in their types, ids as the catalog writes them. Raises CaseError."""
    objective = choices["objective"]
    spelled = {"objective": objective.replace("_", "-")} if isinstance(objective, str) else {}
    try:
        values: dict[str, Any] = VALIDATOR.validate_python({**choices, **spelled})
    except ValidationError as error:
        field = str(error.errors()[0]["loc"][0])
        raise bad_value(field, str(choices[field])[:LONGEST_ECHO], allowed(field)) from None
    try:
        ids = {field: catalog.id_of(field, values[field]) for field in ("model", "gpu")}
        own_link = values["link"].strip().lower() == "auto"
        ids["link"] = "auto" if own_link else catalog.id_of("link", values["link"])
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
        possible = ", ".join(str(gpus) for gpus in range(1, WHOLE_NUMBERS["tp"][1] + 1) if splits(gpus))
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


def allowed(field: str) -> str:
    """The values a field takes, in words: a range, a list, or ids of the catalog."""
    if field in CATALOG_FIELDS:
        return say("an id of the catalog, such as {example}", example=CATALOG_FIELDS[field])
    if field in OPTIONS:
        return ", ".join(OPTIONS[field])
    low, high = limits(field)
    least, greatest = (f"{limit:,}".removesuffix(".0") for limit in (low, high))
    if field in WHOLE_NUMBERS:
        return say("a whole number from {least} to {greatest}", least=least, greatest=greatest)
    return say("a number from {least} to {greatest}", least=least, greatest=greatest)


def limits(field: str) -> tuple[float, float]:
    """Least and greatest value of a numeric field."""
    return WHOLE_NUMBERS[field] if field in WHOLE_NUMBERS else NUMBERS[field]


def options_of(field: str) -> tuple[str, ...]:
    """The choices of a field that takes one of a few words; empty for numbers and catalog ids."""
    return OPTIONS.get(field, ())


def _schema(field: str) -> dict[str, Any]:
    """What pydantic's core checks of one field; a truth value is no number."""
    if field in CATALOG_FIELDS:
        return {"type": "str"}
    if field in OPTIONS:
        return {"type": "literal", "expected": list(OPTIONS[field])}
    low, high = limits(field)
    number = {"type": "int" if field in WHOLE_NUMBERS else "float", "ge": low, "le": high}
    if field in NUMBERS:
        number["allow_inf_nan"] = False
    no_truth_value = {"type": "no-info", "function": _refuse_truth_values}
    schema = {"type": "function-before", "function": no_truth_value, "schema": number}
    return {"type": "nullable", "schema": schema} if field in OPTIONAL else schema


def _refuse_truth_values(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("a truth value is not a number")
    return value


VALIDATOR = SchemaValidator(
    {"type": "typed-dict", "fields": {f: {"type": "typed-dict-field", "schema": _schema(f)} for f in DEFAULTS}}
)
