"""The answer of `explain-log` for people."""

from __future__ import annotations

from typing import Any

from kvmodel.units import format_count

MARKS = {True: "agrees", False: "CANNOT BE TRUE", None: "not checked"}


def explain_log(answer: dict[str, Any]) -> str:
    """Heading, a paragraph a figure, and the verdict."""
    engine = " ".join(part for part in (answer["engine"], answer["version"]) if part) or "unknown engine"
    heading = f"{engine}, model {answer['label'] or 'not named: only the figures among themselves'}"
    lines = [heading, ""]
    for finding in answer["findings"]:
        expectation = f"; expected {finding['expected']}" if finding["expected"] else ""
        lines.append(f"{finding['figure']}: {finding['printed']}{expectation} ({MARKS[finding['agrees']]})")
        lines.append(f"  {finding['means']}")
    log_range, exact = answer["implied_bytes_per_token"], answer["model_bytes_per_token"]
    if log_range and exact:
        low, high = (format_count(value) for value in log_range)
        lines += ["", f"bytes per token on one GPU: {low} to {high} from the log, {format_count(exact)} of the model"]
    verdict = "no figure is at odds with another" if answer["consistent"] else "figures are at odds: wrong model or log"
    return "\n".join([*lines, "", verdict])
