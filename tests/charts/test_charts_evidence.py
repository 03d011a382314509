"""The charts of measurements, read as data: every row drawn once, where its numbers say, and named."""

import numpy as np
import pytest

from kvmodel import charts
from kvmodel.charts import copy_rates, crossover, evidence, roofline
from kvmodel.curves import copy_rate, curves, roofline_points
from kvmodel.evidence import measured_points
from kvmodel.inputs.case import Case
from kvmodel.memory import kv_cache
from kvmodel.recovery.comparison import compare_case

FIRST = measured_points.pairs_with(measured_points.FIRST_KINDS)
EVERY = measured_points.pairs()
H100 = compare_case(Case(model="llama-3.1-8b", gpu="h100-sxm5-80gb"))


def marks(fig):
    return [trace for trace in fig.data if trace.mode == "markers"]


def texts(fig):
    return " | ".join(note.text for note in fig.layout.annotations)


@pytest.mark.parametrize("pairs", [FIRST, EVERY, FIRST[:1]], ids=["prefill", "all", "one"])
class TestAgainstMeasured:
    def test_every_row_is_drawn_once_at_its_times(self, pairs):
        drawn = marks(evidence.against_measured(pairs))
        x, y = (np.sort(np.concatenate([getattr(trace, axis) for trace in drawn])) for axis in "xy")
        np.testing.assert_allclose(x, np.sort([pair.measured_s for pair in pairs]), rtol=1e-6)
        np.testing.assert_allclose(y, np.sort([pair.modelled_s for pair in pairs]), rtol=1e-6)

    def test_axes_share_their_span_and_hold_every_mark(self, pairs):
        fig = evidence.against_measured(pairs)
        assert fig.layout.xaxis.range == fig.layout.yaxis.range
        low, high = (10**end for end in fig.layout.xaxis.range)
        for pair in pairs:
            assert low < pair.measured_s < high
            assert low < pair.modelled_s < high

    def test_a_mark_names_its_row(self, pairs):
        told = [
            f"{trace.hovertemplate} {text}"
            for trace in marks(evidence.against_measured(pairs))
            for text in trace.text
        ]  # fmt: skip
        assert len(told) == len(pairs)
        for pair in pairs:
            assert any(
                all(part in words for part in (pair.gpu, pair.model, pair.engine, pair.source, str(pair.setting)))
                for words in told
            )

    def test_the_key_names_what_is_drawn_and_nothing_else(self, pairs):
        words = texts(evidence.against_measured(pairs))
        drawn = {pair.measured_as for pair in pairs}
        assert {kind for kind in evidence.MARKS if f" {kind}" in words} == drawn

    def test_by_length_leaves_out_only_what_has_no_length(self, pairs):
        fig = evidence.by_length(pairs)
        drawn = np.concatenate([trace.y for trace in marks(fig)])
        wanted = [pair.ratio for pair in pairs if pair.length_tokens]
        np.testing.assert_allclose(np.sort(drawn), np.sort(wanted), rtol=1e-6)
        low, high = (10**end for end in fig.layout.yaxis.range)
        assert low <= 0.7
        assert high >= 1.4

    def test_points_are_the_rows(self, pairs):
        rows = evidence.evidence_points(pairs)
        assert [row["id"] for row in rows] == [pair.id for pair in pairs]
        for row in rows:
            assert row["modelled_over_measured"] == pytest.approx(row["modelled_s"] / row["measured_s"])


def test_bands_are_ten_and_twenty_percent():
    fig = evidence.against_measured(FIRST)
    bands = {trace.name: trace for trace in fig.data if trace.fill == "toself"}
    for share in (0.1, 0.2):
        x, y = bands[f"±{share:.0%}"].x, bands[f"±{share:.0%}"].y
        assert y[:2] / x[:2] == pytest.approx(1 - share)
        assert y[2:] / x[2:] == pytest.approx(1 + share)


def test_words_for_a_screen_reader_hold_the_error_tables_figures():
    errors = measured_points.errors(FIRST)[0]
    words = evidence.against_measured_alt(FIRST)
    assert f"{errors.n} measured times" in words
    assert f"half are within {100 * errors.median:.1f} %" in words
    assert f"nine of ten within {100 * errors.p90:.1f} %" in words
    assert "median ratio" in evidence.by_length_alt(FIRST)


@pytest.mark.parametrize("name", ["evidence", "evidence-by-length"])
def test_charts_of_all_readers_carry_no_case(name):
    assert charts.points(name, Case(gpu="l4")) == charts.points(name, Case())
    assert "timing" not in texts(charts.draw(name, Case()))


class TestCopyRates:
    rates = copy_rate.copy_rates(H100)

    def test_a_line_a_method_and_direction_and_every_measured_rate(self):
        fig = copy_rates.copy_rates(self.rates)
        lines = [trace for trace in fig.data if trace.mode == "lines"]
        assert len(lines) == len(self.rates.curves) == 6
        drawn = np.concatenate([trace.y for trace in marks(fig) if trace.name == "measured"])
        np.testing.assert_allclose(
            np.sort(drawn), np.sort([p.bytes_per_s for p in self.rates.measured_rates]), rtol=1e-6
        )

    def test_axis_is_bytes_per_copy_and_holds_this_case(self):
        fig = copy_rates.copy_rates(self.rates)
        assert fig.layout.xaxis.title.text == "size of one copy [bytes]"
        assert "this case: 2 MiB" in texts(fig)
        assert f"{len(self.rates.measured_rates)} measured rates" in copy_rates.copy_rates_alt(self.rates)

    def test_no_word_of_marks_where_there_are_none(self):
        fig = copy_rates.copy_rates(copy_rate.copy_rates(compare_case(Case(link="pcie3-x16"))))
        assert "measured" not in texts(fig)
        assert not [trace for trace in fig.data if trace.name == "measured"]


class TestMeasuredOnTheRoofline:
    def test_marks_where_rows_match(self):
        line = roofline_points.roofline_of(H100)
        fig = roofline.roofline(line)
        drawn = next(trace for trace in fig.data if trace.name == "measured")
        assert len(drawn.x) == len(line.measured_points)
        assert f"{len(line.measured_points)} prefills measured on this GPU" in roofline.roofline_alt(line)
        assert sum(str(row["name"]).startswith("measured") for row in roofline.roofline_points(line)) == len(drawn.x)

    def test_nothing_where_none_do(self):
        line = roofline_points.roofline_of(compare_case(Case(gpu="l4")))
        fig = roofline.roofline(line)
        assert "measured" not in texts(fig) + roofline.roofline_alt(line)
        assert not [trace for trace in fig.data if trace.name == "measured"]


class TestRanges:
    def test_block_sizes_have_the_ranges_of_the_prices(self):
        found = curves.cost_by_block(H100, kv_cache.LAYOUTS)
        fig = crossover.cost_by_block(found)
        prices = H100.prices
        at_chosen = int(np.flatnonzero(found.block_tokens == H100.case.block_tokens)[0])
        for name in ("swap", "recompute"):
            assert found.low_s[name][at_chosen] == pytest.approx(float(prices[name].low_s))
            assert found.high_s[name][at_chosen] == pytest.approx(float(prices[name].high_s))
            band = next(trace for trace in fig.data if trace.name == f"{name} range")
            assert band.fill == "toself"

    @pytest.mark.parametrize("times", [0.97, 1.03])
    @pytest.mark.parametrize("winner", ["swap", "recompute"])
    def test_the_map_says_too_close_where_the_verdict_does(self, winner, times):
        """Copies put just inside and just outside the map's border at this length."""
        case = Case(model="llama-2-7b", timing="kernels")
        found = curves.winner_map(compare_case(case))
        even = float(np.interp(case.tokens, found.tokens, found.break_even_bytes_per_s))
        factor = found.clear_factor[winner] * times
        wanted_s = compare_case(case).prices["recompute"].victim_delay_s * (
            1 / factor if winner == "swap" else factor
        )  # fmt: skip
        rate = 2 * 4096 * 2 * 32 * 32 * 128 * 2 / float(wanted_s) / 1e9  # out and in: twice the KV bytes
        pair = compare_case(Case(model="llama-2-7b", timing="kernels", copy_gb_per_s=rate, per_copy_us=0)).verdict
        assert pair.swap_or_recompute.winner == winner
        assert pair.swap_or_recompute.close == (times < 1)
        assert rate * 1e9 == pytest.approx(even * (factor if winner == "swap" else 1 / factor), rel=0.02)
