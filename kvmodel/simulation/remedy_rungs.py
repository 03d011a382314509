"""What each rung of the ladder changes of a server, and nothing else: rows of data/remedies.toml as functions.

A pool that was given in blocks grows and shrinks with a rung by the bytes that the rung frees or takes: what else uses
the GPU's memory stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from math import ceil
from typing import Any

from kvmodel import catalog
from kvmodel.catalog import Model, ParameterCounts, custom_model, releases, weights
from kvmodel.catalog.assumptions import value as assumed
from kvmodel.errors import CaseError, DoesNotFit
from kvmodel.inputs.case import BYTES_PER_VALUE, Case, limits
from kvmodel.memory import gpu_memory
from kvmodel.scheduler.state import Settings
from kvmodel.simulation import simulate
from kvmodel.simulation.simulate import Engine
from kvmodel.simulation.workload import Workload
from kvmodel.units import GIB, format_count, format_percent
from kvmodel.words import say

PRODUCTS = {"vllm": "vllm", "sglang": "sglang", "trtllm": "tensorrt-llm"}  # by the first word of a scheduler
HOST_TIER = ("vllm-v1-offload", "vllm-v1-offload-all", "vllm-v0-swap", "sglang-hicache", "trtllm-suspend")


@dataclass(frozen=True)
class Server:
    """A Case and how its engine is started."""

    case: Case
    engine: Engine


@dataclass(frozen=True, kw_only=True)
class Rung:
    """A row of data/remedies.toml; `to` is the figure that `change` takes, or schedulers by scheduler."""

    id: str
    action: str
    change: str
    price: str
    source: str
    risk: str = ""
    leaves_preemptions: bool = False
    to: Any = None
    times: float = 1.0
    schedulers: tuple[str, ...] = ()
    article: int | None = None
    beside: str = "as-is"
    flags: dict[str, str] = field(default_factory=dict)
    known_from: dict[str, str] = field(default_factory=dict)

    def is_for(self, scheduler: str) -> bool:
        """Whether a server with this scheduler has the rung at all."""
        if isinstance(self.to, dict):
            return scheduler in self.to
        return not self.schedulers or scheduler in self.schedulers


@cache
def all_rungs() -> tuple[Rung, ...]:
    return tuple(Rung(id=row_id, **row) for row_id, row in catalog.table("remedies")["rung"].items())


def rungs(scheduler: str) -> tuple[Rung, ...]:
    """The rungs that a server with this scheduler has, in the order of the file."""
    return tuple(rung for rung in all_rungs() if rung.is_for(scheduler))


def server_on(rung: Rung, server: Server, workload: Workload) -> Server:
    """The server on a rung. Raises CaseError where it stands there already or cannot, DoesNotFit without a pool."""
    after = CHANGES[rung.change](rung, server, workload)
    return replace(after, engine=replace(after.engine, num_blocks=blocks_after(server, after)))


def blocks_after(before: Server, after: Server) -> int | None:
    """The pool where it was given in blocks: as many bytes more or less as memory has. None where it was not."""
    num_blocks = before.engine.num_blocks
    if num_blocks is None:
        return None
    old_bytes = num_blocks * simulate.block_bytes(before.case)
    more_bytes = simulate.pool_bytes(after.case, after.engine) - simulate.pool_bytes(before.case, before.engine)
    blocks = int((old_bytes + more_bytes) / simulate.block_bytes(after.case) + 1e-9)
    if blocks < 1:
        raise DoesNotFit(say("num_blocks: {given:,} given, none is left; allowed: a larger pool", given=num_blocks))
    return blocks


def settings_of(server: Server) -> Settings:
    """What the engine of a server is started with. Raises DoesNotFit."""
    return simulate.engine_settings(server.case, server.engine, simulate.step_inputs(server.case))


def gpu_host_gib(server: Server) -> float:
    """Host memory that the engine keeps KV in, for each GPU."""
    if server.engine.scheduler not in HOST_TIER:
        return 0.0
    return settings_of(server).host_blocks * simulate.block_bytes(server.case) / GIB


# --- the changes ---


def fit_requests(rung: Rung, server: Server, workload: Workload) -> Server:
    """As many at a time as the pool holds of the mean request at its end."""
    settings = settings_of(server)
    tokens = float((workload.prompt_tokens + workload.output_tokens).mean())
    fit = max(1, int(settings.num_blocks * settings.block_tokens // tokens))
    if fit >= settings.max_num_seqs:
        raise CaseError(
            say(
                "max_num_seqs: the pool holds {fit} requests of {tokens} tokens, and no more than {most:,} run; "
                "nothing to lower",
                fit=format_count(fit),
                tokens=format_count(tokens),
                most=settings.max_num_seqs,
            )
        )
    return replace(server, engine=replace(server.engine, max_num_seqs=fit))


def utilization(rung: Rung, server: Server, workload: Workload) -> Server:
    now = assumed("memory", "utilization") if server.engine.utilization is None else server.engine.utilization
    if now >= rung.to:
        raise no_more("utilization", now, rung.to)
    return replace(server, engine=replace(server.engine, utilization=rung.to))


def watermark(rung: Rung, server: Server, workload: Workload) -> Server:
    now = settings_of(server).watermark
    if now >= rung.to:
        raise no_more("watermark", now, rung.to)
    return replace(server, engine=replace(server.engine, watermark=rung.to))


def no_more(field: str, now: float, to: float) -> CaseError:
    figures = {"field": field, "now": format_percent(now), "to": format_percent(to)}
    return CaseError(say("{field}: {now} already; {to} is no more", **figures))


def token_budget(rung: Rung, server: Server, workload: Workload) -> Server:
    now, least = server.case.max_num_batched_tokens, int(limits("max_num_batched_tokens")[0])
    fewer = int(now * rung.times)
    if fewer < least:
        figures = {"now": now, "least": least}
        raise CaseError(say("max_num_batched_tokens: {now:,} already; no fewer than {least:,} are allowed", **figures))
    return replace(server, case=replace(server.case, max_num_batched_tokens=fewer))


def gpus(rung: Rung, server: Server, workload: Workload) -> Server:
    """Raises CaseError where the heads do not split over so many."""
    return replace(server, case=replace(server.case, tp=int(server.case.tp * rung.times)))


def kv_dtype(rung: Rung, server: Server, workload: Workload) -> Server:
    if BYTES_PER_VALUE[server.case.kv_dtype] <= BYTES_PER_VALUE[rung.to]:
        figures = {"now": server.case.kv_dtype, "to": rung.to}
        raise CaseError(say("kv_dtype: {now} already; {to} is no narrower", **figures))
    return replace(server, case=replace(server.case, kv_dtype=rung.to))


def scheduler(rung: Rung, server: Server, workload: Workload) -> Server:
    """Another scheduler; a watermark goes with the scheduler that it was set for, as no other takes it over."""
    becomes = rung.to[server.engine.scheduler]
    watermark = server.engine.watermark if becomes.split("-")[:2] == server.engine.scheduler.split("-")[:2] else None
    return replace(server, engine=replace(server.engine, scheduler=becomes, watermark=watermark))


def four_bit_weights(rung: Rung, server: Server, workload: Workload) -> Server:
    model = catalog.model(server.case.model)
    if weights.four_bit_bytes(model) >= weights.weight_bytes(model):
        raise CaseError(say("model: the weights of {model} are as narrow as 4 bits already", model=model.name))
    return replace(server, case=replace(server.case, model=custom_model.as_text(in_four_bits(model))))


def in_four_bits(model: Model) -> Model:
    """The same model with the matrices of its layers in 4 bits, multiplied in 16 as such kernels do."""
    layers = weights.layer_matrix_parameters(model)
    expert = weights.expert_parameters(model)
    counts = ParameterCounts(
        layer_matrices=layers,
        expert=expert,
        other=weights.parameter_count(model) - layers - model.num_experts * expert,
        mlp_width=gpu_memory.active_intermediate_size(model),
        weight_bytes=weights.four_bit_bytes(model),
    )
    narrow, head = weights.FOUR_BIT_BYTES, weights.head_parameters(model)
    wide = min(2.0, model.weight_bytes_per_parameter)  # of the head, which a step reads too
    return replace(
        model,
        head_dim=model.qk_head_dim,
        v_head_dim=model.value_head_dim,
        counts=counts,
        weight_bytes_per_parameter=(layers * narrow + head * wide) / (layers + head),
        expert_weight_bytes_per_parameter=narrow if model.num_experts else None,
    )


CHANGES: dict[str, Callable[[Rung, Server, Workload], Server]] = {
    "fit-requests": fit_requests,
    "utilization": utilization,
    "watermark": watermark,
    "token-budget": token_budget,
    "gpus": gpus,
    "kv-dtype": kv_dtype,
    "scheduler": scheduler,
    "weights": four_bit_weights,
}


# --- flags ---


def flag_of(rung: Rung, server: Server, version: str | None) -> tuple[str, str]:
    """The flag that makes this change in the server's engine, filled in, and which releases have it.

    Both are empty where the engine has no flag for it; the flag alone where `version` does not have it.
    """
    product = PRODUCTS.get(server.engine.scheduler.split("-")[0], "")
    if product not in rung.flags:
        return "", ""
    engine = server.engine
    text = rung.flags[product].format(
        max_num_seqs=engine.max_num_seqs,
        utilization=engine.utilization,
        watermark=engine.watermark,
        max_num_batched_tokens=server.case.max_num_batched_tokens,
        tp=server.case.tp,
        host_gib=ceil(gpu_host_gib(server) * server.case.tp),
    )
    return stands(text, product, version, rung.known_from.get(product))


def stands(text: str, product: str, version: str | None, known_from: str | None) -> tuple[str, str]:
    """A flag's text, nothing where `version` is known not to have it, and since when or until when it is there."""
    name = text.split()[0].rstrip(":")
    periods = [entry for entry in releases.entries() if (entry.engine, entry.name) == (product, name)]
    since = periods[0].since if periods else None
    begins = since or known_from
    gone = periods[-1].gone if periods else None
    if version is None:
        return text, gone_text(gone) if gone else since_text(since) if since else ""
    if gone and releases.release(version) >= releases.release(gone):
        return "", gone_text(gone)
    if begins and releases.release(version) < releases.release(begins):
        return "", since_text(begins)
    return text, ""


def gone_text(version: str) -> str:
    return say("gone in {version}", version=version)


def since_text(version: str) -> str:
    return say("since {version}", version=version)
