"""Logs to try: lines as servers print them, with the numbers of public reports; names and hosts made up."""
# ruff: noqa: E501 - lines are as long as engines print them

ENGINE = (
    "INFO 10-08 16:50:22 [core.py:129] Initializing a V1 LLM engine (v{version}) with config: model='{model}', "
    "speculative_config=None, tensor_parallel_size={tp}, pipeline_parallel_size=1, kv_cache_dtype=auto\n"
)
MOE_AT_4 = (
    ENGINE.format(version="0.27.1", model="Qwen/Qwen3-235B-A22B-Instruct-2507-FP8", tp=4)
    + """\
(Worker_TP0 pid=770) INFO 08-21 18:18:05 [gpu_model_runner.py:5405] Model loading took 55.19 GiB memory and 48.5 seconds
(EngineCore pid=558) INFO 08-21 18:21:55 [kv_cache_utils.py:2235] GPU KV cache size: 621,392 tokens
(EngineCore pid=558) INFO 08-21 18:21:55 [kv_cache_utils.py:2236] Maximum concurrency for 32,768 tokens per request: 18.96x
(Worker_TP1 pid=771) INFO 08-21 18:22:06 [gpu_worker.py:789] Free memory on device (94.05/95.01 GiB) on startup. Desired GPU memory utilization is (0.9, 85.51 GiB). Actual usage is 56.89 GiB for consumed memory (weights + non-torch), 0.76 GiB for peak activation, and 0.32 GiB for CUDAGraph memory. Replace gpu_memory_utilization config with `--kv-cache-memory=29407858586` (27.39 GiB) to fit into requested memory, or `--kv-cache-memory=38581581312` (35.93 GiB) to fully utilize gpu memory. Current kv cache memory in use is 27.85 GiB.
"""
)
OLDER_BUDGET = """\
(Worker_TP1 pid=6) INFO 10-23 15:14:56 [gpu_worker.py:391] Free memory on device (139.21/139.81 GiB) on startup. Desired GPU memory utilization is (0.9, 125.83 GiB). Actual usage is 74.28 GiB for weight, 5.58 GiB for peak activation, 1.38 GiB for non-torch memory, and 2.37 GiB for CUDAGraph memory. Replace gpu_memory_utilization config with `--kv-cache-memory=45175492096` to fit into requested memory, or `--kv-cache-memory=59540753920` to fully utilize gpu memory. Current kv cache memory in use is 47878721024 bytes.
"""
AWQ = (
    ENGINE.format(version="0.31.0", model="Qwen/Qwen2.5-7B-Instruct-AWQ", tp=1)
    + """\
INFO 10-08 16:50:26 [model_runner.py:407] Model loading took 5.38 GiB memory and 2.637574 seconds
INFO 10-08 16:50:30 [gpu_worker.py:692] Available KV cache memory: 34.79 GiB
INFO 10-08 16:50:30 [kv_cache_utils.py:2464] GPU KV cache size: 651,504 tokens, Maximum concurrency for 4,096 tokens per request: 159.06x
"""
)
WITHOUT_SETTINGS = """\
(EngineCore pid=326) INFO 10-06 17:00:33 [kv_cache_utils.py:2464] GPU KV cache size: 460,496 tokens, Maximum concurrency for 131,072 tokens per request: 3.51x
(EngineCore pid=326) INFO 10-06 17:00:41 [gpu_worker.py:955] Free memory on device (78.84/79.25 GiB) on startup. Desired GPU memory utilization is (0.92, 72.91 GiB). Actual usage is 15.26 GiB for consumed memory (weights + non-torch), 1.44 GiB for peak activation, and 0.23 GiB for CUDAGraph memory.
(EngineCore pid=326) INFO 10-06 17:00:33 [gpu_worker.py:692] Available KV cache memory: 56.21 GiB
"""
GRAPHS = """\
(EngineCore pid=4) INFO 08-23 09:39:41 CUDA graph memory profiling is enabled (default since v0.21.0). The current --gpu-memory-utilization=0.9200 is equivalent to --gpu-memory-utilization=0.9038 without CUDA graph memory profiling. To maintain the same effective KV cache size as before, increase --gpu-memory-utilization to 0.9362. To disable, set VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0.
(EngineCore pid=4) INFO 08-23 09:39:41 [kv_cache_utils.py:2235] GPU KV cache size: 820,013 tokens
(EngineCore pid=4) INFO 08-23 09:39:41 [kv_cache_utils.py:2236] Maximum concurrency for 786,432 tokens per request: 1.04x
(EngineCore pid=4) INFO 08-23 09:40:11 [gpu_worker.py:726] CUDA graph pool memory: 0.94 GiB (actual), 1.94 GiB (estimated), difference: 1.01 GiB (107.2%).
(EngineCore pid=4) INFO 08-23 09:40:11 [gpu_worker.py:789] Free memory on device (112.26/119.63 GiB) on startup. Desired GPU memory utilization is (0.92, 110.06 GiB). Actual usage is 55.99 GiB for consumed memory (weights + non-torch), 3.78 GiB for peak activation, and 0.94 GiB for CUDAGraph memory. Current kv cache memory in use is 50.29 GiB.
"""
PINNED = """\
(EngineCore pid=8) INFO 08-23 22:37:34 [gpu_worker.py:491] Initial free memory 111.7 GiB, reserved 37.11 GiB memory for KV Cache as specified by kv_cache_memory_bytes config and skipped memory profiling. This does not respect the gpu_memory_utilization config.
(EngineCore pid=8) INFO 08-23 22:37:34 [kv_cache_utils.py:2235] GPU KV cache size: 1,209,295 tokens
(EngineCore pid=8) INFO 08-23 22:37:34 [kv_cache_utils.py:2236] Maximum concurrency for 1,048,576 tokens per request: 1.15x
"""
OVERRIDE = """\
INFO Available KV cache memory: 5.38 GiB
INFO Overriding num_gpu_blocks=2453 with num_gpu_blocks_override=512
INFO GPU KV cache size: 8,192 tokens
INFO Maximum concurrency for 4,096 tokens per request: 2.00x
"""
SGLANG = """\
[2026-05-28 05:58:01] server_args=ServerArgs(model_path='meta-llama/Llama-3.1-8B-Instruct', tp_size=1, kv_cache_dtype='auto', mem_fraction_static=0.83, page_size=1)
[2026-05-28 05:58:11] Load weight end. elapsed=10.5 s, type=LlamaForCausalLM, dtype=torch.bfloat16, avail mem=63.12 GB, mem usage=15.06 GB.
[2026-05-28 05:58:21] KV Cache is allocated. dtype: torch.bfloat16, #tokens: 204800, K size: 12.50 GB, V size: 12.50 GB
[2026-05-28 05:58:25] max_total_num_tokens=204800, chunked_prefill_size=8192, max_prefill_tokens=16384, max_running_requests=128, context_len=131072, available_gpu_mem=34.05 GB
"""
TRT = """\
[TensorRT-LLM][INFO] Memory usage when calculating max tokens in paged kv cache: total: 79.10 GiB, available: 63.62 GiB
[TensorRT-LLM][INFO] Number of blocks in KV cache primary pool: 4607
[TensorRT-LLM][INFO] Number of blocks in KV cache secondary pool: 12, onboard blocks to primary memory before reuse: true
[TensorRT-LLM][INFO] Max KV cache pages per sequence: 65
[TensorRT-LLM][INFO] Number of tokens per block: 64.
[TensorRT-LLM][INFO] [MemUsageChange] Allocated 62.99 GiB for max tokens in paged KV cache (294848).
"""
DATA_PARALLEL = """\
(APIServer pid=1) INFO non-default args: {'model': 'Qwen/Qwen3-8B', 'data_parallel_size': 2}
(EngineCore_DP0 pid=2) INFO Available KV cache memory: 36.88 GiB
(EngineCore_DP1 pid=3) INFO Available KV cache memory: 30.00 GiB
(EngineCore_DP0 pid=2) INFO GPU KV cache size: 268,560 tokens, Maximum concurrency for 2,048 tokens per request: 131.13x
(EngineCore_DP1 pid=3) INFO GPU KV cache size: 218,448 tokens, Maximum concurrency for 2,048 tokens per request: 106.66x
"""
WINDOWS = """\
INFO Available KV cache memory: 109.86 GiB
INFO GPU KV cache size: 205,696 tokens
INFO Maximum concurrency for 4,096 tokens per request: 50.05x
"""
EIGHT_BITS = """\
INFO Available KV cache memory: 10.55 GiB
INFO GPU KV cache size: 230,528 tokens
INFO Maximum concurrency for 100,000 tokens per request: 2.31x
"""
TOO_LONG = (
    "ValueError: To serve at least one request with the models's max seq len ({length}), ({needed} GiB KV cache is "
    "needed, which is larger than the available KV cache memory ({pool} GiB). Based on the available memory, the "
    "estimated maximum model length is {longest}. Try increasing `gpu_memory_utilization` or decreasing `max_model_len`."
)
V0 = """\
INFO worker.py:232] Memory profiling results: total_gpu_memory=23.58GiB initial_memory_usage=0.62GiB peak_torch_memory=17.06GiB memory_usage_post_profile=0.63GiB non_torch_memory=0.35GiB kv_cache_size=3.81GiB gpu_memory_utilization=0.90
INFO llm_engine.py:237] Initializing an LLM engine (v0.6.4) with config: model='meta-llama/Llama-3.1-8B-Instruct', max_seq_len=20000, tensor_parallel_size=1, kv_cache_dtype=auto,
INFO gpu_executor.py:122] # GPU blocks: 1952, # CPU blocks: 2048
INFO gpu_executor.py:126] Maximum concurrency for 20000 tokens per request: 1.56x
"""
DATA_PARALLEL_ATTENTION = """\
[2026-08-20 10:00:00] server_args=ServerArgs(model_path='Qwen/Qwen3-8B', tp_size=2, dp_size=2, kv_cache_dtype='auto', enable_dp_attention=True)
[2026-08-20 10:00:01 DP0 TP0] KV Cache is allocated. dtype: torch.bfloat16, #tokens: 100000, K size: 6.87 GB, V size: 6.87 GB
[2026-08-20 10:00:01 DP1 TP1] KV Cache is allocated. dtype: torch.bfloat16, #tokens: 90000, K size: 6.18 GB, V size: 6.18 GB
"""
CPU_ENGINE = """\
(Worker pid=90) INFO 09-23 07:05:04 [cpu_worker.py:271] Explicitly set (0.25/15.84) GiB for KV cache on node 0.
INFO CPU KV cache size: 2,320 tokens, Maximum concurrency for 1,024 tokens per request: 2.27x
Initializing a V1 LLM engine (v0.30.0) with config: model='Qwen/Qwen3-0.6B', max_seq_len=1024, kv_cache_dtype=auto
"""
LLAMA_CPP = """\
llama_model_loader: - type  f32:   66 tensors
llama_kv_cache: size = 2176.00 MiB ( 32768 cells,  32 layers,  1/1 seqs), K (q8_0): 1088.00 MiB, V (q8_0): 1088.00 MiB
"""
DRAFT_BESIDE = """\
[2026-08-28 21:32:38 TP0] Load weight end. elapsed=7.55 s, type=LlamaForCausalLM, avail mem=29.01 GB, mem usage=15.06 GB.
[2026-08-28 21:34:13 TP0] Load weight end. elapsed=4.49 s, type=LlamaForCausalLMEagle3, avail mem=30.67 GB, mem usage=-1.86 GB.
[2026-08-28 21:34:15 TP0] server_args=ServerArgs(model_path='meta-llama/Llama-3.1-8B-Instruct', tp_size=1, kv_cache_dtype='auto', speculative_algorithm='EAGLE3')
[2026-08-28 21:34:15 TP0] KV Cache is allocated. dtype: torch.bfloat16, #tokens: 163840, K size: 10.00 GB, V size: 10.00 GB
[2026-08-28 21:34:16 TP0] KV Cache is allocated. dtype: torch.bfloat16, #tokens: 163840, K size: 0.31 GB, V size: 0.31 GB
"""
DRAFT_INSIDE = (
    ENGINE.format(version="0.9.2", model="meta-llama/Llama-3.1-8B-Instruct", tp=1).replace(
        "speculative_config=None",
        "speculative_config=SpeculativeConfig(method='eagle', model='org/draft', num_spec_tokens=2)",
    )
    + """\
INFO Available KV cache memory: 51.63 GiB
INFO GPU KV cache size: 410,128 tokens
INFO Maximum concurrency for 131,072 tokens per request: 3.13x
"""
)
TRT_SETTINGS = """\
[TRT-LLM] [I] LLM Args: {'model': 'Qwen/Qwen3-8B', 'tensor_parallel_size': 1, 'kv_cache_config': {'enable_block_reuse': True, 'dtype': 'fp8', 'tokens_per_block': 32}}
[TensorRT-LLM][INFO] [MemUsageChange] Allocated 9.00 GiB for max tokens in paged KV cache (131072).
"""
