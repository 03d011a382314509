"""diagnose, rules, dashboard on the command line: first what, why and which flag; errors are one sentence."""

import io
import json
import sys

import pytest

from kvmodel.cli import command_line
from kvmodel.inputs import questions
from kvmodel.metrics import metric_names
from tests.helpers.scrapes import SAMPLES, sample, vllm


@pytest.fixture
def run(capsys):
    def run(*line):
        code = command_line.main([str(word) for word in line])
        return (code, *capsys.readouterr())

    return run


@pytest.fixture
def pressed(tmp_path):
    """Two scrapes of a server under pressure."""
    state = {"running": 60, "waiting": 2, "usage": 0.97}
    paths = tmp_path / "before.prom", tmp_path / "after.prom"
    paths[0].write_text(vllm(**state, preemptions=1000, finished=5000))
    paths[1].write_text(vllm(**state, preemptions=1400, finished=6000))
    return paths


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.prom")), ids=lambda path: path.stem)
def test_every_sample_has_json_and_text(run, path):
    code, out, err = run("diagnose", path, "--json")
    assert (code, err) == (0, "")
    answer = json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} in JSON"))
    assert {"engine", "era", "preemptions_per_100", "verdict", "advice"} <= set(answer)
    code, out, err = run("diagnose", path)
    assert (code, err) == (0, "")
    assert out.startswith(answer["verdict"])
    assert not any(word in out for word in ("nan", "None", " inf", "e-0"))
    assert all(len(line) <= 120 for line in out.splitlines())


def test_the_first_lines_say_what_why_and_which_flag(run, pressed):
    code, out, _ = run("diagnose", *pressed, "--seconds", 600, "--gpu", "h100-sxm5-80gb", "--gpu-hour", 2.5)
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == "preemption pressure: vLLM V1 (0.20.0 or newer), over 600 s"
    assert lines[1].startswith("40 preemptions per 100 finished requests (400 preemptions, 1,000 finished requests)")
    assert lines[3].startswith("the preemptions hardly matter to those who wait: at most")
    assert "     --gpu-memory-utilization 0.95" in lines[:9]
    assert "money" in out
    assert all(len(line) <= 120 for line in lines)


def test_json_of_two_scrapes(run, pressed):
    code, out, _ = run("diagnose", *pressed, "--seconds", 600, "--tp", 2, "--json")
    answer = json.loads(out)
    assert code == 0
    assert answer["preemptions_per_100"] == 40
    assert answer["rates"]["finished_per_s"] == pytest.approx(1000 / 600)
    assert not answer["recompute"]["gpu_given"]
    assert any("give --gpu for yours" in note for note in answer["notes"])
    assert answer["advice"][0]["rank"] == 1


def test_the_reader_may_name_model_and_version(run, tmp_path):
    path = tmp_path / "s.prom"
    path.write_text(vllm(model="acme/own", preemptions=400, finished=1000, usage=0.97))
    answer = json.loads(run("diagnose", path, "--json")[1])
    assert answer["recompute"]["gpu_s"] is None
    assert any("acme/own is not in the catalog; give --model" in note for note in answer["notes"])
    answer = json.loads(run("diagnose", path, "--model", "Llama3-8B", "--engine-version", "0.21", "--json")[1])
    assert answer["case"]["model"] == "llama-3-8b"
    assert answer["versions"] == "0.21.0"
    assert answer["recompute"]["gpu_s"][1] > 0


def test_a_model_that_does_not_fit_on_the_gpu_is_said(run, tmp_path):
    path = tmp_path / "s.prom"
    path.write_text(vllm(model="meta-llama/Llama-3.1-405B-Instruct", preemptions=400, finished=1000))
    answer = json.loads(run("diagnose", path, "--gpu", "l40s", "--json")[1])
    assert answer["recompute"]["gpu_s"] is None
    assert any("GPU seconds are not priced" in note for note in answer["notes"])


def test_standard_input(run, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(sample("vllm_v0_idle_swap4gib"))))
    code, out, _ = run("diagnose", "-")
    assert code == 0
    assert out.startswith("too little data: vLLM V0")


def test_a_label_cannot_steer_the_terminal(run, tmp_path):
    path = tmp_path / "s.prom"
    path.write_text(vllm(model="a\x1b[31m\u202e", preemptions=400, finished=1000))
    code, out, _ = run("diagnose", path)
    assert code == 0
    assert "the model a?[31m? is not in the catalog" in out
    assert "\x1b" not in out


def test_several_engines_stand_in_a_table(run, tmp_path):
    path = tmp_path / "many.prom"
    path.write_text("".join(vllm(engine=str(rank), preemptions=40 * rank, usage=0.97) for rank in range(30)))
    code, out, _ = run("diagnose", path)
    assert code == 0
    assert "engine 29: " in " ".join(out.split())
    assert "and 20 more" in out


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (["diagnose"], "SCRAPE: none given; allowed: a file, - for standard input, or --prometheus with an address"),
        (["diagnose", "no/such/file"], "SCRAPE: 'no/such/file' cannot be read: No such file or directory"),
        (["diagnose", "x", "--prometheus", "http://x"], "SCRAPE: given with --prometheus; allowed: one of them"),
        (["diagnose", "--prometheus", "x"], "prometheus: 'x' given; allowed: an address such as http://localhost:9090"),
        (["diagnose", "--prometheus", "http://x", "--window", "1"],
         "window: '1' given; allowed: such as 15m, 1h or 2d, up to 90d"),
        (["diagnose", "{sample}", "--seconds", "5"],
         "seconds: given with one scrape; allowed: two scrapes, the time between them"),
        (["diagnose", "{sample}", "--seconds", "0"], "seconds: '0' given; allowed: a number from 0.001 to 10,000,000"),
        (["diagnose", "{sample}", "--gpu", "abacus"], "gpu: unknown id 'abacus'; nearest: "),
        (["diagnose", "{sample}", "--engine-version", "new"],
         "version: 'new' given; allowed: numbers with dots, such as 0.11.0"),
        (["diagnose", "{sample}", "--gpu-hour", "-1"], "gpu_hour: '-1' given; allowed: a number from 0 to 1,000,000"),
        (["rules", "{help_only}"], "SCRAPE: 6 metrics are described but none has a value: that is not zero"),
        (["rules", "{config}"], "SCRAPE: no series to alert on, only config; allowed: a whole scrape"),
        (["dashboard", "{config}"], "SCRAPE: no series of vLLM to draw; allowed: a whole scrape"),
    ],
)  # fmt: skip
def test_errors_are_one_sentence(run, line, sentence):
    paths = {
        "sample": SAMPLES / "vllm_v0_idle_swap4gib.prom", "help_only": SAMPLES / "vllm_help_type_only.prom",
        "config": SAMPLES / "vllm_0_11_cache_config_offload.prom",
    }  # fmt: skip
    code, out, err = run(*(word.format(**paths) for word in line))
    assert (code, out) == (2, "")
    assert err.startswith(sentence)
    assert err.count("\n") == 1


def test_rules_and_dashboard_go_to_files_or_to_the_screen(run, tmp_path):
    scrape = SAMPLES / "vllm_0_33_classes_end.prom"
    code, out, _ = run("rules", scrape)
    assert code == 0
    assert out.startswith("# KV cache pressure of vLLM")
    path = tmp_path / "rules.yml"
    assert run("rules", scrape, "-o", path)[1] == f"the rules are in {path}\n"
    assert path.read_text() == out
    answer = json.loads(run("rules", scrape, "--json")[1])
    assert "increase(vllm:num_preemptions_total[1h])" in answer["promql"]["preemptions per 100 finished requests"]
    board = tmp_path / "board.json"
    assert run("dashboard", scrape, "-o", board)[1] == f"the dashboard is in {board}\n"
    assert (
        json.loads(board.read_text())
        == json.loads(run("dashboard", scrape)[1])
        == json.loads(run("dashboard", scrape, "--json")[1])
    )


def test_without_a_scrape_rules_are_for_the_newest_vllm(run):
    assert "vllm:kv_cache_usage_perc" in run("rules")[1]
    assert "vllm:inter_token_latency_seconds_bucket" in run("dashboard")[1]


def test_without_a_scrape_the_engine_may_be_named(run):
    assert "sglang:token_usage" in run("rules", "--product", "sglang")[1]
    assert "sglang:token_usage" in run("dashboard", "--product", "sglang")[1]
    code, _, err = run("rules", SAMPLES / "vllm_0_33_classes_end.prom", "--product", "sglang")
    assert (code, err.split(":")[0]) == (2, "product")
    assert metric_names.engines() == questions.ENGINES
