"""Pages of /metrics for tests: the samples in data/metrics, and a vLLM server made to order."""

import os
import shutil
from pathlib import Path

import pytest

SAMPLES = Path(__file__).parents[1] / "data" / "metrics"


def sample(name: str) -> bytes:
    return (SAMPLES / f"{name}.prom").read_bytes()


def vllm(
    *,
    running=8.0,
    waiting=0.0,
    usage=0.5,
    preemptions=0.0,
    finished=1000.0,
    prompt=1500.0,
    output=300.0,
    engine="0",
    model="meta-llama/Llama-3.1-8B-Instruct",
    blocks=5000,
    settings=None,
    labels="",
) -> str:
    """A page of vLLM V1, 0.20.0 or newer, with `prompt` and `output` tokens of the mean request."""
    own = f'engine="{engine}",model_name="{model}"{labels}'
    config = {
        "block_size": 16, "cache_dtype": "auto", "enable_prefix_caching": "True", "engine": engine,
        "gpu_memory_utilization": 0.92, "kv_offloading_size": "None", "num_gpu_blocks": blocks, **(settings or {}),
    }  # fmt: skip
    written = ",".join(f'{key}="{value}"' for key, value in config.items())
    return f"""\
vllm:num_requests_running{{{own}}} {running}
vllm:num_requests_waiting{{{own}}} {waiting}
vllm:num_requests_waiting_by_reason{{{own},reason="capacity"}} {waiting}
vllm:kv_cache_usage_perc{{{own}}} {usage}
vllm:num_preemptions_total{{{own}}} {preemptions}
vllm:request_success_total{{finished_reason="stop",{own}}} {finished}
vllm:prompt_tokens_total{{{own}}} {finished * prompt}
vllm:generation_tokens_total{{{own}}} {finished * output}
vllm:cache_config_info{{{written}{labels}}} 1.0
"""


def program(name: str) -> str:
    """The path of a program of Debian's package prometheus; skips, or fails where nothing may be left out."""
    found = shutil.which(name)
    if found is None:
        missing = f"no {name} on PATH: apt-get install prometheus"
        if os.environ.get("CI") or os.environ.get("KVMODEL_REQUIRE_ALL"):
            pytest.fail(missing)
        pytest.skip(missing)
    return found
