"""The Evidence page: figures first, filters in the link, and a reader's own measurement put into the inputs."""

import json
import re
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from explorer import prose
from explorer.frame import PAGES
from kvmodel.catalog import assumptions
from kvmodel.evidence import evidence_answers, measured_points, step_rows
from kvmodel.inputs.case import Case
from kvmodel.recovery.comparison import compare_case
from kvmodel.texts import evidence
from tests.helpers import visit

ROOT = Path(__file__).resolve().parents[2]
OWN_PREFILL_S = 0.5  # of 4,096 tokens of Llama 3 8B on an A100: slower than the model's


def opened(page: str = "evidence", **query: str | list[str]) -> AppTest:
    return visit.opened(page, **query)


def said(at: AppTest) -> str:
    return "\n".join(element.value for element in at.markdown)


def drawn_rows(at: AppTest, chart: int = 0) -> int:
    spec = json.loads(at.get("plotly_chart")[chart].proto.spec)
    return sum(len(trace["text"]) for trace in spec["data"] if trace.get("mode") == "markers")


def button(at: AppTest, key: str):
    return next((each for each in at.button if each.key == key), None)


def measure(at: AppTest, field: str, value: float) -> AppTest:
    return at.number_input(key=f"measured_{field}").set_value(value).run()


class TestFigures:
    def test_the_first_sentence_has_the_error_on_rows_given_and_the_honest_one(self):
        first = opened().markdown[0].value
        prefill = next(row for row in step_rows.step_errors() if row.kind == "prefill")
        assert f"{prefill.n} measured prefills" in first
        assert f"{100 * prefill.median:.1f} %" in first
        assert f"{100 * prefill.p90:.1f} %" in first
        assert f"**{100 * assumptions.value('band', 'prefill_other_gpu'):.0f} %**" in first
        assert assumptions.assumption("band", "prefill_other_gpu").note in first

    def test_the_table_is_that_of_the_command_line(self):
        table = visit.tables(opened())[0]
        printed = {row["kind"]: row for row in evidence_answers.evidence_answer(None)["rows"]}
        assert table["kind"].tolist() == list(printed)
        assert table["rows"].tolist() == [str(row["n"]) for row in printed.values()]
        assert table["median"].tolist() == [
            f"{row['median_percent']:.1f}\N{NO-BREAK SPACE}%" for row in printed.values()
        ]
        told = [cell.replace("\N{NO-BREAK SPACE}", " ") for cell in table["what it is"]]
        assert told == [row["says"] for row in printed.values()]

    def test_what_is_not_covered_is_computed(self):
        words = said(opened())
        numbers = evidence.gap_texts()
        assert f"on its {numbers['llama_cpp_n']} rows" in words
        assert numbers["other_gpus"] in words
        assert "**Decode steps of today's engines** (no rows)" in words

    def test_sources_have_links_and_licences(self):
        table = visit.tables(opened())[1]
        assert len(table) == len({pair.source for pair in measured_points.pairs()})
        assert all(re.fullmatch(r"\[.+\]\(https://.+\)", cell) for cell in table["source"])
        assert {"MIT", "Apache-2.0"} <= set(table["licence"])

    def test_how_to_work_it_out_again(self):
        assert "python -m fitting.fit" in said(opened())
        assert "python -m kvmodel evidence" in said(opened())

    @pytest.mark.parametrize(("gpu", "words"), [("h100-sxm5-80gb", "is fitted on rows"), ("l4", "is not fitted")])
    def test_what_it_means_for_the_readers_gpu(self, gpu, words):
        at = opened(gpu=gpu)
        assert words in said(at)
        assert evidence.lead_texts(Case(gpu=gpu))["range"] in said(at)


class TestFilters:
    def test_prefills_are_drawn_first(self):
        assert drawn_rows(opened()) == drawn_rows(opened(), 1) == len(measured_points.pairs_with(["prefill"]))

    def test_filters_come_from_the_link(self):
        at = opened(rows_gpu="l40s", rows_kind="prefill")
        assert drawn_rows(at) == len(measured_points.pairs_with(["prefill"], ["l40s"]))
        assert visit.tables(at)[0]["kind"].tolist() == ["prefill", "prefill_pcie_tp"]  # of all kinds on that GPU

    def test_a_choice_changes_what_is_drawn(self):
        at = opened()
        at.multiselect(key="rows_kind").set_value(["linear_sum"]).run()
        assert drawn_rows(at) == 170
        at.multiselect(key="rows_kind").set_value([]).run()
        assert drawn_rows(at) == len(measured_points.pairs())

    def test_nothing_left_is_said(self):
        at = opened(rows_gpu="rtx-3090")
        assert not at.exception
        assert [info.value for info in at.info] == [prose.text("evidence", "none")]
        assert not at.get("plotly_chart")

    def test_plain_copies_have_no_length(self):
        at = opened(rows_kind="copy")
        assert len(at.get("plotly_chart")) == 1
        assert prose.text("evidence", "no_length") in [info.value for info in at.info]

    @pytest.mark.parametrize("value", ["nonsense", "<b>", ""])
    def test_garbage_in_a_filter_does_no_harm(self, value):
        at = opened(rows_kind=value, rows_gpu=value)
        assert not at.warning
        assert at.get("plotly_chart")


class TestCalibration:
    def test_a_prefill_gives_its_mfu_and_a_button(self):
        at = measure(opened(), "prefill_s", OWN_PREFILL_S)
        assert "**4,096 tokens in 500 ms**" in said(at)
        assert "MFU of 39 %" in said(at)
        assert button(at, "use_measured")

    def test_use_this_instead_reaches_every_page_and_the_link(self):
        at = measure(opened(), "prefill_s", OWN_PREFILL_S)
        button(at, "use_measured").click().run()
        share = visit.inputs(at)["gemm_efficiency"]
        assert at.query_params["gemm_efficiency"] == str(share)
        delay_s = compare_case(Case(gemm_efficiency=share)).prices["recompute"].victim_delay_s
        assert float(delay_s) == pytest.approx(OWN_PREFILL_S, rel=1e-3)
        for page in ("home", "kv_size", "roofline", "crossover", "scenarios"):
            at.switch_page(PAGES[page]).run()
            assert not at.exception
            assert visit.inputs(at)["gemm_efficiency"] == share
            assert "**Calibrated**" in said(at)

    def test_a_link_brings_the_calibration_and_the_way_back_takes_it_away(self):
        at = opened("home", gemm_efficiency="0.4", copy_gb_per_s="9.5", request_overhead_ms="20")
        assert "matrix products at 40.0 % of the peak" in said(at)
        assert "large copies at 9.50 GB/s" in said(at)
        assert "20 ms of overhead a request" in said(at)
        button(at, "uncalibrate").click().run()
        assert "**Calibrated**" not in said(at)
        assert button(at, "uncalibrate") is None
        for field in ("gemm_efficiency", "copy_gb_per_s", "request_overhead_ms"):
            assert visit.inputs(at)[field] is None
            assert field not in at.query_params

    def test_nothing_is_said_without_own_figures(self):
        assert "**Calibrated**" not in said(opened("home"))

    def test_below_the_floor_is_impossible_with_the_floor(self):
        at = measure(opened(), "prefill_s", 0.01)
        assert [error.value.startswith("**Impossible.**") for error in at.error] == [True]
        assert "197 ms" in at.error[0].value
        assert button(at, "use_measured") is None

    def test_two_points_give_the_overhead(self):
        at = measure(measure(opened(), "prefill_tokens", 2048), "prefill_s", 0.2)
        at = measure(measure(at, "prefill_tokens2", 8192), "prefill_s2", 0.7)
        assert "beside its prefill" in said(at)
        button(at, "use_measured").click().run()
        assert visit.inputs(at)["request_overhead_ms"] > 0

    def test_points_that_contradict_each_other_are_one_sentence(self):
        at = measure(measure(opened(), "copy_s", 0.2), "copy_tokens2", 8192)
        at = measure(at, "copy_s2", 0.1)
        assert [warning.value.split("\\:")[0] for warning in at.warning] == ["second copy"]
        assert button(at, "use_measured") is None

    def test_a_copy_gives_a_rate(self):
        at = measure(opened(), "copy_s", 0.1)
        assert "Yours is 5.4 GB/s" in said(at)  # 4,096 tokens of 131,072 B
        button(at, "use_measured").click().run()
        assert 5.4 < visit.inputs(at)["copy_gb_per_s"] < 7

    def test_the_model_alone_is_told_while_calibrated(self):
        """The same point read again after it was used still stands beside the model's own figure."""
        at = measure(opened(), "prefill_s", OWN_PREFILL_S)
        before = next(line.value for line in at.markdown if "4,096 tokens in 500 ms" in line.value)
        button(at, "use_measured").click().run()
        assert before in [line.value for line in at.markdown]
