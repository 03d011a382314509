"""Inputs that only some questions have, beside the Case's: what each is for, its limits, and how it is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kvmodel.errors import CaseError
from kvmodel.inputs import addresses
from kvmodel.inputs.case import DEFAULTS
from kvmodel.units import MIB

ENGINES = ("vllm", "sglang", "tensorrt-llm", "triton")  # as data/metrics.toml has them


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
    many: bool = False  # may be given several times

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
        if self.text:
            return given
        if self.switch:
            return switched(field, given)
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


def switched(field: str, given: object) -> bool:
    """A flag is there or not; a column says true or false. Raises CaseError."""
    words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    value = words.get(str(given).strip().lower())
    if value is None:
        raise CaseError(f"{field}: {str(given)[:40]!r} given; allowed: true or false")
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
    "product": Own("engine whose newest names count, without a scrape", options=ENGINES),
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
        "whose scheduler",
        "vllm-v1",
        text="vllm-v1, vllm-v1-first-chunk, vllm-v1-offload, vllm-v1-offload-all, vllm-v0, vllm-v0-swap, sglang, "
        "sglang-hicache, trtllm-no-evict, trtllm-suspend or wait",
    ),
    "num_blocks": Own("blocks of the pool, default what memory leaves", None, 1, 100_000_000),
    "max_num_seqs": Own("requests in a step, default the engine's", None, 1, 100_000),
    "watermark": Own("share of blocks that admission leaves free", None, 0, 0.99, whole=False),
    "host_gib": Own("host memory for KV, default twice the pool", None, 0, 1_000_000, whole=False),
    "objective": Own("what the remedies are for", "preemptions", text="preemptions, throughput, ttft-p99 or itl-p99"),
    "over": Own("an input to sweep; again for another", text="as tokens=1024,4096", many=True),
    "what": Own("the question asked of each case", "compare", options=("compare", "pressure")),
    "processes": Own("of this machine, default as many as it has cores", None, 1, 1024),
    "dask": Own("compute on the workers of a Dask scheduler", text="its address, such as tcp://localhost:8786"),
    "slo_ttft_s": Own("objective: first token within", 2.0, 0.000_001, 1_000_000, whole=False),
    "slo_tpot_ms": Own("objective: each later token within", 50.0, 0.001, 1_000_000, whole=False),
    "app_url": Own("where the app runs, for the memo's link", addresses.APP, text=addresses.ALLOWED_APP),
    "config": Own("a model's config.json, in place of --model", text="a path"),
    "assume_defaults": Own("accept the class's defaults for dimensions that the config.json leaves out", switch=True),
    "draft_layers": Own("layers of a draft (EAGLE, MTP) that keep KV beside the model's own", 0, 0, 8),
    "pp": Own("pipeline stages", 1, 1, 64),
    "dcp": Own("ranks that share out the tokens of a request (decode context parallel)", 1, 1, 64),
    "swap_gib": Own("host memory for swapped blocks of each GPU, vLLM V0", 4, 0, 100_000, whole=False),
    "offload_gib": Own("host memory for an offload pool, of all GPUs together", None, 0, 1_000_000, whole=False),
    "unchunked": Own("prefill whole prompts at once, as vLLM V0 did below 32K tokens", switch=True),
    "draft_tokens": Own("speculative tokens, each of which adds a state block", 0, 0, 64),
}
CONFIG = ("config", "assume_defaults", "draft_layers")
CASE = tuple(DEFAULTS)
SERVER = (  # of a Case under a workload
    "model", "gpu", "tp", "kv_dtype", "block_tokens", "max_num_batched_tokens", "timing", "link", "rate", "layout",
    "copy_gb_per_s", "per_copy_us",
)  # fmt: skip
LOAD = (  # the workload, and how the engine is started
    "workload", "trace", "requests", "requests_per_s", "burstiness", "clients", "seed", "scheduler", "num_blocks",
    "utilization", "max_num_seqs", "watermark", "host_gib",
)  # fmt: skip
SLO = ("slo_ttft_s", "slo_tpot_ms")
SWEPT = {"compare": CASE, "pressure": (*SERVER, *LOAD, *SLO)}  # the inputs of each question that a grid can be asked
