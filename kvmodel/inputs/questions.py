"""Inputs that only some questions have, beside the Case's: what each is for, its limits, and how it is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kvmodel.inputs import addresses
from kvmodel.inputs.case import DEFAULTS
from kvmodel.limits import Limits, number, one_of, switch, text, whole
from kvmodel.units import MIB

ENGINES = ("vllm", "sglang", "tensorrt-llm", "triton")  # as data/metrics.toml has them


@dataclass(frozen=True)
class Input:
    """An input that only some questions have: what it is for, what it takes, and its value where it is left out."""

    help: str
    limits: Limits
    default: Any = None
    many: bool = False  # may be given several times

    def read(self, field: str, value: Any) -> Any:
        """The value in its type. Raises CaseError with one sentence."""
        return [self.limits.read(field, each) for each in value] if self.many else self.limits.read(field, value)


INPUTS = {
    "utilization": Input("share of the GPU's memory the engine may use", number(0.01, 1)),
    "max_model_len": Input("longest request, default what the model allows, else 8,192", whole(1, 10_000_000)),
    "batch": Input("equal sequences prefilled together", whole(1, 100_000), 1),
    "past": Input("tokens of each sequence already in the cache", whole(0, 10_000_000), 0),
    "bytes_per_copy": Input("size of one copy, default a 16-token block of Llama 3 8B", number(1, 10**15), 2 * MIB),
    "copies": Input("number of copies", whole(1, 10**12), 1),
    "direction": Input("to the GPU or from it", one_of("h2d", "d2h"), "h2d"),
    "scrape": Input("the text of an engine's /metrics page", text("a file, or - for standard input")),
    "scrape2": Input("the same page some time later", text("a file")),
    "seconds": Input("time from SCRAPE to SCRAPE2", number(0.001, 10_000_000)),
    "prometheus": Input("ask a Prometheus in place of a scrape", text("an address such as http://localhost:9090")),
    "window": Input("how far back to ask it", text("such as 15m, 1h or 2d"), "1h"),
    "product": Input("engine whose newest names count, without a scrape", one_of(*ENGINES)),
    "match": Input("of its series only those with these labels", text("label matchers, such as 'job=\"vllm\"'")),
    "gpu_hour": Input("price of a GPU for an hour, in any currency", number(0, 1_000_000)),
    "engine_version": Input("version of the engine, where known", text("numbers with dots, such as 0.24.0")),
    "model": Input("model, where the served name is none of the catalog's", text("an id such as llama-3-8b")),
    "gpu": Input("GPU of the server, which no metric tells", text("an id such as h100-sxm5-80gb")),
    "prefill_s": Input("measured prefill of --tokens tokens", number(1e-6, 1e6)),
    "prefill2_tokens": Input("length of a second measured prefill", whole(1, 10_000_000)),
    "prefill2_s": Input("its time", number(1e-6, 1e6)),
    "copy_s": Input("measured copy of the KV of --tokens tokens, one way", number(1e-6, 1e6)),
    "copy2_tokens": Input("length of a second measured copy", whole(1, 10_000_000)),
    "copy2_s": Input("its time", number(1e-6, 1e6)),
    "file": Input("a file", text("a path")),
    "workload": Input("what arrives", text("chat, retrieval, long-documents, agents or real-run"), "chat"),
    "trace": Input("requests of your own", text("a CSV file with arrival_s, prompt_tokens and output_tokens")),
    "requests": Input("how many, default 500 or the whole trace", whole(1, 1_000_000)),
    "requests_per_s": Input("arrivals a second, default the workload's", number(0.000_001, 1_000_000)),
    "burstiness": Input("spread of the gaps between arrivals: 0 even, 1 Poisson", number(0, 100)),
    "clients": Input("that many send one request after another, in place of a rate", whole(1, 1_000_000)),
    "seed": Input("of arrivals and lengths", whole(0, 2**63 - 1), 0),
    "scheduler": Input(
        "whose scheduler",
        text(
            "vllm-v1, vllm-v1-first-chunk, vllm-v1-offload, vllm-v1-offload-all, vllm-v0, vllm-v0-swap, sglang, "
            "sglang-hicache, trtllm-no-evict, trtllm-suspend or wait"
        ),
        "vllm-v1",
    ),
    "num_blocks": Input(
        "blocks that requests can have, default what memory leaves; vLLM V1's num_gpu_blocks less its null block",
        whole(1, 100_000_000),
    ),
    "max_num_seqs": Input("requests in a step, default the engine's", whole(1, 100_000)),
    "watermark": Input("share of blocks that admission leaves free", number(0, 0.99)),
    "host_gib": Input("host memory for KV, default twice the pool", number(0, 1_000_000)),
    "objective": Input(
        "what the remedies are for", text("preemptions, throughput, ttft-p99 or itl-p99"), "preemptions"
    ),
    "over": Input("an input to sweep; again for another", text("as tokens=1024,4096"), many=True),
    "what": Input("the question asked of each case", one_of("compare", "pressure"), "compare"),
    "processes": Input("of this machine, default as many as it has cores", whole(1, 1024)),
    "dask": Input("compute on the workers of a Dask scheduler", text("its address, such as tcp://localhost:8786")),
    "slo_ttft_s": Input("objective: first token within", number(0.000_001, 1_000_000), 2.0),
    "slo_tpot_ms": Input("objective: each later token within", number(0.001, 1_000_000), 50.0),
    "app_url": Input("where the app runs, for the memo's link", text(addresses.ALLOWED_APP), addresses.APP),
    "config": Input("a model's config.json, in place of --model", text("a path")),
    "assume_defaults": Input("accept the class's defaults for dimensions that the config.json leaves out", switch()),
    "draft_layers": Input("layers of a draft (EAGLE, MTP) that keep KV beside the model's own", whole(0, 8), 0),
    "state_dtype": Input(
        "how wide an engine keeps recurrent states; auto: as the file says, else vLLM in 16 bits and others in fp32",
        one_of("auto", "16-bit", "fp32"),
        "auto",
    ),
    "pp": Input("pipeline stages", whole(1, 64), 1),
    "pp_partition": Input("layers of each stage, where they differ", text("numbers such as 23,23,24,22")),
    "dcp": Input("ranks that share out the tokens of a request (decode context parallel)", whole(1, 64), 1),
    "swap_gib": Input("host memory for swapped blocks of each GPU, vLLM V0", number(0, 100_000), 4),
    "offload_gib": Input("host memory for an offload pool, of all GPUs together", number(0, 1_000_000)),
    "weight_gib": Input("weights of one GPU as a start-up log prints them, loaded", number(0.001, 100_000)),
    "unchunked": Input("prefill whole prompts at once, as vLLM V0 did below 32K tokens", switch()),
    "draft_tokens": Input("speculative tokens, each of which adds a state block", whole(0, 64), 0),
}
CONFIG = ("config", "assume_defaults", "draft_layers", "state_dtype")
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
# By the question that is asked of each case of a grid.
GRID_INPUTS = {"compare": CASE, "pressure": (*SERVER, *LOAD, *SLO)}
