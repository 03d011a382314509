"""Every chart looks and reads as it was last looked at: sizes, colours, dashes and places, and its words.

What comes of the model's numbers is left out, so that a better number changes nothing here. After a change that is
meant, look at the charts and write `data/chart_looks.json` anew:

    python -m tests.charts.test_looks
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from kvmodel import charts
from kvmodel.charts import STREAMLIT, bands, request_strip
from kvmodel.charts.named import WITHOUT_CASE
from kvmodel.inputs.case import Case
from tests.charts.test_charts import CASES

KEPT = Path(__file__).parents[1] / "data" / "chart_looks.json"
OF_NUMBERS = set("x y z x0 x1 y0 y1 text customdata range tickvals ticktext base bdata".split())
SIMULATED = ("pressure", "load-curve")
NUMBER = re.compile(r"-?\d[\d,]*\.?\d*(?:e[+-]?\d+)?")


def cases(name: str) -> list[Case]:
    few = name in SIMULATED or name in WITHOUT_CASE
    return [CASES["default"]] if few else list(CASES.values())


def look(at: Any, path: str = "") -> dict[str, list[Any]]:
    """Where in the figure -> the values that stand there, each once, in order."""
    found: dict[str, list[Any]] = {}
    if isinstance(at, dict):
        for key, value in at.items():
            if key not in OF_NUMBERS:
                for place, values in look(value, f"{path}.{key}").items():
                    found.setdefault(place, []).extend(one for one in values if one not in found.get(place, []))
    elif isinstance(at, (list, tuple)):
        for value in at:
            for place, values in look(value, f"{path}[]").items():
                found.setdefault(place, []).extend(one for one in values if one not in found.get(place, []))
    else:
        found[path] = [round(at, 6) if isinstance(at, float) else words(at) if isinstance(at, str) else at]
    return found


def words(text: str) -> str:
    """A text without the model's numbers."""
    return text if re.fullmatch(r"#?[0-9a-fA-F]{6}|rgba?\(.*\)", text) else NUMBER.sub("0", text)


def said(name: str) -> list[str]:
    """The words of a chart for each case, each once: its alternative text, notes, and the names of its columns."""
    found: dict[str, None] = {}
    for case in cases(name):
        figure = charts.draw(name, case)
        notes = [note.text for note in figure.layout.annotations] + [str(trace.name) for trace in figure.data]
        columns = {key for point in charts.points(name, case) for key in point}
        found |= dict.fromkeys(map(words, (charts.alt(name, case), *notes, ", ".join(sorted(columns)))))
    return list(found)


def seen(name: str) -> dict[str, Any]:
    drawn = [
        charts.draw(name, case, palette=palette) for case in cases(name)[:2] for palette in (charts.LIGHT, STREAMLIT)
    ]
    return {"look": look([json.loads(figure.to_json()) for figure in drawn]), "said": said(name)}


def others() -> dict[str, Any]:
    """Charts that have no name."""
    strip = {"waiting": 1.0, "prefill": 0.5, "decode": 3.0}
    ratios = (0.0, 3.0, 7.0, 12.0, 40.0)
    return {
        "preemption scale": {
            "look": look([json.loads(bands.preemption_scale(ratio).to_json()) for ratio in ratios]),
            "said": [words(bands.preemption_scale_alt(ratio)) for ratio in ratios],
        },
        "request strip": {
            "look": look(json.loads(request_strip.request_strip(strip).to_json())),
            "said": [words(request_strip.request_strip_alt(strip))],
        },
    }


def as_kept(value: Any) -> Any:
    return json.loads(json.dumps(value))


@pytest.fixture(scope="module")
def kept() -> dict[str, Any]:
    return dict(json.loads(KEPT.read_text(encoding="utf-8")))


@pytest.mark.parametrize("name", charts.NAMES)
def test_a_chart_is_as_it_was_looked_at(name: str, kept: dict[str, Any]) -> None:
    now = as_kept(seen(name))
    assert now["said"] == kept[name]["said"]
    assert now["look"] == kept[name]["look"]


def test_so_are_the_charts_without_a_name(kept: dict[str, Any]) -> None:
    now = as_kept(others())
    assert now == {name: kept[name] for name in now}
    assert set(kept) == {*charts.NAMES, *now}


if __name__ == "__main__":
    every = {name: seen(name) for name in charts.NAMES} | others()
    lines = {
        name: [f"{json.dumps(path)}: {json.dumps(values, ensure_ascii=False)}" for path, values in one["look"].items()]
        for name, one in every.items()
    }
    text = ",\n".join(
        f'"{name}": {{"said": {json.dumps(every[name]["said"], ensure_ascii=False)},\n"look": {{\n'
        + ",\n".join(lines[name])
        + "}}"
        for name in every
    )
    KEPT.write_text(f"{{{text}}}\n", encoding="utf-8")
