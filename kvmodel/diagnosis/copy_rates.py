"""The rate of a server's KV copies, as its counters have it, beside the one that the model takes for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, get_args

from kvmodel.errors import CaseError
from kvmodel.inputs.case import Case
from kvmodel.metrics import link_rate
from kvmodel.metrics.server_state import Engine
from kvmodel.recovery import costs, resolve


def copy_rates(increase: Engine, case: Case, fields: Mapping[str, Any]) -> dict[str, float | None]:
    """Bytes per second of one GPU's copies, measured each way, and "model_load" and "model_store".

    The model has a rate where one was measured to hold it against, and model and GPU are known.
    """
    rates: dict[str, float | None] = {way: link_rate.rate_bytes_per_s(increase, way) for way in get_args(link_rate.Way)}
    modelled: dict[str, float | None] = {}
    if {"model", "gpu"} <= {name for name, value in fields.items() if value is not None} and any(rates.values()):
        modelled = model_rates(case)
    return rates | {f"model_{way}": modelled.get(way) for way in ("load", "store")}


def model_rates(case: Case) -> dict[str, float | None]:
    """The rates of a request's KV in the pieces that the engine copies; none where the Case has no price."""
    try:
        inputs = resolve.inputs(replace(case, copy_gb_per_s=None))
    except CaseError:
        return {}
    size_bytes = float(resolve.moved_bytes(inputs, inputs.tokens))
    seconds = {
        "load": float(costs.load(inputs, inputs.tokens).copy.seconds),
        "store": float(costs.out_s(inputs, inputs.tokens)),
    }
    return {way: size_bytes / time_s for way, time_s in seconds.items() if time_s > 0}
