"""DataFrames hold what the commands print: the same keys, the same numbers."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import kvmodel
from kvmodel import frames
from kvmodel.cli.command_line import run
from kvmodel.errors import CaseError
from kvmodel.evidence import measured_points
from kvmodel.inputs.case import Case

ROOT = Path(__file__).parents[1]
LOAD = {"requests": 60, "num_blocks": 2500, "requests_per_s": 12}


def flags(inputs: dict[str, object]) -> list[str]:
    return [text for name, value in inputs.items() for text in ("--" + name.replace("_", "-"), str(value))]


def answer(command: str, inputs: dict[str, object]) -> dict:
    return json.loads(run([command, *flags(inputs), "--json"]))


def test_compare_has_a_row_a_strategy_with_the_keys_of_the_json():
    told = answer("compare", {"tokens": 8192})["strategies"]
    table = frames.compare(Case(tokens=8192))
    assert list(table.index) == list(told)
    for strategy, price in told.items():
        assert list(table.columns) == list(price)
        assert table.loc[strategy].to_dict() == pytest.approx(price, rel=0, abs=0)


def test_several_cases_are_labelled_by_what_differs():
    table = frames.compare(*(Case(tokens=tokens, gpu="l40s", policy="vllm-v0") for tokens in (1024, 4096)))
    assert table.index.names == ["tokens", "strategy"]
    for tokens in (1024, 4096):
        told = kvmodel.compare(tokens=tokens, gpu="l40s", policy="vllm-v0")["strategies"]
        assert table.loc[tokens]["victim_delay_s"].to_dict() == {
            name: row["victim_delay_s"] for name, row in told.items()
        }


def test_what_does_not_exist_is_nan_in_a_column_of_numbers():
    table = frames.compare(Case(decode_batch=9999, gpu="l40s"))
    assert any(
        price["gpu_s"] is None for price in kvmodel.compare(decode_batch=9999, gpu="l40s")["strategies"].values()
    )
    assert table["gpu_s"].dtype == float
    assert table["gpu_s"].isna().any()


@pytest.mark.parametrize(
    ("what", "over", "given"),
    [
        ("compare", {"tokens": [1024, 4096], "policy": ["vllm-v0", "vllm-v1"]}, {"gpu": "l40s"}),
        ("compare", {"tp": [1, 3]}, {}),  # of which one row only says why it cannot be
        ("pressure", {"scheduler": ["vllm-v1", "wait"]}, LOAD),
    ],
)
def test_sweep_has_the_rows_of_the_file(tmp_path, what, over, given):
    path = tmp_path / "grid.csv"
    texts = [text for name, values in over.items() for text in ("--over", f"{name}={','.join(map(str, values))}")]
    run(["sweep", "--what", what, *texts, *flags(given), "-o", str(path)])
    with path.open(encoding="utf-8", newline="") as file:
        told = list(csv.DictReader(file))
    table = frames.sweep(over, what, **given)
    assert list(table.columns) == list(told[0])
    assert len(table) == len(told)
    for name in table.columns:
        for value, cell in zip(table[name], (row[name] for row in told), strict=True):
            missing = value is None or value != value
            assert (cell == "") if missing else (value == type(value)(cell)), name


def test_pressure_by_request_and_by_second_comes_to_the_totals_of_the_command():
    told = answer("pressure", LOAD)
    requests, seconds = frames.pressure(**LOAD)
    assert len(requests) == told["requests"]
    for name in ("ttft_s", "tpot_s", "end_to_end_s"):
        assert requests[name].mean() == pytest.approx(told[name]["mean"], rel=1e-12)
        assert np.percentile(requests[name].dropna(), 99) == pytest.approx(told[name]["p99"], rel=1e-12)
    assert requests["preemptions"].sum() == told["preemptions"] > 0
    assert requests["recomputed_tokens"].sum() == told["recomputed_tokens"]
    assert requests["good"].mean() == pytest.approx(told["good_share"])
    assert seconds["running"].max() == told["running_most"]
    assert seconds["kv_usage"].mean() == pytest.approx(told["kv_usage_mean"], rel=1e-12)


def test_pressure_refuses_what_it_does_not_depend_on():
    with pytest.raises(CaseError, match="tokens: given, but pressure does not depend on it"):
        frames.pressure(tokens=4096)


def test_evidence_is_the_error_table_and_its_rows():
    told = answer("evidence", {})["rows"]
    table, rows = frames.evidence(), frames.measured()
    assert table.to_dict("records") == told
    assert len(rows) == len(measured_points.pairs()) == table["n"].sum()
    for row in told:
        errors = 100 * (rows.loc[rows["kind"] == row["kind"], "ratio"] - 1)
        assert errors.abs().median() == pytest.approx(row["median_percent"])


def test_without_pandas_one_sentence():
    code = "import sys; sys.modules['pandas'] = None; import kvmodel.frames"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode != 0
    last = done.stderr.splitlines()[-1]
    assert last == "ImportError: kvmodel.frames: pandas is missing; pip install kv-cache-recovery-explorer[frames]"
