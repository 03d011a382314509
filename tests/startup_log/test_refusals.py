"""Refusals to start, of every engine and age: named, with the mend; and what is none."""
# ruff: noqa: E501 - lines are as long as engines print them

from pathlib import Path

import pytest

from kvmodel import catalog
from kvmodel.errors import CaseError
from kvmodel.hf import config_file
from kvmodel.inputs.case import Case
from kvmodel.startup_log import groups, log_answer
from kvmodel.startup_log.check import Named
from kvmodel.startup_log.log_reader import read_log
from kvmodel.texts import startup_log as texts
from kvmodel.units import GIB
from tests.startup_log import log_texts as logs

FIELD = Path(__file__).parent / "field"
GEMMA = Named(catalog.model("gemma-3-27b").kv_layers, 2)
NO_BLOCKS = "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`."
OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 48.00 MiB. GPU 0 has a total capacity of 7.70 GiB "
    "of which 42.69 MiB is free."
)


def answer(text, model=None):
    return log_answer.explain_text(text, Case(), {"model": model})


def field(name):
    return (FIELD / name).read_text("utf-8")


def test_a_negative_pool():
    said = answer(field("13-no-memory.log"), "gpt-oss-120b")
    assert said["refused"] == "no memory is left for KV: the pool is -2.14 GiB"
    assert said["mend"].startswith("a higher --gpu-memory-utilization")
    shown = texts.explain_log(said)
    assert "REFUSED TO START: no memory is left for KV" in shown
    assert "65.97 GiB" in shown
    assert "60.77 GiB of them in the model's file" in shown
    assert "no figure is at odds" not in shown


def test_a_negative_pool_without_the_sentence():
    assert "the pool is -0.30 GiB" in answer("INFO Available KV cache memory: -0.3 GiB")["refused"]
    assert answer("# GPU blocks: 0, # CPU blocks: 4681")["refused"] == "no memory is left for KV"


def test_graphs_that_take_the_pool():
    text = f"Estimated CUDA graph memory: 118.65 GiB total\nAvailable KV cache memory: -9.10 GiB\n{NO_BLOCKS}"
    assert "118.65 GiB are reserved for CUDA graphs" in answer(text)["mend"]


def test_the_older_refusal():
    said = answer(field("14-old-refusal.log"))
    assert said["engine"] == "vllm-v0"
    assert said["refused"] == "the pool holds 7,344 tokens, 0.22 of one request of 32,768"
    assert said["mend"].startswith("--max-model-len 7344 at most")
    assert (said["figures"]["tokens"], said["figures"]["max_model_len"]) == (7344, 32_768)


def test_less_is_free_than_asked_for():
    said = answer(field("18-free-memory-refusal.log"))
    assert (
        said["refused"] == "5.97 GiB of 23.58 GiB are free and 21.22 GiB are asked for: other processes hold 17.61 GiB"
    )
    assert said["mend"].endswith("--gpu-memory-utilization 0.25 at most")
    newer = "Free memory on device cuda:0 (12.18/23.56 GiB) on startup is less than desired GPU memory utilization (0.92, 21.67 GiB)."
    assert answer(newer)["mend"].endswith("0.51 at most")
    assert answer(newer.replace("12.18/23.56", "23.56/23.56"))["mend"].endswith("1.00 at most")


def test_a_stage_needs_less_than_the_whole_model():
    model = config_file.read_file(str(FIELD / "09-92-layers.json")).text
    said = answer(field("09-pp8-refusal.log"), model)
    assert said["consistent"]
    assert said["refused"].endswith("but that is the whole model's need: one of 8 stages needs 9.28 GiB")
    assert said["mend"].startswith("it should start: vLLM 0.14 and 0.15 counted so")
    assert "--max-model-len 81392" in said["mend"]
    (needed,) = [finding for finding in said["findings"] if finding["figure"] == "needed"]
    assert needed["expected"] == "71.16 GiB"
    assert "which holds 81,392 tokens" in needed["means"]


def test_a_need_without_an_estimate_has_one():
    text = logs.TOO_LONG.format(length=1048576, needed=24.0, pool=9.97, longest=1).split(" Based")[0]
    assert answer(text)["mend"].startswith("--max-model-len 435596 at most, roughly")


@pytest.mark.parametrize(
    ("text", "engine", "refused", "mend"),
    [
        (
            "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: mem_fraction_static=0.12",
            "sglang", "no memory is left for KV within --mem-fraction-static 0.12", "a higher --mem-fraction-static",
        ),
        (
            "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
            "sglang", "no memory is left for KV within --mem-fraction-static", "a higher --mem-fraction-static",
        ),
        (
            "RuntimeError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes. "
            "pre_model_load_memory=147.9, local_gpu_memory=176.2, local_gpu_memory * 0.9=158.6",
            "sglang", "one GPU has 147.90 GiB free, another 176.20 GiB: other processes hold 28.30 GiB more of it",
            "end what holds memory on one of the GPUs",
        ),
        (
            "ValueError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes.",
            "sglang", "the GPUs do not have the same memory free", "end what holds memory on one of the GPUs",
        ),
        (
            "RuntimeError: Not enough GPU memory for hybrid (mamba/linear-attention) state cache. (total_rest_memory=0.41 GB,",
            None, "no memory is left for the states of linear attention", "a smaller --max-running-requests",
        ),
        (
            "AssertionError: The max KV cache length of input sequences (5000) exceeds the KV cache manager's maximum "
            "supported length (4096).",
            "trt-llm", "a sequence of 5,000 tokens, and the KV cache holds 4,096 of one", "requests of 4,096 tokens at most",
        ),
        (
            "RuntimeError: [TensorRT-LLM][ERROR] Assertion failed: Impossible to fit any sequence in kvCache",
            "trt-llm", "not one sequence of the longest length fits", "a higher kv_cache_free_gpu_memory_fraction",
        ),
        (
            "[TensorRT-LLM][ERROR] maxTokensInPagedKvCache must be large enough to process at least 1 sequence to completion",
            "trt-llm", "not one sequence of the longest length fits", "a higher kv_cache_free_gpu_memory_fraction",
        ),
        (
            "[TRT-LLM] [RANK 1] [E] Failed to initialize executor on rank 1: Executor creation failed due to insufficient "
            "GPU memory.\n\nThe following component could not be created: KV cache\nTotal GPU memory (GiB): 140.06\n"
            "Free GPU memory before component creation attempt (GiB): 108.86",
            "trt-llm", "no memory for KV cache: 108.86 GiB of 140.06 GiB were free before it", "a smaller free_gpu",
        ),
        (
            "alloc_tensor_range: failed to allocate Vulkan0 buffer of size 1632174080\nllama_init_from_model: failed to "
            "initialize the context: failed to allocate buffer for kv cache",
            "llama.cpp", "the KV cache could not be allocated: a buffer of 1.52 GiB", "a smaller context (-c)",
        ),
        (OOM, None, "the GPU ran out of memory at 48.0 MiB more: 42.7 MiB of 7.70 GiB were free", "another process may"),
        ("RuntimeError: CUDA error: out of memory", None, "the GPU ran out of memory", "another process may"),
        (
            "max_num_seqs (256) exceeds available Mamba cache blocks (203). Each decode sequence requires one",
            "vllm-v1", "256 requests may run at a time, and there are states for 203", "--max-num-seqs 203 at most",
        ),
        (
            "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
            "vllm-v1", "the engine did not start; its cause stands above", "give the whole log",
        ),
    ],
)  # fmt: skip
def test_every_engines_sentence(text, engine, refused, mend):
    said = answer(text)
    assert said["engine"] == engine
    assert said["refused"].startswith(refused)
    assert said["mend"].startswith(mend)
    assert said["findings"][0]["figure"] == "refused"


def test_a_cause_goes_before_what_follows_from_it():
    text = f"{NO_BLOCKS}\nRuntimeError: Engine core initialization failed. See root cause above."
    assert answer(text)["refused"] == "no memory is left for KV"


def test_a_later_start_ends_a_refusal():
    refused = logs.TOO_LONG.format(length=40960, needed=5.62, pool=4.50, longest=32768)
    assert answer(refused + "\n" + logs.AWQ)["refused"] is None
    assert answer(logs.AWQ + refused)["refused"] is not None
    last = answer(field("18-free-memory-refusal.log") + refused)
    assert last["refused"].startswith("one request of 40,960 tokens"), "the last of two"


def test_a_crash_after_the_start_is_no_refusal():
    said = answer(f"{logs.AWQ}INFO: Application startup complete.\n{OOM}")
    assert said["after_start"]
    assert "STOPPED: the GPU ran out of memory" in texts.explain_log(said)


def test_a_cut_length_is_no_refusal():
    text = "maxAttentionWindow and maxSequenceLen are too large for at least one sequence to fit in kvCache. they are reduced to 5185"
    said = answer(f"[TensorRT-LLM][WARNING] {text}\n{logs.TRT}")
    assert said["refused"] is None
    assert said["figures"]["longest_tokens"] == 5185


@pytest.mark.parametrize("text", [logs.AWQ, logs.SGLANG, logs.TRT, logs.V0, logs.PINNED, logs.GRAPHS])
def test_what_starts_is_not_refused(text):
    said = answer(text)
    assert (said["refused"], said["mend"]) == (None, None)
    assert "no figure is at odds with another" in texts.explain_log(said)


def test_without_a_model_a_refusal_of_stages_says_what_that_version_did():
    said = answer(field("09-pp8-refusal.log"))
    assert "held the whole model against one stage" in said["mend"]
    later = answer(field("09-pp8-refusal.log").replace("0.14.1", "0.20.1"))
    assert "against one stage" not in later["mend"]


def test_running_lines_are_named():
    with pytest.raises(CaseError, match=r"^log: these are running lines, which Diagnose reads; allowed: a start-up"):
        answer(field("25-running-lines.log"))


@pytest.mark.parametrize(
    "text",
    [
        'vllm:num_requests_running{engine="0"} 8.0\n',
        "# TYPE sglang:num_running_reqs gauge\nsglang:num_running_reqs 8.0\n",
        "trtllm_num_requests_running 8\n",
        '[{"iterLatencyMS": 12.1, "kvCacheStats": {"usedNumBlocks": 40}}]',
    ],
)
def test_metrics_are_named(text):
    with pytest.raises(CaseError, match=r"^log: these are metrics, which Diagnose reads; allowed: a start-up log$"):
        answer(text)


def test_two_lines_of_a_hybrid_are_not_held_against_each_other():
    said = answer(field("11-hybrid-two-lines.log"))
    assert said["consistent"]
    (concurrency,) = said["findings"]
    assert concurrency["agrees"] is None
    assert "not checked: tokens / length is not this for a model with windows or states" in concurrency["means"]


def test_an_unexplained_difference_is_not_excused():
    model = config_file.read_file(str(FIELD / "20-dsa-61-layers.json")).text
    said = answer(field("20-fp8-ds-mla.log"), model)
    assert said["consistent"]
    assert "less room" not in texts.explain_log(said)


def test_stages_of_a_model_with_windows():
    """Gemma 3 27B in two stages: the whole model's need in groups, which a stage has no use for."""
    settings = "Initializing a V1 LLM engine (v0.15.1) with config: model='google/gemma-3-27b-it', pipeline_parallel_size=2, kv_cache_dtype=auto\n"
    whole = groups.group_needs(read_log(settings + "max_seq_len=131072"), GEMMA, stages=1)[0] / GIB
    stage = groups.group_needs(read_log(settings + "max_seq_len=131072"), GEMMA)[0] / GIB
    said = answer(settings + logs.TOO_LONG.format(length=131072, needed=round(whole, 2), pool=10.0, longest=60000))
    assert said["consistent"]
    assert f"one of 2 stages needs {stage:.2f} GiB" in said["refused"]
    other = answer(
        settings + logs.TOO_LONG.format(length=131072, needed=round(whole, 2) + 20, pool=10.0, longest=60000)
    )
    assert not other["consistent"]
