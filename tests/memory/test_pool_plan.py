"""The memory budget against start-up logs: the pool from the logged peak, the peak predicted, and its uncertainty."""

import csv
from pathlib import Path

import pytest

from kvmodel import catalog
from kvmodel.cli import command_line
from kvmodel.errors import CaseError
from kvmodel.hf import config_file
from kvmodel.inputs.case import Case
from kvmodel.memory import gpu_memory, levers, pool_plan, printed_by_engine
from kvmodel.units import GIB

DATA = Path(__file__).parents[1] / "data"
ROWS = {row["id"]: row for row in csv.DictReader((DATA / "pool_logs/capacity_logs.csv").open(encoding="utf-8"))}
MODELS = {  # id of a row: a model of the catalog, or a config.json
    "L001": "llama-3.1-8b", "L002": "llama-3.1-8b", "L003": "qwen2.5-7b", "L019": "hfdef-opt.json",
    "L020": "mlc-phi-1_5.json", "L027": "llama-3.2-3b", "L028": "llama-3.2-3b", "L030": "llama-3.1-8b",
    "L033": "llama-3.2-3b", "L034": "mistral-7b-v0.3", "L035": "phi-4", "L036": "mlc-qwen2.5_3b.json",
    "L037": "qwen2.5-7b", "L041": "phi-4", "L131": "gemma-3-27b", "L132": "gemma-3-27b",
}  # fmt: skip
UNFUSED = ("L131", "L132")  # MI50: no fused attention kernel, its profiling pass is quadratic
NOT_PREDICTED = ("L133",)  # neither its length nor how many GPUs it is on are known


def value(row, column):
    return float(row[column]) if row[column] else 0.0


def peak_gib(row):
    """The logged activation peak: apart, or as peak torch memory less weights."""
    apart = value(row, "activation_gib_logged")
    return apart or value(row, "peak_torch_gib_logged") - value(row, "weights_gib_logged")


def usable_gib(row):
    """The printed utilisation is rounded: 0.696 is shown as 0.70 in one of the logs."""
    return value(row, "gpu_mem_gib") * value(row, "util")


def model_of(name):
    return (
        config_file.read_file(str(DATA / "hf_configs" / name)).model if name.endswith(".json") else catalog.model(name)
    )


BUDGETS = [row for row in ROWS.values() if "budget(" in row["checks"]]


@pytest.mark.parametrize("row", BUDGETS, ids=lambda row: row["id"])
def test_pool_from_the_logged_peak(row):
    spent = value(row, "weights_gib_logged") + value(row, "non_torch_gib_logged") + peak_gib(row)
    assert usable_gib(row) - spent == pytest.approx(value(row, "kv_gib_logged"), abs=0.1)


@pytest.mark.parametrize("row", [row for row in BUDGETS if row["id"] not in NOT_PREDICTED], ids=lambda row: row["id"])
def test_peak_predicted_within_a_factor_of_two(row):
    predicted = predicted_peak_gib(row)
    assert 0.5 < predicted / peak_gib(row) < 2
    spent = value(row, "weights_gib_logged") + value(row, "non_torch_gib_logged") + predicted
    if value(row, "kv_gib_logged") > 10:
        assert usable_gib(row) - spent == pytest.approx(value(row, "kv_gib_logged"), rel=0.1)


def predicted_peak_gib(row):
    return gpu_memory.unchunked_activation_bytes(
        model_of(MODELS[row["id"]]),
        max_model_len=int(value(row, "max_model_len")),
        tp=int(value(row, "tp") or 1),
        fused_attention=row["id"] not in UNFUSED,
    ) / GIB  # fmt: skip


def test_without_a_fused_kernel_the_peak_is_quadratic():
    """nlzy/vllm-gfx906#10: twice the length, 2.87 -> 10.32 GiB."""
    short, long = (predicted_peak_gib(ROWS[row_id]) for row_id in UNFUSED)
    assert long / short > 3


def test_the_sampler_may_be_the_peak():
    """256 sequences of Qwen2.5 7B: 1.42 GiB at 4,096 tokens, whatever the length below that."""
    qwen = catalog.model("qwen2.5-7b")
    peaks = [gpu_memory.unchunked_activation_bytes(qwen, max_model_len=length) for length in (512, 4096)]
    assert peaks[0] == peaks[1] == 39 * 256 * 152_064
    assert peaks[0] / GIB == pytest.approx(1.42, abs=0.02)
    assert gpu_memory.unchunked_activation_bytes(qwen, max_model_len=512, max_num_seqs=128) < peaks[0]


def test_the_uncertainty_of_a_predicted_pool_is_shown():
    report = gpu_memory.pool_report(
        catalog.model("llama-3-8b"), catalog.gpu("a100-sxm4-80gb"), max_num_batched_tokens=2048, max_model_len=8192
    )
    assert report["pool_low_bytes"] < report["pool_bytes"] < report["pool_high_bytes"]
    low = report["pool_bytes"] - report["activation_bytes"] - 0.025 * report["weight_bytes"] - 0.4 * GIB
    assert report["pool_low_bytes"] == pytest.approx(low)


def test_a_refusal_names_the_longest_that_fits():
    with pytest.raises(gpu_memory.DoesNotFit, match=r"allowed: up to [0-9,]+ tokens"):
        gpu_memory.pool_report(
            catalog.model("llama-3-8b"), catalog.gpu("l4"), max_num_batched_tokens=2048, max_model_len=131_072
        )


def test_pipeline_stages_share_out_weights_and_layers():
    model, gpu = catalog.model("llama-3-8b"), catalog.gpu("a100-sxm4-80gb")
    asked = {"max_num_batched_tokens": 2048, "max_model_len": 8192}
    whole, half = gpu_memory.pool_report(model, gpu, **asked), gpu_memory.pool_report(model, gpu, pp=2, **asked)
    assert half["weight_bytes"] == whole["weight_bytes"] / 2
    assert half["max_concurrency"] == pytest.approx(half["pool_bytes"] / (8192 * 131_072 / 2))


# --- as engines print it, and what frees memory ---


def test_one_pool_in_the_words_of_each_engine():
    lines = printed_by_engine.prints(Case(model="llama-3-8b"), 10 * GIB, max_model_len=8192, swap_gib=4)
    tokens = 10 * GIB // 131_072
    assert {line.tokens for line in lines.values()} == {tokens}
    assert (lines["vllm-v0"].blocks, lines["vllm-v0"].cpu_blocks) == (tokens // 16, 2048)
    assert lines["trt-llm"].blocks == tokens // 64


def test_a_hybrid_model_has_two_numbers():
    lines = printed_by_engine.prints(Case(model="gemma-3-27b"), 100 * GIB, max_model_len=32_768)
    assert lines["vllm"].concurrency > 2 * lines["vllm-hybrid-off"].concurrency
    assert lines["vllm"].tokens > lines["vllm-v1"].tokens  # concurrency x length against what all groups hold


def test_levers_say_what_they_free():
    startup = pool_plan.Startup(case=Case(model="llama-3-8b"), max_model_len=8192)
    rows = {row["lever"]: row for row in levers.as_rows(levers.levers(startup))}
    now = rows["as it is"]
    assert now["freed_bytes"] == 0
    assert rows["kv_dtype fp8"]["requests"] == pytest.approx(2 * now["requests"], rel=1e-4)
    four_bit = 6_979_321_856 * (0.5 + 2 / 128) + 2 * (8_030_261_248 - 6_979_321_856)
    assert rows["weights in 4 bits"]["freed_bytes"] == pytest.approx(2 * 8_030_261_248 - four_bit)
    assert rows["utilization 0.97"]["freed_bytes"] == pytest.approx(0.05 * catalog.gpu("a100-sxm4-80gb").memory_bytes)
    assert rows["max_num_batched_tokens 1024"]["freed_bytes"] == 1024 * (3 * 4096 + 3 * 14336) * 2
    assert rows["tp 2"]["requests"] > 2 * now["requests"]


def test_host_memory_for_an_offload_pool():
    """64 GiB of host memory for two GPUs hold 32 GiB of each one's half of Llama 3 8B's KV."""
    host = printed_by_engine.host_pool(Case(model="llama-3-8b", tp=2), 64, max_model_len=8192)
    assert host["host_pool_tokens"] == 32 * GIB // 65_536
    assert host["host_requests"] == 64
    assert printed_by_engine.host_pool(Case(), None, max_model_len=8192) == {}


# --- from the shell ---

CONFIG = str(DATA / "hf_configs/gemma-3-27b-it.json")


@pytest.mark.parametrize(
    ("command", "keys"),
    [
        (["size", "--config", CONFIG, "--tokens", "8192"], "kv_bytes growth_bytes_per_token fields_used parameters"),
        (["capacity", "--config", CONFIG, "--gpu", "h100-sxm5-80gb", "--max-model-len", "8192"], "printed levers"),
        (["prefill", "--config", CONFIG, "--gpu", "h100-sxm5-80gb"], "prefill_s"),
        (["compare", "--config", CONFIG, "--gpu", "h100-sxm5-80gb"], "strategies verdict"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)  # fmt: skip
def test_a_config_stands_in_for_a_model(command, keys):
    import json

    own = json.loads(command_line.run([*command, "--json"]))
    assert set(keys.split()) <= set(own)
    known = json.loads(command_line.run([command[0], "--model", "gemma-3-27b", *command[3:], "--json"]))
    for key in ("kv_bytes", "growth_bytes_per_token", "pool_bytes", "prefill_s", "strategies"):
        assert own.get(key) == known.get(key)
    command_line.run(command)  # the text too


def test_an_unchunked_engine_has_a_peak_of_its_own():
    import json

    asked = ["capacity", "--model", "llama-3.1-8b", "--gpu", "rtx-3090", "--utilization", "0.9", "--json"]
    short, long = (
        json.loads(command_line.run([*asked, "--unchunked", "--max-model-len", str(n)])) for n in (15_000, 20_000)
    )
    assert short["activation_bytes"] - long["activation_bytes"] == -5000 * (3 * 4096 + 3 * 14336) * 2
    assert long["pool_bytes"] < json.loads(command_line.run([*asked, "--max-model-len", "20000"]))["pool_bytes"]


def test_config_flags_have_one_meaning(tmp_path):
    with pytest.raises(CaseError, match=r"^config: given with a model; allowed: one of the two$"):
        command_line.run(["size", "--config", CONFIG, "--model", "llama-3-8b"])
    (tmp_path / "config.json").write_text('{"model_type": "llama", "vocab_size": 32000}', encoding="utf-8")
    short = str(tmp_path / "config.json")
    with pytest.raises(config_file.ConfigRefused, match="which --assume-defaults accepts$"):
        command_line.run(["size", "--config", short])
    assert "524,288 B" in command_line.run(["size", "--config", short, "--assume-defaults"])
    drafted = command_line.run(["size", "--config", short, "--assume-defaults", "--draft-layers", "1"])
    assert "540,672 B" in drafted


@pytest.mark.parametrize("flags", [["--assume-defaults"], ["--draft-layers", "1"]])
@pytest.mark.parametrize("command", ["size", "capacity", "prefill", "compare"])
def test_flags_of_a_config_need_one(command, flags):
    field = flags[0].removeprefix("--").replace("-", "_")
    with pytest.raises(CaseError, match=rf"^{field}: given without config; allowed: beside a model's config\.json$"):
        command_line.run([command, *flags])
    assert command_line.run(["size", "--draft-layers", "0"])  # the default, said


def test_a_column_may_accept_the_classs_defaults(tmp_path):
    asked = str(DATA / "hf_configs/gemma-3-4b-it-like.json")

    def rows(cells, *flags):
        (tmp_path / "rows.csv").write_text(f"config,tokens,assume_defaults\n{asked},100,{cells}\n", encoding="utf-8")
        return command_line.run(["size", "--rows", str(tmp_path / "rows.csv"), *flags])

    assert rows("yes").splitlines()[1].split(",")[3] == rows("", "--assume-defaults").splitlines()[1].split(",")[3]
    with pytest.raises(CaseError, match=r"^line 2 of .*not in the file; the class gemma3_text would take 8"):
        rows("no")
    with pytest.raises(CaseError, match=r"assume_defaults: 'maybe' given; allowed: true or false$"):
        rows("maybe")
