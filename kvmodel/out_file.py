"""What the command line writes to files: tables, and charts as a page that works offline, a picture, JSON or CSV."""

from __future__ import annotations

import csv
import io
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kvmodel import pictures
from kvmodel.case import Case, CaseError

SUFFIXES = (".html", ".json", ".csv", *pictures.SUFFIXES)


def write(path: str, content: str | bytes) -> None:
    """Write all of it or leave what was there. Raises CaseError where the file cannot be written."""
    target, body = Path(path), content.encode() if isinstance(content, str) else content
    try:
        if target.exists() and not target.is_file():  # a pipe or a device has no other name to be written under
            target.write_bytes(body)
            return
        descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:40]}.")
        try:
            with open(descriptor, "wb") as file:
                file.write(body)
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
    write(str(path), chart_file(name, case, suffix))
    return {"chart": name, "output": path}


def chart_file(name: str, case: Case, suffix: str, shown: tuple[Any, ...] | None = None) -> str | bytes:
    """A chart as the content of a file of kind `suffix` (of SUFFIXES); `shown` as in charts.draw. Raises CaseError."""
    from kvmodel import charts

    if suffix == ".csv":
        return as_csv(charts.points(name, case, shown))
    figure = charts.draw(name, case, shown=shown)
    if suffix in pictures.SUFFIXES:
        return pictures.picture(figure, suffix)
    return str(figure.to_json() if suffix == ".json" else figure.to_html(include_plotlyjs=True))


def columns_of(points: Sequence[Mapping[str, Any]]) -> list[str]:
    """The columns of all points, in order of appearance."""
    return list(dict.fromkeys(key for point in points for key in point))


def as_csv(points: list[dict[str, Any]]) -> str:
    """Points with the columns of all of them."""
    columns = columns_of(points)
    file = io.StringIO()
    writer = csv.DictWriter(file, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(points)
    return file.getvalue()
