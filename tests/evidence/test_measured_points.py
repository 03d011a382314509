"""Rows beside the model, their filters and tables: nothing lost, nothing counted twice, and the rates of copies."""

from dataclasses import replace

import numpy as np
import pytest

from kvmodel.curves import copy_rate, roofline_points
from kvmodel.evidence import copy_rows, measured, measured_points, step_rows
from kvmodel.inputs.case import Case
from kvmodel.recovery.comparison import compare_case
from kvmodel.texts import evidence
from kvmodel.units import KIB, MIB

EVERY = measured_points.pairs()


class TestPairs:
    def test_every_judged_row_is_there_once(self):
        judged = [*step_rows.judged_rows(measured.steps()), *filter(copy_rows.is_judged, measured.copies())]
        assert [pair.id for pair in EVERY] == [row.id for row in judged]

    def test_times_are_those_of_the_error_table(self):
        together = {row.kind: row for row in (*step_rows.step_errors(), *copy_rows.copy_errors())}
        for row in measured_points.errors(EVERY):
            assert (row.n, row.median) == (together[row.kind].n, pytest.approx(together[row.kind].median, rel=1e-9))
            assert (row.p90, row.bias) == (
                pytest.approx(together[row.kind].p90, rel=1e-9), pytest.approx(together[row.kind].bias, abs=1e-12)
            )  # fmt: skip

    def test_a_ratio_by_hand(self):
        pair = replace(EVERY[0], measured_s=0.2, modelled_s=0.25)
        assert pair.ratio == pytest.approx(1.25)

    @pytest.mark.parametrize(
        ("engine", "family"),
        [
            ("vLLM 0.24.0 kernels", "vllm"),
            ("vLLM 2023 (Splitwise profile)", "vllm-2023"),
            ("vLLM", "vllm"),
            ("TensorRT-LLM 1.3.0rc20 kernels", "tensorrt-llm"),
            ("HF/torch kernels (v0 profile)", "pytorch"),
            ("", "copy-benchmark"),
        ],
    )
    def test_an_engine_without_its_version(self, engine, family):
        assert measured_points.family(engine) == family

    def test_how_rows_were_measured(self):
        kinds = {pair.kind: pair.measured_as for pair in EVERY if pair.kind not in ("prefill",)}
        assert kinds["prefill_llama_cpp"] == measured_points.NOT_MODELLED
        assert kinds["decode_2023"] == measured_points.OLD_ENGINE
        assert kinds["linear_sum"] == measured_points.KERNELS
        assert kinds["copy"] == measured_points.COPY


class TestFilters:
    def test_no_filter_lets_all_through(self):
        assert measured_points.pairs_with() == EVERY

    @pytest.mark.parametrize("field", ["kind", "gpu", "model", "family"])
    def test_the_values_of_a_filter_part_the_rows(self, field):
        place = ("kind", "gpu", "model", "family").index(field)
        parts = []
        for value in measured_points.options(field):
            filters = [[], [], [], []]
            filters[place] = [value]
            parts += measured_points.pairs_with(*filters)
        assert len(parts) == sum(bool(getattr(pair, field)) for pair in EVERY)
        assert len({pair.id for pair in parts}) == len(parts)

    def test_filters_hold_together(self):
        found = measured_points.pairs_with(
            ["prefill"], ["h100-sxm5-80gb", "l40s"], ["llama-3.1-8b"], ["sglang", "vllm"]
        )
        assert found
        for pair in found:
            assert pair.kind == "prefill"
            assert pair.gpu in ("h100-sxm5-80gb", "l40s")
            assert (pair.model, pair.family in ("sglang", "vllm")) == ("llama-3.1-8b", True)

    def test_nothing_may_be_left(self):
        assert measured_points.pairs_with(["prefill"], ["rtx-3090"]) == ()
        assert measured_points.errors(()) == []


class TestTables:
    def test_the_honest_figure_is_the_larger(self):
        numbers = evidence.lead_texts(Case())
        assert float(numbers["other_gpu_p90"].split()[0]) > float(numbers["p90"].split()[0])
        assert numbers["gpu_rows"] == str(len(measured_points.pairs_with(["prefill"], ["a100-sxm4-80gb"])))

    def test_a_gpu_without_rows_gets_the_wider_range(self):
        measured_gpu, other = (evidence.lead_texts(Case(gpu=gpu))["range"] for gpu in ("h100-sxm5-80gb", "l4"))
        assert float(other.split()[0]) > float(measured_gpu.split()[0])
        assert evidence.is_measured(Case(gpu="h100-sxm5-80gb"))
        assert not evidence.is_measured(Case(gpu="l4"))
        assert not evidence.is_measured(Case(gpu="l40s", timing="2023"))

    def test_gpus_are_in_one_group_each(self):
        numbers = evidence.gap_texts()
        groups = [numbers[name].split(", ") for name in ("measured_gpus", "chip_gpus", "other_gpus")]
        named = [gpu for group in groups for gpu in group]
        assert len(named) == len(set(named)) == int(numbers["gpu_count"])
        assert len(groups[2]) == int(numbers["other_count"])

    def test_gaps_count_what_the_rows_have(self):
        found = dict(evidence.gaps())
        assert found["decode"] == 0
        assert found["pcie"] == sum(row.kind == "prefill_assembled_pcie_tp" and row.tp > 2 for row in measured.steps())
        assert all(rows < evidence.FEW_ROWS for rows in found.values())

    def test_every_source_is_listed_with_all_its_rows(self):
        rows = evidence.source_rows()
        assert sum(int(count) for _, _, count, _, _ in rows) == len(EVERY)
        assert all(url.startswith("https://") for _, url, _, _, _ in rows)

    def test_every_kind_says_what_it_is(self):
        assert {row[0] for row in evidence.error_rows(EVERY)} == set(measured_points.options("kind"))
        assert evidence.kinds()[0] == "prefill"


class TestCopyRates:
    rates = copy_rate.copy_rates(compare_case(Case(gpu="h100-sxm5-80gb")))

    def curve(self, method, direction):
        return next(
            curve for curve in self.rates.curves if (curve.method, curve.direction) == (method, direction)
        ).bytes_per_s  # fmt: skip

    def test_one_copy_by_hand(self):
        """The law of the vLLM blog's sweep on an H100: 3.5 us and 50.4 GB/s, at the Case's 2 MiB a copy."""
        assert self.rates.chosen_bytes_per_copy == 2 * MIB
        assert self.rates.chosen_bytes_per_s["d2h"] == pytest.approx(2 * MIB / (3.5e-6 + 2 * MIB / 50.4e9), rel=0.02)

    def test_rates_rise_with_size_and_the_cliff_is_in_batched_loads_alone(self):
        for method, direction in (("per-copy", "d2h"), ("kernel", "h2d"), ("batched", "d2h")):
            assert (np.diff(self.curve(method, direction)) >= 0).all()
        size = self.rates.bytes_per_copy
        below, above = size < 28 * KIB, size >= 28 * KIB
        loads = self.curve("batched", "h2d")
        assert loads[above].min() > 3 * loads[below].max()

    def test_the_curves_are_what_the_error_table_judges(self):
        """A measured row's rate by its own Case, and by the curve of its method at its size."""
        row = next(row for row in measured.copies() if row.kind == "bw_vs_block" and row.bytes_per_copy == 65536)
        case = copy_rows.case_of(row)
        own = row.copies * row.bytes_per_copy / copy_rows.modelled_s(row)
        assert float(copy_rate.rate(case, row.direction, 65536.0)) == pytest.approx(own)

    def test_points_are_of_the_same_link_and_memory(self):
        assert self.rates.measured_rates
        assert {point.gpu for point in self.rates.measured_rates} == {"h100-sxm5-80gb"}
        pageable = copy_rate.copy_rates(compare_case(Case(gpu="rtx-4090", host_memory="pageable")))
        assert {point.method for point in pageable.measured_rates} == {"staged"}
        assert [curve.method for curve in pageable.curves] == ["staged", "staged"]

    @pytest.mark.parametrize(
        "change", [{"link": "pcie3-x16"}, {"numa": "far"}, {"duplex": "both-ways"}, {"rate": "link"}]
    )
    def test_no_point_where_nobody_measured(self, change):
        assert copy_rate.matching(replace(Case(gpu="h100-sxm5-80gb"), **change)) == ()


class TestRoofline:
    def test_a_measured_prefill_by_hand(self):
        """FLOP of the row over its time; intensity about one FLOP a byte for each token, less by what moves besides."""
        line = roofline_points.roofline_of(compare_case(Case(model="llama-3.1-8b", gpu="h100-sxm5-80gb")))
        point = next(
            each for each in line.measured_points if (each.row.tokens, each.row.batch, each.row.tp) == (2048, 1, 1)
        )
        linear = 2 * 6_979_321_856 * 2048 + 2 * 128_256 * 4096
        attention = 2 * 32 * 4096 * 2048 * 2049
        assert point.attained_flop_per_s == pytest.approx((linear + attention) / point.row.seconds, rel=2e-3)
        assert 0.5 * 2048 < point.intensity_flop_per_byte < 2048

    def test_no_measured_prefill_lies_above_the_ceiling(self):
        for gpu in ("h100-sxm5-80gb", "a100-sxm4-80gb", "l40s", "rtx-4090"):
            line = roofline_points.roofline_of(compare_case(Case(model="llama-3.1-8b", gpu=gpu)))
            assert line.measured_points
            for point in line.measured_points:
                assert point.attained_flop_per_s < min(
                    line.peak_flop_per_s, point.intensity_flop_per_byte * line.hbm_bytes_per_s
                )

    def test_rows_match_gpu_shape_and_time(self):
        same_shape = roofline_points.measured_prefills(Case(model="llama-3-8b"))
        assert same_shape == roofline_points.measured_prefills(Case(model="llama-3.1-8b"))
        assert {point.row.timing for point in same_shape} <= {"kernels", "today"}
        old = roofline_points.measured_prefills(Case(model="llama-2-70b", tp=4, timing="2023"))
        assert {point.row.timing for point in old} == {"2023"}
        assert roofline_points.measured_prefills(Case(gpu="l4")) == ()
