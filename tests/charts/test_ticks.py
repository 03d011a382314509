"""What stands at a tick is the number of its place: on every axis of every chart, in every language."""

import ast
import contextvars
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from explorer import language
from kvmodel import charts, words
from kvmodel.charts import bands, request_strip
from kvmodel.charts.named import _CHARTS, WITHOUT_CASE
from kvmodel.curves import curves
from kvmodel.inputs.case import Case
from kvmodel.memory import kv_cache
from kvmodel.recovery.comparison import compare_case
from kvmodel.units import GB, GIB, KIB, MIB, MS, TFLOP, US
from tests.charts.test_charts import CASES, EVERY

OTHER_CASES = {
    "millions of tokens": Case(model="llama-4-scout", gpu="b200-sxm-180gb", tp=8, tokens=5_000_000),
    "a slow link": Case(copy_gb_per_s=0.01, per_copy_us=500.0),
    "small blocks": Case(block_tokens=1, layout="per-layer-kv", gpu="h200-sxm-141gb"),
}
SIMULATED = ("pressure", "load-curve")  # seconds each: of two Cases
EVERY_CHART = [
    *(one for one in EVERY if one.values[0] not in SIMULATED or one.id.endswith(", default")),
    *(
        pytest.param(name, case, id=f"{name}, {case_id}")
        for name in charts.NAMES
        for case_id, case in OTHER_CASES.items()
        if name not in WITHOUT_CASE and (name not in SIMULATED or case_id == "a slow link")
    ),
]
UNITS = {  # at a tick, and in brackets behind an axis's title
    "": 1.0, "%": 0.01, "x": 1.0, "배": 1.0, "K": KIB, "M": MIB, "s": 1.0, "ms": MS, "µs": US,
    "B": 1.0, "KiB": KIB, "MiB": MIB, "GiB": GIB, "TiB": 2**40, "kB": 1e3, "MB": 1e6, "GB": GB,
    "GB/s": GB, "TFLOP/s": TFLOP, "FLOP/byte": 1.0, "tokens": 1.0, "토큰": 1.0, "bytes": 1.0, "바이트": 1.0,
    "ratio": 1.0, "비율": 1.0, "requests/s": 1.0, "count": 1.0, "회": 1.0,
}  # fmt: skip
PLACED_IN = {("capacity", "xaxis"): GIB}  # axes whose places are not in base units
ROUNDED = 0.006  # of the larger: a tick has three digits
NUMBER = re.compile(r"(-?[\d,]*\.?\d+)\s?([^\d\s]*)")
BETWEEN_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})*(?:\.\d+)?|\d*\.\d+")


def value_of(text: str, axis_unit: str) -> float:
    """The number at a tick in base units. What has a unit of its own is not in that of the axis."""
    match = NUMBER.fullmatch(text)
    assert match, f"{text!r} is no number with a unit"
    assert BETWEEN_THOUSANDS.fullmatch(match[1].lstrip("-")), text
    unit = match[2]
    scale = UNITS[unit] * (UNITS[axis_unit] if unit in ("", "K", "M") else 1.0)
    return float(match[1].replace(",", "")) * scale


def axes(figure: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, axis in figure.to_plotly_json()["layout"].items():
        if name.startswith(("xaxis", "yaxis")) and axis.get("showticklabels", True):
            yield name, axis


def spoken(code: str, name: str, case: Case) -> Any:
    context = contextvars.copy_context()
    context.run(words.speak, language.words_of(code))
    return context.run(charts.draw, name, case)


def held(chart: str, axis: str, layout: dict[str, Any], *, placed: Any = None) -> int:
    """How many ticks were held against their places."""
    places, texts = np.asarray(layout.get("tickvals", ()), dtype=float), layout.get("ticktext", ())
    assert len(places) == len(texts)
    assert all(one < two for one, two in pairwise(places)), "ticks in another order than their places"
    unit = re.search(r"\[(.+)\]$", layout.get("title", {}).get("text", ""))
    expected = places * PLACED_IN.get((chart, axis), 1.0) if placed is None else placed(places)
    for text, place in zip(texts, expected, strict=True):
        assert value_of(text, unit[1] if unit else "") == pytest.approx(place, rel=ROUNDED, abs=1e-12), (text, place)
    assert len(set(texts)) == len(texts), "two ticks say the same"
    return len(texts)


@pytest.mark.parametrize("code", language.LANGUAGES)
@pytest.mark.parametrize(("name", "case"), EVERY_CHART)
def test_a_tick_says_its_place(name: str, case: Case, code: str) -> None:
    total = 0
    for axis, layout in axes(spoken(code, name, case)):
        placed = None
        if (name, axis) == ("block-size", "xaxis2"):
            blocks = curves.cost_by_block(compare_case(case), kv_cache.LAYOUTS)
            sizes = np.asarray(blocks.bytes_per_copy[blocks.chosen_layout])
            placed = lambda places: np.interp(places, blocks.block_tokens, sizes)  # noqa: B023, E731
        total += held(name, axis, layout, placed=placed)
    assert total > 1


@pytest.mark.parametrize("name", charts.NAMES)
def test_a_tick_stands_within_its_axis(name: str) -> None:
    for _, layout in (found for found in axes(charts.draw(name, CASES["default"])) if "tickvals" in found[1]):
        low, high = (10**end if layout["type"] == "log" else end for end in layout["range"])
        assert all(low * 0.999 <= place <= high * 1.001 for place in layout["tickvals"])


def test_every_chart_is_among_these() -> None:
    trees = [ast.parse(path.read_bytes()) for path in Path(charts.__file__).parent.glob("*.py")]
    functions = [node for tree in trees for node in tree.body if isinstance(node, ast.FunctionDef) and node.returns]
    makers = {node.name for node in functions if ast.unparse(node.returns) == "go.Figure"}
    named = {chart.figure.__name__ for chart in _CHARTS.values()}
    assert makers - {"draw", "footer"} == named | {"preemption_scale", "request_strip"}


def test_the_bands_begin_at_the_limits_that_stand_there() -> None:
    """Their places are numbers of bands, so each limit is drawn as a ratio: at the band's own edge."""
    for _, layout in axes(bands.preemption_scale(1.0)):
        for place, text in zip(layout["tickvals"], layout["ticktext"], strict=True):
            assert place == pytest.approx(bands.place(value_of(text, "")))
    strip = request_strip.request_strip({"waiting": 1.0, "prefill": 0.5, "decode": 3.0})
    assert sum(held("strip", axis, layout) for axis, layout in axes(strip)) == 0


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [("128K", "tokens", 131072), ("1,500", "tokens", 1500), ("0.5", "GB/s", 5e8), ("20 ms", "s", 0.02),
     ("4 GiB", "bytes", 2**32), ("3.1 µs", "", 3.1e-6), ("50 %", "", 0.5), ("2x", "ratio", 2.0)],
)  # fmt: skip
def test_the_reading_of_ticks(text: str, unit: str, value: float) -> None:
    assert value_of(text, unit) == pytest.approx(value)


@pytest.mark.parametrize("text", ["1,50", "ms", "1 parsec", "1.2.3", ""])
def test_what_is_no_number_is_not_read_as_one(text: str) -> None:
    with pytest.raises((AssertionError, KeyError)):
        value_of(text, "")
