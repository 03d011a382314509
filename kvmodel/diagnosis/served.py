"""A scraped server as a Case: its model, KV, batch and lengths, as far as the metrics tell them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kvmodel.catalog import kv_dtypes, model_id
from kvmodel.inputs import case
from kvmodel.metrics import link_rate
from kvmodel.metrics.era import Era
from kvmodel.metrics.server_rates import Rates
from kvmodel.metrics.server_state import Engine
from kvmodel.metrics.server_window import Window
from kvmodel.units import GB
from kvmodel.words import say


@dataclass(frozen=True)
class ServerFacts:
    """What the reader adds: fields of a Case that metrics do not hold, the engine's version, a price per GPU hour."""

    fields: Mapping[str, Any] = field(default_factory=dict)
    version: str | None = None
    price_per_gpu_hour: float | None = None


@dataclass(frozen=True)
class Served:
    """`choices` are fields of a Case that the metrics give; `notes` say what was taken for granted."""

    choices: dict[str, Any]
    notes: tuple[str, ...]


def served(window: Window, rates: Rates, era: Era) -> Served:
    """The Case of a preempted request at this server: the mean request, half of its output written."""
    engine = window.engine
    choices: dict[str, Any] = {"policy": policy(engine, era)}
    notes = []
    if (name := engine.labels.get("model_name")) is not None:
        if (model := model_id(name)) is not None:
            choices["model"] = model
        else:
            notes.append(say("the model {name} is not in the catalog; give --model", name=name[:60]))
    if (dtype := kv_dtype(engine)) is not None:
        choices["kv_dtype"] = dtype
    if engine.block_tokens:
        choices["block_tokens"] = limited("block_tokens", engine.block_tokens)
    if (rate := link_rate.rate_bytes_per_s(window.increase, "load")) is not None:
        choices["copy_gb_per_s"] = within("copy_gb_per_s", rate / GB)
    if (running := window.mean.get("running")) is not None:
        choices["decode_batch"] = limited("decode_batch", running)
    prompt, output = rates.prompt_tokens_per_request, rates.output_tokens_per_request
    if prompt is not None and output is not None and prompt + output >= 1:
        context = limited("tokens", prompt + output / 2)
        choices |= {"tokens": context, "generated_tokens": min(limited("generated_tokens", output / 2), context)}
        choices |= {"remaining_output": limited("remaining_output", output / 2)}
        choices["decode_context"] = limited("decode_context", resident_tokens(window) or context)
    return Served(choices, tuple(notes))


def limited(field: str, value: float) -> int:
    """A whole number within the limits of a Case's field."""
    return int(within(field, round(value)))


def within(field: str, value: float) -> float:
    """The number within a field's limits that is nearest to a value."""
    low, high = case.limits(field)
    return min(max(value, low), high)


def resident_tokens(window: Window) -> float | None:
    """Tokens in the pool for each running request, at the window's end."""
    engine = window.engine
    pool, usage, running = engine.pool_tokens, engine.usage, engine.gauges.get("running")
    return pool * usage / running if pool and usage and running else None


def policy(engine: Engine, era: Era) -> str:
    """What the engine can do with a preempted request: a policy of the Case."""
    if era.product == "vllm":
        if era.name == "V0":
            return "vllm-v0"
        return "vllm-v1-offload" if engine.setting("kv_offloading_size") else "vllm-v1"
    if era.product == "sglang":
        return "sglang-hicache" if engine.gauges.get("host_tier_tokens") else "sglang"
    return "trtllm-no-evict"


def kv_dtype(engine: Engine) -> str | None:
    """The KV dtype of the configuration as a Case has it, None where it is not reported or not one of those."""
    dtype = engine.config.get("cache_dtype", engine.config.get("kv_cache_dtype"))
    return None if dtype is None else kv_dtypes.kv_dtype_id(dtype)
