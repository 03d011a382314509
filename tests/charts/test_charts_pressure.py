"""Charts of the Pressure page as data: what is drawn, in whose colour, in how many bytes."""

import json

import numpy as np
import pytest

from kvmodel import charts
from kvmodel.charts import LIGHT, STREAMLIT, pressure
from kvmodel.charts import load_curve as curve_chart
from kvmodel.inputs.case import Case
from kvmodel.simulation import load_curve, servers, simulate
from kvmodel.simulation.load_curve import Knee, Point
from kvmodel.simulation.servers import Demand, Pressure

LARGEST_PAYLOAD_BYTES = 16_000
ASKED = Pressure(case=Case(), demand=Demand(requests=200, requests_per_s=8.0), pool_percent=10)
RUNS = {scheduler: servers.run(ASKED, scheduler) for scheduler in ASKED.schedulers}
LOAD = servers.load_text(ASKED, RUNS["vllm-v1"])


def panel(fig, number: int) -> dict[str, object]:
    """Traces of one panel by name."""
    axis = "y" if number == 1 else f"y{number}"
    return {trace.name: trace for trace in fig.data if (trace.yaxis or "y") == axis}


def words(fig) -> str:
    return " | ".join(note.text for note in fig.layout.annotations)


class TestBySecond:
    fig = pressure.by_second(RUNS, LOAD)

    def test_a_panel_for_each_column_and_a_trace_for_each_run(self):
        for number, column in enumerate(("waiting", "running", "kv_usage", "preemptions"), 1):
            traces = panel(self.fig, number)
            assert list(traces) == ["vllm-v1", "wait"]
            for name, trace in traces.items():
                np.testing.assert_allclose(trace.y, pressure.columns(RUNS[name].seconds, 1)[column], rtol=1e-6)

    def test_preemptions_are_all_there(self):
        bars = panel(self.fig, 4)
        before_last_sample = RUNS["vllm-v1"].events.preempted_s <= RUNS["vllm-v1"].seconds.time_s[-1]
        assert bars["vllm-v1"].y.sum() == before_last_sample.sum() > 0
        assert bars["wait"].y.sum() == 0

    def test_the_load_is_said_and_the_time_has_a_unit(self):
        assert "chat, 200 requests, 8 requests/s, 2,900 blocks, seed 0" in words(self.fig)
        assert self.fig.layout.xaxis.title.text == "time [s]"

    def test_a_scheduler_has_the_colour_of_what_it_does(self):
        looks = pressure.looks(("vllm-v1", "wait", "vllm-v0"), LIGHT)
        assert [look["color"] for look in looks.values()] == [LIGHT.recompute, LIGHT.wait, LIGHT.recompute]
        assert [look["dash"] for look in looks.values()] == ["solid", "solid", "dot"]
        assert set(pressure.STRATEGY) == set(simulate.SCHEDULERS)

    def test_alt_tells_of_both_runs(self):
        told = pressure.by_second_alt(RUNS, LOAD)
        assert f"{RUNS['vllm-v1'].preemption_events} preemptions" in told
        assert "wait: at most" in told
        assert "; wait" in told

    def test_points_are_what_is_drawn(self):
        rows = [row for row in pressure.by_second_points(RUNS, LOAD) if row["scheduler"] == "vllm-v1"]
        np.testing.assert_allclose(panel(self.fig, 1)["vllm-v1"].y, [row["waiting"] for row in rows], rtol=1e-6)
        assert set(rows[0]) == {"load", "scheduler", "time_s", "waiting", "running", "kv_usage", "preemptions"}

    def test_a_long_run_stays_small_and_loses_nothing(self):
        asked = Pressure(case=Case(), demand=Demand(workload="long-documents", requests=150), pool_percent=30)
        runs = {scheduler: servers.run(asked, scheduler) for scheduler in asked.schedulers}
        samples = runs["vllm-v1"].seconds
        assert len(samples.time_s) > 3 * pressure.MOST_TIMES
        thinned = pressure.columns(samples, pressure.stretch(runs))
        assert len(thinned["time_s"]) <= pressure.MOST_TIMES
        assert thinned["waiting"].max() == samples.waiting.max()
        assert thinned["preemptions"].sum() == samples.preemptions.sum()
        counted = np.diff(np.append(0, thinned["time_s"]))
        assert (thinned["running"] * counted).sum() == pytest.approx(samples.running.sum())
        page = pressure.by_second(runs, LOAD, palette=STREAMLIT)
        assert len(json.dumps(page.to_dict(), default=str)) < LARGEST_PAYLOAD_BYTES

    def test_the_command_line_draws_the_page_s_first_view(self):
        rows = charts.points("pressure", Case())
        assert {row["scheduler"] for row in rows} == {"vllm-v1", "wait"}
        assert "chat, 400 requests, 6 requests/s" in charts.alt("pressure", Case())


def totals(preemptions: float, ttft_s: float, served: float, good: float) -> dict[str, object]:
    return {
        "preemptions_per_100": preemptions,
        "ttft_s": {"p50": ttft_s / 4, "p99": ttft_s},
        "requests_per_s": served,
        "goodput_requests_per_s": good * served,
        "output_tokens_per_s": 400 * served,
        "recompute_tax": 0.0,
        "good_share": good,
    }


CURVES = {
    "vllm-v1": [
        Point(4.0, totals(30, 8.0, 3.0, 0.3)),
        Point(1.0, totals(0, 0.1, 1.0, 1.0)),
        Point(2.0, totals(2, 0.4, 1.9, 0.95)),
    ],
    "wait": [Point(1.0, totals(0, 0.1, 1.0, 1.0)), Point(4.0, totals(0, 16.0, 2.8, 0.2))],
}


class TestLoadCurve:
    fig = curve_chart.load_curve(CURVES, LOAD, 3.0)

    def test_lines_rise_in_rate_whatever_the_order_of_the_runs(self):
        preemptions = panel(self.fig, 1)["vllm-v1"]
        assert preemptions.x.tolist() == [1, 2, 4]
        assert preemptions.y.tolist() == [0, 2, 30]

    def test_every_panel_has_both_schedulers(self):
        for number in (1, 2, 3):
            assert set(panel(self.fig, number)) == {"vllm-v1", "wait"}

    def test_lines_at_the_knees_and_at_the_chosen_rate(self):
        marks = [(shape.x0, shape.line.color) for shape in self.fig.layout.shapes]
        assert marks == [(pytest.approx(8**0.5), LIGHT.recompute), (2.0, LIGHT.wait), (3.0, LIGHT.muted)]

    def test_no_line_where_there_is_no_knee(self):
        easy = {"wait": [Point(1.0, totals(0, 0.1, 1.0, 1.0)), Point(2.0, totals(0, 0.1, 2.0, 1.0))]}
        fig = curve_chart.load_curve(easy, LOAD, 1.0)
        assert [shape.line.color for shape in fig.layout.shapes] == [LIGHT.muted]
        assert load_curve.knee(easy["wait"]) == Knee(2.0, None)
        assert "no knee in this range" in curve_chart.load_curve_alt(easy, LOAD, 1.0)

    def test_alt_names_the_knee_and_both_ends(self):
        told = curve_chart.load_curve_alt(CURVES, LOAD, 3.0)
        assert "vllm-v1: the knee is near 2.8 requests/s; 0 preemptions per 100 requests" in told
        assert "30 preemptions per 100 requests and a p99 of 8.0 s to the first token at 4.0 requests/s" in told

    def test_points_have_every_number_with_its_unit(self):
        row = curve_chart.load_curve_points(CURVES, LOAD, 3.0)[0]
        assert row["requests_per_s"] == 1.0
        assert row["ttft_p99_s"] == 0.1
        assert {"scheduler", "preemptions_per_100", "served_per_s", "goodput_per_s"} <= set(row)

    def test_it_is_small(self):
        page = curve_chart.load_curve(CURVES, LOAD, 3.0, palette=STREAMLIT)
        assert len(json.dumps(page.to_dict(), default=str)) < LARGEST_PAYLOAD_BYTES
