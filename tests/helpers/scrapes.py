"""Pages of /metrics for tests: the samples in data/metrics, and a vLLM server made to order."""

import os
import shutil
from pathlib import Path

import pytest

SAMPLES = Path(__file__).parents[1] / "data" / "metrics"
FIELD = Path(__file__).parents[1] / "data" / "field"


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


def turned_away(requests=0.0, tokens=0.0, model="meta-llama/Llama-3.1-8B-Instruct") -> str:
    """Requests that vLLM's API server rejected, of all its engines together, by the limit that did it."""
    name = "vllm:admission_rejections_total"
    return "".join(
        f'{name}{{model_name="{model}",reason="max_num_queued_{what}"}} {count}\n'
        for what, count in (("reqs", requests), ("tokens", tokens))
    )


def asleep(awake=0, engine="0", model="meta-llama/Llama-3.1-8B-Instruct") -> str:
    """The state of a vLLM that was put to sleep with its weights on the host, or is awake."""
    own = f'engine="{engine}",model_name="{model}"'
    states = {"awake": awake, "weights_offloaded": 1 - awake, "discard_all": 0}
    return "".join(
        f'vllm:engine_sleep_state{{{own},sleep_state="{state}"}} {value}\n' for state, value in states.items()
    )


def from_sources(engine="0", model="meta-llama/Llama-3.1-8B-Instruct", **tokens) -> str:
    """Prompt tokens of a vLLM by their source."""
    name = "vllm:prompt_tokens_by_source_total"
    own = f'engine="{engine}",model_name="{model}"'
    return "".join(f'{name}{{{own},source="{source}"}} {count}\n' for source, count in tokens.items())


def program(name: str) -> str:
    """The path of a program of Debian's package prometheus; skips, or fails where nothing may be left out."""
    found = shutil.which(name)
    if found is None:
        missing = f"no {name} on PATH: apt-get install prometheus"
        if os.environ.get("CI") or os.environ.get("KVMODEL_REQUIRE_ALL"):
            pytest.fail(missing)
        pytest.skip(missing)
    return found


def sglang(
    *, running=8.0, waiting=0.0, usage=0.5, preemptions=None, finished=1000.0, tokens=400_000.0,
    prompt_tokens=800_000.0, labels="",
) -> str:  # fmt: skip
    """A page of SGLang, whose counter of retractions is born with the first; `tokens` are generated ones."""
    own = f'model_name="m"{labels}'
    retracted = f"sglang:num_retracted_requests_total{{{own}}} {preemptions}\n" if preemptions is not None else ""
    return f"""\
sglang:num_running_reqs{{{own}}} {running}
sglang:num_queue_reqs{{{own}}} {waiting}
sglang:token_usage{{{own}}} {usage}
sglang:num_retracted_reqs{{{own}}} 0
sglang:max_total_num_tokens{{{own}}} 80000
{retracted}sglang:num_requests_total{{{own}}} {finished}
sglang:prompt_tokens_total{{{own}}} {prompt_tokens}
sglang:generation_tokens_total{{{own}}} {tokens}
"""


def trtllm(
    *, running=8.0, waiting=0.0, usage=0.5, finished=1000.0, tokens=400_000.0, prompt_tokens=800_000.0
) -> str:  # fmt: skip
    """A page of TensorRT-LLM, which counts no pauses; `tokens` are generated ones."""
    own = 'model_name="m"'
    return f"""\
trtllm_num_requests_running{{{own}}} {running}
trtllm_num_requests_waiting{{{own}}} {waiting}
trtllm_kv_cache_utilization{{{own}}} {usage}
trtllm_request_success_total{{{own},finished_reason="length"}} {finished}
trtllm_prompt_tokens_total{{{own}}} {prompt_tokens}
trtllm_generation_tokens_total{{{own}}} {tokens}
"""


def between(before, after, seconds=600.0, facts=None):
    """The diagnosis of a vLLM server between two pages: what it has before, and what changes."""
    from kvmodel.diagnosis.from_scrapes import diagnose

    start = {"preemptions": 1000, "finished": 5000}
    return diagnose(vllm(**start | before), vllm(**start | before | after), seconds=seconds, facts=facts)
