"""Every command answers as it was last read: all numbers to seven digits, and all words.

Each command line is also given with one flag more; what differs then is kept. After a change that is meant, write
`data/kept/answers.json` anew and read what differs:

    python -m tests.cli.test_kept_answers
"""

import json
from pathlib import Path
from typing import Any

import pytest

from kvmodel.cli import command_line
from kvmodel.errors import CaseError
from kvmodel.inputs.questions import INPUTS
from tests.helpers import kept

ROOT = Path(__file__).parents[2]
DATA = "tests/data"
LOAD = "--requests 90 --requests-per-s 30 --num-blocks 2500"
OF_A_CASE = (
    "--model opt-13b --gpu a100-sxm4-40gb --layout per-layer-kv", "--model mixtral-8x7b --tp 4", "--model gemma-3-27b",
    "--gpu h100-sxm5-80gb --link pcie5-x16", "--rate link", "--tp 2", "--kv-dtype fp8", "--tokens 1", "--tokens 777",
    "--tokens 100000", "--block-tokens 64", "--layout per-layer", "--runs-per-block 3", "--copy-gb-per-s 1.7",
    "--per-copy-us 31", "--gemm-efficiency 0.41", "--request-overhead-ms 7", "--preemptions 7", "--tokens-between 900",
    "--generated-tokens 5", "--decode-batch 0", "--decode-batch 300", "--decode-context 9000", "--remaining-output 9",
    "--max-num-batched-tokens 512", "--survival 0.37", "--survival 1", "--timing kernels", "--timing 2023",
    "--policy vllm-v0", "--policy vllm-v1", "--policy vllm-v1-offload", "--policy lmcache", "--policy sglang",
    "--policy sglang-hicache", "--policy trtllm-no-evict", "--policy trtllm-suspend", "--objective gpu-time",
    "--copy-method per-copy", "--copy-method kernel", "--host-memory pageable", "--pinning first-use", "--numa far",
    "--duplex both-ways",
)  # fmt: skip
OF_A_SIZE = ("--tokens 1", "--tokens 33333", "--kv-dtype fp8", "--tp 2", "--tp 8", "--block-tokens 64")
OF_A_POOL = (
    "--utilization 0.8", "--max-model-len 4096", "--unchunked", "--max-num-seqs 17", "--pp 2", "--dcp 2",
    "--swap-gib 7", "--offload-gib 70", "--draft-tokens 3", "--weight-gib 11", "--max-num-batched-tokens 16384",
    "--kv-dtype fp8", "--tp 2", "--block-tokens 64",
)  # fmt: skip
OF_COPIES = (
    "--gpu h100-sxm5-80gb", "--link pcie3-x16", "--rate link", "--copies 300 --bytes-per-copy 4096",
    "--copies 9 --bytes-per-copy 3e7", "--copy-method kernel", "--copy-method batched", "--direction d2h",
    "--host-memory pageable", "--pinning first-use", "--numa far", "--duplex both-ways", "--copy-gb-per-s 3",
    "--per-copy-us 9", "--policy vllm-v1-offload",
)  # fmt: skip
OF_A_RUN = (
    *(f"--scheduler {name}" for name in (
        "vllm-v1-first-chunk", "vllm-v1-offload", "vllm-v1-offload-all", "vllm-v0", "vllm-v0-swap", "sglang",
        "sglang-hicache", "trtllm-no-evict", "trtllm-suspend", "wait")),
    "--workload agents", "--workload retrieval", "--workload real-run", "--burstiness 0",
    "--burstiness 3", "--clients 20", "--seed 3",
    "--watermark 0.1", "--max-num-seqs 9", "--slo-ttft-s 0.3", "--slo-tpot-ms 20", "--tp 2", "--host-gib 1",
    *(f"--scheduler {name} --watermark 0.1" for name in ("vllm-v1-first-chunk", "vllm-v1-offload", "vllm-v0")),
    "--max-num-batched-tokens 512",
)  # fmt: skip
MODELS = ("llama-3-8b", "gemma-3-27b", "mixtral-8x7b", "deepseek-v3", "gpt-oss-120b", "opt-13b")
LOGS = sorted([*(ROOT / DATA / "pool_logs").glob("*.log"), *(ROOT / "tests/startup_log/field").glob("*.log")])
BASES: dict[str, tuple[str, ...]] = {
    "compare": OF_A_CASE,
    "compare --model llama-3-70b --gpu h100-sxm5-80gb --tp 8 --tokens 32768 --preemptions 3": (),
    **{f"size --model {name} --tokens 5000": OF_A_SIZE for name in MODELS},
    **{f"capacity --model {name} --gpu h200-sxm-141gb --tp 8": OF_A_POOL for name in MODELS[:2]},
    "capacity --model deepseek-v3 --gpu h200-sxm-141gb --tp 8": ("--dcp 2", "--tp 4"),
    "capacity --model llama-3.1-8b --gpu a10g-24gb": OF_A_POOL,
    "prefill": (
        "--batch 7", "--past 3000", "--tokens 30", "--tokens 30000", "--model mixtral-8x7b --tp 2", "--timing kernels",
        "--timing 2023", "--gemm-efficiency 0.41", "--request-overhead-ms 7", "--max-num-batched-tokens 512",
    ),
    "copy": OF_COPIES,
    "calibrate --model llama-3.1-8b --gpu h100-sxm5-80gb --tokens 10000 --prefill-s 0.263": (
        "--prefill2-tokens 20000 --prefill2-s 0.61", "--copy-s 0.071", "--copy-s 0.071 --direction d2h",
        "--copy-s 0.071 --copy2-tokens 300 --copy2-s 0.0031",
    ),
    f"pressure {LOAD}": OF_A_RUN,
    f"remedies {LOAD}": ("--objective ttft-p99", "--objective throughput", "--objective itl-p99",
                         "--engine-version 0.18.0", "--scheduler sglang"),
    f"remedies {LOAD} --model mixtral-8x7b --tp 4": (), f"remedies {LOAD} --scheduler trtllm-no-evict": (),
    "pressure --requests 20 --num-blocks 260 --scheduler vllm-v0 --watermark 0.9": (),
    f"simulate {DATA}/oracle/stress-003.json": (),
    "figure19": (), "scenarios": (), "claims": (), "evidence": (),
    **{f"{command} --product {name}": () for command in ("rules", "dashboard")
       for name in ("vllm", "sglang", "tensorrt-llm")},
    **{f"explain-log {path.relative_to(ROOT)}": ("--model llama-3.1-8b", "--tp 2", "--pp 2") for path in LOGS},
}  # fmt: skip


def ran(line: str) -> str:
    try:
        return command_line.run(line.split())
    except CaseError as error:
        return json.dumps({"refused": str(error)})


def answer(line: str) -> dict[str, Any]:
    found = json.loads(ran(f"{line} --json"))
    return {name: value for name, value in found.items() if name not in ("rules", "promql")}


def answers(line: str) -> dict[str, Any]:
    """Its words, its numbers, and those that each flag changes."""
    changes = {change: f"{line} {change}" for change in BASES[line]}
    said = [] if line.startswith("dashboard") else ran(line).splitlines()
    return {"said": said} | kept.with_changes(answer, line, changes)


@pytest.fixture(scope="module")
def read() -> dict[str, Any]:
    return kept.read("answers")


@pytest.mark.parametrize("line", BASES)
def test_a_command_answers_as_it_was_read(line: str, read: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert answers(line) == read[line]


def of_help() -> dict[str, Any]:
    """What each command is for, its example, and each input's words and what it is where it is left out."""
    commands = {name: f"{one.help}: {one.example}" for name, one in command_line.COMMANDS.items()}
    return {"commands": commands, "inputs": {name: f"{one.help}: {one.default}" for name, one in INPUTS.items()}}


def test_the_help_says_what_it_said(read: dict[str, Any]) -> None:
    assert of_help() == read["help"]


if __name__ == "__main__":
    kept.write("answers", {line: answers(line) for line in BASES} | {"help": of_help()})
