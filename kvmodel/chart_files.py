"""Charts as files: a page that works offline, a picture, JSON or CSV."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kvmodel import pictures
from kvmodel.case import Case
from kvmodel.errors import CaseError
from kvmodel.files import as_csv, write

SUFFIXES = (".html", ".json", ".csv", *pictures.SUFFIXES)


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
