"""Lines of evidence name their metric and time, and what is not reported; the scale of the article's bands."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvmodel.charts import bands
from kvmodel.diagnosis import from_scrapes
from kvmodel.diagnosis.served import ServerFacts
from kvmodel.metrics import samples
from kvmodel.texts import diagnosis_lines
from tests.helpers.scrapes import sample, vllm


def lines(*scrapes, **more):
    return {line.what: line for line in diagnosis_lines.lines(from_scrapes.diagnose(*scrapes, **more))}


def test_a_number_names_the_metrics_it_was_read_from():
    found = lines(vllm(preemptions=400, waiting=3))
    ratio = found["preemptions per 100 finished"]
    assert ratio.metrics == ("vllm:num_preemptions_total", "vllm:request_success_total")
    assert (ratio.value, ratio.over, ratio.is_reported) == ("40 (400 of 1,000)", "window", True)
    assert found["running / waiting"].over == "state"
    assert (found["KV pool"].metrics, found["KV pool"].over) == (("vllm:cache_config_info",), "config")
    assert found["GPU time"].over == "model"
    assert "money" not in found, "no price was given"


def test_what_is_not_reported_names_the_metric_that_would_tell():
    found = lines(sample("vllm_0_10_deprecated_pairs_excerpt"))
    ratio = found["preemptions per 100 finished"]
    assert (ratio.value, ratio.is_reported) == (None, False)
    assert ratio.metrics == ("vllm:num_preemptions_total", "vllm:request_success_total")
    used = found["KV pool in use"]
    assert used.is_reported
    assert used.metrics == ("vllm:kv_cache_usage_perc",), "the newer of the pair"


def test_a_rate_of_one_scrape_is_reported_but_not_known():
    rate = lines(vllm())["finished requests"]
    assert (rate.value, rate.is_reported) == (None, True)


def test_mean_lengths_come_from_histograms_or_from_counters():
    assert "vllm:prompt_tokens_total" in lines(vllm())["mean prompt / output"].metrics
    before, after = samples.read("healthy")
    found = lines(before, after, seconds=600)["mean prompt / output"]
    assert found.metrics == ("vllm:request_prompt_tokens", "vllm:request_generation_tokens")


def test_of_several_engines_the_band_is_that_of_the_worst():
    two = vllm(engine="0") + vllm(engine="1", preemptions=150)
    answer = from_scrapes.diagnose(two)
    assert (answer["lead"]["name"], answer["lead"]["preemptions_per_100"]) == ("engine 1", 15)
    assert answer["preemptions_per_100"] == 7.5
    assert lines(two)["the article's word for it"].value == "engine 1: 10 % and more: tune the batch"


def test_what_is_no_engine_has_no_lines():
    assert lines(sample("router_no_preemption_counter")) == {}


@pytest.mark.parametrize(
    ("name", "verdict", "flag"),
    [
        ("healthy", "healthy", ""),
        ("pressure", "preemption pressure", "--gpu-memory-utilization 0.95"),
        ("queueing", "queueing", "--max-num-seqs "),
    ],
)
def test_a_sample_shows_what_it_is_named_for(name, verdict, flag):
    before, after = samples.read(name)
    facts = ServerFacts({"max_num_seqs": samples.SAMPLES[name].max_num_seqs})
    answer = from_scrapes.diagnose(before, after, seconds=samples.SECONDS, facts=facts)
    assert answer["verdict"] == verdict
    assert answer["advice"][0]["flag"].startswith(flag)
    assert answer["case"]["model"] == "llama-3.1-8b"
    assert not [note for note in answer["notes"] if "line" in note], "no broken line"
    assert "Simulated" in before.splitlines()[0]
    missing = {line.what for line in diagnosis_lines.lines(answer) if not line.is_reported}
    assert missing <= {"preemptions by reason", "copies to the GPU", "copies from the GPU"}, (
        "a sample shows every number that vLLM 0.33 has"
    )


# 2.5 is half of the first band (0 to 5), 15 of the third (10 to 20); 40 is twice where the last begins.
@pytest.mark.parametrize(("per_100", "place"), [(0, 0), (2.5, 0.5), (5, 1), (15, 2.5), (20, 3), (40, 3.5)])
def test_bands_are_equally_wide(per_100, place):
    assert bands.place(per_100) == pytest.approx(place)


@given(st.floats(0, 1e6), st.floats(0, 1e6))
def test_more_preemptions_stand_further_right_and_on_the_scale(one, other):
    low, high = sorted((one, other))
    assert 0 <= bands.place(low) <= bands.place(high) < 4


def test_the_scale_says_its_number_in_words_too():
    assert bands.preemption_scale_alt(35.4).startswith("35 preemptions per 100 finished requests")
    figure = bands.preemption_scale(35.4).to_dict()
    assert "35 per 100 finished" in [note["text"] for note in figure["layout"]["annotations"]]
    assert figure["data"][0]["x"][0] == pytest.approx(4 - 20 / 35.4)
