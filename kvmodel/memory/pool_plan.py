"""How an engine is started and what pool that gives: what fits at mean and at full length, or what is too little.

Nothing here raises where a model does not fit: a plan says by how much.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from kvmodel import catalog
from kvmodel.catalog import assumptions, weights
from kvmodel.inputs.case import Case
from kvmodel.memory import gpu_memory, printed_by_engine, printouts
from kvmodel.memory.gpu_memory import MemoryBudget
from kvmodel.memory.printouts import Printed
from kvmodel.units import GIB

UNKNOWN_MAX_MODEL_LEN = 8192
DECODING = 1  # token in flight of a request that decodes
PARTS = ("weights", "activations", "CUDA graphs", "other", "KV pool", "kept free")


@dataclass(frozen=True, kw_only=True)
class Startup:
    """A Case's server (model, GPU, tp, KV dtype, block, batched tokens) and the settings that decide its pool.

    `max_model_len` None is what the model allows, else 8,192; `utilization` None the engine's own. `unchunked`
    prefills whole prompts at once, as vLLM V0 did; `four_bit` stands for weights of the layers in 4 bits. `weight_gib`
    are the weights of one GPU that a log prints as loaded, of a server with `weight_gpus`, by default as many as here.
    """

    case: Case
    max_model_len: int | None = None
    utilization: float | None = None
    pp: int = 1
    dcp: int = 1
    draft_tokens: int = 0
    swap_gib: float = 0.0
    unchunked: bool = False
    max_num_seqs: int | None = None
    four_bit: bool = False
    weight_gib: float | None = None
    weight_gpus: int | None = None

    @property
    def longest(self) -> int:
        """Tokens of the longest request that is allowed."""
        positions = catalog.model(self.case.model).max_position_embeddings
        return self.max_model_len or positions or UNKNOWN_MAX_MODEL_LEN

    @property
    def share(self) -> float:
        return assumptions.value("memory", "utilization") if self.utilization is None else self.utilization

    @property
    def loaded_bytes(self) -> float | None:
        """Weights of one GPU by the log; None where none is given. [bytes]"""
        gpus = self.case.tp * self.pp
        return None if self.weight_gib is None else self.weight_gib * GIB * (self.weight_gpus or gpus) / gpus

    @property
    def storage(self) -> dict[str, Any]:
        """How wide KV is kept and over how many GPUs it is split."""
        return {"bytes_per_value": self.case.stored.bytes_per_value, "tp": self.case.tp, "pp": self.pp}


@dataclass(frozen=True)
class Plan:
    """Memory of one GPU, the pool's range, one request's need at full and at mean length, and how engines print it.

    Needs are counted in the blocks of vLLM: at full length with a prefill step in flight, at mean length decoding.

    `longest_tokens` is the most that one request may have, 0 where not one token fits. All of one GPU. [bytes, tokens]
    """

    startup: Startup
    budget: MemoryBudget
    low_bytes: float
    high_bytes: float
    need_bytes: float
    mean_bytes: float
    longest_tokens: int
    printed: dict[str, Printed]

    @property
    def pool_bytes(self) -> float:
        return self.budget.pool_bytes

    @property
    def starts(self) -> bool:
        """Whether the engine starts: one request of full length fits."""
        return self.longest_tokens >= self.startup.longest

    @property
    def full_requests(self) -> float:
        """Requests of full length, as vLLM prints them: with what is in flight."""
        return self.printed["vllm"].concurrency

    def mean_requests(self, pool_bytes: float | None = None) -> float:
        """Requests of the Case's `decode_context` tokens that are resident together in the pool, or in another."""
        pool = self.pool_bytes if pool_bytes is None else pool_bytes
        return max(pool, 0.0) / self.mean_bytes


def budget_of(startup: Startup) -> MemoryBudget:
    """How one GPU's memory is spent. Raises CatalogError where the model's weights are not known. [bytes]"""
    case, model = startup.case, catalog.model(startup.case.model)
    budget = gpu_memory.memory_budget(
        model, catalog.gpu(case.gpu), tp=case.tp, pp=startup.pp, max_num_batched_tokens=case.max_num_batched_tokens,
        utilization=startup.utilization, peak_bytes=unchunked_peak_bytes(startup) if startup.unchunked else None,
        loaded_bytes=startup.loaded_bytes,
    )  # fmt: skip
    if startup.four_bit:
        return replace(budget, weight_bytes=weights.four_bit_bytes(model) / (case.tp * startup.pp))
    return budget


def pool_range_bytes(startup: Startup, budget: MemoryBudget) -> tuple[float, float]:
    """Lowest and highest pool to expect; the lowest may be negative. [bytes]"""
    case = startup.case
    model, gpu = catalog.model(case.model), catalog.gpu(case.gpu)
    sampled = gpu_memory.sampler_bytes(model, gpu, case.max_num_batched_tokens, startup.max_num_seqs)
    return gpu_memory.pool_range_bytes(
        budget, sampler_bytes=0.0 if startup.unchunked else sampled, loaded=startup.weight_gib is not None
    )


def unchunked_peak_bytes(startup: Startup) -> float:
    """Of an engine that profiles whole prompts, and `max_num_seqs` sequences sampled after them. [bytes]"""
    sequences: dict[str, Any] = {} if startup.max_num_seqs is None else {"max_num_seqs": startup.max_num_seqs}
    return gpu_memory.unchunked_activation_bytes(
        catalog.model(startup.case.model), max_model_len=startup.longest, tp=startup.case.tp, **sequences
    )


def plan(startup: Startup) -> Plan:
    """Raises CatalogError where weights are not known, CaseError for a model that keeps no KV."""
    case = startup.case
    budget = budget_of(startup)
    kinds = printouts.pages(case.stored.layers, block_tokens=case.block_tokens, **startup.storage)
    lines = printed_by_engine.prints(
        case, budget.pool_bytes, max_model_len=startup.longest, pp=startup.pp, dcp=startup.dcp,
        swap_gib=startup.swap_gib, draft_tokens=startup.draft_tokens,
    )  # fmt: skip
    low, high = pool_range_bytes(startup, budget)
    settings: dict[str, Any] = {"dcp": startup.dcp, "draft_tokens": startup.draft_tokens}

    def request_bytes(tokens: int, in_flight: int) -> float:
        line = printouts.v1(0.0, kinds, max_model_len=tokens, max_num_batched_tokens=in_flight, **settings)
        return line.blocks_per_request * printouts.block_bytes(kinds)

    return Plan(
        startup=startup,
        budget=budget,
        low_bytes=max(low, 0.0),
        high_bytes=max(high, 0.0),
        need_bytes=request_bytes(startup.longest, case.max_num_batched_tokens),
        mean_bytes=request_bytes(case.decode_context, DECODING),
        longest_tokens=printouts.longest_request(
            budget.pool_bytes, kinds, most=startup.longest, max_num_batched_tokens=case.max_num_batched_tokens,
            **settings,
        ),
        printed=lines,
    )  # fmt: skip


def parts(budget: MemoryBudget) -> dict[str, float]:
    """One GPU's memory by PARTS; "kept free" is what utilisation leaves. Where it is too little, the pool is 0."""
    graphs = assumptions.value("memory", "cuda_graphs_gib") * GIB
    sizes = (
        budget.weight_bytes, budget.activation_bytes, graphs, budget.engine_bytes - graphs,
        max(budget.pool_bytes, 0.0), max(budget.total_bytes - max(budget.usable_bytes, spent_bytes(budget)), 0.0),
    )  # fmt: skip
    return dict(zip(PARTS, sizes, strict=True))


def spent_bytes(budget: MemoryBudget) -> float:
    """What is taken before any KV. [bytes]"""
    return budget.weight_bytes + budget.activation_bytes + budget.engine_bytes
