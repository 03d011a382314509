"""What each chart draws has the numbers that it had when it was last looked at, at its ends and between them.

After a change that is meant, look at the charts, write `data/kept/points.json` anew and read what differs:

    python -m tests.charts.test_kept_points
"""

from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest

from kvmodel import charts
from kvmodel.charts import bands
from tests.charts.test_looks import cases
from tests.helpers import kept

FEW = 4  # points of a chart
SHOWN = ("x", "y", "text", "customdata", "hovertext")
RATIOS = (0.0, 3.0, 7.5, 12.0, 40.0)


def some(rows: list[Any]) -> list[Any]:
    """So many of the points, evenly over all."""
    last = len(rows) - 1
    return (
        [rows[place] for place in dict.fromkeys(round(last * turn / (FEW - 1)) for turn in range(FEW))] if rows else []
    )


def drawn(figure: go.Figure) -> dict[str, Any]:
    """The numbers and words that stand in a figure: of each trace, at the axes, and where its lines and texts are."""
    traces, layout = figure.data, figure.layout
    shown = [
        {key: some(list(trace[key])) for key in SHOWN if key in trace and isinstance(trace[key], (tuple, np.ndarray))}
        for trace in traces
    ]
    axes = {name: layout[name] for name in sorted(layout) if name.startswith(("xaxis", "yaxis"))}
    return {
        "shown": shown, "axes": {name: [axis.range, axis.tickvals, axis.ticktext] for name, axis in axes.items()},
        "lines": some([[line.x0, line.x1, line.y0, line.y1] for line in layout.shapes]),
        "notes": some([[note.x, note.y, note.text] for note in layout.annotations]),
    }  # fmt: skip


def points(name: str) -> list[dict[str, Any]]:
    found = []
    for case in cases(name)[:2]:
        rows = charts.points(name, case)
        found.append({"rows": len(rows), "some": some(rows)} | drawn(charts.draw(name, case)))
    return found


def of(name: str) -> Any:
    return kept.as_json(kept.flat(points(name)))


@pytest.fixture(scope="module")
def read() -> dict[str, Any]:
    return kept.read("points")


@pytest.mark.parametrize("name", charts.NAMES)
def test_a_chart_has_the_numbers_that_it_had(name: str, read: dict[str, Any]) -> None:
    assert of(name) == read[name]


def of_scale() -> Any:
    """The chart of the article's bands, which no case has."""
    return kept.as_json(kept.flat([drawn(bands.preemption_scale(ratio)) for ratio in RATIOS]))


def test_the_scale_of_preemptions_has_the_numbers_that_it_had(read: dict[str, Any]) -> None:
    assert of_scale() == read["scale"]


if __name__ == "__main__":
    kept.write("points", {name: of(name) for name in charts.NAMES} | {"scale": of_scale()})
