"""The Case: everything a reader may choose, with limits and one-sentence errors.

A field's name is also its name in the URL and, with dashes, on the command line.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from kvmodel import catalog

Layout = Literal["per-layer-kv", "per-layer", "contiguous"]
KvDtype = Literal["bf16", "fp16", "fp8", "int8", "fp32"]
TimingName = Literal["kernels", "today", "2023"]
Policy = Literal[
    "vllm-v0", "vllm-v1", "vllm-v1-offload", "lmcache", "sglang", "sglang-hicache",
    "trtllm-no-evict", "trtllm-suspend", "ideal",
]  # fmt: skip
Objective = Literal["victim-delay", "gpu-time"]
Rate = Literal["measured", "link"]

BYTES_PER_VALUE = {"bf16": 2, "fp16": 2, "fp8": 1, "int8": 1, "fp32": 4}
CATALOG_FIELDS = {"model": "llama-3-8b", "gpu": "a100-sxm4-80gb", "link": "pcie4-x16"}
LONGEST_ECHO = 40  # of a bad value that an error repeats
Tokens = Annotated[int, Field(ge=1, le=10_000_000)]


class CaseError(ValueError):
    """Bad input; the message is one sentence: field, value given, what is allowed."""


class DoesNotFit(CaseError):
    """The model, or this request, needs more memory than the GPU has."""


class Case(BaseModel):
    """One preempted request and what surrounds it. `link` "auto" is the GPU's own."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    model: str = "llama-3-8b"
    gpu: str = "a100-sxm4-80gb"
    link: str = "auto"
    rate: Rate = "measured"
    tp: Annotated[int, Field(ge=1, le=64)] = 1
    kv_dtype: KvDtype = "bf16"
    tokens: Tokens = 4096
    block_tokens: Annotated[int, Field(ge=1, le=8192)] = 16
    layout: Layout = "contiguous"
    runs_per_block: Annotated[int, Field(ge=1, le=10_000)] = 1
    copy_gb_per_s: Annotated[float, Field(ge=0.001, le=10_000)] | None = None
    per_copy_us: Annotated[float, Field(ge=0, le=100_000)] | None = None
    preemptions: Annotated[int, Field(ge=1, le=1000)] = 1
    tokens_between: Annotated[int, Field(ge=0, le=1_000_000)] = 256
    generated_tokens: Annotated[int, Field(ge=0, le=10_000_000)] = 1024
    decode_batch: Annotated[int, Field(ge=0, le=10_000)] = 32
    decode_context: Annotated[int, Field(ge=1, le=10_000_000)] = 2048
    remaining_output: Annotated[int, Field(ge=1, le=1_000_000)] = 256
    max_num_batched_tokens: Annotated[int, Field(ge=16, le=1_000_000)] = 2048
    survival: Annotated[float, Field(ge=0, le=1)] = 0.0
    timing: TimingName = "today"
    policy: Policy = "ideal"
    objective: Objective = "victim-delay"

    @field_validator("model", "gpu", "link")
    @classmethod
    def _known(cls, name: str, info: Any) -> str:
        if info.field_name == "link" and name.strip().lower() == "auto":
            return "auto"
        return catalog.id_of(info.field_name, name)

    @field_validator("*", mode="before")
    @classmethod
    def _no_truth_values(cls, value: object) -> object:
        if isinstance(value, bool):
            raise ValueError("a truth value is neither a number nor a name")
        return value

    @field_validator("objective", mode="before")
    @classmethod
    def _objective_as_words(cls, name: object) -> object:
        return name.replace("_", "-") if isinstance(name, str) else name

    @model_validator(mode="after")
    def _tp_divides_heads(self) -> Case:
        model = catalog.model(self.model)
        heads, kv_heads = model.num_attention_heads, model.num_key_value_heads
        if heads % self.tp or (kv_heads % self.tp and self.tp % kv_heads):
            allowed = [n for n in range(1, 65) if heads % n == 0 and (kv_heads % n == 0 or n % kv_heads == 0)]
            raise ValueError(
                f"tp: {self.tp} given for {heads} query and {kv_heads} KV heads of {model.id}; "
                f"allowed: {', '.join(map(str, allowed))}"
            )
        return self

    @property
    def link_id(self) -> str:
        return catalog.gpu(self.gpu).link if self.link == "auto" else self.link


def case_from(choices: Mapping[str, Any]) -> Case:
    """A Case from what a URL, a form or a command line gave. Raises CaseError with one sentence."""
    try:
        return Case.model_validate(dict(choices))
    except ValidationError as error:
        raise CaseError(sentence(error, choices)) from None


def sentence(error: ValidationError, choices: Mapping[str, Any]) -> str:
    """The first thing wrong, as `field: value given; allowed: ...`."""
    first = error.errors()[0]
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, catalog.CatalogError) or (cause is not None and not first["loc"]):
        return str(cause)
    field = str(first["loc"][0])
    if field not in Case.model_fields:
        return f"{field[:LONGEST_ECHO]}: no such input; allowed: {', '.join(Case.model_fields)}"
    return f"{field}: {str(choices.get(field))[:LONGEST_ECHO]!r} given; allowed: {allowed(field)}"


def allowed(field: str) -> str:
    """The values a field takes, in words: a range, a list, or ids of the catalog."""
    if field in CATALOG_FIELDS:
        return f"an id of the catalog, such as {CATALOG_FIELDS[field]}"
    options = options_of(field)
    if options:
        return ", ".join(options)
    low, high = limits(field)
    kind = "a whole number" if _is_whole(field) else "a number"
    return f"{kind} from {low:,} to {high:,}"


def limits(field: str) -> tuple[float, float]:
    """Least and greatest value of a numeric field."""
    bounds = {type(part).__name__: part for part in _metadata(field)}
    return bounds["Ge"].ge, bounds["Le"].le


def options_of(field: str) -> tuple[str, ...]:
    """The choices of a field that takes one of a few words; empty for numbers and catalog ids."""
    return tuple(str(option) for option in get_args(Case.model_fields[field].annotation) if isinstance(option, str))


def _is_whole(field: str) -> bool:
    return isinstance(Case.model_fields[field].default, int)


def _metadata(field: str) -> list[Any]:
    info = Case.model_fields[field]
    if info.metadata:
        return info.metadata
    for option in get_args(info.annotation):  # Annotated[...] | None
        for part in getattr(option, "__metadata__", ()):
            return list(part.metadata)
    raise KeyError(field)
