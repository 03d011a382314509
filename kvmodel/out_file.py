"""What the command line writes to files: tables, and charts as a page that works offline, plotly's JSON or CSV."""

from __future__ import annotations

import csv
import io
import os
import tempfile
from pathlib import Path
from typing import Any

from kvmodel.case import Case, CaseError

SUFFIXES = (".html", ".json", ".csv")


def write(path: str, text: str) -> None:
    """Write all of it or leave what was there. Raises CaseError where the file cannot be written."""
    target = Path(path)
    try:
        if target.exists() and not target.is_file():  # a pipe or a device has no other name to be written under
            target.write_text(text, encoding="utf-8", newline="")
            return
        descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:40]}.")
        try:
            with open(descriptor, "w", encoding="utf-8", newline="") as file:
                file.write(text)
            os.chmod(name, target.stat().st_mode if target.exists() else 0o666 & ~current_umask())
            os.replace(name, target)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise CaseError(f"-o: {path!r} cannot be written: {reason}") from None


def current_umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def chart(name: str | None, case: Case, path: str | None) -> dict[str, Any]:
    """Draw chart `name` of a Case into `path`, whose suffix says how. Raises CaseError with one sentence."""
    try:
        from kvmodel import charts
    except ImportError as error:
        raise CaseError(f"chart: {error.name} is missing; install plotly to draw charts") from None
    if name not in charts.NAMES:
        raise CaseError(f"chart: {name!r} given; allowed: {', '.join(charts.NAMES)}")
    suffix = Path(path or "").suffix.lower()
    if suffix not in SUFFIXES:
        raise CaseError(f"-o: {path!r} given; allowed: a file name that ends in {', '.join(SUFFIXES)}")
    if suffix == ".csv":
        text = as_csv(charts.points(name, case))
    else:
        figure = charts.draw(name, case)
        text = figure.to_json() if suffix == ".json" else figure.to_html(include_plotlyjs=True)
    write(str(path), text)
    return {"chart": name, "output": path}


def as_csv(points: list[dict[str, Any]]) -> str:
    """Points with the columns of all of them, in order of appearance."""
    columns = list(dict.fromkeys(key for point in points for key in point))
    file = io.StringIO()
    writer = csv.DictWriter(file, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(points)
    return file.getvalue()
