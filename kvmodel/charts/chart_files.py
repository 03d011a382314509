"""Charts as files: a page that works offline, a picture, JSON or CSV."""

from __future__ import annotations

from typing import Any

from kvmodel.charts import named, pictures
from kvmodel.files import as_csv
from kvmodel.inputs.case import Case

SUFFIXES = (".html", ".json", ".csv", *pictures.SUFFIXES)


def chart_file(name: str, case: Case, suffix: str, data: tuple[Any, ...] | None = None) -> str | bytes:
    """A chart as the content of a file of kind `suffix` (of SUFFIXES); `data` as in charts.draw. Raises CaseError."""
    if suffix == ".csv":
        return as_csv(named.points(name, case, data))
    if suffix in pictures.SUFFIXES:
        return pictures.picture(figure(name, case, data), suffix)
    drawn = named.draw(name, case, data=data)
    return str(drawn.to_json() if suffix == ".json" else drawn.to_html(include_plotlyjs=True))


def figure(name: str, case: Case, data: tuple[Any, ...] | None = None) -> dict[str, Any]:
    """A chart as plain data, as :func:`kvmodel.charts.pictures.picture` draws it. Raises CaseError."""
    return dict(named.draw(name, case, data=data).to_dict())
