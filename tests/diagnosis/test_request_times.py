"""The mean request from its arrival to its last token, worked by hand, and its picture."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvmodel.charts import request_strip
from kvmodel.diagnosis.from_scrapes import diagnose
from kvmodel.diagnosis.request_times import request_times
from kvmodel.diagnosis.served import ServerFacts
from kvmodel.metrics import server_rates, server_window
from kvmodel.metrics.server_state import Engine, Server
from kvmodel.texts.metric_lines import metric_lines
from tests.helpers.scrapes import vllm

NOTHING = server_rates.rates(server_window.since_start(Server("vllm", (Engine(),), Engine(), {}, {}, ()))[0])
KNOWN = replace(
    NOTHING,
    ttft_s={"mean": 26.0, "p99": 78.0},
    queue_time_s={"mean": 22.0},
    prefill_time_s={"mean": 3.0},
    decode_time_s={"mean": 50.0},
)


def test_the_parts_are_the_means_of_their_histograms():
    assert request_times(KNOWN) == {"queue": 22.0, "prefill": 3.0, "the rest": 1.0, "generating": 50.0}
    assert request_times(KNOWN, of_stream=0.1) == {
        "queue": 22.0, "prefill": 3.0, "the rest": 1.0, "generating": 45.0, "preempted, at most": 5.0,
    }  # fmt: skip


def test_what_is_not_reported_is_left_out_or_counted_with_the_rest():
    assert request_times(NOTHING) is None
    assert request_times(replace(KNOWN, ttft_s=None)) is None
    bare = replace(KNOWN, prefill_time_s=None, queue_time_s=None, decode_time_s=None)
    assert request_times(bare) == {"prefill and the rest": 26.0}
    by_tokens = replace(bare, itl_s={"mean": 0.1}, output_tokens_per_request=101.0)
    assert request_times(by_tokens)["generating"] == pytest.approx(10.0)
    assert request_times(replace(by_tokens, output_tokens_per_request=0.5))["generating"] == 0.0


@given(*[st.floats(0, 1e4)] * 3, st.floats(0, 2))
def test_no_part_is_below_zero_and_recomputing_takes_no_more_than_the_stream(first, queue, stream, share):
    parts = request_times(
        replace(KNOWN, ttft_s={"mean": first}, queue_time_s={"mean": queue}, decode_time_s={"mean": stream}), share
    )
    assert min(parts.values()) >= 0
    assert parts["generating"] + parts.get("preempted, at most", 0) == pytest.approx(stream)


def test_the_strip_marks_the_first_token_and_the_end():
    parts = request_times(KNOWN, of_stream=0.1)
    assert request_strip.first_token_s(parts) == 26.0
    assert [piece.start_s for piece in request_strip.pieces(parts)] == [0.0, 22.0, 25.0, 26.0, 71.0]
    figure = request_strip.request_strip(parts).to_dict()
    words = [note["text"] for note in figure["layout"]["annotations"]]
    assert "first token 26 s" in words
    assert "<b>76 s</b>" in words
    assert "first token comes after 26 s" in request_strip.request_strip_alt(parts)


def copying(load: str, seconds: float) -> str:
    own = 'engine="0",model_name="meta-llama/Llama-3.1-8B-Instruct"'
    return (
        vllm(finished=1000 + seconds)
        + f"vllm:kv_offload_load_bytes_total{{{own}}} {load}\nvllm:kv_offload_load_time_total{{{own}}} {seconds}\n"
    )


def test_a_measured_link_stands_beside_the_models_and_goes_into_the_case():
    """12 GB in 1.5 s are 8 GB/s, whatever the model takes for the link."""
    facts = ServerFacts({"gpu": "h100-sxm5-80gb"})
    answer = diagnose(copying("1e9", 1.0), copying("13e9", 2.5), seconds=600, facts=facts)
    assert answer["link"]["load"] == pytest.approx(8e9)
    assert answer["case"]["copy_gb_per_s"] == pytest.approx(8.0)
    catalog_rate = answer["link"]["model_load"]
    assert catalog_rate > 20e9, "PCIe 5.0, not the measured rate told back"
    assert answer["link"]["store"] is None
    line = next(line for line in metric_lines(answer) if line.name == "copies to the GPU")
    assert line.text == f"8.0 GB/s, as measured; the model takes {catalog_rate / 1e9:.0f} GB/s on h100-sxm5-80gb"
    unnamed = diagnose(copying("1e9", 1.0), copying("13e9", 2.5), seconds=600)
    assert unnamed["link"]["model_load"] is None, "no GPU was named"
