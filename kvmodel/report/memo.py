"""A design-review memo for one Case: question, verdict, break-evens, charts, assumptions, and what was left out.

The memo is a list of blocks; kvmodel.report.markup writes them as Markdown or HTML.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kvmodel import __version__, catalog, charts
from kvmodel.inputs import addresses
from kvmodel.inputs.case import DEFAULTS, Case
from kvmodel.recovery.comparison import Comparison, as_json, compare_case
from kvmodel.texts import answers, tables
from kvmodel.units import format_bytes, format_count, format_rate

CHARTS = ("crossover", "timeline")
PAGES = {
    "timeline": "", "kv-size": "kv_size", "roofline": "roofline", "step-time": "roofline", "scenarios": "scenarios",
    "evidence": "evidence", "evidence-by-length": "evidence", "pressure": "pressure",
    "load-curve": "pressure", "capacity": "capacity",
}  # fmt: skip
VIEWS = ("block-size", "copy-rate", "winner-map", "preemptions", "figure19")  # of the page that has the others


@dataclass(frozen=True)
class Heading:
    text: str
    level: int = 2


@dataclass(frozen=True)
class Text:
    text: str


@dataclass(frozen=True)
class Bullets:
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Chart:
    name: str
    words: str


@dataclass(frozen=True)
class Address:
    words: str
    address: str


Block = Heading | Text | Bullets | Table | Chart | Address


def memo(case: Case, app: str = addresses.APP) -> list[Block]:
    """The blocks of a memo for a Case; `app` is the address that its link leads to. Raises DoesNotFit."""
    result = compare_case(case)
    answer = as_json(result)
    even = answer["break_even"]
    turns = [answers.flip(entry).strip() for entry in answer["verdict"]["flips_if"]]
    return [
        Heading(f"KV recovery of {catalog.model(case.model).label} on {catalog.gpu(case.gpu).label}", 1),
        Heading("Question"),
        Text(question(case)),
        Heading("Verdict"),
        Text(". ".join(first_upper(line) for line in answers.verdict_lines(answer)) + "."),
        prices(result),
        *(Text(f"Note: {note}.") for note in result.notes),
        Heading("Break-evens"),
        Text(headline(even, turns)),
        Bullets((*turns, answers.pays_from(even["preemptions"]))),
        Heading("Charts"),
        *(Chart(name, charts.alt(name, case)) for name in CHARTS),
        *assumption_blocks(result),
        Heading("Not modelled"),
        Bullets(tuple(f"{row['what']} {row['means']}" for row in catalog.table("not_modelled")["left_out"])),
        *origin(case, addresses.page_address(app, "crossover", case)),
    ]


def chart_note(name: str, case: Case, app: str = addresses.APP, data: tuple[Any, ...] | None = None) -> list[Block]:
    """The blocks that go with one chart into a review: the chart, its sentence, inputs, assumptions and link."""
    result = compare_case(case)
    sentence = ". ".join(first_upper(line) for line in answers.verdict_lines(as_json(result)))
    return [
        Heading(f"{catalog.model(case.model).label} on {catalog.gpu(case.gpu).label}"),
        Chart(name, charts.alt(name, case, data)),
        Text(f"{sentence}."),
        *assumption_blocks(result),
        *origin(case, page_address(name, case, app)),
    ]


def page_address(name: str, case: Case, app: str) -> str:
    """The page that shows a chart, with the Case's inputs."""
    more = {"view": name} if name in VIEWS else {}
    return addresses.page_address(app, PAGES.get(name, "crossover"), case, more)


def question(case: Case) -> str:
    engine = catalog.table("engines")[case.policy]["label"]
    times = "once" if case.preemptions == 1 else f"{format_count(case.preemptions)} times"
    measure = "its own delay" if case.objective == "victim-delay" else "GPU time taken from the others"
    return (
        f"A request of {format_count(case.tokens)} tokens is preempted {times} beside "
        f"{format_count(case.decode_batch)} running requests ({engine}). "
        f"Which way back to its KV cache costs least, by {measure}?"
    )


def headline(even: dict[str, Any], turns: Sequence[str]) -> str:
    rate = even["copy_bytes_per_s"]
    if rate is None:
        return "No copy rate makes swap and recompute cost the same."
    nearest = " What turns swap or recompute, nearest first:" if turns else ""
    return f"Copying out and in takes as long as recomputing at {format_rate(rate)}, overheads included.{nearest}"


def prices(result: Comparison) -> Table:
    rows = tuple(
        (name if available else f"{name} (not in this engine)", *cells)
        for name, available, cells in tables.price_rows(result)
    )
    return Table(("strategy", "delay", "low – high", "GPU time of others", "link", "host memory", "recomputed"), rows)


def assumption_blocks(result: Comparison) -> list[Block]:
    """Inputs, those at their defaults too, and the figures behind the numbers with their sources."""
    texts = addresses.inputs(result.case)
    pairs = [f"{name} {value}" + ("" if value == str(DEFAULTS[name]) else " *") for name, value in texts.items()]
    pool_bytes, wait_s = float(result.inputs.pool_bytes_per_gpu), as_json(result)["wait_for_blocks_s"]
    return [
        Heading("Inputs"),
        Text(f"{', '.join(pairs)} (* not the default)."),
        Text(f"KV pool of a GPU: {format_bytes(pool_bytes)}; wait for free blocks: {answers.seconds(wait_s)}."),
        Heading("Assumptions"),
        Table(("figure", "value", "basis", "source"), tuple(tuple(row) for row in tables.source_rows(result))),
    ]


def origin(case: Case, address: str) -> list[Block]:
    flags = " ".join(
        f"--{name.replace('_', '-')} {value}"
        for name, value in addresses.inputs(case).items()
        if value != str(DEFAULTS[name])
    )
    return [
        Address("The same numbers, live", address),
        Text(f"kvmodel {__version__}; `{f'python -m kvmodel compare {flags}'.strip()}`"),
    ]


def first_upper(words: str) -> str:
    return words[:1].upper() + words[1:]
