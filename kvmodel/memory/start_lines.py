"""The start-up lines in which each engine says how large its pool is, as it would print them of a plan."""

from __future__ import annotations

from kvmodel.catalog import KvLayers
from kvmodel.memory.pool_plan import Plan
from kvmodel.memory.printouts import Printed
from kvmodel.units import GIB, format_count

ENGINES = ("vllm", "vllm-v1", "vllm-v0", "sglang", "trt-llm")


def pool_lines(plan: Plan) -> dict[str, list[str]]:
    """Lines by engine, without the time and place in front of them; vLLM's refusal alone where it does not start.

    Engines that do not run such a model are left out.

    Source: vLLM 0.6.6, 0.10 and 0.33, SGLang 0.5, TensorRT-LLM 1.0. "GB" of SGLang is GiB.
    """
    if not plan.starts:
        return {"vllm": _refusal(plan)}
    longest = plan.startup.longest
    return {engine: _LINES[engine](plan, plan.printed[engine], longest) for engine in ENGINES if engine in plan.printed}


def _refusal(plan: Plan) -> list[str]:
    """vLLM's error where one request of full length does not fit; the other engines start, and refuse the request."""
    if plan.pool_bytes <= 0:
        return [_available(plan), "No available memory for the cache blocks."]
    return [
        f"To serve at least one request with the models's max seq len ({plan.startup.longest}), "
        f"({plan.need_bytes / GIB:.2f} GiB KV cache is needed, which is larger than the available KV cache memory "
        f"({plan.pool_bytes / GIB:.2f} GiB). Based on the available memory, the estimated maximum model length is "
        f"{plan.longest_tokens}."
    ]


def _concurrency(line: Printed, longest: str) -> str:
    return f"Maximum concurrency for {longest} tokens per request: {line.concurrency:.2f}x"


def _available(plan: Plan) -> str:
    return f"Available KV cache memory: {plan.pool_bytes / GIB:.2f} GiB"


def _vllm(plan: Plan, line: Printed, longest: int) -> list[str]:
    size = f"GPU KV cache size: {format_count(line.tokens)} tokens"
    return [_available(plan), f"{size}, {_concurrency(line, format_count(longest))}"]


def _vllm_v1(plan: Plan, line: Printed, longest: int) -> list[str]:
    size = f"GPU KV cache size: {format_count(line.tokens)} tokens"
    return [_available(plan), size, _concurrency(line, format_count(longest))]


def _vllm_v0(plan: Plan, line: Printed, longest: int) -> list[str]:
    return [f"# GPU blocks: {line.blocks}, # CPU blocks: {line.cpu_blocks}", _concurrency(line, str(longest))]


def _sglang(plan: Plan, line: Printed, longest: int) -> list[str]:
    keys, values = vector_widths(plan.startup.case.stored.layers)
    pool_gib = max(plan.pool_bytes, 0.0) / GIB
    if not values:
        return [f"KV Cache is allocated. #tokens: {line.tokens}, KV size: {pool_gib:.2f} GB"]
    of_keys = pool_gib * keys / (keys + values)
    sizes = f"K size: {of_keys:.2f} GB, V size: {pool_gib - of_keys:.2f} GB"
    return [f"KV Cache is allocated. #tokens: {line.tokens}, {sizes}"]


def _trt_llm(plan: Plan, line: Printed, longest: int) -> list[str]:
    return [f"Allocated {max(plan.pool_bytes, 0.0) / GIB:.2f} GiB for max tokens in paged KV cache ({line.tokens})."]


def vector_widths(layers: tuple[KvLayers, ...]) -> tuple[int, int]:
    """Values of keys and of values that a token adds in all layers together; none of values for latents."""
    vectors = [(group.layers * group.kv_heads, group) for group in layers]
    return sum(n * group.key_dim for n, group in vectors), sum(n * group.value_dim for n, group in vectors)


_LINES = {"vllm": _vllm, "vllm-v1": _vllm_v1, "vllm-v0": _vllm_v0, "sglang": _sglang, "trt-llm": _trt_llm}
