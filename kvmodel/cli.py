"""`python -m kvmodel COMMAND`: one answer as text, or as one JSON object with `--json`; tables with `--rows`.

Bad input ends with exit code 2 and one sentence on standard error.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from kvmodel import answers, case, catalog
from kvmodel.case import DEFAULTS, Case, CaseError

CASE = tuple(DEFAULTS)
IDS = {"model": catalog.model_ids, "gpu": catalog.gpu_ids, "link": catalog.link_ids}


@dataclass(frozen=True)
class Command:
    """What a command is for, the inputs it takes (Case fields and its own), and how it answers."""

    help: str
    example: str
    answer: Callable[[Case, dict[str, Any]], dict[str, Any]]
    fields: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    rows: bool = False


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
        "NAME --tokens 8192 -o chart.html", chart, CASE,
    ),
}  # fmt: skip


def numbers(chosen: Case, own: dict[str, Any]) -> dict[str, Any]:
    return vars(chosen) | own


def echo(chosen: Case, command: str, own: dict[str, Any]) -> dict[str, Any]:
    """The inputs that an answer is for."""
    return {field: vars(chosen)[field] for field in COMMANDS[command].fields} | own


class Parser(argparse.ArgumentParser):
    """argparse with its errors as CaseError: one sentence, no usage."""

    def error(self, message: str) -> NoReturn:
        raise CaseError(message.removeprefix("argument "))


def parser(name: str, *, with_help: bool) -> Parser:
    """The parser of one command. Flags stay text: their values are read by Case and by answers.OWN."""
    command = COMMANDS[name]
    example = f"example:\n  python -m kvmodel {name} {command.example}".rstrip()
    built = Parser(
        prog=f"python -m kvmodel {name}",
        usage=f"python -m kvmodel {name} {'NAME ' if name == 'chart' else ''}[flags]",
        description=command.help,
        epilog=example,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        argument_default=argparse.SUPPRESS,
        allow_abbrev=False,
    )
    if name == "chart":
        built.add_argument("name", metavar="NAME", nargs="?", default=None, help=chart_names() if with_help else None)
    for field in command.fields:
        built.add_argument(flag(field), metavar="X", help=case_help(field) if with_help else None)
    for field in command.own:
        built.add_argument(flag(field), metavar="X", help=own_help(field) if with_help else None)
    if command.rows:
        built.add_argument("--rows", metavar="FILE.csv", help="one case a row, columns named like the flags")
    if command.rows or name == "chart":
        built.add_argument("-o", "--output", metavar="FILE", help="where to write (--rows: default standard output)")
    built.add_argument("--json", action="store_true", help="print one JSON object")
    return built


def chart_names() -> str:
    from kvmodel import charts  # plotly, for this help alone

    return ", ".join(charts.NAMES)


def case_help(field: str) -> str:
    default = DEFAULTS[field]
    taken = f"an id, such as {IDS[field]()[0]}" if field in IDS else case.allowed(field)
    return taken + ("" if default is None else f"; default {default}")


def own_help(field: str) -> str:
    own = answers.OWN[field]
    return f"{own.help}: {own.allowed}" + ("" if own.default is None else f"; default {own.default}")


def flag(field: str) -> str:
    return "--" + field.replace("_", "-")


def nearest(name: str, known: Sequence[str]) -> str:
    import difflib  # only after an error

    return ", ".join(difflib.get_close_matches(name, known, n=2, cutoff=0.5)) or ", ".join(known)


def parse(name: str, arguments: Sequence[str]) -> dict[str, Any]:
    """Only what was given, as text. Raises CaseError."""
    built = parser(name, with_help=any(text in ("-h", "--help") for text in arguments))
    given, unknown = built.parse_known_args(arguments)
    if unknown:
        what = unknown[0].split("=")[0]
        flags = [text for action in built._actions for text in action.option_strings if text.startswith("--")]
        raise CaseError(f"{name}: {what[:40]!r} is not a flag of this command; nearest: {nearest(what, flags)}")
    return vars(given)


def run(arguments: Sequence[str]) -> str:
    """What a command prints. Raises CaseError or CatalogError, one sentence, on bad input."""
    name, *rest = arguments
    if name not in COMMANDS:
        raise CaseError(f"command: {name[:40]!r} given; allowed: {', '.join(COMMANDS)}")
    command, choices = COMMANDS[name], parse(name, rest)
    as_json = choices.pop("json", False)
    rows_file, output = choices.pop("rows", None), choices.pop("output", None)
    if rows_file is not None:
        if as_json:
            raise CaseError("--json: given with --rows; the answer to --rows is CSV")
        from kvmodel import rows

        table = rows.answer(name, rows_file, choices, (*command.fields, *command.own), command.own)
        if output is None:
            return table
        from kvmodel import out_file

        out_file.write(output, table)
        return ""
    if name == "chart":
        values: dict[str, Any] = {"name": choices.pop("name"), "output": output}
        chosen = case.case_from(choices)
    else:
        if output is not None:
            raise CaseError("-o: given without --rows; use > FILE for a single answer")
        chosen, values = answers.read(choices, command.own)
    answer = answers.plain(command.answer(chosen, values))
    if as_json:
        import json

        return json.dumps(answer, indent=2, allow_nan=False) + "\n"
    from kvmodel import answer_text

    return str(getattr(answer_text, name)(answer)) + "\n"


def overview() -> str:
    lines = [f"  {name:<10}  {command.help}" for name, command in COMMANDS.items()]
    return "\n".join(
        ["usage: python -m kvmodel COMMAND [flags] [--json]", "", *lines, "",
         "flags of a command: python -m kvmodel COMMAND --help", "example: python -m kvmodel compare --tokens 8192"]
    )  # fmt: skip


def show(text: str) -> None:
    """Print an answer. Raises CaseError where standard output takes none, BrokenPipeError where nobody reads on."""
    if sys.stdout is None:
        raise CaseError("standard output: closed; allowed: a terminal, a file or a pipe")
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")  # type: ignore[union-attr]
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left in the buffer goes nowhere
        raise CaseError(f"standard output: cannot be written: {error.strerror}") from None


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 0, or 2 for bad input."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    try:
        if not given:
            raise CaseError(f"command: none given; allowed: {', '.join(COMMANDS)}; see python -m kvmodel --help")
        text = overview() + "\n" if given[0] in ("-h", "--help") else run(given)
        show(text)
    except (CaseError, catalog.CatalogError) as error:
        with contextlib.suppress(OSError):
            print(" ".join(str(error).split()), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0
