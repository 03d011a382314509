"""Weights as loaded: a log's figure in the model's place, MXFP4's tiles, pools that may be negative, the null block."""

import re

import pytest

from kvmodel import catalog
from kvmodel.catalog import weights
from kvmodel.cli.command_line import run
from kvmodel.errors import CaseError
from kvmodel.hf import config_file
from kvmodel.inputs.case import Case
from kvmodel.memory import levers, pool_plan
from kvmodel.memory.pool_plan import Startup
from kvmodel.simulation import simulate
from kvmodel.simulation.simulate import Engine
from kvmodel.units import GIB

OSS = "--model gpt-oss-120b --gpu h100-sxm5-80gb --max-model-len 131072"
H100 = Case(model="llama-3.1-8b", gpu="h100-sxm5-80gb")


def capacity(arguments):
    return run(["capacity", *arguments.split()])


def span(text):
    low, high = re.search(r"predicted +(-?[0-9.]+) (?:GiB|MiB|B) to ([0-9.]+) GiB", text).groups()
    return float(low), float(high)


def test_mxfp4_experts_are_padded_to_the_kernels_tiles():
    """vLLM issue 23278: 65.97 GiB of gpt-oss-120b: 2,880 x 2,880 become 3,072 x 2,944 in Marlin's."""
    model = catalog.model("gpt-oss-120b")
    experts = 36 * 128 * 3 * 0.53125
    padded = experts * (3072 * 2944 - 2880**2)
    assert weights.loaded_bytes(model) == pytest.approx(weights.weight_bytes(model) + padded)
    assert weights.loaded_bytes(model) / GIB == pytest.approx(65.97, abs=0.1)
    assert weights.loaded_bytes(model, tp=8) == pytest.approx(
        weights.weight_bytes(model) + experts * (3072 * 8 * 384 - 2880**2)
    )
    for other in ("llama-3.1-8b", "qwen3-30b-a3b", "deepseek-v3"):
        assert weights.loaded_bytes(catalog.model(other)) == weights.weight_bytes(catalog.model(other))


def test_a_config_is_padded_like_the_catalogs_row():
    config = {
        "model_type": "gpt_oss", "hidden_size": 2880, "num_hidden_layers": 36, "num_attention_heads": 64,
        "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 2880, "num_local_experts": 128,
        "num_experts_per_tok": 4, "vocab_size": 201088, "sliding_window": 128, "attention_bias": True,
        "quantization_config": {"quant_method": "mxfp4"},
    }  # fmt: skip
    read = config_file.read(config).model
    assert weights.loaded_bytes(read) == pytest.approx(weights.loaded_bytes(catalog.model("gpt-oss-120b")))


@pytest.mark.parametrize(
    ("settings", "seen_gib"),
    [("--utilization 0.95 --max-num-batched-tokens 1024", 1.71), ("--max-num-batched-tokens 8192", -2.14)],
)
def test_what_was_seen_lies_in_what_is_predicted(settings, seen_gib):
    """vLLM issues 27508 and 23278: gpt-oss-120b on one H100."""
    text = capacity(f"{OSS} {settings}")
    low, high = span(text)
    assert low < seen_gib < high
    assert "it may not start" in text


def test_the_logs_weights_stand_in_the_models_place():
    text = capacity(f"{OSS} --max-num-batched-tokens 8192 --weight-gib 65.97")
    assert "weights, as loaded" in text
    assert "66.0 GiB" in text
    plain, given = (pool_plan.plan(Startup(case=H100, weight_gib=gib)) for gib in (None, 20.0))
    assert given.budget.weight_bytes == 20 * GIB
    assert given.pool_bytes == pytest.approx(plain.pool_bytes + plain.budget.weight_bytes - 20 * GIB)
    assert pool_plan.parts(given.budget)["weights"] == 20 * GIB, "the bar's"


def test_levers_split_the_logs_weights_anew():
    every = {lever.what: lever.plan for lever in levers.levers(Startup(case=H100, weight_gib=20.0))}
    assert every["now"].budget.weight_bytes == 20 * GIB
    assert every["tp"].budget.weight_bytes == 10 * GIB
    assert every["weights"].budget.weight_bytes < 20 * GIB


def test_no_pool_at_all_is_one_sentence_with_what_is_short():
    with pytest.raises(CaseError, match=r"so it does not start: 4\.85 GiB short; allowed: "):
        capacity(f"{OSS} --max-num-batched-tokens 8192 --weight-gib 75.97")
    with pytest.raises(CaseError, match=r"^weight_gib: '0' given; allowed: "):
        capacity(f"{OSS} --weight-gib 0")


def test_the_host_pool_is_in_the_text():
    """Half of 120 GiB over 20 KiB a token and rank, as often as 131,072 tokens go into it."""
    text = capacity("--model llama-3.3-70b --gpu gh200-96gb --tp 2 --offload-gib 120")
    (line,) = [line for line in text.splitlines() if line.startswith("host pool")]
    assert "393,216 tokens, 3.00 requests of 131,072" in line
    assert "host pool" not in capacity("--model llama-3.3-70b --gpu gh200-96gb --tp 2")


@pytest.mark.parametrize(
    ("scheduler", "given"),
    [("vllm-v1", 255), ("vllm-v1-offload", 255), ("vllm-v0", 256), ("sglang", 256), ("trtllm-no-evict", 256)],
)
def test_one_block_of_vllm_v1_is_never_given_out(scheduler, given):
    """A real vLLM with 256 blocks decides as the scheduler here with 255."""
    assert simulate.given_out(256, scheduler) == given


def test_a_pool_from_memory_leaves_the_null_block_out():
    case = Case()
    blocks = {
        scheduler: simulate.engine_settings(case, Engine(scheduler=scheduler), simulate.step_inputs(case)).num_blocks
        for scheduler in ("vllm-v1", "sglang")
    }
    assert blocks["vllm-v1"] == blocks["sglang"] - 1
    whole = int(simulate.pool_bytes(case, Engine()) // simulate.block_bytes(case))
    assert blocks["sglang"] == whole
    chosen = simulate.engine_settings(case, Engine(num_blocks=255), simulate.step_inputs(case))
    assert chosen.num_blocks == 255, "what is given is what requests can have"
