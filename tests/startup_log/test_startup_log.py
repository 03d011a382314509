"""Start-up logs: the figures of each engine's lines, explained and checked; real rows agree, made-up ones do not."""

import csv
from pathlib import Path

import pytest

from kvmodel import catalog
from kvmodel.errors import CaseError
from kvmodel.hf import config_file
from kvmodel.inputs.case import Case
from kvmodel.startup_log import check, log_answer
from kvmodel.startup_log.check import Named
from kvmodel.startup_log.log_reader import LogValues, read_log
from kvmodel.units import GIB, MIB

ROWS = list(csv.DictReader((Path(__file__).parents[1] / "data/pool_logs/capacity_logs.csv").open(encoding="utf-8")))
V0 = """
INFO worker.py:232] Memory profiling results: total_gpu_memory=23.58GiB initial_memory_usage=0.62GiB peak_torch_memory=17.06GiB memory_usage_post_profile=0.63GiB non_torch_memory=0.35GiB kv_cache_size=3.81GiB gpu_memory_utilization=0.90
INFO llm_engine.py:237] Initializing an LLM engine (v0.6.4) with config: model='meta-llama/Llama-3.1-8B-Instruct', max_seq_len=20000, tensor_parallel_size=1, kv_cache_dtype=auto,
INFO gpu_executor.py:122] # GPU blocks: 1952, # CPU blocks: 2048
INFO gpu_executor.py:126] Maximum concurrency for 20000 tokens per request: 1.56x
"""  # noqa: E501
V0_8 = """
the current vLLM instance can use total_gpu_memory (79.15GiB) x gpu_memory_utilization (0.70) = 55.09GiB
model weights take 8.63GiB; non_torch_memory takes 0.09GiB; PyTorch activation peak memory takes 1.16GiB; the rest of the memory reserved for KV Cache is 45.21GiB.
# cuda blocks: 14815, # CPU blocks: 1966
Maximum concurrency for 512 tokens per request: 462.97x
"""  # noqa: E501
V1 = """
\x1b[1;36m(EngineCore_0 pid=75)\x1b[0;0m INFO [gpu_worker.py:298] Available KV cache memory: 13.10 GiB
(EngineCore_0 pid=75) INFO [kv_cache_utils.py:1087] GPU KV cache size: 245,360 tokens
(EngineCore_0 pid=75) INFO [kv_cache_utils.py:1091] Maximum concurrency for 32,768 tokens per request: 7.49x
"""
REFUSAL = (
    "ValueError: To serve at least one request with the models's max seq len (221000), (10.12 GiB KV cache is needed, "
    "which is larger than the available KV cache memory (5.59 GiB). Based on the available memory, the estimated "
    "maximum model length is 122080."
)


def findings(text, name=None, **given):
    log = read_log(text)
    for key, value in given.items():
        setattr(log, key, value)
    model = Named(catalog.model(name).kv_layers, 1 if log.kv_dtype == "fp8" else 2) if name else None
    return {finding.figure: finding for finding in check.check(log, model)}


def test_lines_of_v0():
    log = read_log(V0)
    assert (log.engine, log.version, log.model) == ("vllm-v0", "0.6.4", "meta-llama/Llama-3.1-8B-Instruct")
    assert log.total_bytes == pytest.approx(23.58 * GIB)
    assert (log.gpu_blocks, log.cpu_blocks, log.concurrency, log.max_model_len) == (1952, 2048, 1.56, 20000)
    said = findings(V0, "llama-3.1-8b")
    assert {name for name, finding in said.items() if finding.agrees} == {"budget", "pool", "cpu_blocks", "concurrency"}


def test_lines_of_later_v0():
    log = read_log(V0_8)
    assert log.usable_bytes == pytest.approx(55.09 * GIB)
    assert log.weight_bytes == pytest.approx(8.63 * GIB)
    assert log.gpu_blocks == 14815
    said = findings(V0_8, "phi-4")
    assert all(finding.agrees is not False for finding in said.values())
    assert said["cpu_blocks"].means == "swap space of 6 GiB"


def test_lines_of_v1():
    log = read_log(V1)
    assert log.engine == "vllm-v1"
    assert (log.tokens, log.concurrency) == (245_360, 7.49)
    assert check.consistent(findings(V1, "qwen2.5-7b").values())
    wrong = findings(V1, "llama-3.1-8b")
    assert wrong["pool"].agrees is False
    assert "57," in wrong["pool"].means


def test_one_line_is_a_newer_engine():
    text = "GPU KV cache size: 226,240 tokens, Maximum concurrency for 4,096 tokens per request: 55.23x"
    assert read_log(text).engine == "vllm"
    assert read_log("vLLM API server version 0.21.0\nGPU KV cache size: 226,240 tokens").engine == "vllm"
    assert read_log("vLLM API server version 0.11.0\nGPU KV cache size: 226,240 tokens").engine == "vllm-v1"


def test_a_refusal_gives_need_has_and_longest():
    """vLLM issue 25350: Qwen3-30B-A3B, fp8 KV, 221,000 tokens."""
    log = read_log(REFUSAL)
    assert (log.needed_bytes, log.pool_bytes) == (pytest.approx(10.12 * GIB), pytest.approx(5.59 * GIB))
    assert log.longest_tokens == 122_080
    said = findings(REFUSAL, "qwen3-30b-a3b", kv_dtype="fp8")
    assert said["needed"].agrees
    assert "122,1" in said["needed"].means  # the pool's 5.59 GiB is rounded


def test_other_engines():
    sglang = read_log("KV Cache is allocated. dtype: torch.bfloat16, #tokens: 251788, K size: 2.88 GB, V size: 2.88 GB")
    assert (sglang.engine, sglang.tokens) == ("sglang", 251_788)
    assert sglang.pool_bytes == pytest.approx(5.76 * GIB)
    latent = read_log("KV Cache is allocated. #tokens: 524288, KV size: 17.16 GB")
    low, high = check.implied_bytes_per_token(latent)
    assert low < 35_136 < high
    states = read_log(
        "Mamba Cache is allocated. max_mamba_cache_size: 186, conv_state size: 0.10GB, ssm_state size: 4.38GB"
    )
    assert (states.state_slots, states.state_bytes) == (186, pytest.approx(4.38 * GIB))
    trt = read_log("[TensorRT-LLM][INFO] Allocated 64.75 GiB for max tokens in paged KV cache (132608).")
    assert (trt.engine, trt.tokens) == ("trt-llm", 132_608)
    cells = read_log("llama_kv_cache: size =   27.00 MiB (  1536 cells,  18 layers,  3 seqs)")
    assert (cells.engine, cells.tokens, cells.pool_bytes) == ("llama.cpp", 1536, 27 * MIB)


def test_states_are_held_against_the_model():
    """186 slots of Qwen3.5-27B's 153.9 MB would be 26.66 GiB."""
    config = {
        "model_type": "qwen3_5_text", "hidden_size": 5120, "num_hidden_layers": 64, "num_attention_heads": 24,
        "num_key_value_heads": 4, "head_dim": 256, "full_attention_interval": 4, "linear_num_key_heads": 16,
        "linear_num_value_heads": 48, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
        "linear_conv_kernel_dim": 4,
    }  # fmt: skip
    model = Named(config_file.read(config).model.kv_layers, 2)
    state, columns = 48 * 48 * 128 * 128 * 4, 48 * (2 * 16 * 128 + 48 * 128) * 3 * 2
    assert sum(group.layers * group.fixed_bytes for group in model.layers) == state + columns
    line = "Mamba Cache is allocated. max_mamba_cache_size: {}, conv_state size: {:.2f}GB, ssm_state size: {:.2f}GB"
    for slots, agrees in ((186, True), (150, False)):
        log = read_log(line.format(slots, 186 * columns / GIB, 186 * state / GIB))
        log.engine = "sglang"
        (found,) = [finding for finding in check.check(log, model) if finding.figure == "states"]
        assert found.agrees is agrees


def test_ranks_are_kept_and_the_smallest_counts():
    log = read_log("# GPU blocks: 2076, # CPU blocks: 1638\n# GPU blocks: 2064, # CPU blocks: 1638")
    assert log.ranks == [(2076, 1638), (2064, 1638)]
    assert log.gpu_blocks == 2064


@pytest.mark.parametrize("text", ["", "hello", "# GPU blocks: x", "\x00" * 100, "GPU KV cache size: tokens"])
def test_nothing_of_a_pool(text):
    assert read_log(text).empty()
    with pytest.raises(CaseError, match="^log: no line of an engine's memory or KV pool in it"):
        log_answer.explain_text(text, Case(), {})


# --- real rows ---


def engine_of(row):
    names = {"sglang": "sglang", "trt-llm": "trt-llm", "llama.cpp": "llama.cpp", "ggllm.cpp": "llama.cpp",
             "ik_llama.cpp": "llama.cpp"}  # fmt: skip
    old = row["version"].startswith(("V0", "claimed")) or row["cpu_blocks_logged"]
    return names.get(row["engine"], "vllm-v0" if old else "vllm-v1")


def figures_of(row):
    """The row as if its lines had been read; sizes are rounded as they were printed."""
    log = LogValues(engine=engine_of(row))
    needed = row["kv_is_need_for_max_len"] == "1.0"
    sizes = {
        "total_bytes": "gpu_mem_gib", "weight_bytes": "weights_gib_logged", "non_torch_bytes": "non_torch_gib_logged",
        "activation_bytes": "activation_gib_logged", "peak_torch_bytes": "peak_torch_gib_logged",
        "needed_bytes" if needed else "pool_bytes": "kv_gib_logged",
    }  # fmt: skip
    for name, column in sizes.items():
        if row[column]:
            setattr(log, name, float(row[column]) * GIB)
            decimals = max(2, len(row[column].partition(".")[2]))
            log.printed[name] = f"{float(row[column]):.{decimals}f} GiB"
    numbers = {
        "gpu_blocks": "gpu_blocks_logged", "cpu_blocks": "cpu_blocks_logged", "concurrency": "max_concurrency_logged",
        "max_model_len": "max_model_len", "block_tokens": "block_size", "swap_gib": "swap_gib", "utilization": "util",
        "tokens": "kv_tokens_logged",
    }  # fmt: skip
    for name, column in numbers.items():
        if row[column] and not (needed and name == "tokens"):
            setattr(log, name, float(row[column]))
    return log


def checked(row):
    rate = row["expected_kv_bytes_per_token_rank"]
    return check.check(figures_of(row), bytes_per_token=float(rate) if rate else None)


@pytest.mark.parametrize("row", [row for row in ROWS if row["verdict"] == "all_ok"], ids=lambda row: row["id"])
def test_real_rows_follow_from_their_inputs(row):
    said = checked(row)
    assert check.consistent(said)
    assert any(finding.agrees for finding in said)


@pytest.mark.parametrize("row", [row for row in ROWS if row["verdict"] == "reject_expected"], ids=lambda row: row["id"])
def test_made_up_rows_are_flagged(row):
    assert not check.consistent(checked(row))


def test_a_row_in_groups_of_layers_is_exact():
    (row,) = [row for row in ROWS if row["verdict"] == "ok_with_group_formula"]
    said = check.check(figures_of(row), Named(catalog.model("gemma-3-27b").kv_layers, 2))
    assert {finding.figure: finding.agrees for finding in said if finding.agrees is not None} == {
        "tokens": True, "concurrency": True,
    }  # fmt: skip
    other = Named(catalog.model("gemma-3-12b").kv_layers, 2)
    assert not check.consistent(check.check(figures_of(row), other))


def test_one_ranks_pool_is_explained():
    """Two RTX 4090 at TP2: 8.69 GiB printed, but the other rank had 7.46."""
    (row,) = [row for row in ROWS if row["case"] == "min_over_ranks"]
    log = figures_of(row)
    log.tp = 2.0
    (pool,) = [entry for entry in check.check(log, bytes_per_token=98_304.0) if entry.figure == "pool"]
    assert pool.agrees is None
    assert "smallest rank" in pool.means


def test_the_model_may_come_from_a_config_or_the_log():
    answer = log_answer.explain_text(V0, Case(), {})
    assert (answer["model"], answer["consistent"]) == ("llama-3.1-8b", True)
    config = Path(__file__).parents[1] / "data/hf_configs/mlc-qwen2_7b.json"
    other = log_answer.explain_text(V0, Case(), {"model": config_file.read_file(str(config)).text})
    assert not other["consistent"]
    assert other["model_bytes_per_token"] == 57_344
    assert log_answer.explain_text(V1, Case(), {})["model"] is None


def test_a_log_may_be_asked_about_from_the_shell(tmp_path):
    from kvmodel.cli import command_line

    (tmp_path / "server.log").write_text(V0, encoding="utf-8")
    text = command_line.run(["explain-log", str(tmp_path / "server.log")])
    assert "no figure is at odds" in text
    wrong = command_line.run(["explain-log", str(tmp_path / "server.log"), "--model", "qwen2.5-7b"])
    assert "CANNOT BE TRUE" in wrong
    with pytest.raises(CaseError, match=r"^file: not given; "):
        command_line.run(["explain-log"])
    with pytest.raises(CaseError, match=r"cannot be read: No such file"):
        command_line.run(["explain-log", str(tmp_path / "none.log")])
