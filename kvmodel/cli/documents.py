"""The commands `chart` and `report`: what they draw goes into a file."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kvmodel import files
from kvmodel.errors import CaseError, refused
from kvmodel.inputs import addresses
from kvmodel.inputs.case import Case

MEMO_SUFFIXES = (".md", ".html")


def chart(name: str | None, case: Case, path: str | None) -> dict[str, Any]:
    """Draw chart `name` of a Case into `path`, whose suffix says how. Raises CaseError with one sentence."""
    require_plotly("chart")
    from kvmodel.charts import NAMES, chart_files

    if name not in NAMES:
        raise refused("chart", repr(name), ", ".join(NAMES))
    suffix = Path(path or "").suffix.lower()
    if suffix not in chart_files.SUFFIXES:
        raise refused("-o", repr(path), f"a file name that ends in {', '.join(chart_files.SUFFIXES)}")
    files.write(str(path), chart_files.chart_file(name, case, suffix))
    return {"chart": name, "output": path}


def report(case: Case, inputs: dict[str, Any]) -> dict[str, Any]:
    """Write the memo into the file that `output` names. Raises CaseError."""
    require_plotly("report")
    from kvmodel.charts import chart_files, pictures
    from kvmodel.report import markup, memo

    path, app = inputs["output"], addresses.app_address(inputs["app_url"])
    suffix = Path(path or "").suffix.lower()
    if suffix not in MEMO_SUFFIXES:
        raise refused("-o", repr(path), f"a file name that ends in {' or '.join(MEMO_SUFFIXES)}")
    blocks, beside = memo.memo(case, app), []
    if suffix == ".html":
        files.write(path, markup.as_html(blocks, case))
    else:
        chart_suffix = ".svg" if pictures.available() else ".html"
        beside = [str(Path(path).with_suffix("")) + f"-{name}{chart_suffix}" for name in memo.CHARTS]
        for name, file in zip(memo.CHARTS, beside, strict=True):
            files.write(file, chart_files.chart_file(name, case, chart_suffix))
        places = {name: Path(file).name for name, file in zip(memo.CHARTS, beside, strict=True)}
        files.write(path, markup.as_markdown(blocks, places.__getitem__))
    return {"report": path, "charts": beside}


def require_plotly(command: str) -> None:
    """Raises CaseError where charts cannot be drawn: plotly is an extra of the package."""
    if find_spec("plotly") is None:
        raise CaseError(f"{command}: plotly is missing; install plotly to draw charts")
