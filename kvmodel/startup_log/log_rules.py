"""What start-up lines print, as data: a pattern and the figures its groups are, for each engine and age.

Words may be wrapped over lines. "GB" in these lines is GiB, as all engines divide by 2^30.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kvmodel.units import GIB, KIB, MIB

UNIT_BYTES = {"gib": GIB, "gb": GIB, "mib": MIB, "mb": MIB, "kib": KIB, "kb": KIB, "bytes": 1}
N = r"([0-9][0-9,]{0,18})"  # a whole number, thousands perhaps separated
X = r"([0-9][0-9,]{0,18}(?:\.[0-9]{1,9})?)"
P = r"([0-9]{1,3}(?:\.[0-9]{1,9})?)"  # a share
S = r"(-?[0-9][0-9,]{0,18}(?:\.[0-9]{1,9})?)\s{0,9}(GiB|GB|MiB|MB|KiB|KB|bytes)"  # a size
DEVICE = "(?:GPU|cuda|CUDA|rocm|xpu|XPU|hpu|HPU|npu|NPU|tpu|TPU|neuron)"


@dataclass(frozen=True)
class Rule:
    """A pattern and the figures its groups are, in order; a size takes two groups."""

    pattern: re.Pattern[str]
    names: tuple[str, ...]


def words(pattern: str) -> re.Pattern[str]:
    """A pattern whose blanks may also be the end of a line."""
    return re.compile(pattern.replace(" ", r"\s{1,9}"))


def _rule(pattern: str, *names: str) -> Rule:
    return Rule(words(pattern), names)


RULES = (
    # vLLM V0
    _rule(rf"# {DEVICE} blocks: {N}, # CPU blocks: {N}", "gpu_blocks", "cpu_blocks"),
    _rule(rf"total_gpu_memory \({S}\)\s*x\s*gpu_memory_utilization \({X}\)\s*=\s*{S}",
          "total_bytes", "utilization", "usable_bytes"),
    _rule(rf"model weights take {S}; non_torch_memory takes {S}; PyTorch activation peak memory takes {S}; "
          rf"the rest of the memory reserved for KV Cache is {S}",
          "weight_bytes", "non_torch_bytes", "activation_bytes", "pool_bytes"),
    _rule(rf"total_gpu_memory={S}", "total_bytes"),
    _rule(rf"peak_torch_memory={S}", "peak_torch_bytes"),
    _rule(rf"non_torch_memory={S}", "non_torch_bytes"),
    _rule(rf"kv_cache_size={S}", "pool_bytes"),
    _rule(rf"max seq len \({N}\) is larger than the maximum number of tokens that can be stored in KV cache \({N}\)",
          "max_model_len", "tokens"),
    # vLLM V1
    _rule(rf"{DEVICE} KV cache size: {N} tokens", "tokens"),
    _rule(rf"CPU KV cache size: {N} tokens", "host_tokens"),
    _rule(rf"CPU KV cache size: {N} blocks", "cpu_blocks"),
    _rule(rf"Maximum concurrency for {N} tokens per request: {X}x", "max_model_len", "concurrency"),
    _rule(rf"Available KV cache memory: {S}", "pool_bytes"),
    _rule(rf"reserved {S} memory for KV Cache as specified", "pool_bytes"),
    _rule(rf"reserved {S} memory for KV Cache as specified", "pinned_bytes"),
    _rule(rf"Explicitly set \({X}/{X}\) GiB for KV cache", "pool_gib", "node_gib"),
    _rule(rf"max seq len \({N}\),? \(?{S} KV cache is needed, which is larger than the available KV cache memory "
          rf"\({S}\)",
          "max_model_len", "needed_bytes", "pool_bytes"),
    _rule(rf"estimated maximum model length is {N}", "longest_tokens"),
    _rule(rf"(?:Loading model weights|Model loading) took {S}", "weight_bytes"),
    _rule(rf"Setting attention block size to {N} tokens", "block_tokens"),
    _rule(rf"Overriding num_gpu_blocks={N} with num_gpu_blocks_override={N}", "profiled_blocks", "blocks_override"),
    _rule(rf"Free memory on device(?: \w{{1,9}}:[0-9]{{1,3}})? \({X}/{S}\) on startup", "free_gib", "total_bytes"),
    _rule(rf"[Dd]esired GPU memory utilization (?:is )?\({X}, {S}\)", "utilization", "usable_bytes"),
    _rule(rf"Actual usage(?: is|:) {S} for consumed memory[^,]{{0,30}}, {S} for peak activation",
          "consumed_bytes", "activation_bytes"),
    _rule(rf"Actual usage(?: is|:) {S} for weights?, {S} for peak activation, {S} for non-torch memory",
          "weight_bytes", "activation_bytes", "non_torch_bytes"),
    _rule(rf", (?:and )?{S} for (?:CUDAGraph|NPU graph) memory", "graph_bytes"),
    _rule(rf"Current kv cache memory in use is {S}", "in_use_bytes"),
    _rule(rf"Estimated CUDA graph memory: {S}", "graph_estimate_bytes"),
    _rule(rf"CUDA graph pool memory: {S} \(actual\), {S} \(estimated\)", "graph_bytes", "graph_estimate_bytes"),
    _rule(rf"Graph capturing finished in {N} secs, took {S}", "capture_s", "graph_bytes"),
    # SGLang
    _rule(rf"KV Cache is allocated\..{{0,80}}?#tokens: {N}, K size: {S}, V size: {S}",
          "tokens", "key_bytes", "value_bytes"),
    _rule(rf"KV Cache is allocated\..{{0,80}}?#tokens: {N}, KV size: {S}", "tokens", "pool_bytes"),
    _rule(rf"Mamba Cache is allocated\. max_mamba_cache_size: {N}, conv_state size: {S}, ssm_state size: {S}",
          "state_slots", "conv_bytes", "state_bytes"),
    _rule(rf"Load weight end\.(?:(?!Load weight ).){{0,300}}?mem usage={S}", "weight_bytes"),
    _rule(rf"max_total_num_tokens={N}", "tokens"),
    _rule(rf"available_[cg]pu_mem={S}", "left_bytes"),
    _rule(rf"Allocating {S} host memory for hierarchical KV cache", "host_bytes"),
    # TensorRT-LLM
    _rule(rf"Allocated {S} for max tokens in paged KV cache \({N}\)", "pool_bytes", "tokens"),
    _rule(rf"Max(?:imum)? (?:KV cache )?(?:pages|blocks)(?: per sequence)?: {N}", "blocks_per_request"),
    _rule(rf"Number of (?:primary )?blocks(?: in KV cache primary pool)?: {N}", "gpu_blocks"),
    _rule(rf"primary blocks={N}, secondary blocks={N}", "gpu_blocks", "host_blocks"),
    _rule(rf"Number of blocks in KV cache secondary pool: {N}", "host_blocks"),
    _rule(rf"tokens per block(?:=|: ){N}", "block_tokens"),
    _rule(rf"max tokens in paged kv cache: total: {S}, available: {S}", "total_bytes", "left_bytes"),
    _rule(rf"Loaded engine size: {S}", "weight_bytes"),
    _rule(rf"hey are reduced to {N}", "longest_tokens"),
    # llama.cpp
    _rule(rf"(?:KV self size|llama_kv_cache\w{{0,20}}: size)\s*=\s*{S}(?: \(\s*{N} cells)?", "pool_bytes", "tokens"),
)  # fmt: skip
EQUIVALENT = words(
    rf"gpu-memory-utilization={P} is equivalent to --gpu-memory-utilization={P} without(?: CUDA graph memory "
    rf"profiling\. To maintain the same effective KV cache size as before, increase --gpu-memory-utilization to {P})?"
)
IN_GIB = {"free_gib": "free_bytes", "pool_gib": "pool_bytes"}  # their unit stands after another number
NOT_KEPT = ("capture_s", "node_gib")
SIZES = tuple(name for rule in RULES for name in rule.names if name.endswith("_bytes"))
SETTINGS = {  # of an engine's own log, a dict, JSON, YAML or a command line
    "tensor_parallel_size": "tp", "tp_size": "tp", "pipeline_parallel_size": "pp", "pp_size": "pp",
    "decode_context_parallel_size": "dcp", "data_parallel_size": "dp", "dp_size": "dp",
    "max_model_len": "max_model_len", "max_seq_len": "max_model_len", "context_len": "max_model_len",
    "context_length": "max_model_len", "block_size": "block_tokens", "page_size": "block_tokens",
    "tokens_per_block": "block_tokens", "max_num_batched_tokens": "max_num_batched_tokens",
    "max_num_tokens": "max_num_batched_tokens", "max_num_seqs": "max_num_seqs",
    "max_running_requests": "max_num_seqs", "max_num_requests": "max_num_seqs",
    "gpu_memory_utilization": "utilization", "mem_fraction_static": "mem_fraction", "swap_space": "swap_gib",
    "num_gpu_blocks_override": "blocks_override", "kv_cache_memory_bytes": "pinned_bytes",
    "kv_cache_memory": "pinned_bytes",
}  # fmt: skip
SETTING = re.compile(  # not "`--kv-cache-memory=...`", which vLLM only recommends
    r"\b(?<!`--)("
    + "|".join(sorted((key.replace("_", "[_-]") for key in SETTINGS), key=len, reverse=True))
    + r")['\"]?(?:\s{0,3}[=:]\s{0,3}|\s{1,3})['\"]?([0-9]{1,15}(?:\.[0-9]{1,9})?)([kKmMgG]?)\b"
)
SUFFIX = {"": 1, "k": 1000, "K": KIB, "m": 10**6, "M": MIB, "g": 10**9, "G": GIB}
VERSION = r"([0-9]{1,4}\.[0-9]{1,4}(?:\.[0-9]{1,4})?)"
NAME = r"[^'\"\s,)}]{1,200}"
WORDS = {
    "model": (
        rf"config: model=['\"]({NAME})['\"]", rf"[(\s,]model_path=['\"]({NAME})['\"]",
        rf"['\"]model(?:_path)?['\"]: ['\"]({NAME})['\"]",
        rf"[(\s,]model=['\"]({NAME})['\"]", rf"--model(?:-path)?[= ]({NAME})",
        rf"vllm serve ([^-\s]{NAME})", rf"trtllm-serve ([^-\s]{NAME})",
        rf"Starting to load model ({NAME}?)\.\.\.", rf"(?m)^[ -]{{0,20}}model: ({NAME})",
    ),
    "kv_dtype": (
        r"KV Cache is allocated\. dtype: (?:torch\.)?([a-z0-9_]{2,24})",
        r"kv[_-]cache[_-]dtype['\"]?(?:\s{0,3}[=:]\s{0,3}|\s)['\"]?(?:torch\.)?(?!auto|None|null)([a-z0-9_]{2,24})",
        r"(?:kv_cache_config|KvCacheConfig)(?:(?!KvCacheC|kv_cache_c)[^\x00]){0,300}?\bdtype['\"]?\s?[=:]\s?['\"]?(?!auto|None|null)([a-z0-9_]{2,24})",
        r"llama_kv_cache(?:(?!llama_kv_).){0,160}?K \(([a-z0-9_]{2,8})\)",
        r"Using (fp8)(?:_e\wm\w)? data type to store kv cache",
        r"kv[_-]cache[_-]dtype['\"]?(?:\s{0,3}[=:]\s{0,3}|\s)['\"]?(auto)",
    ),
    "draft": (
        r"SpeculativeConfig\(method=['\"]([\w-]{1,40})", r"speculative_algorithm=['\"]([\w-]{1,40})",
        r"speculative_config['\"]?[=:] ?['\"]?\{(?:(?!speculative_c).){0,200}?['\"]method['\"]: ['\"]([\w-]{1,40})",
        r"speculative_model=['\"]([^'\"\s]{1,200})",
    ),
    "attention_dp": (  # attention of each data-parallel rank by itself, the rest split over all
        r"enable[_-]dp[_-]attention['\"]?[=:] ?['\"]?([Tt]rue)", r"--enable-dp-(attention)",
        r"enable_attention_dp['\"]?[=:] ?['\"]?([Tt]rue)",
    ),
    "partition": (r"VLLM_PP_LAYER_PARTITION['\"]?\s{0,3}[=:]\s{0,3}['\"]?([0-9]{1,4}(?:, ?[0-9]{1,4}){1,63})",),
    "version": (
        rf"LLM engine \(v?{VERSION}", rf"vLLM API server version v?{VERSION}", rf"vLLM version:? v?{VERSION}",
        rf"TensorRT-LLM version:? v?{VERSION}", rf"[█▀▄] {{1,9}}version v?{VERSION}",
    ),
}  # fmt: skip
ALL_SETTINGS = re.compile(
    r"LLM engine \(v[0-9.a-z+]{1,40}\) with config:|non-default args: ?\{|ServerArgs\(model_path="
)
ENGINES = (
    ("sglang", r"KV Cache is allocated|max_total_num_tokens|mem[_-]fraction[_-]static|ServerArgs\(|sglang"),
    ("sglang", r"memory capacity is unbalanced"),
    ("trt-llm", r"TensorRT-LLM|TRT-LLM|trtllm|paged KV cache|\[TRT|KV cache manager's maximum|kvCache|PagedKvCache"),
    ("llama.cpp", r"llama_kv_cache|KV self size|llama_init_from_model|buffer for kv cache|llama_model_load"),
    ("vllm-v0", rf"# {DEVICE} blocks:|Initializing an LLM engine|V0 LLM engine"),
    ("vllm", r"KV cache size: [0-9,]{1,20} tokens|Available KV cache memory|KV cache is needed|EngineCore|V1 LLM"),
    ("vllm-v0", r"number of tokens that can be\s{1,9}stored in KV cache"),
    ("vllm", r"gpu_memory_utilization|GPU memory utilization|KV Cache as specified|[Vv][Ll][Ll][Mm]"),
    ("vllm", r"Engine core initialization|Mamba cache blocks"),
)  # fmt: skip
SINCE_0_21 = re.compile(  # 0.33 prints tokens and concurrency in one line; the others are later than 0.21 too
    r"KV cache size: [0-9,]{1,20} tokens, Maximum concurrency|default since v0\.21\.0|for consumed memory \(weights"
)
PROCESS = re.compile(
    r"\(((?:[A-Za-z]{1,20}_?)?(?:Worker|EngineCore|Actor)[A-Za-z0-9_]{0,40}(?: rank=[0-9]{1,4})?) pid=([0-9]{1,9})"
)
RANK = re.compile(r"^.{0,60}?\b((?:DP[0-9]{1,4} ?)?(?:PP[0-9]{1,4} ?)?TP[0-9]{1,4})\b")
