"""The questions of the command line that are smaller than a comparison: size, capacity, prefill, copy.

Each takes a Case and `numbers`: the Case's numeric fields and the question's own. In size, prefill and copy
they may be arrays that broadcast together (tp may not), and then so are the results.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from kvmodel import assumptions, capacity, catalog, kv_cache, resolve, step_time, transfer
from kvmodel.case import BYTES_PER_VALUE, Case, CaseError, case_from
from kvmodel.units import GB, MIB, MS, US

Numbers = Mapping[str, Any]


@dataclass(frozen=True)
class Own:
    """An input that only one question has: one of `options`, any text (`text` says which), a switch, or a number."""

    help: str
    default: Any = None
    low: float = 0
    high: float = 0
    whole: bool = True
    options: tuple[str, ...] = ()
    text: str = ""
    switch: bool = False

    @property
    def allowed(self) -> str:
        if self.text or self.switch:
            return self.text or "given or not"
        if self.options:
            return ", ".join(self.options)
        return f"{'a whole number' if self.whole else 'a number'} from {self.low:,} to {self.high:,}"

    def read(self, field: str, given: object) -> Any:
        """The value of what was given. Raises CaseError with one sentence."""
        refusal = CaseError(f"{field}: {str(given)[:40]!r} given; allowed: {self.allowed}")
        if self.text or self.switch:
            return given
        if self.options:
            if given not in self.options:
                raise refusal
            return given
        try:
            value = int(str(given)) if self.whole else float(str(given))
        except ValueError:
            raise refusal from None
        if not self.low <= value <= self.high:  # NaN is not either
            raise refusal
        return value


OWN = {
    "utilization": Own("share of the GPU's memory the engine may use", None, 0.01, 1, whole=False),
    "max_model_len": Own("longest request, default what the model allows, else 8,192", None, 1, 10_000_000),
    "batch": Own("equal sequences prefilled together", 1, 1, 100_000),
    "past": Own("tokens of each sequence already in the cache", 0, 0, 10_000_000),
    "bytes_per_copy": Own("size of one copy, default a 16-token block of Llama 3 8B", 2 * MIB, 1, 10**15, whole=False),
    "copies": Own("number of copies", 1, 1, 10**12),
    "direction": Own("to the GPU or from it", "h2d", options=("h2d", "d2h")),
}
UNKNOWN_MAX_MODEL_LEN = 8192


def read(choices: Mapping[str, Any], own: tuple[str, ...]) -> tuple[Case, dict[str, Any]]:
    """The Case and the question's own inputs from what was given. Raises CaseError, CatalogError: one sentence."""
    case = case_from({field: value for field, value in choices.items() if field not in own})
    values = {
        field: OWN[field].read(field, choices[field]) if field in choices else OWN[field].default for field in own
    }
    return case, values


def size(case: Case, numbers: Numbers) -> dict[str, Any]:
    """KV of one request: whole, on each GPU, held in blocks, and without a hybrid KV manager. [bytes]"""
    layers, tokens, tp = catalog.model(case.model).kv_layers, numbers["tokens"], case.tp
    width = BYTES_PER_VALUE[case.kv_dtype]
    return {
        "kv_bytes": kv_cache.kv_bytes(layers, tokens, bytes_per_value=width),
        "kv_bytes_per_gpu": kv_cache.kv_bytes(layers, tokens, bytes_per_value=width, tp=tp),
        "growth_bytes_per_token": kv_cache.growth_bytes_per_token(layers, bytes_per_value=width),
        "fixed_bytes": kv_cache.fixed_bytes(layers, bytes_per_value=width),
        "kv_bytes_hybrid_off": kv_cache.kv_bytes_hybrid_off(layers, tokens, bytes_per_value=width),
        "kv_bytes_in_blocks": kv_cache.kv_bytes_in_blocks(
            layers, tokens, block_tokens=numbers["block_tokens"], bytes_per_value=width, tp=tp
        ),
    }


def fields_used(case: Case) -> dict[str, Any]:
    """The figures of a model row that its KV size follows from."""
    model = catalog.model(case.model)
    names = ["num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim"]
    if model.kv_lora_rank:
        names = ["num_hidden_layers", "kv_lora_rank", "qk_rope_head_dim"]
    return {name: getattr(model, name) for name in names} | {
        "kv_dtype": case.kv_dtype,
        "bytes_per_value": BYTES_PER_VALUE[case.kv_dtype],
        "kv_layers": [asdict(group) for group in model.kv_layers],
    }


def pool(case: Case, numbers: Numbers) -> dict[str, Any]:
    """The KV pool of one GPU and the requests it holds. Raises DoesNotFit."""
    model = catalog.model(case.model)
    longest = numbers["max_model_len"] or model.max_position_embeddings or UNKNOWN_MAX_MODEL_LEN
    report = capacity.pool_report(
        model,
        catalog.gpu(case.gpu),
        tp=case.tp,
        kv_dtype=case.kv_dtype,
        block_tokens=case.block_tokens,
        max_num_batched_tokens=case.max_num_batched_tokens,
        max_model_len=longest,
        utilization=numbers["utilization"],
    )
    return {"max_model_len": longest} | report


def require_weights_fit(case: Case) -> None:
    """Raises DoesNotFit where the weights leave no KV pool."""
    model, gpu = catalog.model(case.model), catalog.gpu(case.gpu)
    budget = capacity.memory_budget(model, gpu, tp=case.tp, max_num_batched_tokens=case.max_num_batched_tokens)
    capacity.require_pool(budget, model, gpu, case.tp)


def require_sequence_fits(case: Case, numbers: Numbers) -> None:
    """Raises DoesNotFit where weights, or the KV of one sequence with its past, exceed the GPU's memory."""
    require_weights_fit(case)
    resolve.inputs(replace(case, tokens=int(numbers["tokens"] + numbers["past"]), preemptions=1))


def prefill(case: Case, numbers: Numbers) -> dict[str, Any]:
    """Seconds to prefill with the GPU to itself, their band and floor, and the share of the peak that is used.

    `bound` is the larger of all computing and all moving of weights and activations. Whether the weights fit is
    not asked here: see :func:`require_weights_fit`.
    """
    shape = resolve.model_shape(catalog.model(case.model))
    gpu = resolve.gpu_rates(catalog.gpu(case.gpu), case.timing)
    new, past, sequences = (np.asarray(numbers[name], float) for name in ("tokens", "past", "batch"))
    chunk = np.minimum(numbers["max_num_batched_tokens"], new * sequences)
    kernels_s = step_time.prefill_s(new, past, shape, gpu, tp=case.tp, chunk_tokens=chunk, sequences=sequences)
    timing = f"timing.{case.timing}"
    overhead_s = assumptions.value(timing, "request_overhead_ms") * MS
    seconds = assumptions.value(timing, "engine_factor") * kernels_s + overhead_s
    band = assumptions.value("band", "prefill")
    attention_flop = sequences * step_time.attention_flop(new, past, shape)
    flop = step_time.linear_flop(new * sequences, shape, sampled=sequences) + attention_flop
    computing_s = step_time.compute_s(new * sequences, shape, gpu, tp=case.tp, sampled=sequences)
    computing_s = computing_s + sequences * step_time.attention_s(new, past, shape, gpu, tp=case.tp)
    reads_s = np.ceil(new * sequences / chunk) * step_time.weight_read_s(chunk, shape, gpu, tp=case.tp)
    moving_s = reads_s + step_time.traffic_s(new * sequences, shape, gpu, tp=case.tp)
    return {
        "prefill_s": seconds,
        "low_s": seconds * (1 - band),
        "high_s": seconds * (1 + band),
        "floor_s": step_time.floor_s(new, past, shape, gpu, tp=case.tp, sequences=sequences),
        "bound": np.where(computing_s >= moving_s, "compute", "memory"),
        "mfu": flop / (seconds * case.tp * np.asarray(gpu.peak_flop_per_s)),
    }


def prefill_parts(case: Case, numbers: Numbers) -> dict[str, Any] | None:
    """What the kernels of one sequence's prefill are made of; None for several together."""
    if numbers["batch"] != 1:
        return None
    parts = step_time.prefill_parts_s(
        numbers["tokens"],
        numbers["past"],
        resolve.model_shape(catalog.model(case.model)),
        resolve.gpu_rates(catalog.gpu(case.gpu), case.timing),
        tp=case.tp,
        chunk_tokens=case.max_num_batched_tokens,
    )
    return {f"{name.replace('-', '_')}_s": seconds for name, seconds in parts.items()}


def copy(case: Case, numbers: Numbers) -> dict[str, Any]:
    """Seconds for copies of one size, one way, over one GPU's link; `wire_s` is the part the bytes take."""
    direction, own_rate, own_us = (numbers[name] for name in ("direction", "copy_gb_per_s", "per_copy_us"))
    catalogued = resolve.link_rates(replace(case, copy_gb_per_s=None, per_copy_us=None))
    rate = getattr(catalogued, f"{direction}_bytes_per_s") if own_rate is None else own_rate * GB
    per_copy_s = getattr(catalogued, f"per_copy_{direction}_s") if own_us is None else own_us * US
    size_bytes = np.multiply(numbers["copies"], numbers["bytes_per_copy"])
    seconds = transfer.copy_s(numbers["copies"], size_bytes, per_copy_s=per_copy_s, link_bytes_per_s=rate)
    return {
        "copy_s": seconds,
        "effective_bytes_per_s": transfer.effective_bytes_per_s(size_bytes, seconds),
        "wire_s": transfer.copy_s(0, size_bytes, per_copy_s=0, link_bytes_per_s=rate),
        "per_copy_s": per_copy_s,
        "link_bytes_per_s": rate,
        "total_bytes": size_bytes,
    }


def plain(value: Any) -> Any:
    """The same as JSON has it: no arrays, whole numbers without a fraction, None for what is not finite."""
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return int(value) if value.is_integer() and abs(value) < 2**53 else float(value)
    if isinstance(value, (np.ndarray, np.generic)):
        return plain(value.tolist())
    if isinstance(value, Mapping):
        return {key: plain(part) for key, part in value.items()}
    return [plain(part) for part in value] if isinstance(value, (list, tuple)) else value
