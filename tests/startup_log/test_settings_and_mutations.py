"""Settings in every spelling, figures of newer lines, and what a damaged log does: nothing bad, and soon."""
# ruff: noqa: E501 - lines are as long as engines print them

import random
import time
from pathlib import Path

import pytest

from kvmodel.errors import CaseError
from kvmodel.inputs.case import Case
from kvmodel.startup_log import log_answer
from kvmodel.startup_log.log_reader import read_log
from kvmodel.texts import startup_log as texts
from kvmodel.units import GIB, MIB
from tests.startup_log import log_texts as logs

FIELD = sorted((Path(__file__).parent / "field").glob("*.log"))
ALL_LOGS = [path.read_text("utf-8") for path in FIELD] + [
    text for name, text in vars(logs).items() if name.isupper() and "{" not in text.replace("{'", "")
]


@pytest.mark.parametrize(
    "text",
    [
        "non-default args: {'model': 'Qwen/Qwen3-8B', 'kv_cache_dtype': 'fp8', 'block_size': 32, 'tensor_parallel_size': 4, 'max_model_len': 4096}",
        '{"model": "Qwen/Qwen3-8B", "kv_cache_dtype": "fp8", "block_size": 32, "tensor_parallel_size": 4, "max_model_len": 4096}',
        "model: Qwen/Qwen3-8B\nkv_cache_dtype: fp8\nblock_size: 32\ntensor_parallel_size: 4\nmax_model_len: 4096",
        "vllm serve Qwen/Qwen3-8B --kv-cache-dtype fp8 --block-size 32 --tensor-parallel-size=4 --max-model-len 4K",
        "python -m sglang.launch_server --model-path Qwen/Qwen3-8B --kv-cache-dtype=fp8 --page-size 32 --tp-size 4 --context-length 4096",
        "server_args=ServerArgs(model_path='Qwen/Qwen3-8B', context_length=4096, kv_cache_dtype='fp8', tp_size=4, page_size=32)",
        "Initializing a V1 LLM engine (v0.30.0) with config: model='Qwen/Qwen3-8B', speculative_config=SpeculativeConfig(method="
        "'mtp', model='other/draft'), max_seq_len=4096, tensor_parallel_size=4, block_size=32, kv_cache_dtype=fp8,",
        "non-default args: {'speculative_config': {'method': 'eagle', 'model': 'other/draft'}, 'model': 'Qwen/Qwen3-8B', "
        "'kv_cache_dtype': 'fp8', 'block_size': 32, 'tensor_parallel_size': 4, 'max_model_len': 4096}",
    ],
)
def test_settings_in_every_spelling(text):
    log = read_log(text)
    assert (log.model, log.kv_dtype, log.block_tokens, log.tp, log.max_model_len) == (
        "Qwen/Qwen3-8B",
        "fp8",
        32,
        4,
        4096,
    )


def test_where_all_settings_are_printed_the_rest_have_their_defaults():
    log = read_log("non-default args: {'model': 'Qwen/Qwen3-8B'}")
    assert (log.tp, log.pp, log.dcp, log.kv_dtype) == (1, 1, 1, "auto")
    assert read_log("GPU KV cache size: 1,000 tokens").tp is None


def test_what_is_recommended_is_not_set():
    log = read_log(logs.OLDER_BUDGET)
    assert log.pinned_bytes is None
    assert log.in_use_bytes == 47_878_721_024
    assert (log.free_bytes, log.total_bytes) == (pytest.approx(139.21 * GIB), pytest.approx(139.81 * GIB))
    assert read_log("{'kv_cache_memory_bytes': 8589934592}").pinned_bytes == 8 * GIB
    assert read_log("--kv-cache-memory-bytes 8G").pinned_bytes == 8 * GIB


def test_graphs_and_the_utilization_without_them():
    log = read_log(logs.GRAPHS)
    assert (log.utilization, log.equivalent_utilization, log.same_pool_utilization) == (0.92, 0.9038, 0.9362)
    assert (log.graph_bytes, log.graph_estimate_bytes) == (pytest.approx(0.94 * GIB), pytest.approx(1.94 * GIB))
    assert log.engine == "vllm", "later than 0.21, though the lines are two"
    shown = texts.explain_log(log_answer.explain_text(logs.GRAPHS, Case(), {}))
    assert "they took 0.94 GiB; utilisation 0.92 gives the pool that 0.9038 gave without" in shown


def test_overrides():
    log = read_log(logs.OVERRIDE)
    assert (log.profiled_blocks, log.blocks_override) == (2453, 512)
    assert read_log(logs.PINNED).pinned_bytes == pytest.approx(37.11 * GIB)


def test_last_lines_of_sglang_and_lines_of_tensorrt_llm():
    log = read_log(logs.SGLANG)
    assert (log.tokens, log.max_num_seqs, log.max_model_len) == (204_800, 128, 131_072)
    assert (log.left_bytes, log.mem_fraction) == (pytest.approx(34.05 * GIB), 0.83)
    log = read_log(logs.TRT)
    assert (log.gpu_blocks, log.host_blocks, log.blocks_per_request, log.block_tokens) == (4607, 12, 65, 64)
    newer = "Max KV cache blocks per sequence: 65 [window size=2051], tokens per block=32, primary blocks=116617, secondary blocks=0"
    log = read_log(f"[TensorRT-LLM][INFO] {newer}")
    assert (log.gpu_blocks, log.block_tokens, log.blocks_per_request) == (116_617, 32, 65)


def test_pools_on_and_beside_a_cpu():
    log = read_log("INFO CPU KV cache size: 65,536 tokens, Maximum concurrency for 8,192 tokens per request: 8.00x")
    assert (log.tokens, log.host_tokens) == (65_536, None)
    log = read_log("GPU KV cache size: 1,600 tokens\nCPU KV cache size: 65,536 tokens")
    assert (log.tokens, log.host_tokens) == (1600, 65_536)
    said = log_answer.explain_text("GPU KV cache size: 1,600 tokens\nCPU KV cache size: 65,536 tokens", Case(), {})
    assert "host_pool: 65,536 tokens" in texts.explain_log(said)
    assert read_log("Allocating 32.00 GB host memory for hierarchical KV cache.").host_bytes == 32 * GIB


def mutated(draw, text):
    """One text with a few places deleted, doubled or changed, and perhaps cut."""
    for _ in range(draw.randrange(1, 6)):
        start = draw.randrange(len(text) + 1)
        length = draw.choice((1, 1, 2, 5, 40, 200))
        part = text[start : start + length]
        text = (
            text[:start] + draw.choice(("", part * 2, draw.choice("0123456789.,-()=%\n{'x"))) + text[start + length :]
        )
    return text[: draw.randrange(len(text) + 1)] if draw.random() < 0.2 else text


def explained(text, model):
    """The text of an answer, or the sentence of a refusal to read it."""
    try:
        return texts.explain_log(log_answer.explain_text(text, Case(), {"model": model}))
    except CaseError as error:
        return f"refused {error}"


def test_a_damaged_log_raises_nothing_and_takes_no_second():
    draw = random.Random(14)
    longest_s, said = 0.0, []
    for _ in range(300):
        text = mutated(draw, draw.choice(ALL_LOGS))
        started = time.perf_counter()
        said.append(explained(text, draw.choice((None, "qwen3-8b", "gemma-3-27b"))))
        longest_s = max(longest_s, time.perf_counter() - started)
    refused = [words for words in said if words.startswith("refused ")]
    assert all(words.startswith("refused log: ") for words in refused)
    assert len(refused) < 100
    assert longest_s < 3


@pytest.mark.parametrize(
    "part",
    [
        "KV Cache is allocated.", "Actual usage is 1 GiB ", "config: model='", "'model': '", "--model ", "block_size 1 ",
        "(Worker_TP0 pid=1) Available KV cache memory: 1 GiB\n", "EngineCore_DP0 1\nEngineCore_DP1 1\n", "0", "1,", "\n",
        "failed to allocate CUDA0 buffer of size 1", "out of memory. Tried to allocate 1 GiB", "speculative_config={",
        "KvCacheConfig ", "Load weight end. ", "llama_kv_cache K (", "kv_cache_config dtype",
    ],
)  # fmt: skip
def test_a_mebibyte_takes_no_time(part):
    text = part * (MIB // len(part))
    started = time.perf_counter()
    assert explained(text, "qwen3-8b")
    assert time.perf_counter() - started < 6


def test_a_share_has_no_thousands():
    line = "The current --gpu-memory-utilization=0.9 is equivalent to --gpu-memory-utilization=1,5 without"
    told = log_answer.explain_text(f"{line}\n{logs.GRAPHS}", Case(), {})
    assert told["figures"].get("equivalent_utilization") != 15
