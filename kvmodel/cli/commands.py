"""The commands of `python -m kvmodel`: what each is for, what it takes, and how it answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from kvmodel import catalog
from kvmodel.catalog import kv_dtypes
from kvmodel.cli import answers
from kvmodel.errors import CaseError
from kvmodel.inputs import questions
from kvmodel.inputs.case import Case
from kvmodel.inputs.questions import CASE, LOAD, SERVER, SLO
from kvmodel.recovery import resolve


def answers_texts() -> ModuleType:
    from kvmodel.texts import answers

    return answers


def judgement_texts() -> ModuleType:
    from kvmodel.texts import judgement

    return judgement


def startup_log_texts() -> ModuleType:
    from kvmodel.texts import startup_log

    return startup_log


def diagnosis_texts() -> ModuleType:
    from kvmodel.texts import diagnosis

    return diagnosis


def simulation_texts() -> ModuleType:
    from kvmodel.texts import simulation

    return simulation


def remedy_table_texts() -> ModuleType:
    from kvmodel.texts import remedy_table

    return remedy_table


@dataclass(frozen=True)
class Command:
    """What a command is for, the inputs it takes (Case fields, its own flags, words without a flag), and its answer.

    `texts` imports the module whose function of the command's name writes the answer for people: JSON does without.
    """

    help: str
    example: str
    answer: Callable[[Case, dict[str, Any]], dict[str, Any]]
    fields: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    rows: bool = False
    output: bool = False
    texts: Callable[[], ModuleType] = answers_texts


def size(case: Case, inputs: dict[str, Any]) -> dict[str, Any]:
    return (
        echo(case, "size", inputs)
        | answers.size(case, numbers(case, inputs))
        | {"fields_used": answers.fields_used(case, inputs.get("reading"))}
        | answers.config_answer(inputs.get("reading"))
        | answers.kv_notes(case)
    )


def pool(case: Case, inputs: dict[str, Any]) -> dict[str, Any]:
    return echo(case, "capacity", inputs) | answers.pool(case, numbers(case, inputs))


def prefill(case: Case, inputs: dict[str, Any]) -> dict[str, Any]:
    values = numbers(case, inputs)
    resolve.require_sequence_fits(case, values)
    answer = answers.prefill(case, values)
    return echo(case, "prefill", inputs) | answer | {"kernel_parts": answers.prefill_parts(case, values)}


def copy(case: Case, inputs: dict[str, Any]) -> dict[str, Any]:
    return echo(case, "copy", inputs) | {"link": case.link_id} | answers.copy(case, numbers(case, inputs))


def compare(case: Case, inputs: dict[str, Any]) -> dict[str, Any]:
    from kvmodel.recovery import comparison

    return comparison.as_json(comparison.compare_case(case))


def figure19(case: Case, inputs: dict[str, Any]) -> dict[str, Any]:
    from kvmodel.claims.figure19 import figure19

    return vars(figure19())


def scenarios(case: Case, inputs: dict[str, Any]) -> dict[str, Any]:
    from kvmodel.claims.scenarios import rows

    return {"rows": rows()}


def claims(case: Case, inputs: dict[str, Any]) -> dict[str, Any]:
    from kvmodel.claims.ledger import rows

    return {"claims": rows()}


def evidence(case: Case, inputs: dict[str, Any]) -> dict[str, Any]:
    from kvmodel.evidence import evidence_answers

    return evidence_answers.evidence_answer(inputs["file"])


def calibrate(case: Case, inputs: dict[str, Any]) -> dict[str, Any]:
    from kvmodel.evidence import evidence_answers

    return evidence_answers.calibrate(case, inputs)


def explain_log(case: Case, inputs: dict[str, Any]) -> dict[str, Any]:
    from kvmodel.startup_log import log_answer

    return log_answer.explain(case, inputs)


def simulate(case: Case, inputs: dict[str, Any]) -> dict[str, Any]:
    from kvmodel.cli import simulate_file

    if inputs["file"] is None:
        raise CaseError("file: none given; allowed: a JSON file with config and requests")
    return simulate_file.simulate(inputs["file"])


def pressure(case: Case, inputs: dict[str, Any]) -> dict[str, Any]:
    from kvmodel.simulation import pressure

    notes = {"notes": list(kv_dtypes.notes(catalog.model(case.model).kv_layers, case.kv_dtype))}
    return echo(case, "pressure", inputs) | pressure.pressure(case, inputs) | notes


def remedies(case: Case, inputs: dict[str, Any]) -> dict[str, Any]:
    from kvmodel.simulation import pressure

    return echo(case, "remedies", inputs) | pressure.ladder(case, inputs)


def sweep(case: Case, inputs: dict[str, Any]) -> dict[str, Any]:
    from kvmodel.cli import sweep_file

    return sweep_file.answer(case, inputs)


def chart(case: Case, inputs: dict[str, Any]) -> dict[str, Any]:

    from kvmodel.cli import documents

    return documents.chart(inputs["name"], case, inputs["output"])


def report(case: Case, inputs: dict[str, Any]) -> dict[str, Any]:
    from kvmodel.cli import documents

    return documents.report(case, inputs)


def diagnose(case: Case, inputs: dict[str, Any]) -> dict[str, Any]:
    from kvmodel.cli import operations

    return operations.diagnose(numbers(case, inputs))


def rules(case: Case, inputs: dict[str, Any]) -> dict[str, Any]:
    from kvmodel.cli import operations

    return operations.rules(inputs)


def dashboard(case: Case, inputs: dict[str, Any]) -> dict[str, Any]:
    from kvmodel.cli import operations

    return operations.dashboard(inputs)


COMMANDS = {
    "size": Command(
        "KV cache bytes of a request", "--model llama-3-8b --tokens 4096", size,
        ("model", "tokens", "kv_dtype", "tp", "block_tokens"), questions.CONFIG, rows=True,
    ),
    "capacity": Command(
        "memory left for KV on a GPU, and how many requests it holds",
        "--model llama-3.1-8b --gpu h100-sxm5-80gb --max-model-len 32768", pool,
        ("model", "gpu", "tp", "kv_dtype", "block_tokens", "max_num_batched_tokens"),
        ("utilization", "max_model_len", "unchunked", "max_num_seqs", "pp", "dcp", "swap_gib", "offload_gib",
         "draft_tokens", "weight_gib", *questions.CONFIG),
    ),
    "prefill": Command(
        "seconds to prefill, or to recompute a lost KV cache, alone on the GPU",
        "--model llama-3-8b --gpu a100-sxm4-80gb --tokens 4096", prefill,
        ("model", "gpu", "tp", "tokens", "timing", "max_num_batched_tokens", "gemm_efficiency", "request_overhead_ms"),
        ("batch", "past", *questions.CONFIG), rows=True,
    ),
    "copy": Command(
        "seconds to copy between GPU and host, one way",
        "--gpu h100-sxm5-80gb --bytes-per-copy 2097152 --copies 256", copy,
        ("gpu", "link", "rate", "policy", "copy_method", "host_memory", "pinning", "numa", "duplex", "copy_gb_per_s",
         "per_copy_us"),
        ("bytes_per_copy", "copies", "direction"), rows=True,
    ),
    "compare": Command(
        "wait, recompute, swap, offload or both: what each costs, which wins, and where that turns",
        "--model llama-3-8b --gpu a100-sxm4-80gb --tokens 8192 --preemptions 3", compare, CASE,
        questions.CONFIG, rows=True,
    ),
    "figure19": Command("Figure 19a of the vLLM paper, rebuilt: swap against recompute by block size", "", figure19),
    "scenarios": Command("the recommended-strategy table: the article's word beside the model's", "", scenarios),
    "claims": Command("what the article and the vLLM paper say, judged: verdict, our number, condition", "", claims),
    "evidence": Command(
        "the model's errors on published measurements, or on your own: FILE.csv with the columns of steps.csv", "",
        evidence, words=("file",), texts=judgement_texts,
    ),
    "calibrate": Command(
        "what a prefill or a copy that you measured implies, and the inputs that make the model say the same",
        "--model llama-3.1-8b --gpu h100-sxm5-80gb --tokens 10000 --prefill-s 0.263", calibrate, CASE,
        ("prefill_s", "prefill2_tokens", "prefill2_s", "copy_s", "copy2_tokens", "copy2_s", "direction"),
        texts=judgement_texts,
    ),
    "explain-log": Command(
        "each figure of an engine's start-up log explained, and held against the model",
        "tests/data/pool_logs/vllm-0.6.4.log --model llama-3.1-8b", explain_log, ("kv_dtype", "tp"),
        ("model", "pp", "pp_partition", "dcp", *questions.CONFIG),
        words=("file",), texts=startup_log_texts,
    ),
    "diagnose": Command(
        "what a server's metrics say is wrong, and what to change first: one scrape, two, or a Prometheus",
        "scrape.prom later.prom --seconds 600 --gpu h100-sxm5-80gb --gpu-hour 2.5", diagnose,
        ("tp", "max_num_batched_tokens", "timing"),
        ("seconds", "prometheus", "window", "match", "model", "gpu", "max_num_seqs", "gpu_hour", "engine_version"),
        words=("scrape", "scrape2"), texts=diagnosis_texts,
    ),
    "rules": Command(
        "recording and alerting rules for the names a server has; without a scrape for an engine's newest",
        "scrape.prom -o kv-rules.yml", rules, (), ("product", "prometheus", "window", "match"),
        words=("scrape",), output=True, texts=diagnosis_texts,
    ),
    "dashboard": Command(
        "a Grafana dashboard for the names a server has; without a scrape for an engine's newest",
        "scrape.prom -o kv-dashboard.json", dashboard, (), ("product", "prometheus", "window", "match"),
        words=("scrape",), output=True, texts=diagnosis_texts,
    ),
    "simulate": Command(
        "every decision of vLLM V1's scheduler for the settings and requests of a JSON file, in steps; its "
        "num_blocks are those that requests can have, one fewer than num_gpu_blocks",
        "tests/data/oracle/stress-003.json --json", simulate, words=("file",), texts=simulation_texts,
    ),
    "pressure": Command(
        "a server under a workload: preemptions, times of the requests, throughput",
        "--workload chat --requests-per-s 8 --num-blocks 6000", pressure,
        SERVER, (*LOAD, *SLO), texts=simulation_texts,
    ),
    "remedies": Command(
        "what each remedy buys a server under a workload, best first for an objective, beside the article's order",
        "--workload chat --requests-per-s 8 --num-blocks 8000 --objective ttft-p99", remedies,
        SERVER, (*LOAD, "objective", "engine_version"), texts=remedy_table_texts,
    ),
    "sweep": Command(
        "compare, or pressure, for every case of a grid into a .csv or .parquet file",
        "--over tokens=1024,4096,16384 --over policy=vllm-v0,vllm-v1 -o grid.csv", sweep,
        CASE, (*LOAD, *SLO, "over", "what", "processes", "dask"), output=True, texts=remedy_table_texts,
    ),
    "chart": Command(
        "draw a chart into a file: .html (works offline), .svg, .png, .json or .csv",
        "NAME --tokens 8192 -o chart.html", chart, CASE, words=("name",), output=True,
    ),
    "report": Command(
        "a one-page memo for a design review into a file: .html (works offline) or .md with its charts beside it",
        "--gpu h100-sxm5-80gb --tokens 8192 -o memo.html", report, CASE, ("app_url",), output=True,
    ),
}  # fmt: skip


def numbers(case: Case, inputs: dict[str, Any]) -> dict[str, Any]:
    return vars(case) | inputs


def echo(case: Case, command: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """The inputs that an answer is for."""
    values = {field: value for field, value in inputs.items() if field != "reading"}
    return {field: vars(case)[field] for field in COMMANDS[command].fields} | values
