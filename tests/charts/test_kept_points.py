"""What each chart draws has the numbers that it had when it was last looked at, at its ends and between them.

After a change that is meant, look at the charts, write `data/kept/points.json` anew and read what differs:

    python -m tests.charts.test_kept_points
"""

from typing import Any

import pytest

from kvmodel import charts
from tests.charts.test_looks import cases
from tests.helpers import kept

FEW = 4  # points of a chart


def some(rows: list[Any]) -> list[Any]:
    """So many of the points, evenly over all."""
    last = len(rows) - 1
    return (
        [rows[place] for place in dict.fromkeys(round(last * turn / (FEW - 1)) for turn in range(FEW))] if rows else []
    )


def points(name: str) -> list[dict[str, Any]]:
    found = []
    for case in cases(name)[:2]:
        rows = charts.points(name, case)
        traces = charts.draw(name, case).data
        shown = [{axis: some(list(trace[axis])) for axis in "xy" if trace[axis] is not None} for trace in traces
                 if "x" in trace]  # fmt: skip
        layout = charts.draw(name, case).layout
        axes = [layout[axis] for axis in layout if axis.startswith(("xaxis", "yaxis"))]
        marks = [[axis.range, axis.tickvals, axis.ticktext] for axis in axes]
        lines = [[line.x0, line.x1, line.y0, line.y1] for line in layout.shapes]
        found.append({"rows": len(rows), "some": some(rows), "shown": shown, "axes": marks, "lines": some(lines)})
    return found


def of(name: str) -> Any:
    return kept.as_json(kept.flat(points(name)))


@pytest.fixture(scope="module")
def read() -> dict[str, Any]:
    return kept.read("points")


@pytest.mark.parametrize("name", charts.NAMES)
def test_a_chart_has_the_numbers_that_it_had(name: str, read: dict[str, Any]) -> None:
    assert of(name) == read[name]


if __name__ == "__main__":
    kept.write("points", {name: of(name) for name in charts.NAMES})
