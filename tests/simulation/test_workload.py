"""Arrivals and lengths: their moments, their limits, their files, and the same again for the same seed."""

from pathlib import Path

import numpy as np
import pytest

from kvmodel import catalog, files
from kvmodel.errors import CaseError
from kvmodel.inputs.case import Case
from kvmodel.scheduler import log
from kvmodel.simulation import workload
from kvmodel.simulation.simulate import simulate
from kvmodel.simulation.workload import bursty, by_name, fixed, lognormal, poisson, trace

MANY = 20_000


@pytest.mark.parametrize("burstiness", [0.5, 1.0, 3.0])
def test_gaps_have_the_rate_and_the_spread_that_was_asked_for(burstiness):
    gaps = np.diff(bursty(MANY, 5.0, burstiness, 1))
    assert gaps.mean() == pytest.approx(1 / 5, rel=0.05)
    assert gaps.std() / gaps.mean() == pytest.approx(burstiness, rel=0.05)
    assert (gaps >= 0).all()


def test_even_arrivals_by_hand():
    assert bursty(4, 2.0, 0, 1).tolist() == [0, 0.5, 1, 1.5]


def test_poisson_gaps_are_exponential():
    """63 % of exponential gaps are shorter than their mean."""
    gaps = np.diff(poisson(MANY, 10.0, 2))
    assert (gaps < 0.1).mean() == pytest.approx(1 - np.exp(-1), abs=0.01)


def test_lognormal_lengths_have_their_median_and_spread_within_their_limits():
    lengths = lognormal(MANY, 1000, 0.5, 10_000, 3)
    assert np.median(lengths) == pytest.approx(1000, rel=0.02)
    assert np.log(lengths).std() == pytest.approx(0.5, rel=0.02)
    assert lognormal(MANY, 1000, 2.0, 3000, 3).max() == 3000
    assert lognormal(MANY, 2, 3.0, 3000, 3).min() == 1
    assert fixed(3, 7).tolist() == [7, 7, 7]


def test_a_trace_keeps_its_rows(tmp_path):
    path = tmp_path / "trace.csv"
    path.write_text("arrival_s,prompt_tokens,output_tokens,priority\n7.5,10,1,2\n5.0,20,2,0\n")
    read = trace(path)
    assert read.arrival_s.tolist() == [2.5, 0]  # from its first arrival on
    assert (read.prompt_tokens.tolist(), read.output_tokens.tolist()) == ([10, 20], [1, 2])
    assert read.priority.tolist() == [2, 0]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "no rows; allowed: a heading with arrival_s, prompt_tokens, output_tokens"),
        ("arrival_s,prompt_tokens\n1,2\n", "no column output_tokens; needed"),
        ("arrival_s,prompt_tokens,output_tokens\n1,2,x\n", "output_tokens: 'x' given in line 2 of .*whole number"),
        ("arrival_s,prompt_tokens,output_tokens\n1,2,3\n1,0,3\n", "prompt_tokens: '0' given in line 3"),
        ("arrival_s,prompt_tokens,output_tokens\n1,2.5,3\n", "prompt_tokens: '2.5' given"),
        ("arrival_s,prompt_tokens,output_tokens\nnan,2,3\n", "arrival_s: 'nan' given"),
        ("arrival_s,prompt_tokens,output_tokens\n1,2\n", "2 values given in line 2 of .*; allowed: 3, as many as"),
        ("arrival_s,prompt_tokens,output_tokens\n\n1,2,3,4\n", "4 values given in line 3 of .*; allowed: 3"),
        ("arrival_s,prompt_tokens,output_tokens,prompt_tokens\n1,2,3,4\n", "2 columns prompt_tokens; allowed: one"),
        ("arrival_s,prompt_tokens,output_tokens,priority\n1,2,3,1e99\n", "priority: '1e99' given"),
    ],
)
def test_a_bad_trace_is_refused_in_a_sentence(tmp_path, text, sentence):
    path = tmp_path / "trace.csv"
    path.write_text(text)
    with pytest.raises(CaseError, match=sentence):
        trace(path)


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no /dev/zero here")
def test_a_line_without_end_is_refused():
    with pytest.raises(CaseError, match="^trace: '/dev/zero' cannot be read: line 1 is longer than 65,536 characters$"):
        trace("/dev/zero")


@pytest.mark.parametrize(
    ("name", "most", "body", "reason"),
    [
        ("MOST_REQUESTS", 3, "1,2,3\n\n" * 4, "it has more than 3 rows below its heading"),
        ("LARGEST_BYTES", 100, "1,2,3\n" * 11, "it is larger than 100 B"),
        ("LONGEST_LINE", 50, "1,2," + "3" * 60, "line 2 is longer than 50 characters"),
        ("MOST_LINES_OF_ROW", 9, '"' + "\n" * 10 + '"', "the row that begins in line 2 has more than 9 lines"),
    ],
)
def test_a_trace_is_limited_while_it_is_read(monkeypatch, tmp_path, name, most, body, reason):
    monkeypatch.setattr(workload if name == "MOST_REQUESTS" else files, name, most)
    path = tmp_path / "trace.csv"
    path.write_text("arrival_s,prompt_tokens,output_tokens\n" + body)
    with pytest.raises(CaseError, match=f"trace.csv' cannot be read: {reason}$"):
        trace(path)
    path.write_text("arrival_s,prompt_tokens,output_tokens\n" + "1,2,3\n" * 3)
    assert len(trace(path)) == 3


def test_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(CaseError, match="nowhere.csv' cannot be read: No such file"):
        trace(tmp_path / "nowhere.csv")
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(CaseError, match="cannot be read: it is not a CSV file of UTF-8 text"):
        trace(tmp_path / "bytes.csv")


@pytest.mark.parametrize("name", workload.names())
def test_named_workloads_are_the_same_for_the_same_seed(name):
    once, again = (by_name(name, 50, seed=3) for _ in range(2))
    for array in ("prompt_tokens", "output_tokens", "arrival_s"):
        assert (getattr(once, array) == getattr(again, array)).all()
    assert len(once) == 50
    other = by_name(name, 50, seed=4)
    assert (other.prompt_tokens != once.prompt_tokens).any() == (name != "real-run")


@pytest.mark.parametrize("name", [name for name in workload.names() if name != "real-run"])
def test_named_workloads_are_as_their_rows_say(name):
    row = catalog.table("workloads")[name]
    drawn = by_name(name, MANY, seed=1)
    for part, lengths in (("prompt", drawn.prompt_tokens), ("output", drawn.output_tokens)):
        assert np.median(lengths) == pytest.approx(row[f"{part}_median"]["value"], rel=0.03)
        assert lengths.max() <= row[f"{part}_most"]["value"]
    assert np.corrcoef(drawn.prompt_tokens, drawn.output_tokens)[0, 1] == pytest.approx(0, abs=0.05)


def test_the_measured_run_is_whole():
    run = by_name("real-run")
    assert (len(run), run.prompt_tokens.sum(), run.output_tokens.sum()) == (300, 257_239, 195_753)
    assert run.arrival_s[-1] == pytest.approx(29.1005, abs=1e-3)
    twice = by_name("real-run", requests_per_s=2 * 300 / run.arrival_s[-1])
    assert twice.arrival_s == pytest.approx(run.arrival_s / 2)


def test_a_rate_takes_the_place_of_clients_and_the_other_way_round():
    assert by_name("agents", 50).clients == 32
    assert by_name("agents", 50, requests_per_s=2).clients is None
    assert by_name("chat", 50, clients=8).clients == 8


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"name": "chats"}, "workload: 'chats' given; allowed: chat, retrieval"),
        ({"requests": 0}, "requests: 0 given; allowed: 1 to"),
        ({"requests_per_s": 0}, "requests_per_s: 0 given"),
        ({"burstiness": -1}, "burstiness: -1 given; allowed: 0 to 100"),
        ({"clients": 0}, "clients: 0 given"),
        ({"clients": 8, "requests_per_s": 2}, "clients: 8 given beside requests_per_s; allowed: one of them"),
        ({"clients": 8, "burstiness": 2}, "burstiness: 2 given beside clients; allowed: one of them"),
        ({"name": "agents", "burstiness": 2}, "burstiness: 2 given; allowed: none where clients wait"),
        ({"name": "real-run", "clients": 8}, "clients: 8 given; allowed: none, real-run has its own arrivals"),
        ({"name": "real-run", "burstiness": 3}, "burstiness: 3 given; allowed: none, real-run has its own arrivals"),
    ],
)
def test_a_bad_choice_is_refused_in_a_sentence(changed, sentence):
    with pytest.raises(CaseError, match=sentence):
        by_name(**{"name": "chat", "requests": 10} | changed)


def test_the_samples_of_a_run_that_idles_for_years_are_few(monkeypatch):
    arrivals = np.array([0.0, 40.0])
    load = workload.workload(fixed(2, 10), fixed(2, 3), arrivals)
    each_second = simulate(Case(), load).seconds
    assert len(each_second.time_s) == 40
    monkeypatch.setattr(log, "MOST_SAMPLES", 16)
    seldom = simulate(Case(), load).seconds
    assert seldom.time_s.tolist() == [4.0 * number for number in range(1, 11)]
    assert seldom.preemptions.sum() == each_second.preemptions.sum()
    assert seldom.kv_usage.tolist() == each_second.kv_usage[3::4].tolist()
