"""`python -m kvmodel COMMAND`: one answer as text, or as one JSON object with `--json`; tables with `--rows`.

Bad input ends with exit code 2 and one sentence on standard error.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from kvmodel import catalog
from kvmodel.arrays import json_value
from kvmodel.cli.commands import COMMANDS
from kvmodel.errors import CaseError, CatalogError, bad_value
from kvmodel.inputs import questions
from kvmodel.inputs.case import DEFAULTS, values_text
from kvmodel.sweeps.choices import read_choices, with_config

IDS = {"model": catalog.model_ids, "gpu": catalog.gpu_ids, "link": catalog.link_ids}


class Parser(argparse.ArgumentParser):
    """argparse with its errors as CaseError: one sentence, no usage."""

    def error(self, message: str) -> NoReturn:
        raise CaseError(message.removeprefix("argument "))


def parser(name: str, *, with_help: bool) -> Parser:
    """The parser of one command. Flags stay text: their values are read by Case and by questions.INPUTS."""
    command = COMMANDS[name]
    example = f"example:\n  python -m kvmodel {name} {command.example}".rstrip()
    command_parser = Parser(
        prog=f"python -m kvmodel {name}",
        usage=" ".join(["python -m kvmodel", name, *(word.upper() for word in command.words), "[flags]"]),
        description=command.help,
        epilog=example,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        argument_default=argparse.SUPPRESS,
        allow_abbrev=False,
    )
    for word in command.words:
        command_parser.add_argument(
            word, metavar=word.upper(), nargs="?", default=None, help=input_help(word, with_help)
        )
    for field in command.fields:
        command_parser.add_argument(flag(field), metavar="X", help=case_help(field) if with_help else None)
    for field in command.inputs:
        each = questions.INPUTS[field]
        options: dict[str, Any] = {"action": "store_true"} if each.limits.kind == "bool" else {"metavar": "X"}
        options |= {"action": "append"} if each.many else {}
        command_parser.add_argument(flag(field), help=input_help(field, with_help), **options)
    if command.rows:
        command_parser.add_argument("--rows", metavar="FILE.csv", help="one case a row, columns named like the flags")
    if command.rows or command.output:
        command_parser.add_argument(
            "-o", "--output", metavar="FILE", help="where to write (--rows: default standard output)"
        )
    command_parser.add_argument("--json", action="store_true", help="print one JSON object")
    return command_parser


def chart_names() -> str:
    from kvmodel import charts  # plotly, for this help alone

    return ", ".join(charts.NAMES)


def case_help(field: str) -> str:
    default = DEFAULTS[field]
    values = f"an id, such as {IDS[field]()[0]}" if field in IDS else values_text(field)
    return values + ("" if default is None else f"; default {default}")


def input_help(field: str, with_help: bool) -> str | None:
    if not with_help:
        return None
    if field == "name":
        return chart_names()
    each = questions.INPUTS[field]
    values = "given or not" if each.limits.kind == "bool" else each.limits.allowed
    return f"{each.help}: {values}" + ("" if each.default is None else f"; default {each.default}")


def flag(field: str) -> str:
    return "--" + field.replace("_", "-")


def nearest(name: str, names: Sequence[str]) -> str:
    import difflib  # only after an error

    return ", ".join(difflib.get_close_matches(name, names, n=2, cutoff=0.5)) or ", ".join(names)


def parse(name: str, arguments: Sequence[str]) -> dict[str, Any]:
    """Only what was given, as text. Raises CaseError."""
    command_parser = parser(name, with_help=any(text in ("-h", "--help") for text in arguments))
    namespace, unknown = command_parser.parse_known_args(arguments)
    if unknown:
        what = unknown[0].split("=")[0]
        flags = [text for action in command_parser._actions for text in action.option_strings if text.startswith("--")]
        raise CaseError(f"{name}: {what[:40]!r} is not a flag of this command; nearest: {nearest(what, flags)}")
    return vars(namespace)


def run(arguments: Sequence[str]) -> str:
    """What a command prints. Raises CaseError or CatalogError, one sentence, on bad input."""
    name, *rest = arguments
    if name not in COMMANDS:
        raise bad_value("command", name, ", ".join(COMMANDS))
    command, choices = COMMANDS[name], parse(name, rest)
    as_json = choices.pop("json", False)
    rows_file, output = choices.pop("rows", None), choices.pop("output", None)
    if rows_file is not None:
        if as_json:
            raise CaseError("--json: given with --rows; the answer to --rows is CSV")
        from kvmodel.cli import rows

        if "config" in choices:  # read once; a column of that name is read row by row
            choices = dict(with_config(choices)[0])
        table = rows.answer(name, rows_file, choices, (*command.fields, *command.inputs), command.inputs)
        if output is None:
            return table
        from kvmodel import files

        files.write(output, table)
        return ""
    words = {word: choices.pop(word) for word in command.words}
    if output is not None and not command.output:
        raise CaseError("-o: given without --rows; use > FILE for a single answer")
    case, values = read_choices(choices, command.inputs)
    values |= words | ({"output": output} if command.output else {})
    answer = json_value(command.answer(case, values))
    if as_json:
        import json

        return json.dumps(answer, indent=2, allow_nan=False) + "\n"
    return str(getattr(command.texts(), name.replace("-", "_"))(answer)) + "\n"


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
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        if not words:
            raise CaseError(f"command: none given; allowed: {', '.join(COMMANDS)}; see python -m kvmodel --help")
        text = overview() + "\n" if words[0] in ("-h", "--help") else run(words)
        show(text)
    except (CaseError, CatalogError) as error:
        with contextlib.suppress(OSError):
            print(" ".join(str(error).split()), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0
