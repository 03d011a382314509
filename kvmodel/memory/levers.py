"""What each change of a server alone does to its KV pool, and which changes are enough where it does not start."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from kvmodel import catalog
from kvmodel.catalog import weights
from kvmodel.errors import CaseError
from kvmodel.inputs import case
from kvmodel.inputs.case import BYTES_PER_VALUE, Case
from kvmodel.memory.pool_plan import Plan, Startup, budget_of, plan

MORE_UTILIZATION = 0.05
LEAST_BATCHED_TOKENS = int(case.limits("max_num_batched_tokens")[0])
MOST_GPUS = int(case.limits("tp")[1])
NAMED_GPUS = 3
SOUGHT = ("tp", "max_model_len")  # of these the least change that is enough is looked for


@dataclass(frozen=True)
class Lever:
    """One change, and the plan it gives. `what` is an input's name, "weights" or, for no change, "now"."""

    what: str
    value: str
    plan: Plan

    @property
    def name(self) -> str:
        """For the command line: "tp 2", "as it is"."""
        return {"now": "as it is", "weights": "weights in 4 bits"}.get(self.what, f"{self.what} {self.value}")


def levers(startup: Startup) -> list[Lever]:
    """As it is, then each change alone that applies."""
    startup = with_weights_of(startup)
    return [Lever("now", "", plan(startup)), *(Lever(*change) for change in _each(_changes(startup)))]


def with_weights_of(startup: Startup) -> Startup:
    """The same with weights that stay as loaded when the number of GPUs changes: the log's whole, split anew."""
    return replace(startup, weight_gpus=startup.weight_gpus or startup.case.tp * startup.pp)


def _changes(startup: Startup) -> Iterator[tuple[str, str, Startup]]:
    now = startup.case
    if BYTES_PER_VALUE[now.kv_dtype] > 1:
        yield "kv_dtype", "fp8", replace(startup, case=replace(now, kv_dtype="fp8"))
    yield from _four_bit(startup)
    if startup.share < 1:
        share = min(1.0, startup.share + MORE_UTILIZATION)
        yield "utilization", f"{share:.2f}", replace(startup, utilization=share)
    fewer = max(LEAST_BATCHED_TOKENS, now.max_num_batched_tokens // 2)
    if not startup.unchunked and fewer < now.max_num_batched_tokens:
        yield "max_num_batched_tokens", str(fewer), replace(startup, case=replace(now, max_num_batched_tokens=fewer))
    if startup.longest > 1:
        yield "max_model_len", str(startup.longest // 2), replace(startup, max_model_len=startup.longest // 2)
    wider = next(_wider(now), None)
    if wider:
        yield "tp", str(wider.tp), replace(startup, case=wider)


def _four_bit(startup: Startup) -> Iterator[tuple[str, str, Startup]]:
    model = catalog.model(startup.case.model)
    now_bytes = budget_of(startup).weight_bytes * startup.case.tp * startup.pp
    if not startup.four_bit and weights.four_bit_bytes(model) < now_bytes:
        yield "weights", "4", replace(startup, four_bit=True)


def _wider(now: Case) -> Iterator[Case]:
    """The same over more GPUs, doubled each time, where the heads can be split."""
    tp = 2 * now.tp
    while tp <= MOST_GPUS:
        with suppress(CaseError):
            yield replace(now, tp=tp)
        tp *= 2


def _each(changes: Iterator[tuple[str, str, Startup]]) -> Iterator[tuple[str, str, Plan]]:
    return ((what, value, plan(changed)) for what, value, changed in changes)


def ways(startup: Startup) -> list[Lever]:
    """Changes of which each alone lets the engine start: the least of its kind, GPUs of the catalog by their memory."""
    startup = with_weights_of(startup)
    now = plan(startup)
    single = (Lever(*each) for each in _each(_changes(startup)) if each[0] not in SOUGHT)
    starting = [lever for lever in single if lever.plan.starts]
    if now.longest_tokens:
        shorter = replace(startup, max_model_len=now.longest_tokens)
        starting.append(Lever("max_model_len", str(now.longest_tokens), plan(shorter)))
    wider = (Lever("tp", str(each.tp), plan(replace(startup, case=each))) for each in _wider(startup.case))
    starting += islice((lever for lever in wider if lever.plan.starts), 1)
    larger = sorted((catalog.gpu(name) for name in catalog.gpu_ids()), key=lambda gpu: gpu.memory_bytes)
    others = (Lever("gpu", gpu.id, plan(replace(startup, case=replace(startup.case, gpu=gpu.id)))) for gpu in larger)
    return starting + list(islice((lever for lever in others if lever.plan.starts), NAMED_GPUS))


def freed_bytes(then: Plan, now: Plan) -> float:
    """What a pool that is full now has free after a change, on each GPU: its gain, and what the same KV takes less."""
    same_kv_bytes = max(now.pool_bytes, 0.0) * then.mean_bytes / now.mean_bytes
    return then.pool_bytes - (same_kv_bytes if now.pool_bytes > 0 else now.pool_bytes)


def as_rows(every_lever: list[Lever]) -> list[dict[str, Any]]:
    """For JSON: what each change frees, the pool it gives, and requests of full length that fit then."""
    now = every_lever[0].plan
    return [
        {
            "lever": lever.name,
            "freed_bytes": freed_bytes(lever.plan, now),
            "pool_bytes": lever.plan.pool_bytes,
            "requests": lever.plan.full_requests,
        }
        for lever in every_lever
    ]
