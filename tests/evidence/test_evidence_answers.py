"""`evidence` and `calibrate` from the shell: keys, a reader's own file, and one sentence for whatever does not hold."""

import csv
import json
from pathlib import Path

import pytest

from kvmodel.cli import command_line
from kvmodel.errors import CaseError
from kvmodel.evidence import copy_rows, evidence_answers, step_rows
from kvmodel.files import DATA

COMMITTED = DATA / "measured" / "steps.csv"
GOOD = {
    "id": "R1", "kind": "prefill", "source": "mine", "gpu": "h100-sxm5-80gb", "model": "llama-3.1-8b", "dtype": "bf16",
    "engine": "vLLM 0.33", "tp": "1", "batch": "1", "tokens": "8192", "context": "0", "value": "240", "unit": "ms",
}  # fmt: skip


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = command_line.main(list(arguments))
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict:
    code, out, err = run(capsys, *arguments, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


def written(folder: Path, *rows: dict[str, str]) -> str:
    path = folder / "own.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return str(path)


class TestEvidence:
    def test_a_row_a_kind_with_its_errors(self, capsys):
        found = answer(capsys, "evidence")
        counted = {row["kind"]: row["n"] for row in found["rows"]}
        errors = (*step_rows.step_errors(), *copy_rows.copy_errors())
        assert counted == {row.kind: row.n for row in errors}
        for row in found["rows"]:
            assert set(row) == {"kind", "says", "n", "median_percent", "p90_percent", "bias_percent"}
            assert 0 <= row["median_percent"] <= row["p90_percent"]
            assert abs(row["bias_percent"]) <= row["median_percent"] + 1e-9

    def test_the_errors_of_what_was_left_out_are_beside_them_and_larger(self, capsys):
        found = answer(capsys, "evidence")
        fitted = next(row for row in found["rows"] if row["kind"] == "prefill")
        assert {row["kind"] for row in found["held_out"]} == {"prefill_other_gpu", "prefill_other_source"}
        for row in found["held_out"]:
            assert row["p90_percent"] > fitted["p90_percent"]
            assert "left out of the fit" in row["says"]

    def test_as_text(self, capsys):
        code, out, _ = run(capsys, "evidence")
        assert code == 0
        assert "prefill_llama_cpp: llama.cpp, not modelled" in out

    def test_the_committed_rows_as_a_readers_file_give_the_same_table(self, capsys):
        own = {row["kind"]: row for row in answer(capsys, "evidence", str(COMMITTED))["rows"]}
        table = {row["kind"]: row for row in answer(capsys, "evidence")["rows"]}
        for kind in ("prefill", "linear_sum", "mixed_step", "decode_2023", "prefill_2023"):
            assert own[kind] == table[kind]

    def test_a_readers_row_by_hand(self, capsys, tmp_path):
        predicted = answer(
            capsys, "prefill", "--model", "llama-3.1-8b", "--gpu", "h100-sxm5-80gb", "--tokens", "8192",
            "--max-num-batched-tokens", "8192",
        )["prefill_s"]  # fmt: skip
        row = answer(capsys, "evidence", written(tmp_path, GOOD))["rows"][0]
        assert (row["kind"], row["n"]) == ("prefill", 1)
        assert row["bias_percent"] == pytest.approx(100 * (predicted / 0.240 - 1), rel=1e-6)

    def test_a_decode_step_of_todays_engines_is_judged_though_no_row_is_given(self, capsys, tmp_path):
        own = GOOD | {"kind": "decode_step", "batch": "32", "tokens": "1", "context": "2048", "value": "9"}
        row = answer(capsys, "evidence", written(tmp_path, own))["rows"][0]
        assert (row["kind"], row["n"]) == ("decode_step", 1)

    @pytest.mark.parametrize(
        ("change", "sentence"),
        [
            ({"kind": "guess"}, "kind: 'guess' given in row R1; allowed: decode_step"),
            ({"gpu": "h1000"}, "gpu: unknown id 'h1000'; nearest"),
            ({"gpu": ""}, "gpu: none given in row R1; allowed: an id of the catalog"),
            ({"model": "gpt-9"}, "model: unknown id 'gpt-9'; nearest"),
            ({"value": "fast"}, "value: 'fast' given in row R1; allowed: a number of 0 or more"),
            ({"value": "nan"}, "value: 'nan' given in row R1; allowed: a number of 0 or more"),
            ({"value": "0"}, "value: '0' given in row R1; allowed: above 0"),
            ({"unit": "min"}, "unit: 'min' given in row R1; allowed: ms, s, us"),
            ({"tp": "0"}, "tp: '0' given in row R1; allowed: above 0"),
            ({"batch": ""}, "batch: '' given in row R1; allowed: above 0"),
            ({"tokens": "0"}, "tokens: '0' given in row R1; allowed: above 0"),
            ({"tokens": "-5"}, "tokens: '-5' given in row R1; allowed: a number of 0 or more"),
        ],
    )
    def test_a_bad_row_is_one_sentence(self, capsys, tmp_path, change, sentence):
        code, out, err = run(capsys, "evidence", written(tmp_path, GOOD | change))
        assert (code, out) == (2, "")
        assert err.startswith(sentence)
        assert err.count("\n") == 1

    def test_a_bad_file_is_one_sentence(self, capsys, tmp_path):
        without = {name: value for name, value in GOOD.items() if name not in ("unit", "tp")}
        (tmp_path / "empty.csv").write_text("")
        (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe\x00id,kind")
        for path, says in (
            (written(tmp_path, without), "lacks tp, unit; allowed: the columns id, kind"),
            (str(tmp_path / "empty.csv"), "lacks id, kind"),
            (str(tmp_path / "bytes.csv"), "cannot be read"),
            (str(tmp_path / "none.csv"), "cannot be read: No such file"),
            (str(tmp_path), "cannot be read: Is a directory"),
        ):
            code, out, err = run(capsys, "evidence", path)
            assert (code, out) == (2, "")
            assert err.startswith("file: ")
            assert says in err
            assert err.count("\n") == 1

    def test_a_short_line_of_a_file_is_one_sentence(self, tmp_path):
        path = tmp_path / "short.csv"
        path.write_text(",".join(evidence_answers.COLUMNS) + "\nR1,prefill,mine\n", encoding="utf-8")
        with pytest.raises(CaseError, match="gpu: none given in row R1"):
            evidence_answers.steps_in(str(path))


class TestCalibrate:
    CASE = ("calibrate", "--model", "llama-3.1-8b", "--gpu", "h100-sxm5-80gb", "--tokens", "10000")

    def test_keys_and_the_figures_to_use(self, capsys):
        found = answer(capsys, *self.CASE, "--prefill-s", "0.4", "--copy-s", "0.05")
        shared = {"point", "modelled_s", "floor_s", "impossible"}
        assert set(found["prefill"]) == shared | {"mfu", "gemm_efficiency", "request_overhead_ms"}
        assert set(found["copy"]) == shared | {"effective_bytes_per_s", "copy_gb_per_s", "load_overhead_ms"}
        assert set(found["use"]) == {"gemm_efficiency", "copy_gb_per_s"}
        assert found["tokens"] == 10_000

    def test_the_figures_to_use_give_the_measured_times(self, capsys):
        use = answer(capsys, *self.CASE, "--prefill-s", "0.4", "--copy-s", "0.05")["use"]
        flags = [part for name, value in use.items() for part in (f"--{name.replace('_', '-')}", f"{value}")]
        found = answer(capsys, "compare", *self.CASE[1:], *flags)["strategies"]
        assert found["recompute"]["victim_delay_s"] == pytest.approx(0.4, rel=1e-3)
        assert found["swap"]["in_s"] == pytest.approx(0.05, rel=1e-3)

    def test_two_points_give_an_overhead(self, capsys):
        use = answer(
            capsys, *self.CASE, "--prefill-s", "0.4", "--prefill2-tokens", "20000", "--prefill2-s", "0.8"
        )["use"]  # fmt: skip
        assert set(use) == {"gemm_efficiency", "request_overhead_ms"}

    def test_impossible_is_said_with_the_floor_and_nothing_to_use(self, capsys):
        found = answer(capsys, *self.CASE, "--prefill-s", "0.01")
        assert found["prefill"]["impossible"]
        assert found["prefill"]["mfu"] > 1
        assert found["use"] == {}
        code, out, _ = run(capsys, *self.CASE, "--prefill-s", "0.01")
        assert code == 0
        assert "impossible: a measured time is below what the datasheet allows" in out

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            ((), "prefill_s: none given, and no copy_s"),
            (("--prefill-s", "0"), "prefill_s: '0' given; allowed: a number from"),
            (("--prefill-s", "soon"), "prefill_s: 'soon' given; allowed: a number from"),
            (("--prefill2-s", "1"), "prefill2_s: 1 given alone; allowed: with prefill_s and prefill2_tokens"),
            (("--prefill-s", "1", "--prefill2-s", "2"), "prefill2_s: 2 given alone"),
            (("--copy-s", "1", "--copy2-tokens", "2000"), "copy2_tokens: 2,000 given alone; allowed: with copy2_s"),
            (("--prefill-s", "1", "--prefill2-tokens", "10000", "--prefill2-s", "2"), "second prefill: 10,000 tokens"),
            (("--copy-s", "0.1", "--direction", "up"), "direction: 'up' given; allowed: h2d, d2h"),
            (("--copy-s", "90000"), "measured time: 10,000 tokens in 90000 s given"),
            (("--prefill-s", "1", "--model", "llama-3-70b"), "model: llama-3-70b needs"),
        ],
    )
    def test_bad_input_is_one_sentence(self, capsys, arguments, sentence):
        code, out, err = run(capsys, *self.CASE, *arguments)
        assert (code, out) == (2, "")
        assert err.startswith(sentence)
        assert err.count("\n") == 1
