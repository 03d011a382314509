"""Charts are read as data: what is drawn, under which titles, in which dash and colour; never as pixels."""

import base64
import functools
import json
import re
from dataclasses import replace

import numpy as np
import plotly.graph_objects as go
import pytest

from kvmodel import catalog, charts
from kvmodel.charts import LIGHT, STREAMLIT, crossover, home, kv_size, labels, roofline, series, theme
from kvmodel.charts import scenarios as outcome_chart
from kvmodel.charts.named import WITHOUT_CASE
from kvmodel.claims import figure19, scenarios
from kvmodel.curves import curves, roofline_points
from kvmodel.errors import CaseError
from kvmodel.inputs.case import Case
from kvmodel.memory import kv_cache
from kvmodel.recovery import parts
from kvmodel.recovery.comparison import compare_case
from kvmodel.recovery.strategies import STRATEGIES
from kvmodel.units import format_bytes, format_seconds

CASES = {
    "default": Case(),
    "batch does not fit": Case(decode_batch=5000),
    "70B on eight": Case(model="llama-3-70b", gpu="h100-sxm5-80gb", tp=8, tokens=32768),
    "experts": Case(model="mixtral-8x7b", tp=4),
    "windows": Case(model="gemma-3-27b"),
    "one token": Case(tokens=1),
    "as Figure 19": Case(
        model="opt-13b", gpu="a100-sxm4-40gb", kv_dtype="fp16", layout="per-layer-kv", decode_batch=4, tokens=256
    ),
    "nothing to recompute": Case(survival=1.0),
    "slow copies": Case(copy_gb_per_s=0.1, preemptions=40),
}
LARGEST_PAYLOAD_BYTES = 16_000
LARGEST_WITH_ROWS_BYTES = 21_000  # of charts that name every one of a hundred measured rows
DEFAULT = compare_case(Case())


def drawn(fig: go.Figure, name: str) -> list:
    """Traces of this name that are lines."""
    return [trace for trace in fig.data if trace.name == name and getattr(trace, "fill", None) is None]


def texts(fig: go.Figure) -> str:
    return " | ".join(note.text for note in fig.layout.annotations)


draw = functools.cache(charts.draw)
alt = functools.cache(charts.alt)
EVERY = [
    pytest.param(name, case, id=f"{name}, {case_id}")
    for name in charts.NAMES
    for case_id, case in CASES.items()
    if case_id == "default" or name not in WITHOUT_CASE  # these do not depend on the Case
]


@pytest.mark.parametrize(("name", "case"), EVERY)
class TestEveryChart:
    def test_is_small_and_has_a_unit_on_its_axis(self, name, case):
        fig = draw(name, case)
        most_bytes = LARGEST_WITH_ROWS_BYTES if name.startswith("evidence") else LARGEST_PAYLOAD_BYTES
        assert len(fig.to_json()) < most_bytes
        assert re.search(r"\[.+\]", fig.layout.xaxis.title.text)
        if fig.layout.yaxis.title.text:
            assert re.search(r"\[.+\]", fig.layout.yaxis.title.text)

    def test_its_texts_hold_no_unknown_number(self, name, case):
        fig = draw(name, case)
        for words in (texts(fig), alt(name, case)):
            assert not re.search(r"\bnan\b|\binf\b|None", words)
        assert "–" not in texts(fig)

    def test_annotations_lie_inside_their_axes(self, name, case):
        fig = draw(name, case)
        for note in fig.layout.annotations:
            for which, ref in (("x", note.xref), ("y", note.yref)):
                axis = fig.layout[f"{which}axis"]
                if ref == which and axis.type != "category":
                    assert axis.range[0] <= note[which] <= axis.range[1]

    def test_points_are_rows_of_plain_values(self, name, case):
        rows = charts.points(name, case)
        assert rows
        assert len({tuple(row) for row in rows}) == 1, "every row has the same columns"
        for value in (value for row in rows for value in row.values()):
            assert value is None or isinstance(value, str) or np.isfinite(value)

    def test_streamlit_palette_draws_the_same_numbers(self, name, case):
        light, page = draw(name, case), go.Figure(draw(name, case, palette=STREAMLIT).to_dict())
        assert [trace.type for trace in light.data] == [trace.type for trace in page.data]
        for one, other in zip(light.data, page.data, strict=True):
            np.testing.assert_array_equal(one.x, unpacked(other.x))
            np.testing.assert_array_equal(one.y, unpacked(other.y))
        assert not set(colours(page)) - set(colour_values(STREAMLIT))
        assert not set(colours(light)) - set(colour_values(LIGHT))


def unpacked(values: object) -> object:
    """An array as plotly.js reads its typed form."""
    if not isinstance(values, dict):
        return values
    return np.frombuffer(base64.b64decode(values["bdata"]), dtype=np.dtype(values["dtype"]))


def colours(fig: go.Figure) -> list[str]:
    return re.findall(r"#[0-9A-Fa-f]{6,8}\b", json.dumps(json.loads(fig.to_json())))


def colour_values(palette: theme.Palette) -> list[str]:
    return [value for value in vars(palette).values() if value and value.startswith("#")]


def test_unknown_name_is_one_sentence_with_the_names():
    with pytest.raises(CaseError, match="chart: 'pie' given; allowed: timeline, kv-size, .*evidence-by-length$"):
        charts.draw("pie", Case())
    with pytest.raises(CaseError, match="allowed"):
        charts.points("pie", Case())


def test_footer_says_what_the_chart_was_drawn_for():
    words = texts(charts.draw("crossover", Case(model="llama-3-70b", tp=8, timing="kernels")))
    for said in ("llama-3-70b", "a100-sxm4-80gb x 8", "pcie4-x16", "timing kernels", "kvmodel 0."):
        assert said in words
    assert "llama" not in texts(charts.draw("figure19", Case())), "Figure 19 is not about the Case"


class TestStrategies:
    def test_one_colour_and_one_dash_each(self):
        fig = crossover.cost_by_length(curves.cost_by_length(DEFAULT))
        looks = {name: (drawn(fig, name)[0].line.color, drawn(fig, name)[0].line.dash) for name in STRATEGIES}
        assert looks == {name: (LIGHT.of(name), theme.DASHES[name]) for name in STRATEGIES}
        assert len({dash for _, dash in looks.values()}) == len({colour for colour, _ in looks.values()}) == 5

    def test_streamlit_placeholders_are_the_categories_in_order(self):
        order = ("wait", "swap", "recompute", "offload", "both")
        assert [STREAMLIT.of(name) for name in order] == [f"#00000{number}" for number in range(1, 6)]

    def test_labels_stand_in_the_line_s_colour(self):
        fig = crossover.cost_by_length(curves.cost_by_length(DEFAULT))
        found = {note.text: note.font.color for note in fig.layout.annotations if note.text in STRATEGIES}
        assert found == {name: LIGHT.of(name) for name in STRATEGIES}

    def test_only_those_shown(self):
        fig = crossover.cost_by_length(curves.cost_by_length(DEFAULT), ["swap", "recompute"])
        assert {trace.name for trace in fig.data if trace.name} == {"swap", "recompute"}

    def test_unknown_wait_is_left_out(self):
        unknown = compare_case(CASES["batch does not fit"])
        fig = crossover.cost_by_length(curves.cost_by_length(unknown))
        assert not np.isfinite(drawn(fig, "wait")[0].y).any()
        assert not [note for note in fig.layout.annotations if note.text == "wait"]


class TestPointsAreWhatIsDrawn:
    @pytest.mark.parametrize("name", ["crossover", "preemptions"])
    def test_costs(self, name):
        rows, fig = charts.points(name, Case()), charts.draw(name, Case())
        x = "tokens" if name == "crossover" else "preemptions"
        for strategy in STRATEGIES:
            line = drawn(fig, strategy)[0]
            np.testing.assert_allclose(line.x, [row[x] for row in rows], rtol=1e-6)
            np.testing.assert_allclose(line.y, [row[f"{strategy}_s"] for row in rows], rtol=1e-6)

    def test_block_size(self):
        rows, fig = charts.points("block-size", Case()), charts.draw("block-size", Case())
        for layout in kv_cache.LAYOUTS:
            line = drawn(fig, f"swap {layout}")[0]
            np.testing.assert_allclose(line.x, [row["block_tokens"] for row in rows])
            np.testing.assert_allclose(line.y, [row[f"swap_{layout}_s"] for row in rows], rtol=1e-6)
            assert line.line.dash == theme.DASHES["swap"]
        assert drawn(fig, "recompute")[0].y[0] == pytest.approx(rows[0]["recompute_s"], rel=1e-6)

    def test_step_time(self):
        rows, fig = charts.points("step-time", Case()), charts.draw("step-time", Case())
        for name, column in (("step", "step_s"), ("weight read", "weight_read_s"), ("floor", "floor_s")):
            np.testing.assert_allclose(drawn(fig, name)[0].y, [row[column] for row in rows], rtol=1e-6)

    def test_kv_size(self):
        rows, fig = charts.points("kv-size", Case()), charts.draw("kv-size", Case())
        label = catalog.model("llama-3-8b").label
        np.testing.assert_allclose(drawn(fig, label)[0].y, [row[f"{label}_bytes"] for row in rows], rtol=1e-6)

    def test_winner_map(self):
        rows, fig = charts.points("winner-map", Case()), charts.draw("winner-map", Case())
        np.testing.assert_allclose(
            drawn(fig, "break-even")[0].y, [row["break_even_bytes_per_s"] for row in rows], rtol=1e-6
        )

    def test_figure19(self):
        rows, fig = charts.points("figure19", Case()), charts.draw("figure19", Case())
        np.testing.assert_allclose(drawn(fig, "swap")[0].y, [row["swap_s"] for row in rows], rtol=1e-6)
        assert drawn(fig, "recompute as plotted")[0].y[0] == pytest.approx(0.03996, rel=1e-6)
        assert drawn(fig, "recompute measured")[0].y[0] == pytest.approx(0.0444, rel=1e-6)

    def test_scenarios(self):
        rows, fig = charts.points("scenarios", Case()), charts.draw("scenarios", Case())
        in_figure = sorted(x for trace in fig.data for x in trace.x)
        assert in_figure == pytest.approx(sorted(row["recompute_over_copy"] for row in rows))

    def test_timeline(self):
        rows, fig = charts.points("timeline", Case()), charts.draw("timeline", Case())
        bars = {
            (strategy, trace.name): (start, length)
            for trace in fig.data
            if trace.type == "bar"
            for strategy, start, length in zip(trace.y, trace.base, trace.x, strict=True)
        }
        assert bars == {(row["strategy"], row["piece"]): (row["start_s"], row["length_s"]) for row in rows}


class TestTimeline:
    pieces = parts.parts(DEFAULT.inputs)

    def ends(self, found):
        return {name: sum(piece.seconds for piece in home.pieces(part)) for name, part in found.items()}

    def test_a_lane_ends_with_the_wait_and_the_delay(self):
        ends = self.ends(self.pieces)
        for name in ("recompute", "swap", "offload", "both"):
            price = float(DEFAULT.prices[name].victim_delay_s)
            assert ends[name] == pytest.approx(DEFAULT.wait_for_blocks_s + price)
        assert ends["wait"] == pytest.approx(float(DEFAULT.prices["wait"].victim_delay_s))

    def test_the_copy_out_comes_before_the_wait_and_the_copy_in_after(self):
        assert [piece.name for piece in home.pieces(self.pieces["swap"])] == ["copy out", "wait for blocks", "copy in"]

    def test_a_wait_that_is_unknown_is_left_out(self):
        found = parts.parts(compare_case(CASES["batch does not fit"]).inputs)
        assert "wait for blocks" not in {trace.name for trace in home.timeline(found).data}
        assert "queue unknown" in texts(home.timeline(found))
        assert "wait unknown" in home.timeline_alt(found)

    def test_alt_gives_every_end(self):
        for name, end in self.ends(self.pieces).items():
            assert f"{name} {format_seconds(end)}" in home.timeline_alt(self.pieces)


class TestStackedParts:
    pieces = parts.parts(DEFAULT.inputs)

    @pytest.mark.parametrize("with_wait", [False, True])
    def test_bars_add_up(self, with_wait):
        fig = crossover.stacked_parts(self.pieces, with_wait=with_wait)
        common = DEFAULT.wait_for_blocks_s if with_wait else 0.0
        for name in ("recompute", "swap"):
            total = sum(x for trace in fig.data for x, lane in zip(trace.x, trace.y, strict=True) if lane == name)
            assert total == pytest.approx(float(DEFAULT.prices[name].victim_delay_s) + common)
        assert ("wait for blocks" in {trace.name for trace in fig.data}) == with_wait

    def test_alt_gives_the_totals(self):
        words = crossover.stacked_parts_alt(self.pieces)
        assert f"swap {format_seconds(float(DEFAULT.prices['swap'].victim_delay_s))}" in words


class TestCrossings:
    def test_a_crossing_is_marked_where_it_lies(self):
        found = curves.cost_by_length(compare_case(Case(copy_gb_per_s=3.0)))
        assert found.crossing_x is not None
        fig = crossover.cost_by_length(found)
        assert "swap = recompute<br>at " in texts(fig)
        marked = [trace for trace in fig.data if trace.mode == "markers" and trace.x[0] == found.crossing_x]
        assert marked[0].y[0] == pytest.approx(
            labels.value_at(found.x, found.likely_s["swap"], found.crossing_x), rel=0.02
        )
        assert labels.tokens(found.crossing_x) in crossover.cost_by_length_alt(found)

    def test_no_crossing_no_mark(self):
        found = curves.cost_by_length(DEFAULT)
        assert found.crossing_x is None
        assert "swap = recompute" not in texts(crossover.cost_by_length(found))
        assert "do not cross" in crossover.cost_by_length_alt(found)

    def test_figure19_crosses_at_sixteen(self):
        paper = figure19.figure19()
        assert "cross at block size 16" in texts(crossover.figure19(paper))
        assert "block size 16" in crossover.figure19_alt(paper)

    def test_areas_of_the_map_start_beyond_what_is_too_close(self):
        found = curves.winner_map(DEFAULT)
        clear = found.clear_factor["swap"]
        assert clear == pytest.approx((1 + 0.2) / (1 - DEFAULT.prices["recompute"].band))
        fig = crossover.winner_map(found)
        swap = next(trace for trace in fig.data if trace.name == f"swap {clear:.2g}x faster")
        assert swap.y[0] == pytest.approx(clear * found.break_even_bytes_per_s[0], rel=1e-6)
        assert "so swap is faster" in crossover.winner_map_alt(found)


class TestRoofline:
    roof = roofline_points.roofline_of(DEFAULT)

    def test_ceiling_has_its_corner_at_the_ridge(self):
        line = drawn(roofline.roofline(self.roof), "ceiling")[0]
        assert line.x[1] == pytest.approx(self.roof.ridge_flop_per_byte)
        assert line.y[1] == line.y[2] == pytest.approx(self.roof.peak_flop_per_s)
        assert "ridge 153 FLOP/byte" in texts(roofline.roofline(self.roof))

    def test_points_at_their_attained_rate_below_the_ceiling(self):
        fig = roofline.roofline(self.roof)
        for point in self.roof.points:
            rod = drawn(fig, point.name)[0]
            assert list(rod.y) == pytest.approx([point.attained_flop_per_s, point.ceiling_flop_per_s])
            assert point.name in roofline.roofline_alt(self.roof)

    def test_knee_is_marked_or_absent(self):
        curve = roofline_points.step_curve(DEFAULT)
        knee = f"{curve.knee_tokens:,.0f} tokens"
        assert 130 < curve.knee_tokens < 200  # 130 to 170 on an A100 by kernel tables, in 16 bit
        assert f"knee {knee}" in texts(roofline.step_time(curve))
        assert knee in roofline.step_time_alt(curve)
        without = replace(curve, knee_tokens=None)
        assert "knee" not in texts(roofline.step_time(without))
        assert "no knee" in roofline.step_time_alt(without)


class TestKvSize:
    def test_ticks_are_powers_of_two(self):
        fig = kv_size.kv_by_length(curves.kv_by_length(DEFAULT, ["llama-2-7b"]))
        assert list(fig.layout.yaxis.ticktext) == ["16 MiB", "256 MiB", "4 GiB", "64 GiB"]
        assert list(fig.layout.xaxis.ticktext) == ["128", "512", "2K", "8K", "32K", "128K"]

    def test_the_chosen_model_stands_out_and_its_size_is_told(self):
        sizes = curves.kv_by_length(DEFAULT, ["llama-2-7b"])
        fig = kv_size.kv_by_length(sizes)
        own, other = (drawn(fig, catalog.model(name).label)[0] for name in ("llama-3-8b", "llama-2-7b"))
        assert own.line.width > other.line.width
        assert format_bytes(4096 * 131072) in texts(fig)
        assert format_bytes(4096 * 131072) in kv_size.kv_by_length_alt(sizes)

    def test_a_long_name_leaves_room_for_the_plot(self):
        sizes = curves.kv_by_length(DEFAULT)
        long = replace(sizes, kv_bytes={"a model with a very long name": sizes.kv_bytes[sizes.chosen_label]})
        fig = kv_size.kv_by_length(replace(long, chosen_label="a model with a very long name"))
        assert "a model with a ve…" in texts(fig)
        assert fig.layout.margin.r < 150


class TestScenarios:
    rows = scenarios.table()

    def test_ratio_is_above_one_where_a_copy_is_faster(self):
        for outcome in (outcome for row in self.rows for outcome in row.outcomes):
            assert (outcome_chart.ratio(outcome) > 1) == (outcome.contest.winner != "recompute")

    def test_the_article_s_pick_is_tinted(self):
        fig = outcome_chart.outcomes(self.rows)
        tints = [shape.fillcolor for shape in fig.layout.shapes if shape.type == "rect"]
        assert tints == [LIGHT.recompute, LIGHT.swap, LIGHT.swap, LIGHT.recompute, LIGHT.recompute, LIGHT.recompute]

    def test_too_close_is_hollow(self):
        first = self.rows[0].outcomes[0]
        close = replace(first, contest=replace(first.contest, close=not first.contest.close))
        rows = (replace(self.rows[0], outcomes=(close, *self.rows[0].outcomes[1:])), *self.rows[1:])
        for shown in (self.rows, rows):
            fig = outcome_chart.outcomes(shown)
            hollow = sum(colour == LIGHT.background for trace in fig.data for colour in trace.marker.color)
            assert hollow == sum(outcome.contest.close for row in shown for outcome in row.outcomes)


class TestLabels:
    def test_hangul_takes_more_room_than_latin(self):
        assert labels.room_px(["recompute"]) == int(14 + 9 * labels.LETTER_PX)
        assert labels.room_px(["오프로드"]) == int(14 + 4 * labels.WIDE * labels.LETTER_PX)
        assert labels.short_label("a model of 18 chars") == "a model of 18 cha…"
        assert labels.short_label("물리적 하한") == "물리적 하한"
        assert labels.letters(labels.short_label("아주 긴 이름을 가진 어느 모델")) <= labels.LONGEST_LABEL

    @pytest.mark.parametrize(
        "wanted",
        [
            pytest.param([100.0, 100.0, 100.0], id="all at one height"),
            pytest.param([0.0, 2.0, 4.0, 300.0], id="at the bottom"),
            pytest.param([338.0, 337.0, 5.0], id="at the top"),
        ],
    )
    def test_apart_keeps_the_order_and_the_gap(self, wanted):
        found = labels.apart(wanted, 338)
        assert list(np.argsort(found, kind="stable")) == list(np.argsort(wanted, kind="stable"))
        assert np.diff(np.sort(found)).min() >= labels.GAP_PX - 0.01
        assert min(found) >= 0
        assert max(found) <= 338.001

    def test_apart_leaves_alone_what_is_apart(self):
        assert labels.apart([10, 100, 200], 338) == [10, 100, 200]

    def test_text_on_a_log_axis_is_placed_by_log10(self):
        fig = theme.sketch(LIGHT)
        theme.length_axis(fig, np.array([100.0, 10000.0]), LIGHT)
        assert labels.at_value(fig, "xaxis", 1000.0) == pytest.approx(3.0)
        assert labels.fraction(fig, "xaxis", 1000.0) == pytest.approx(0.5)

    def test_value_between_points_follows_a_power_law(self):
        assert labels.value_at(np.array([1.0, 100.0]), np.array([1.0, 10000.0]), 10.0) == pytest.approx(100.0)
        assert np.isnan(labels.value_at(np.array([1.0, 100.0]), np.array([1.0, 10.0]), 1000.0))

    @pytest.mark.parametrize(("number", "said"), [("1.50 s", "1.5 s"), ("2.00 MiB", "2 MiB"), ("100 ms", "100 ms")])
    def test_trimmed(self, number, said):
        assert theme.without_zeros(number) == said


def test_thin_keeps_the_ends_and_the_chosen_point():
    x = np.arange(200.0)
    picked = x[series.thin(x, 11, keep=77.0)]
    assert picked[0] == 0
    assert picked[-1] == 199
    assert 77 in picked
    assert len(picked) <= 12
