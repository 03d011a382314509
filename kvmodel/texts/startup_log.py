"""The answer of `explain-log` for people."""

from __future__ import annotations

from typing import Any

from kvmodel.units import format_count

MARKS = {True: "agrees", False: "CANNOT BE TRUE", None: "not checked"}


def explain_log(answer: dict[str, Any]) -> str:
    """Heading, a refusal where there is one, a paragraph a figure, and the verdict; of several engines one by one."""
    engine = " ".join(part for part in (answer["engine"], answer["version"]) if part) or "unknown engine"
    heading = f"{engine}, model {answer['label'] or 'not named: only the figures among themselves'}"
    lines = [heading]
    for each in answer["engines"] or [answer]:
        lines += ["", f"{each['engine_name']}:"] if answer["engines"] else []
        lines += ["", *paragraphs(each)]
    return "\n".join([*lines, "", verdict(answer)])


def paragraphs(answer: dict[str, Any]) -> list[str]:
    """A refusal first, then a paragraph a figure, and the bytes per token."""
    lines = []
    if answer["refused"] is not None:
        word = "STOPPED" if answer["after_start"] else "REFUSED TO START"
        lines += [f"{word}: {answer['refused']}", f"  what helps: {answer['mend']}"]
    for finding in answer["findings"]:
        if finding["figure"] == "refused":
            continue
        expectation = f"; expected {finding['expected']}" if finding["expected"] else ""
        mark = "not explained" if finding["agrees"] is None and finding["expected"] else MARKS[finding["agrees"]]
        lines.append(f"{finding['figure']}: {finding['printed']}{expectation} ({mark})")
        lines.append(f"  {finding['means']}")
    log_range, exact = answer["implied_bytes_per_token"], answer["model_bytes_per_token"]
    if log_range and exact:
        low, high = (format_count(value) for value in log_range)
        lines += ["", f"bytes per token on one GPU: {low} to {high} from the log, {format_count(exact)} of the model"]
    return lines


def verdict(answer: dict[str, Any]) -> str:
    """One sentence: at odds, refused, not explained, or in order."""
    each = answer["engines"] or [answer]
    if not answer["consistent"]:
        return "figures are at odds: wrong model or log"
    if any(part["refused"] is not None for part in each):
        return "the figures do not contradict each other, and the server is down for the reason above"
    if any(found["agrees"] is None and found["expected"] for part in each for found in part["findings"]):
        return "no figure is at odds with another, but not all are explained"
    return "no figure is at odds with another"
