"""The commands `simulate` and `pressure`: files in, answers out, one sentence for what cannot be."""

import copy
import json
import time
from pathlib import Path

import pytest

from kvmodel.cli import command_line, simulate_file
from kvmodel.errors import CaseError

ORACLE = Path(__file__).parents[1] / "data" / "oracle"
GIVEN = json.loads((ORACLE / "stress-003.json").read_text())


def answer(capsys, *arguments):
    code = command_line.main([str(argument) for argument in arguments])
    return code, *capsys.readouterr()


@pytest.mark.parametrize("name", ["stress-003", "priority-001", "lockstep-000"])
def test_simulate_answers_in_the_form_of_the_file(capsys, name):
    code, out, _ = answer(capsys, "simulate", ORACLE / f"{name}.json", "--json")
    expected = json.loads((ORACLE / f"{name}.json").read_text())["result"]
    got = json.loads(out)
    assert code == 0
    assert {key: got[key] for key in expected if key != "step_samples"} == {
        key: value for key, value in expected.items() if key != "step_samples"
    }


def test_simulate_in_words(capsys):
    code, out, _ = answer(capsys, "simulate", ORACLE / "stress-003.json")
    assert code == 0
    assert "preempted" in out
    assert "last step" in out


def test_inputs_alone_are_enough_and_what_has_a_default_may_be_left_out(tmp_path):
    config = {"block_size": 16, "num_blocks": 10, "max_num_seqs": 4, "max_num_batched_tokens": 64}
    path = tmp_path / "run.json"
    path.write_text(
        json.dumps({"config": config, "requests": [{"prompt_tokens": 5, "output_tokens": 2, "arrival_step": 3}]})
    )
    assert simulate_file.simulate(str(path))["finish_step"] == [4]


CONFIG, FIRST = ("config",), ("requests", 0)


@pytest.mark.parametrize(
    ("place", "key", "value", "sentence"),
    [
        (CONFIG, "block_size", 0, "config.block_size: 0 given; allowed: a whole number from 1 to"),
        (CONFIG, "block_size", None, "config.block_size: nothing given"),
        (CONFIG, "num_blocks", 2.5, "config.num_blocks: 2.5 given"),
        (CONFIG, "max_num_seqs", True, "config.max_num_seqs: true given"),
        (CONFIG, "policy", "lifo", 'config.policy: "lifo" given; allowed: fcfs, priority'),
        (CONFIG, "policy", ["fcfs"], "config.policy: .* given; allowed: fcfs, priority"),
        (CONFIG, "watermark", float("nan"), "config.watermark: NaN given; allowed: a share from 0 to 1"),
        (CONFIG, "watermark", "2%", "config.watermark: .* given"),
        (CONFIG, "prefix_caching", 1, "config.prefix_caching: 1 given; allowed: true, false"),
        (CONFIG, "blocksize", 16, "config: 'blocksize' is not a setting; allowed: block_size, "),
        (CONFIG, "num_blocks", 2, "prompt_tokens \\+ output_tokens is .*, which never fits; allowed: up to"),
        (CONFIG, "max_num_batched_tokens", 1, "1 given, which cuts the prompts into .* steps; allowed: a number that"),
        (FIRST, "prompt_tokens", 0, "requests\\[0\\].prompt_tokens: 0 given; allowed: a whole number from 1 to"),
        (FIRST, "arrival_step", -1, "requests\\[0\\].arrival_step: -1 given"),
        (FIRST, "output_tokens", "9", 'requests\\[0\\].output_tokens: "9" given'),
        (FIRST, "prompt", 9, "requests\\[0\\]: 'prompt' is no field of a request"),
        ((), "requests", [], "requests: \\[\\] given; allowed: a list of one request or more"),
        ((), "requests", [7], "requests\\[0\\]: 7 given; allowed: an object with prompt_tokens"),
        ((), "config", 7, "config: 7 given; allowed: an object with block_size"),
    ],
)
def test_a_bad_file_is_refused_in_a_sentence(monkeypatch, tmp_path, place, key, value, sentence):
    monkeypatch.setattr(simulate_file, "MOST_CHUNKS", 100)
    content = copy.deepcopy(GIVEN)
    target = content
    for step in place:
        target = target[step]
    target[key] = value
    path = tmp_path / "run.json"
    path.write_text(json.dumps(content))
    with pytest.raises(CaseError, match=sentence) as refusal:
        simulate_file.simulate(str(path))
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"{", "is not JSON in line 1"),
        (b"[]", r"file: \[\] given; allowed: an object with config and requests"),
        (b"\xff\xfe", "allowed: a JSON file of UTF-8 text"),
        (b"[" * 100_000, "is not JSON"),
        (b'{"config": ' + b"9" * 10_000 + b"}", "is not JSON|config: "),
        (b'{"config": {"num_blocks": 1, "num_blocks": 2}}', "file: 'num_blocks' stands twice in one object"),
    ],
)
def test_what_is_no_run_at_all(tmp_path, content, sentence):
    path = tmp_path / "run.json"
    path.write_bytes(content)
    with pytest.raises(CaseError, match=sentence):
        simulate_file.simulate(str(path))


def test_a_missing_file_ends_with_code_2(capsys):
    code, out, error = answer(capsys, "simulate", "nowhere.json")
    assert (code, out) == (2, "")
    assert error == "file: 'nowhere.json' cannot be read: No such file or directory\n"
    assert answer(capsys, "simulate")[0] == 2


def test_pressure_answers_with_totals(capsys):
    arguments = ("pressure", "--requests", 60, "--requests-per-s", 20, "--num-blocks", 900)
    code, out, _ = answer(capsys, *arguments, "--json")
    got = json.loads(out)
    assert code == 0
    assert got["finished"] == got["requests"] == 60
    assert got["preemptions"] > 0
    assert got["scheduler"] == "vllm-v1"
    code, words, _ = answer(capsys, *arguments)
    assert code == 0
    assert f"{got['preemptions']}, " in words


def test_pressure_of_a_trace(capsys, tmp_path):
    path = tmp_path / "trace.csv"
    path.write_text("arrival_s,prompt_tokens,output_tokens\n0,100,10\n1,100,10\n")
    code, out, _ = answer(capsys, "pressure", "--trace", path, "--json")
    assert code == 0
    assert json.loads(out)["requests"] == 2
    code, _, error = answer(capsys, "pressure", "--trace", path, "--clients", 3)
    assert (code, error) == (2, "clients: given with --trace; a trace has its own arrivals\n")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ("--workload", "chats"),
            "workload: 'chats' given; allowed: chat, retrieval, long-documents, agents, real-run",
        ),
        (("--scheduler", "vllm"), "scheduler: 'vllm' given; allowed: vllm-v1, "),
        (("--num-blocks", "10"), "prompt_tokens + output_tokens: "),
        (("--seed", "-1"), "seed: '-1' given; allowed: a whole number from 0 to"),
        (("--gpu", "rtx-4090", "--model", "llama-3-70b"), "model: llama-3-70b needs "),
    ],
)
def test_pressure_refuses_in_a_sentence(capsys, arguments, sentence):
    code, out, error = answer(capsys, "pressure", *arguments)
    assert (code, out) == (2, "")
    assert error.startswith(sentence)
    assert error.count("\n") == 1


def test_many_names_of_which_one_stands_twice_are_refused_soon(tmp_path):
    path = tmp_path / "run.json"
    path.write_text('{"config":{' + ",".join(f'"k{number}":1' for number in range(40_000)) + ',"k39999":1}}')
    start_s = time.process_time()
    with pytest.raises(CaseError, match="'k39999' stands twice"):
        simulate_file.simulate(str(path))
    assert time.process_time() - start_s < 2  # measured 0.05 s; 27 s where each name is counted anew
    path.write_bytes(b" " * (simulate_file.LARGEST_BYTES + 1))
    with pytest.raises(CaseError, match="cannot be read: it is larger than 8.00 MiB"):
        simulate_file.simulate(str(path))
