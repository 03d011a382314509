"""The answers of `remedies` and `sweep` as text for people."""

from __future__ import annotations

import textwrap
from typing import Any

from kvmodel.texts.answers import seconds, table
from kvmodel.units import NONE, finite_or_none, format_count, format_percent, significant
from kvmodel.words import say

Answer = dict[str, Any]
WIDTH = 118
HEADING = (
    "", "remedy", "article", "price", "GPUs", "pool", "preempted", "tokens/s", "TTFT p50", "p99", "ITL p50", "p99",
    "gain",
)  # fmt: skip


def remedies(answer: Answer) -> str:
    rows = answer["rows"]
    runs = [row for row in rows if not row["problem"]]
    parts = [
        textwrap.fill(f"best order for {answer['objective']}: {answer['rule']}", WIDTH),
        table([(line[1], line[0], *line[2:]) for line in (HEADING, *map(cells, runs))]),
        "\n".join(["what to set:", *(set_line(row) for row in runs[1:])]),
    ]
    problems = [f"  {row['id']:<14}  {row['problem']}" for row in rows if row["problem"]]
    if problems:
        parts.append("\n".join(["not tried:", *problems]))
    if answer["swap"] and any(answer["swap"].values()):
        parts.append(swap(answer["swap"]))
    return "\n\n".join(parts)


def cells(row: Answer) -> tuple[str, ...]:
    times = (seconds(row[name]) for name in ("ttft_p50_s", "ttft_p99_s", "itl_p50_s", "itl_p99_s"))
    return (
        str(row["place"] or ""),
        row["id"],
        str(row["article"] or ""),
        "" if row["id"] == "as-is" else say(row["price"]),
        str(row["gpus"]),
        format_count(row["pool_tokens"]),
        format_count(row["preemptions"]),
        NONE if row["output_tokens_per_s"] is None else significant(row["output_tokens_per_s"], 3),
        *times,
        gain(row),
    )


def values(row: Answer) -> dict[str, float | str | None]:
    """A remedy tried as a page's table to sort has it: times in seconds, the gain in percent."""
    changed = row["id"] != "as-is"
    return {
        "place": row["place"],
        "remedy": row["id"],
        "article": row["article"],
        "preemptions": row["preemptions"],
        "gain": finite_or_none(100 * row["gain"]) if changed else None,
        "effect": say(row["effect"]) if changed else None,
        "price": say(row["price"]) if changed else None,
        "output": finite_or_none(row["output_tokens_per_s"]),
        **{name: finite_or_none(row[f"{name}_s"]) for name in ("ttft_p50", "ttft_p99", "itl_p50", "itl_p99")},
        "pool": row["pool_tokens"],
        "gpus": row["gpus"],
    }


def gain(row: Answer) -> str:
    """The gain in percent where it is more than chance, else the effect in a word."""
    if row["id"] == "as-is":
        return ""
    if row["effect"] in ("little", "unfinished") or row["gain"] is None:
        return say(row["effect"])
    return ("+" if row["gain"] > 0 else "") + format_percent(row["gain"])


def set_line(row: Answer) -> str:
    """A row's id and what to set, folded beside it."""
    return textwrap.fill(f"  {row['id']:<14}  {set_by(row)}", WIDTH, subsequent_indent=" " * 18)


def set_by(row: Answer) -> str:
    """What is done, the flag for it, the releases that have that, and what may go wrong with it."""
    stands = f" ({row['stands']})" if row["stands"] else ""
    host = say("{size} GiB of host memory", size=format_count(row["host_gib"])) if row["host_gib"] else ""
    flag = f": {row['flag']}{stands}" if row["flag"] else f"{stands}"
    risk = f"; {say('it may cost {risk}', risk=say(row['risk']))}" if row["risk"] else ""
    return f"{say(row['action'])}{flag}{', ' if host else ''}{host}{risk}"


def swap(counts: Answer) -> str:
    with_swap, without = (format_count(counts[name]) for name in ("swap_preemptions", "recompute_preemptions"))
    sentence = (
        f"swap preempts {with_swap} times, recomputing in the same engine {without} times: swap changes what a "
        "preemption costs, not how many there are"
    )
    return textwrap.fill(sentence, WIDTH)


def sweep(answer: Answer) -> str:
    error_text = (
        f", {format_count(answer['errors'])} of them with a reason in place of results" if answer["errors"] else ""
    )
    return f"{format_count(answer['rows'])} rows are in {answer['output']}{error_text}"
