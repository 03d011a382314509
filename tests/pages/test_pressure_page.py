"""The Pressure page: numbers first, inputs in the link, a pool to play, and long work that is asked for."""

import base64
import functools
import json

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from explorer import prose
from explorer.page_keys import PAGE_KEYS
from explorer.sections import pool_player
from kvmodel.inputs.case import Case
from kvmodel.simulation import remedies, servers
from kvmodel.simulation.load_curve import Objective
from kvmodel.simulation.servers import Demand, Pressure
from kvmodel.simulation.simulate import Engine
from kvmodel.texts import pressure
from kvmodel.units import format_percent
from tests.helpers import visit

SMALL = {"requests": "100", "requests_per_s": "9", "pool_percent": "8"}
ASKED = Pressure(case=Case(), demand=Demand(requests=100, requests_per_s=9.0), pool_percent=8)
MOST_PAYLOAD_BYTES = 60_000


opened = functools.partial(visit.opened, "pressure")


def said(at: AppTest) -> str:
    return "\n".join(element.value for element in at.markdown)


def button(at: AppTest, key: str):
    return next((each for each in at.button if each.key == key), None)


def film(at: AppTest) -> dict[str, object]:
    """What the player was sent."""
    return json.loads(visit.components(at, "kv_pool")[0].proto.json)[0]


class TestAnswer:
    def test_the_first_sentence_has_the_numbers_of_the_run(self):
        first = opened(**SMALL).markdown[0].value
        results = servers.run(ASKED, "vllm-v1")
        run = pressure.totals(results, Objective())
        assert first.startswith(f"**vllm-v1: {run['preemptions']} preemptions per 100 requests.**")
        for name in ("tax", "ttft_p50", "ttft_p99", "served", "output"):
            assert pressure.CELLS[name](run) in first
        assert f"{format_percent(servers.pool_share(ASKED, results))} of what memory leaves" in first

    def test_cards_are_those_of_the_chosen_scheduler(self):
        at = opened(**SMALL)
        run = pressure.totals(servers.run(ASKED, "vllm-v1"), Objective())
        assert [metric.value for metric in at.metric] == [text for _, text in pressure.cards(run)]

    def test_queueing_is_told_from_preemption(self):
        assert "before admission: that is queueing" in said(opened(**SMALL))
        assert "nobody is preempted" in said(opened(**SMALL, scheduler="wait", beside="none"))
        assert "the server keeps up" in said(opened(**SMALL | {"pool_percent": "100", "requests_per_s": "1"}))

    def test_both_runs_stand_side_by_side_on_the_same_arrivals(self):
        table = visit.tables(opened(**SMALL, beside="vllm-v1-offload"))[0]
        assert list(table.columns) == ["number", "vllm-v1", "vllm-v1-offload"]
        assert table["vllm-v1"].tolist() != table["vllm-v1-offload"].tolist()

    def test_one_alone(self):
        at = opened(**SMALL, beside="none")
        assert list(visit.tables(at)[0].columns) == ["number", "vllm-v1"]
        assert len(film(at)["runs"]) == 1

    def test_a_livelock_is_named(self):
        """Prompts of one length, a pool a little larger than a whole number of them, no prefix cache."""
        at = opened(
            workload="long-documents", requests="50", requests_per_s="50", scheduler="vllm-v1-first-chunk",
            num_blocks="5000", prefix_caching="false", beside="none",
        )  # fmt: skip
        asked = Pressure(
            case=Case(),
            demand=Demand(workload="long-documents", requests=50, requests_per_s=50.0),
            engine=Engine(scheduler="vllm-v1-first-chunk", num_blocks=5000, prefix_caching=False),
        )
        livelocked = len(servers.run(asked, "vllm-v1-first-chunk").livelocked)
        assert livelocked > 0
        assert f"**Livelock:** {livelocked} requests" in said(at)


class TestInputs:
    @pytest.mark.parametrize("arrivals", [{"requests_per_s": "12", "burstiness": "2"}, {"clients": "20"}])
    def test_every_input_is_in_the_link(self, arrivals):
        given = SMALL | {
            "workload": "retrieval", "seed": "3", "scheduler": "sglang", "beside": "trtllm-suspend",
            "utilization": "0.8", "max_num_seqs": "40", "watermark": "0.02", "host_gib": "16",
            "prefix_caching": "false", "slo_ttft_s": "4", "slo_tpot_ms": "80", "remedy_for": "ttft-p99",
            "num_blocks": "3000",
        }  # fmt: skip
        del given["requests_per_s"]  # clients may stand in its place
        given |= arrivals
        at = opened(**given, kv_dtype="fp8")
        held = {name: at.session_state[name] for name in given}
        assert {name: str(value).removesuffix(".0").lower() for name, value in held.items()} == given
        assert set(given) <= set(PAGE_KEYS)
        assert not at.info
        assert not at.warning

    def test_a_seed_changes_the_arrivals_of_both(self):
        one, other = (film(opened(**SMALL, seed=seed)) for seed in ("0", "1"))
        for place in (0, 1):
            assert one["runs"][place]["stays"] != other["runs"][place]["stays"]

    @pytest.mark.parametrize(
        "query",
        [
            {"workload": "<b>"}, {"requests": "1e9"}, {"pool_percent": "0"}, {"seed": "-1"}, {"t": "abc"},
            {"t": "-5"}, {"t": "1e99"}, {"scheduler": "swap"}, {"beside": ""}, {"slo_ttft_s": "nan"},
        ],
    )  # fmt: skip
    def test_garbage_gives_the_first_view(self, query):
        at = opened(**{"requests": "50"} | query)
        assert at.get("plotly_chart")
        assert at.metric

    def test_a_request_longer_than_the_pool_is_one_sentence(self):
        at = opened(workload="long-documents", num_blocks="100")
        assert len(at.warning) == 1
        assert at.warning[0].value.replace("\\", "").startswith("prompt_tokens + output_tokens")
        assert not at.metric

    def test_a_scheduler_beside_that_cannot_run_is_named_and_left_out(self):
        """Swap space of nothing is an error in vLLM V0; the chosen scheduler is answered for."""
        at = opened(**SMALL, beside="vllm-v0-swap", host_gib="0")
        assert "vllm-v1: " in said(at)
        assert len(at.info) + ("could not go on" in said(at)) == 1


class TestPool:
    def test_the_player_gets_what_the_films_hold(self):
        sent = film(opened(**SMALL))
        assert [run["name"] for run in sent["runs"]] == ["vllm-v1", "wait"]
        results = servers.run(ASKED, "vllm-v1")
        columns = np.frombuffer(base64.b64decode(sent["runs"][0]["stays"]), "<u2").reshape(7, -1)
        again = columns[0] >= pool_player.AGAIN
        assert (columns[0] % pool_player.AGAIN).tolist() == results.stays.request.tolist()
        assert again.sum() == results.preemption_events
        found = np.frombuffer(base64.b64decode(sent["runs"][0]["cached"]), "<u2") / pool_player.FULL
        cached_blocks = results.events.cached_tokens / 16
        np.testing.assert_allclose(
            found * results.pool_blocks, cached_blocks, atol=results.pool_blocks / pool_player.FULL
        )
        left_s = columns[4] / pool_player.FULL * sent["runs"][0]["end"]
        np.testing.assert_allclose(left_s, results.stays.left_s, atol=2 * sent["end"] / pool_player.FULL)

    def test_a_rerun_stays_within_the_budget(self):
        at = opened()
        charts = sum(len(chart.proto.spec) for chart in at.get("plotly_chart"))
        assert len(json.dumps(film(at))) + charts < MOST_PAYLOAD_BYTES

    def test_it_stands_where_the_link_says_else_where_most_preempted_wait(self):
        assert film(opened(**SMALL, t="7.5"))["at"] == 7.5
        assert film(opened(**SMALL))["at"] > 0

    def test_states_have_words_and_colours(self):
        texts = prose.sections("pressure")
        assert {f"film.key.{state}" for state in pool_player.STATE_COLORS} <= set(texts)


class TestLongWork:
    def test_the_load_curve_is_worked_out_when_asked_for(self):
        at = opened(**SMALL, beside="none")
        assert len(at.get("plotly_chart")) == 1
        button(at, "curve_begin").click().run()
        assert not at.exception
        assert len(at.get("plotly_chart")) == 2
        assert "**vllm-v1**: the knee is **between" in said(at)
        assert button(at, "curve_stop") is None

    def test_the_load_curve_can_be_taken_along_as_it_is_shown(self):
        at = opened(**SMALL, beside="none")
        button(at, "curve_begin").click().run()
        at.session_state["export-load-curve"] = True
        at.run()
        assert not at.exception
        assert {"CSV", "HTML"} <= {file.proto.label for file in at.get("download_button")}

    def test_another_input_makes_it_old(self):
        at = opened(**SMALL, beside="none")
        button(at, "curve_begin").click().run()
        at.number_input(key="pool_percent").set_value(9).run()
        assert len(at.get("plotly_chart")) == 1
        assert prose.text("pressure", "changed") in [caption.value for caption in at.caption]
        assert button(at, "curve_begin") is not None

    def test_remedies_are_those_of_the_model_and_swap_is_put_right(self):
        at = opened(**SMALL)
        button(at, "remedies_begin").click().run()
        assert not at.exception
        engine = servers.engine_of(ASKED, "vllm-v1")
        rows = remedies.ladder(Case(), ASKED.demand.arrivals(), engine=engine)
        table = at.dataframe[0].value
        assert table["remedy"].tolist() == [row.id for row in rows if not row.problem]
        assert "**Switching to swap does not lower the number of preemptions**" in said(at)
        assert 4 in table["article"].tolist()

    def test_another_objective_orders_them_anew_without_new_runs(self, monkeypatch):
        at = opened(**SMALL)
        button(at, "remedies_begin").click().run()
        monkeypatch.setattr(remedies, "with_totals", None)
        at.button_group(key="remedy_for").set_value("ttft-p99").run()
        assert not at.exception
        engine = servers.engine_of(ASKED, "vllm-v1")
        monkeypatch.undo()
        rows = remedies.ladder(Case(), ASKED.demand.arrivals(), "ttft-p99", engine=engine)
        assert at.dataframe[0].value["remedy"].tolist() == [row.id for row in rows if not row.problem]
