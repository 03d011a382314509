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

from kvmodel import (
    assumptions,
    capacity,
    catalog,
    engine_time,
    hf_config,
    kv_cache,
    pool_answers,
    resolve,
    step_time,
    transfer,
)
from kvmodel.case import BYTES_PER_VALUE, Case, CaseError, case_from
from kvmodel.copy_path import copy_path
from kvmodel.units import GB, MIB, US

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
    "scrape": Own("the text of an engine's /metrics page", text="a file, or - for standard input"),
    "scrape2": Own("the same page some time later", text="a file"),
    "seconds": Own("time from SCRAPE to SCRAPE2", None, 0.001, 10_000_000, whole=False),
    "prometheus": Own("ask a Prometheus in place of a scrape", text="an address such as http://localhost:9090"),
    "window": Own("how far back to ask it", "1h", text="such as 15m, 1h or 2d"),
    "match": Own("of its series only those with these labels", text="label matchers, such as 'job=\"vllm\"'"),
    "gpu_hour": Own("price of a GPU for an hour, in any currency", None, 0, 1_000_000, whole=False),
    "engine_version": Own("version of the engine, where known", text="numbers with dots, such as 0.24.0"),
    "model": Own("model, where the served name is none of the catalog's", text="an id such as llama-3-8b"),
    "gpu": Own("GPU of the server, which no metric tells", text="an id such as h100-sxm5-80gb"),
    "prefill_s": Own("measured prefill of --tokens tokens", None, 1e-6, 1e6, whole=False),
    "prefill2_tokens": Own("length of a second measured prefill", None, 1, 10_000_000),
    "prefill2_s": Own("its time", None, 1e-6, 1e6, whole=False),
    "copy_s": Own("measured copy of the KV of --tokens tokens, one way", None, 1e-6, 1e6, whole=False),
    "copy2_tokens": Own("length of a second measured copy", None, 1, 10_000_000),
    "copy2_s": Own("its time", None, 1e-6, 1e6, whole=False),
    "file": Own("a file", text="a path"),
    "workload": Own("what arrives", "chat", text="chat, retrieval, long-documents, agents or real-run"),
    "trace": Own("requests of your own", text="a CSV file with arrival_s, prompt_tokens and output_tokens"),
    "requests": Own("how many, default 500 or the whole trace", None, 1, 1_000_000),
    "requests_per_s": Own("arrivals a second, default the workload's", None, 0.000_001, 1_000_000, whole=False),
    "burstiness": Own("spread of the gaps between arrivals: 0 even, 1 Poisson", None, 0, 100, whole=False),
    "clients": Own("that many send one request after another, in place of a rate", None, 1, 1_000_000),
    "seed": Own("of arrivals and lengths", 0, 0, 2**63 - 1),
    "scheduler": Own(
        "whose scheduler", "vllm-v1",
        text="vllm-v1, vllm-v1-first-chunk, vllm-v1-offload, vllm-v1-offload-all, vllm-v0, vllm-v0-swap, sglang, "
        "sglang-hicache, trtllm-no-evict, trtllm-suspend or wait",
    ),
    "num_blocks": Own("blocks of the pool, default what memory leaves", None, 1, 100_000_000),
    "max_num_seqs": Own("requests in a step, default the engine's", None, 1, 100_000),
    "watermark": Own("share of blocks that admission leaves free", None, 0, 0.99, whole=False),
    "host_gib": Own("host memory for KV, default twice the pool", None, 0, 1_000_000, whole=False),
    "slo_ttft_s": Own("objective: first token within", 2.0, 0.000_001, 1_000_000, whole=False),
    "slo_tpot_ms": Own("objective: each later token within", 50.0, 0.001, 1_000_000, whole=False),
    "config": Own("a model's config.json, in place of --model", text="a path"),
    "assume_defaults": Own("accept the class's defaults for dimensions that the config.json leaves out", switch=True),
    "draft_layers": Own("layers of a draft (EAGLE, MTP) that keep KV beside the model's own", 0, 0, 8),
    "pp": Own("pipeline stages", 1, 1, 64),
    "dcp": Own("ranks that share out the tokens of a request (decode context parallel)", 1, 1, 64),
    "swap_gib": Own("host memory for swapped blocks of each GPU, vLLM V0", 4, 0, 100_000, whole=False),
    "draft_tokens": Own("speculative tokens, each of which adds a state block", 0, 0, 64),
}
CONFIG = ("config", "assume_defaults", "draft_layers")
UNKNOWN_MAX_MODEL_LEN = 8192


def read(choices: Mapping[str, Any], own: tuple[str, ...]) -> tuple[Case, dict[str, Any]]:
    """The Case and the question's own inputs from what was given. Raises CaseError, CatalogError: one sentence."""
    choices, reading = with_config(choices) if "config" in own else (choices, None)
    case = case_from({field: value for field, value in choices.items() if field not in own})
    values = {
        field: OWN[field].read(field, choices[field]) if field in choices else OWN[field].default for field in own
    }
    return case, {field: value for field, value in values.items() if field not in CONFIG} | (
        {"reading": reading} if "config" in own else {}
    )


def with_config(choices: Mapping[str, Any]) -> tuple[Mapping[str, Any], hf_config.Reading | None]:
    """Inputs with the model that `config` names as a text in place of the file, and how that was read.

    Raises CaseError, ConfigRefused.
    """
    if "config" not in choices:
        return choices, None
    if "model" in choices:
        raise CaseError("config: given with a model; allowed: one of the two")
    drafts = OWN["draft_layers"].read("draft_layers", choices.get("draft_layers", 0))
    assume = bool(choices.get("assume_defaults"))
    reading = hf_config.read_file(str(choices["config"]), assume_defaults=assume, draft_layers=drafts)
    rest = {field: value for field, value in choices.items() if field not in CONFIG}
    return rest | {"model": reading.text}, reading


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


def fields_used(case: Case, reading: hf_config.Reading | None = None) -> dict[str, Any]:
    """The figures that a model's KV size follows from: of its row, or the keys of its config.json."""
    model = catalog.model(case.model)
    if reading is not None:
        return dict(reading.used) | {
            "section": reading.section,
            "kv_dtype": case.kv_dtype,
            "bytes_per_value": BYTES_PER_VALUE[case.kv_dtype],
            "kv_layers": [asdict(group) for group in model.kv_layers],
        }
    names = ["num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim"]
    if model.kv_lora_rank:
        names = ["num_hidden_layers", "kv_lora_rank", "qk_rope_head_dim"]
    return {name: getattr(model, name) for name in names} | {
        "kv_dtype": case.kv_dtype,
        "bytes_per_value": BYTES_PER_VALUE[case.kv_dtype],
        "kv_layers": [asdict(group) for group in model.kv_layers],
    }


def read_from(reading: hf_config.Reading | None) -> dict[str, Any]:
    """What a config.json says beside the KV: what was assumed, parameters, weights; nothing for a model of the catalog."""
    if reading is None:
        return {}
    counted = reading.parameters
    return {
        "assumed": reading.assumed,
        "notes": list(reading.notes),
        "parameters": counted.total if counted else None,
        "active_parameters": counted.active if counted else None,
        "weight_bytes": reading.model.counts.weight_bytes if reading.model.counts else None,
        "fixed_state_bytes_transformers": reading.fixed_bytes_transformers,
    }


def pool(case: Case, numbers: Numbers) -> dict[str, Any]:
    """The KV pool of one GPU, the requests it holds, and how each engine prints it. Raises DoesNotFit."""
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
        pp=numbers["pp"],
    )
    settings = {name: numbers[name] for name in ("pp", "dcp", "swap_gib", "draft_tokens")}
    lines = pool_answers.prints(case, report["pool_bytes"], max_model_len=longest, **settings)
    freed = pool_answers.levers(case, utilization=numbers["utilization"], tokens=longest)
    return {"max_model_len": longest} | report | {"printed": pool_answers.as_rows(lines), "levers": freed}


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
    gpu = resolve.case_rates(case)
    new, past, sequences = (np.asarray(numbers[name], float) for name in ("tokens", "past", "batch"))
    chunk = np.minimum(numbers["max_num_batched_tokens"], new * sequences)
    kernels_s = step_time.prefill_s(new, past, shape, gpu, tp=case.tp, chunk_tokens=chunk, sequences=sequences)
    steps = np.ceil(new * sequences / chunk)
    seconds = engine_time.request_s(kernels_s, steps, resolve.case_engine(case))
    band = assumptions.value("band", resolve.prefill_band_kind(case.gpu, case.timing))
    attention_flop = sequences * step_time.attention_flop(new, past, shape)
    flop = step_time.linear_flop(new * sequences, shape, sampled=sequences) + attention_flop
    computing_s = step_time.compute_s(new * sequences, shape, gpu, tp=case.tp, sampled=sequences)
    computing_s = computing_s + sequences * step_time.attention_s(new, past, shape, gpu, tp=case.tp)
    reads_s = steps * step_time.weight_read_s(chunk, shape, gpu, tp=case.tp)
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
        resolve.case_rates(case),
        tp=case.tp,
        chunk_tokens=case.max_num_batched_tokens,
    )
    return {f"{name.replace('-', '_')}_s": seconds for name, seconds in parts.items()}


def copy(case: Case, numbers: Numbers) -> dict[str, Any]:
    """Seconds for copies of one size, one way, over one GPU's link; `wire_s` is the part the bytes take.

    `gpu_s` is GPU time that a copy kernel takes from others, `pin_s` what locking the host memory takes, once.
    """
    direction, own_rate, own_us = (numbers[name] for name in ("direction", "copy_gb_per_s", "per_copy_us"))
    path = copy_path(replace(case, copy_gb_per_s=None, per_copy_us=None))
    rate = getattr(path, f"{direction}_bytes_per_s") if own_rate is None else own_rate * GB
    per_copy_s = getattr(path, f"per_copy_{direction}_s") if own_us is None else own_us * US
    method: Any = path.method
    sm_share: Any = path.sm_share
    size_bytes = np.multiply(numbers["copies"], numbers["bytes_per_copy"])
    if path.small_loads and direction == "h2d":
        small = transfer.below_cliff(numbers["copies"], size_bytes, path.small_loads.cliff_bytes)
        rate = np.where(small, np.minimum(rate, path.small_loads.most_bytes_per_s), rate)
        per_copy_s = np.where(small, path.small_loads.per_copy_s, per_copy_s)
        method = np.where(small, path.small_loads.method, method)
        sm_share = np.where(small, path.small_loads.sm_share, sm_share)
    seconds = transfer.copy_s(numbers["copies"], size_bytes, per_copy_s=per_copy_s, link_bytes_per_s=rate)
    return {
        "copy_s": seconds,
        "effective_bytes_per_s": transfer.effective_bytes_per_s(size_bytes, seconds),
        "wire_s": transfer.copy_s(0, size_bytes, per_copy_s=0, link_bytes_per_s=rate),
        "per_copy_s": per_copy_s,
        "link_bytes_per_s": rate,
        "total_bytes": size_bytes,
        "method": method,
        "gpu_s": sm_share * seconds,
        "pin_s": path.pin_s_per_byte * size_bytes,
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
