"""A Case under a workload: the engine simulated request by request, in seconds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from kvmodel import catalog
from kvmodel.errors import CaseError, DoesNotFit, bad_value
from kvmodel.inputs.case import Case
from kvmodel.inputs.questions import INPUTS
from kvmodel.memory import gpu_memory, kv_cache
from kvmodel.recovery import resolve
from kvmodel.recovery.resolve import Inputs
from kvmodel.scheduler import loop, others, vllm
from kvmodel.scheduler.log import Log
from kvmodel.scheduler.state import Policy, Requests, Settings
from kvmodel.simulation.results import Results, collect
from kvmodel.simulation.step_clock import StepTimes
from kvmodel.simulation.workload import Workload
from kvmodel.units import GIB, format_bytes
from kvmodel.words import say

SCHEDULERS: dict[str, tuple[Policy, str]] = {  # with the policy of a Case whose way of copying it has
    "vllm-v1": (vllm.VLLM_V1, "vllm-v1"),
    "vllm-v1-first-chunk": (vllm.VLLM_V1_FIRST_CHUNK, "vllm-v1"),
    "vllm-v1-offload": (vllm.VLLM_V1_OFFLOAD, "vllm-v1-offload"),
    "vllm-v1-offload-all": (vllm.VLLM_V1_OFFLOAD_ALL, "vllm-v1-offload"),
    "vllm-v0": (vllm.VLLM_V0, "vllm-v0"),
    "vllm-v0-swap": (vllm.VLLM_V0_SWAP, "vllm-v0"),
    "sglang": (others.SGLANG, "sglang"),
    "sglang-hicache": (others.SGLANG_HICACHE, "sglang-hicache"),
    "trtllm-no-evict": (others.TRTLLM_NO_EVICT, "trtllm-no-evict"),
    "trtllm-suspend": (others.TRTLLM_SUSPEND, "trtllm-suspend"),
    "wait": (vllm.WAIT, "ideal"),
}
V0_WATERMARK = 0.01  # vLLM 0.6.6: BlockSpaceManager's own, not a setting


@dataclass(frozen=True, kw_only=True)
class Engine:
    """How the engine of a Case is started, beyond the Case. None: the engine's own default.

    Raises CaseError where a value is out of its limits.
    """

    scheduler: str = "vllm-v1"
    num_blocks: int | None = None  # that can be given out; None: what the GPU's memory leaves
    utilization: float | None = None
    max_num_seqs: int | None = None
    watermark: float | None = None
    prefix_caching: bool = True
    by_priority: bool = False
    host_gib: float | None = None  # None: twice the pool on the GPU

    def __post_init__(self) -> None:
        if self.scheduler not in SCHEDULERS:
            raise bad_value("scheduler", self.scheduler, ", ".join(SCHEDULERS))
        for field in ("num_blocks", "utilization", "max_num_seqs", "watermark", "host_gib"):
            if (value := getattr(self, field)) is not None:
                INPUTS[field].limits.require(field, value)


Run = Callable[[Case, Workload, Engine], Results]  # such as `simulate`, wherever it is worked out


def simulate(case: Case, workload: Workload, engine: Engine = Engine(), *, every_s: float = 1.0) -> Results:
    """Run a workload through the engine of a Case: every request's times, samples every `every_s`, and the totals.

    Raises
    ------
    DoesNotFit : the weights leave no pool.
    CaseError : a request is too long for the pool.
    """
    policy, copies_as = SCHEDULERS[engine.scheduler]
    inputs = step_inputs(replace(case, policy=copies_as))
    settings = engine_settings(case, engine, inputs)
    require_requests_fit(workload, settings)
    requests = Requests(
        workload.prompt_tokens.tolist(),
        workload.output_tokens.tolist(),
        (workload.arrival_s + float(inputs.request_overhead_s)).tolist(),
        workload.priority.tolist(),
        workload.clients,
        workload.think_s + float(inputs.request_overhead_s),
    )
    clock, log = StepTimes(inputs), Log(len(workload), every_s)
    state = loop.run(requests, settings, policy, clock, log)
    return collect(state, float(inputs.request_overhead_s))


def step_inputs(case: Case) -> Inputs:
    """The numbers of a Case that a step depends on; those of its one preempted request do not matter here."""
    return resolve.inputs(replace(case, tokens=1, generated_tokens=0, preemptions=1, decode_batch=0))


def engine_settings(case: Case, engine: Engine, inputs: Inputs) -> Settings:
    """What the engine is started with: its pool in blocks of all layers, as without a hybrid KV manager."""
    one_block = block_bytes(case)
    blocks = engine.num_blocks
    if blocks is None:
        blocks = given_out(int(pool_bytes(case, engine) // one_block), engine.scheduler)
    if blocks < 1:
        size = format_bytes(one_block)
        raise DoesNotFit(say("block_tokens: no block of {size} fits; allowed: smaller blocks, more GPUs", size=size))
    v0 = engine.scheduler.startswith("vllm-v0")
    default_watermark = V0_WATERMARK if v0 else 0.0
    return Settings(
        num_blocks=blocks,
        block_tokens=case.block_tokens,
        max_num_seqs=default_max_num_seqs(case) if engine.max_num_seqs is None else engine.max_num_seqs,
        max_num_batched_tokens=case.max_num_batched_tokens,
        watermark=default_watermark if engine.watermark is None else engine.watermark,
        prefix_caching=engine.prefix_caching and not v0,
        by_priority=engine.by_priority,
        host_blocks=2 * blocks if engine.host_gib is None else int(engine.host_gib * GIB / case.tp // one_block),
    )


def null_blocks(scheduler: str) -> int:
    """Blocks of an engine's own count that no request gets: vLLM V1's first one.

    Source: vLLM 0.33 `BlockPool.null_block`; with 256 blocks it decides as this scheduler does with 255.
    """
    return 1 if scheduler.startswith("vllm-v1") else 0


def given_out(num_gpu_blocks: int, scheduler: str) -> int:
    """Blocks that requests can have, of an engine's own count."""
    return num_gpu_blocks - null_blocks(scheduler)


def block_bytes(case: Case) -> float:
    """KV of a block on one GPU, in all layers. [bytes]"""
    kept = case.stored
    storage = {"bytes_per_value": kept.bytes_per_value, "tp": case.tp}
    return float(kv_cache.kv_bytes_hybrid_off(kept.layers, case.block_tokens, **storage))


def pool_bytes(case: Case, engine: Engine) -> float:
    """KV memory of one GPU. [bytes]"""
    model, gpu = catalog.model(case.model), catalog.gpu(case.gpu)
    budget = gpu_memory.memory_budget(
        model, gpu, tp=case.tp, max_num_batched_tokens=case.max_num_batched_tokens, utilization=engine.utilization
    )
    return gpu_memory.require_pool(budget, model, gpu, case.tp)


def default_max_num_seqs(case: Case) -> int:
    """That of vLLM 0.33 on the Case's GPU."""
    return gpu_memory.default_max_num_seqs(catalog.gpu(case.gpu), case.max_num_batched_tokens)


def require_requests_fit(workload: Workload, settings: Settings) -> None:
    """Raises CaseError where a request could never finish: all its tokens but the last have to be held."""
    longest = int((workload.prompt_tokens + workload.output_tokens).max())
    most = settings.num_blocks * settings.block_tokens + 1
    if longest > most:
        raise CaseError(
            say(
                "prompt_tokens + output_tokens: {longest:,} of one request given; allowed: up to {most:,}, "
                "what {blocks:,} blocks of {block_tokens} tokens hold",
                longest=longest,
                most=most,
                blocks=settings.num_blocks,
                block_tokens=settings.block_tokens,
            )
        )
