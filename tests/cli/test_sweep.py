"""Sweeps: the grid, a row a case whatever computes it, and files that are whole or not there."""

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from kvmodel.cli import sweep_file
from kvmodel.cli.command_line import main, run
from kvmodel.cli.processes import processes
from kvmodel.errors import CaseError
from kvmodel.inputs.case import case_from
from kvmodel.inputs.questions import CASE, LOAD, SERVER, SLO
from kvmodel.recovery.comparison import as_json, compare_case
from kvmodel.sweeps import sweep
from kvmodel.sweeps.grid import MOST_CASES, Grid, grid
from tests.helpers.machine import runs, wait_for

ROOT = Path(__file__).resolve().parents[2]
UNDER_LOAD = ["--what", "pressure", "--requests", "60", "--num-blocks", "2500", "--requests-per-s", "12"]


def table(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def swept(tmp_path, *arguments, name="grid.csv"):
    path = tmp_path / name
    run(["sweep", *arguments, "-o", str(path)])
    return table(path)


# --- the grid ---


def test_the_last_input_varies_fastest():
    cases = list(grid(["tokens=1,2", "policy=a,b"], {"gpu": "l4"}, CASE))
    assert [(case["tokens"], case["policy"]) for case in cases] == [("1", "a"), ("1", "b"), ("2", "a"), ("2", "b")]
    assert all(case["gpu"] == "l4" for case in cases)


def test_parts_are_the_grid_in_order():
    cases = Grid({}, {"tokens": [str(number) for number in range(10)]})
    parts = list(cases.parts(4))
    assert [len(part) for part in parts] == [4, 4, 2]
    assert [case for part in parts for case in part] == list(cases)


@pytest.mark.parametrize(
    ("texts", "sentence"),
    [
        ([], r"^over: none given; allowed: an input and its values"),
        (["tokens"], r"^over: 'tokens' given; allowed: an input and its values"),
        (["tokens=1,,2"], r"^over: 'tokens=1,,2' given"),
        (["speed=1"], r"^over: 'speed' given; allowed: model, gpu"),
        (["tokens=1", "tokens=2"], r"repeats an input or a value"),
        (["tokens=1,1"], r"repeats an input or a value"),
        (["tokens=" + ",".join(map(str, range(201))), "tp=" + ",".join(map(str, range(1000)))], "201,000 cases"),
    ],
)
def test_a_grid_that_is_none_gets_one_sentence(texts, sentence):
    with pytest.raises(CaseError, match=sentence):
        grid(texts, {}, CASE)
    assert MOST_CASES == 200_000


# --- rows ---


def test_a_row_is_what_compare_says(tmp_path):
    rows = swept(tmp_path, "--over", "tokens=1024,16384", "--over", "policy=vllm-v0,ideal", "--gpu", "h100-sxm5-80gb")
    assert [(row["tokens"], row["policy"]) for row in rows] == [
        ("1024", "vllm-v0"), ("1024", "ideal"), ("16384", "vllm-v0"), ("16384", "ideal"),
    ]  # fmt: skip
    for row in rows:
        case = case_from({"tokens": row["tokens"], "policy": row["policy"], "gpu": "h100-sxm5-80gb"})
        alone = as_json(compare_case(case))
        assert row["winner"] == alone["verdict"]["winner"]
        assert float(row["swap_victim_delay_s"]) == pytest.approx(alone["strategies"]["swap"]["victim_delay_s"])
        assert row["error"] == ""


def test_a_row_is_what_pressure_says(tmp_path):
    rows = swept(tmp_path, "--over", "scheduler=vllm-v1,wait", "--over", "seed=1,2", *UNDER_LOAD)
    for row in rows:
        alone = json.loads(
            run(["pressure", *UNDER_LOAD[2:], "--scheduler", row["scheduler"], "--seed", row["seed"], "--json"])
        )
        assert int(row["preemptions"]) == alone["preemptions"]
        assert float(row["served_requests_per_s"]) == alone["requests_per_s"]
        assert float(row["ttft_s_p99"]) == alone["ttft_s"]["p99"]
    assert {row["preemptions"] for row in rows if row["scheduler"] == "wait"} == {"0"}
    assert all(int(row["preemptions"]) for row in rows if row["scheduler"] == "vllm-v1")


def test_results_never_take_the_name_of_an_input(tmp_path):
    rows = swept(tmp_path, "--over", "requests_per_s=2,3", "--what", "pressure", "--requests", "20")
    assert [row["requests_per_s"] for row in rows] == ["2", "3"]
    assert not (set(rows[0]) & {*SERVER, *LOAD, *SLO}) - {"requests_per_s"}


def test_a_case_that_cannot_be_says_why_in_its_row(tmp_path):
    rows = swept(tmp_path, "--over", "tp=1,3", "--over", "model=llama-3-8b,llama-3-70b")
    errors = [row["error"] for row in rows]
    assert errors[0] == ""
    assert errors[1].startswith("model: llama-3-70b needs")
    assert all(error.startswith("tp: 3 given for") for error in errors[2:])
    assert rows[1]["winner"] == ""


BAD = {
    "a value out of its limits": (["--over", "tokens=1,x"], "tokens: 'x' given; allowed: a whole number"),
    "an unknown scheduler": (["--over", "scheduler=vllm-v1,y", "--what", "pressure"], "scheduler: 'y' given"),
    "an unknown workload": (["--over", "workload=chat,y", "--what", "pressure"], "workload: 'y' given"),
    "an input of the other question": (["--over", "tp=1", "--num-blocks", "5"], "num_blocks: given, but compare"),
    "no case that can be": (["--over", "tp=3,5"], "tp: 3 given for 32 query"),
    "two executors": (["--over", "tp=1", "--dask", "a", "--processes", "2"], "processes: given with --dask"),
    "an address that is none": (["--over", "tp=1", "--dask", "nowhere:x"], "dask: 'nowhere:x' given; allowed: "),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_one_sentence_and_no_file(what, tmp_path, capsys):
    if "--dask" in BAD[what][0]:
        pytest.importorskip("distributed")
    path = tmp_path / "grid.csv"
    assert main(["sweep", *BAD[what][0], "-o", str(path)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(BAD[what][1])
    assert error.count("\n") == 1
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("name", [None, "grid.txt"])
def test_a_file_name_says_how(name, capsys):
    assert main(["sweep", "--over", "tp=1", *(["-o", name] if name else [])]) == 2
    assert "allowed: a file name that ends in .csv or .parquet" in capsys.readouterr().err


# --- files ---


def test_parquet_holds_the_same_with_types(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    grid_of = ["--over", "tokens=1024,16384", "--over", "tp=1,3"]
    rows = swept(tmp_path, *grid_of)
    run(["sweep", *grid_of, "-o", str(tmp_path / "grid.parquet")])
    typed = parquet.read_table(tmp_path / "grid.parquet")
    assert typed.schema.names == list(rows[0])
    assert str(typed.schema.field("tokens").type) == "int64"
    assert str(typed.schema.field("swap_victim_delay_s").type) == "double"
    for row, other in zip(rows, typed.to_pylist(), strict=True):
        assert row == {name: "" if value is None else str(value) for name, value in other.items()}


def test_without_pyarrow_csv_remains(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(CaseError, match=r"^-o: pyarrow is not installed, which writes .parquet; allowed: .csv$"):
        run(["sweep", "--over", "tp=1", "-o", str(tmp_path / "grid.parquet")])


# --- executors ---

MIXED = grid(["tp=1,3", "seed=1,2,3"], {"requests": 30, "num_blocks": 3000}, (*SERVER, *LOAD))


def rows_on(executor):
    return list(sweep.rows("pressure", MIXED, executor))


@pytest.fixture(scope="module")
def here():
    return rows_on(None)


def test_threads_give_the_same_rows(here):
    with ThreadPoolExecutor(2) as executor:
        assert rows_on(executor) == here
    assert ["error" in row for row in here] == [False] * 3 + [True] * 3


def test_processes_give_the_same_rows_and_end(here):
    with processes(2) as executor:
        assert rows_on(executor) == here
        workers = list(executor._processes.values())
    assert workers
    assert not any(worker.is_alive() for worker in workers)


def interrupted(workers):
    with processes(1) as executor:
        under_way = executor.submit(time.sleep, 60)
        wait_for(under_way.running)
        workers.extend(executor._processes.values())
        raise KeyboardInterrupt


def test_processes_end_when_the_block_fails():
    workers, start = [], time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        interrupted(workers)
    assert workers
    assert not any(worker.is_alive() for worker in workers)
    assert time.monotonic() - start < 30


def test_small_grids_start_no_processes():
    chosen = {"dask": None, "processes": None, "what": "compare"}
    with sweep_file.executor(chosen, MIXED) as executor:
        assert executor is None


@contextmanager
def started(*arguments):
    """A process that ends with the block."""
    process = subprocess.Popen(
        [sys.executable, *arguments], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT), "DASK_DISTRIBUTED__WORKER__DAEMON": "False"},
    )  # fmt: skip
    try:
        yield process
    finally:
        process.terminate()
        process.wait(20)
        process.stdout.close()


def line_with(process, word):
    for line in process.stdout:
        if word in line:
            return line
    raise AssertionError(f"it ended without {word!r}")


def test_a_dask_cluster_gives_the_same_rows(here, tmp_path):
    """A scheduler and two workers on loopback, the command against them, and their end."""
    pytest.importorskip("distributed")
    worker = ("-m", "distributed.cli.dask_worker", "--nthreads", "1", "--no-dashboard", "--no-nanny", "--host",
              "127.0.0.1", "--local-directory", str(tmp_path))  # fmt: skip
    with started("-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard",
                 "--no-show") as scheduler:  # fmt: skip
        address = line_with(scheduler, "Scheduler at:").split()[-1]
        with started(*worker, address) as first, started(*worker, address) as second:
            for process in (first, second):
                line_with(process, "Registered to")
            with sweep.dask(address) as executor:
                assert rows_on(executor) == here
            path = tmp_path / "grid.csv"
            assert main(["sweep", "--over", "tokens=1024,2048", "--dask", address, "-o", str(path)]) == 0
            assert [row["tokens"] for row in table(path)] == ["1024", "2048"]
    assert all(process.returncode is not None for process in (scheduler, first, second))


def test_a_terminal_is_told_how_far_it_is(monkeypatch):
    shown = io.StringIO()
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setattr(sweep_file, "PROGRESS_EVERY_S", -1)
    assert list(sweep_file.with_progress([{"a": 1}] * 3, 3)) == [{"a": 1}] * 3
    assert shown.getvalue() == ""
    monkeypatch.setattr(shown, "isatty", lambda: True)
    assert list(sweep_file.with_progress([{"a": 1}] * 2, 2000)) == [{"a": 1}] * 2
    assert shown.getvalue() == "\r0 of 2,000 cases\r1 of 2,000 cases\r\x1b[K"


# --- interrupts ---


@pytest.mark.parametrize(
    ("sent", "send"),
    [(signal.SIGINT, os.kill), (signal.SIGINT, os.killpg), (signal.SIGKILL, os.kill)],
    ids=["asked", "from a terminal", "killed"],
)
def test_an_interrupt_leaves_nothing(sent, send, tmp_path):
    """Neither half a file nor a process, whether it is asked to end, its workers too, or killed."""
    path = tmp_path / "grid.csv"
    seeds = ",".join(map(str, range(500)))
    process = subprocess.Popen(
        [sys.executable, "-m", "kvmodel", "sweep", "--what", "pressure", "--requests", "3000", "--over",
         f"seed={seeds}", "--processes", "2", "-o", str(path)],
        cwd=ROOT, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler), start_new_session=True,
        stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        workers = wait_for(lambda: found if len(found := children(process.pid)) >= 3 else None)  # and their tracker
        send(process.pid, sent)
        assert process.wait(30) == (130 if sent == signal.SIGINT else -signal.SIGKILL)
    finally:
        process.kill()
    wait_for(lambda: not any(map(runs, workers)))
    assert sent == signal.SIGKILL or process.stderr.read() == b""
    process.stderr.close()
    assert not any(tmp_path.iterdir())


def children(parent):
    listed = Path(f"/proc/{parent}/task/{parent}/children")
    if not listed.exists():
        pytest.skip("no /proc to look for processes in")
    return [int(number) for number in listed.read_text().split()]
