"""The commands of `python -m kvmodel`: what each is for, what it takes, and how it answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kvmodel import answers
from kvmodel.case import DEFAULTS, Case

CASE = tuple(DEFAULTS)


@dataclass(frozen=True)
class Command:
    """What a command is for, the inputs it takes (Case fields, its own flags, words without a flag), and its answer.

    `texts` names the module whose function of the command's name writes the answer for people.
    """

    help: str
    example: str
    answer: Callable[[Case, dict[str, Any]], dict[str, Any]]
    fields: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    rows: bool = False
    output: bool = False
    texts: str = "answer_text"


def size(chosen: Case, own: dict[str, Any]) -> dict[str, Any]:
    return (
        echo(chosen, "size", own)
        | answers.size(chosen, numbers(chosen, own))
        | {"fields_used": answers.fields_used(chosen)}
    )


def pool(chosen: Case, own: dict[str, Any]) -> dict[str, Any]:
    return echo(chosen, "capacity", own) | answers.pool(chosen, numbers(chosen, own))


def prefill(chosen: Case, own: dict[str, Any]) -> dict[str, Any]:
    values = numbers(chosen, own)
    answers.require_sequence_fits(chosen, values)
    answer = answers.prefill(chosen, values)
    return echo(chosen, "prefill", own) | answer | {"kernel_parts": answers.prefill_parts(chosen, values)}


def copy(chosen: Case, own: dict[str, Any]) -> dict[str, Any]:
    return echo(chosen, "copy", own) | {"link": chosen.link_id} | answers.copy(chosen, numbers(chosen, own))


def compare(chosen: Case, own: dict[str, Any]) -> dict[str, Any]:
    from kvmodel import comparison

    return comparison.as_json(comparison.compare_case(chosen))


def figure19(chosen: Case, own: dict[str, Any]) -> dict[str, Any]:
    from kvmodel.figure19 import figure19

    return vars(figure19())


def scenarios(chosen: Case, own: dict[str, Any]) -> dict[str, Any]:
    from kvmodel.scenarios import rows

    return {"rows": rows()}


def chart(chosen: Case, own: dict[str, Any]) -> dict[str, Any]:
    from kvmodel import out_file

    return out_file.chart(own["name"], chosen, own["output"])


COMMANDS = {
    "size": Command(
        "KV cache bytes of a request", "--model llama-3-8b --tokens 4096", size,
        ("model", "tokens", "kv_dtype", "tp", "block_tokens"), rows=True,
    ),
    "capacity": Command(
        "memory left for KV on a GPU, and how many requests it holds",
        "--model llama-3.1-8b --gpu h100-sxm5-80gb --max-model-len 32768", pool,
        ("model", "gpu", "tp", "kv_dtype", "block_tokens", "max_num_batched_tokens"), ("utilization", "max_model_len"),
    ),
    "prefill": Command(
        "seconds to prefill, or to recompute a lost KV cache, alone on the GPU",
        "--model llama-3-8b --gpu a100-sxm4-80gb --tokens 4096", prefill,
        ("model", "gpu", "tp", "tokens", "timing", "max_num_batched_tokens"), ("batch", "past"), rows=True,
    ),
    "copy": Command(
        "seconds to copy between GPU and host, one way",
        "--gpu h100-sxm5-80gb --bytes-per-copy 2097152 --copies 256", copy,
        ("gpu", "link", "rate", "copy_gb_per_s", "per_copy_us"), ("bytes_per_copy", "copies", "direction"), rows=True,
    ),
    "compare": Command(
        "wait, recompute, swap, offload or both: what each costs, which wins, and where that turns",
        "--model llama-3-8b --gpu a100-sxm4-80gb --tokens 8192 --preemptions 3", compare, CASE, rows=True,
    ),
    "figure19": Command("Figure 19a of the vLLM paper, rebuilt: swap against recompute by block size", "", figure19),
    "scenarios": Command("the recommended-strategy table: the article's word beside the model's", "", scenarios),
    "chart": Command(
        "draw a chart into a file: .html (works offline), .json or .csv",
        "NAME --tokens 8192 -o chart.html", chart, CASE, words=("name",), output=True,
    ),
}  # fmt: skip


def numbers(chosen: Case, own: dict[str, Any]) -> dict[str, Any]:
    return vars(chosen) | own


def echo(chosen: Case, command: str, own: dict[str, Any]) -> dict[str, Any]:
    """The inputs that an answer is for."""
    return {field: vars(chosen)[field] for field in COMMANDS[command].fields} | own
