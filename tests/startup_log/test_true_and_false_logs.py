"""True logs are never called impossible; the same with a wrong model, dtype or digit are caught."""

import re
from pathlib import Path

import pytest

from kvmodel.hf import config_file
from kvmodel.inputs.case import Case
from kvmodel.startup_log import log_answer
from kvmodel.startup_log.check import check, consistent
from kvmodel.startup_log.log_reader import read_log
from kvmodel.texts import startup_log as texts
from tests.startup_log import log_texts as logs

FIELD = Path(__file__).parent / "field"
BUDGET, DICT = ((FIELD / name).read_text("utf-8") for name in ("16-v1-budget.log", "19-args-as-dict.log"))
WINDOWS_V1 = "vLLM API server version 0.10.2\n" + logs.WINDOWS
PP = (FIELD / "09-pp8-refusal.log").read_text("utf-8")
LAYERS_92 = FIELD / "09-92-layers.json"


def answer(text, model=None, **given):
    if isinstance(model, Path):
        model = config_file.read_file(str(model)).text
    case = Case(**{name: value for name, value in given.items() if name in ("tp", "kv_dtype")})
    return log_answer.explain_text(text, case, {"model": model, **given})


def agreed(said):
    return {finding["figure"] for finding in said["findings"] if finding["agrees"]}


@pytest.mark.parametrize(
    ("text", "model", "figures"),
    [
        (logs.MOE_AT_4, "qwen3-235b-a22b", {"budget", "pool", "concurrency"}),
        (logs.OLDER_BUDGET, None, {"budget"}),
        (logs.AWQ, None, {"pool", "concurrency"}),
        (logs.WITHOUT_SETTINGS, "llama-3.1-8b", {"pool", "concurrency"}),
        (logs.WITHOUT_SETTINGS, None, {"concurrency"}),
        (logs.GRAPHS, None, {"budget", "concurrency"}),
        (logs.PINNED, None, {"concurrency"}),
        (logs.OVERRIDE, "qwen3-8b", {"concurrency"}),
        (logs.SGLANG, None, {"pool"}),
        (logs.TRT, None, {"gpu_blocks"}),
        (logs.TRT_SETTINGS, None, {"pool"}),
        (logs.DRAFT_BESIDE, None, {"pool"}),
        (logs.DRAFT_INSIDE, None, {"concurrency"}),
        (logs.DATA_PARALLEL_ATTENTION, None, {"pool"}),
        (logs.CPU_ENGINE, None, {"pool", "concurrency"}),
        (logs.LLAMA_CPP, "llama-3.1-8b", {"pool"}),
        (logs.DATA_PARALLEL, None, {"pool", "concurrency"}),
        (logs.WINDOWS, "gemma-3-27b", {"tokens", "concurrency"}),
        (logs.WINDOWS, None, set()),
        (logs.EIGHT_BITS, "qwen3-30b-a3b", {"concurrency"}),
        (logs.TOO_LONG.format(length=40960, needed=5.62, pool=4.50, longest=32768), "qwen3-8b", {"needed", "longest"}),
        (logs.TOO_LONG.format(length=40960, needed=4.38, pool=1.31, longest=12288), "qwen3-0.6b", {"needed", "longest"}),  # noqa: E501
        (logs.TOO_LONG.format(length=8192, needed=2.63, pool=1.64, longest=5088), None, {"longest"}),
        (logs.V0, None, {"budget", "pool", "cpu_blocks", "concurrency"}),
        (BUDGET, None, {"budget", "pool", "concurrency"}),
        (DICT, None, {"pool", "concurrency"}),
        (PP, LAYERS_92, {"needed", "longest"}),
    ],
)  # fmt: skip
def test_a_true_log_is_not_impossible(text, model, figures):
    said = answer(text, model)
    assert said["consistent"]
    assert agreed(said) == figures


@pytest.mark.parametrize(
    ("text", "model", "figure"),
    [
        pytest.param(BUDGET, "llama-3.1-8b", "pool", id="another model"),
        pytest.param(BUDGET.replace("kv_cache_dtype=auto", "kv_cache_dtype=fp8"), None, "pool", id="8 bits named"),
        pytest.param(DICT.replace("'fp8'", "'bfloat16'"), None, "pool", id="16 bits named"),
        pytest.param(BUDGET.replace("268,560", "286,560"), None, "pool", id="tokens"),
        pytest.param(BUDGET.replace("268,560", "286,560"), None, "concurrency", id="tokens against concurrency"),
        pytest.param(BUDGET.replace("131.13x", "113.13x"), None, "concurrency", id="concurrency"),
        pytest.param(BUDGET.replace("is 36.88", "is 38.86"), None, "budget", id="pool against budget"),
        pytest.param(BUDGET.replace("40.27", "47.20"), None, "budget", id="wish"),
        pytest.param(BUDGET.replace("2.81", "8.21"), None, "budget", id="weights of the budget"),
        pytest.param(logs.OLDER_BUDGET.replace("5.58", "8.55"), None, "budget", id="activations"),
        pytest.param(logs.MOE_AT_4, "llama-3.1-8b", "pool", id="another model at tp 4"),
        pytest.param(logs.WINDOWS, "gemma-3-12b", "tokens", id="another model with windows"),
        pytest.param(logs.WINDOWS.replace("205,696", "411,392"), "gemma-3-27b", "concurrency", id="twice the tokens"),
        pytest.param(WINDOWS_V1.replace("109.86", "54.93"), "gemma-3-27b", "tokens", id="half the pool"),
        pytest.param(logs.WINDOWS.replace("50.05x", "25.05x"), None, "concurrency", id="half the concurrency"),
        pytest.param(logs.SGLANG, "qwen2.5-7b", "pool", id="another model, SGLang"),
        pytest.param(logs.SGLANG.replace("204800", "240800"), None, "pool", id="tokens, SGLang"),
        pytest.param(logs.SGLANG.replace("bfloat16, #", "float8_e4m3fn, #"), None, "pool", id="8 bits, SGLang"),
        pytest.param(logs.TRT.replace("4607", "4670"), None, "gpu_blocks", id="blocks, TensorRT-LLM"),
        pytest.param(logs.TRT_SETTINGS.replace("(131072)", "(113072)"), None, "pool", id="tokens, TensorRT-LLM"),
        pytest.param(logs.LLAMA_CPP, "llama-3.2-1b", "pool", id="another model, llama.cpp"),
        pytest.param(logs.LLAMA_CPP.replace("q8_0", "f16"), "llama-3.1-8b", "pool", id="16 bits, llama.cpp"),
        pytest.param(logs.V0.replace("# GPU blocks: 1952", "# GPU blocks: 1592"), None, "pool", id="blocks, V0"),
        pytest.param(logs.V0.replace("CPU blocks: 2048", "CPU blocks: 2000"), None, "cpu_blocks", id="CPU blocks, V0"),
        pytest.param(logs.V0.replace("kv_cache_size=3.81", "kv_cache_size=4.81"), None, "budget", id="budget, V0"),
        pytest.param(logs.V0, "qwen2.5-7b", "pool", id="another model, V0"),
        pytest.param(PP.replace("71.16", "61.16"), LAYERS_92, "needed", id="need of no number of layers"),
        pytest.param(PP.replace("81392", "18392"), LAYERS_92, "longest", id="longest"),
        pytest.param(
            logs.TOO_LONG.format(length=40960, needed=6.52, pool=4.50, longest=32768), "qwen3-8b", "needed", id="need"
        ),
    ],
)  # fmt: skip
def test_a_false_log_is_caught(text, model, figure):
    said = answer(text, model)
    assert not said["consistent"]
    assert figure in {finding["figure"] for finding in said["findings"] if finding["agrees"] is False}
    assert "CANNOT BE TRUE" in texts.explain_log(said)


def test_what_a_log_leaves_open_is_named():
    """The same three lines as 8-bit KV on one GPU and as 16-bit KV on two."""
    said = answer(logs.EIGHT_BITS, "qwen3-30b-a3b")
    (pool,) = [finding for finding in said["findings"] if finding["figure"] == "pool"]
    assert "fits with KV in 8 bits or tensor parallel over 2 GPUs, which the log does not name" in pool["means"]
    assert agreed(answer(logs.EIGHT_BITS, "qwen3-30b-a3b", kv_dtype="fp8")) == {"pool", "concurrency"}
    assert agreed(answer(logs.EIGHT_BITS, "qwen3-30b-a3b", tp=2)) == {"pool", "concurrency"}


def test_a_draft_that_the_log_names_explains_its_layers():
    (pool,) = [each for each in answer(logs.DRAFT_INSIDE)["findings"] if each["figure"] == "pool"]
    assert "layers of a draft beside the model's: 1" in pool["means"]
    assert not answer(logs.DRAFT_INSIDE.replace("SpeculativeConfig(method='eagle', model='org/draft', ", "None, ("))[
        "consistent"
    ]


def test_weights_are_those_of_the_model_and_not_of_its_draft():
    assert answer(logs.DRAFT_BESIDE)["figures"]["weight_bytes"] == pytest.approx(15.06 * 2**30)


def test_one_ranks_pool_gives_no_cause_but_a_size():
    one = logs.MOE_AT_4.replace("is 27.85 GiB", "is 31.85 GiB").replace("85.51", "89.51")
    (pool,) = [finding for finding in answer(one, "qwen3-235b-a22b")["findings"] if finding["figure"] == "pool"]
    assert pool["agrees"] is None
    assert "not explained: 14 % more than the model's" in pool["means"]
    assert "less room" not in pool["means"]


def test_ranks_that_all_print_their_pools_need_no_excuse():
    """The smallest of both decides: with it the figures fit, and with two larger ones they do not."""
    lines = (
        "INFO config: model='Qwen/Qwen3-8B', tensor_parallel_size=2, kv_cache_dtype=auto\n"
        "(Worker_TP0 pid=1) INFO Available KV cache memory: {} GiB\n(Worker_TP1 pid=2) INFO Available KV cache memory: "
        "{} GiB\n(EngineCore pid=3) INFO GPU KV cache size: 268,560 tokens"
    )
    text = lines.format("18.44", "20.00")
    said = answer(text)
    assert said["figures"]["pool_bytes"] == pytest.approx(18.44 * 2**30)
    assert agreed(said) == {"pool"}
    assert not answer(lines.format("20.00", "20.00"))["consistent"]


def test_a_restart_in_one_file_replaces_the_pools():
    text = BUDGET.splitlines()[0] + "\n(EngineCore pid=1) INFO Available KV cache memory: 11.00 GiB\n"
    text += "\n".join(BUDGET.splitlines()[1:]) + "\n(EngineCore pid=9) INFO Available KV cache memory: 36.88 GiB"
    assert answer(text)["consistent"]


def test_several_engines_have_their_own_figures():
    said = answer(logs.DATA_PARALLEL)
    assert [engine["engine_name"] for engine in said["engines"]] == ["DP0", "DP1"]
    assert [engine["figures"]["tokens"] for engine in said["engines"]] == [268_560, 218_448]
    assert said["figures"]["pool_bytes"] == pytest.approx(30 * 2**30)
    shown = texts.explain_log(said)
    assert re.search(r"DP0:\n\npool: 36\.9 GiB.*DP1:\n\npool: 30\.0 GiB", shown, re.DOTALL)


def test_stages_may_be_uneven():
    """92 layers over 4 stages of 23, 23, 24, 22: the largest keeps 24 x 4,096 bytes a token."""
    text = (
        "vLLM\nINFO Available KV cache memory: 9.00 GiB\nGPU KV cache size: 98,304 tokens\npipeline_parallel_size=4\n"
    )
    said = answer(text, LAYERS_92, pp_partition="23,23,24,22")
    assert said["model_bytes_per_token"] == 24 * 4096
    assert agreed(said) == {"pool"}
    printed = answer("VLLM_PP_LAYER_PARTITION='23,23,24,22'\n" + text, LAYERS_92)
    assert (printed["figures"]["partition"], agreed(printed)) == ("23,23,24,22", {"pool"})
    even = answer(text, LAYERS_92)
    assert even["consistent"], "another partition may be why"
    assert not agreed(even)
    with pytest.raises(
        ValueError, match=r"^pp_partition: '1,x' given; allowed: layers of each stage, such as 23,23,24,22"
    ):
        answer(text, LAYERS_92, pp_partition="1,x")


def test_an_unknown_type_of_kv_is_named_and_nothing_is_held_against_the_model():
    text = BUDGET.replace("kv_cache_dtype=auto", "kv_cache_dtype=turbo3")
    said = answer(text)
    assert said["consistent"]
    assert said["findings"][0]["figure"] == "kv_dtype"
    assert said["model_bytes_per_token"] is None


def test_the_budget_of_v1_gives_pool_and_tokens():
    said = answer(BUDGET)
    low, high = said["implied_bytes_per_token"]
    assert (round(low), round(high)) == (147_423, 147_472)
    (budget,) = [finding for finding in said["findings"] if finding["figure"] == "budget"]
    assert (budget["printed"], budget["expected"]) == ("36.88 GiB", "36.89 GiB")


POOL = "GPU KV cache size: 31,232 tokens\n"


@pytest.mark.parametrize(
    ("line", "figure"),
    [
        ("Available KV cache memory: -1.5 GiB", "pool_bytes"), ("Available KV cache memory: 0.00 GiB", "pool_bytes"),
        ("total_gpu_memory=-15.1 GiB", "total_bytes"), ("tensor_parallel_size=0", "tp"),
        ("pipeline_parallel_size=0", "pp"), ("block_size=0", "block_tokens"), ("max_num_seqs=0", "max_num_seqs"),
        ("gpu_memory_utilization=1.01", "utilization"), ("gpu_memory_utilization=0.0", "utilization"),
        ("mem_fraction_static=1.5", "mem_fraction"),
    ],
)  # fmt: skip
def test_a_figure_that_no_engine_runs_with_cannot_be_true(line: str, figure: str) -> None:
    findings = {found.figure: found for found in check(read_log(POOL + line))}
    assert findings[figure].agrees is False
    assert not consistent(list(findings.values()))


@pytest.mark.parametrize("line", ["took -0.52 GiB", "Graph capturing finished in 5 secs, took -0.52 GiB", "tp_size=1"])
def test_graphs_may_give_memory_back(line: str) -> None:
    assert consistent(check(read_log(POOL + line)))
