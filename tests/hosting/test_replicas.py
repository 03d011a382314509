"""Replicas forked from one process: each answers, one that is killed comes back, and none outlives the first."""

from __future__ import annotations

import mmap
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hosting import replicas
from tests.helpers.machine import free_port, free_ports, runs, wait_for
from tests.helpers.replicas import ROOT, Replica, visit, wait_until_ready
from tests.hosting.conftest import Start

WAIT_S = 20
QUERY = "v=1&model=llama-2-7b&gpu=h100-sxm5-80gb&tokens=6000"


@pytest.fixture
def pair(start: Start) -> Iterator[tuple[Replica, Replica]]:
    """Two replicas of one server; the first is who holds both."""
    ports = free_ports(2)
    first = start(port=str(ports[0]), replicas="2")
    second = Replica(first.process, ports[1], first.log)
    wait_until_ready(second)
    yield first, second
    first.stop()


def processes(pair: tuple[Replica, Replica]) -> dict[int, int]:
    """The process that serves each port now, as the log says."""
    said = re.findall(r"serving on http://127\.0\.0\.1:(\d+)/ by process (\d+)", pair[0].log.read_text())
    return {int(port): int(pid) for port, pid in said}


def test_one_that_is_killed_comes_back_and_the_other_goes_on(pair: tuple[Replica, Replica]) -> None:
    first, second = pair
    before = visit(first.port, QUERY, page="crossover")
    killed, other = (processes(pair)[replica.port] for replica in pair)
    assert killed != other
    os.kill(killed, signal.SIGKILL)
    assert visit(second.port, QUERY, page="crossover").charts == before.charts
    wait_for(lambda: processes(pair)[first.port] != killed)
    wait_until_ready(first)
    assert visit(first.port, QUERY, page="crossover").charts == before.charts
    assert processes(pair)[second.port] == other
    assert f"the replica on port {first.port} ended with -9: started again" in first.log.read_text()
    assert "tokens" not in first.log.read_text()


def test_one_that_hangs_is_ended_and_its_visitors_go_on(pair: tuple[Replica, Replica]) -> None:
    first, second = pair
    before = visit(first.port, QUERY, page="crossover")
    hung, other = (processes(pair)[replica.port] for replica in pair)
    os.kill(hung, signal.SIGSTOP)
    start_s = time.monotonic()
    assert visit(first.port, QUERY, page="crossover").charts == before.charts, "it waited in the socket's line"
    assert time.monotonic() - start_s < 3 * replicas.HUNG_S
    assert not runs(hung)
    assert processes(pair)[second.port] == other
    assert f"the replica on port {first.port} has not moved for 5 s: ended" in first.log.read_text()


class TestWhatIsHung:
    def at(self, beats: int = 0, seen_s: float = 100.0) -> replicas.Replica:
        replica = replicas.Replica(socket.socket(), mmap.mmap(-1, 8), pid=1, seen_s=seen_s)
        for _ in range(beats):
            replica.beat()
        return replica

    @pytest.mark.parametrize(("now_s", "hung"), [(105.0, False), (105.01, True)])
    def test_from_both_sides(self, now_s: float, hung: bool) -> None:
        assert self.at().is_hung(now_s) is hung
        assert not self.at(beats=1).is_hung(now_s), "it beat since"

    def test_not_where_there_is_no_process(self) -> None:
        replica = self.at()
        replica.pid = None
        assert not replica.is_hung(999.0)

    def test_not_where_this_process_was_away_as_well(self, monkeypatch: pytest.MonkeyPatch) -> None:
        sent: list[object] = []
        monkeypatch.setattr(replicas, "send", lambda _, number: sent.append(number))
        monkeypatch.setattr(os, "waitpid", lambda *_: (0, 0))
        replicas.look_after(self.at(), 999.0, was_away=True, ending=False)
        assert sent == []
        replicas.look_after(self.at(), 999.0, was_away=False, ending=True)
        assert sent == []
        replicas.look_after(self.at(), 999.0, was_away=False, ending=False)
        assert sent == [signal.SIGKILL]


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 0), (signal.SIGKILL, -9)])
def test_all_end_together(pair: tuple[Replica, Replica], sent: signal.Signals, code: int) -> None:
    first, _ = pair
    serving = processes(pair).values()
    assert all(map(runs, serving))
    first.process.send_signal(sent)
    assert first.process.wait(WAIT_S) == code
    wait_for(lambda: not any(map(runs, serving)))
    assert "Traceback" not in first.log.read_text()


def test_one_that_does_not_end_is_killed(pair: tuple[Replica, Replica]) -> None:
    first, second = pair
    hung = processes(pair)[second.port]
    os.kill(hung, signal.SIGSTOP)
    first.process.terminate()
    time.sleep(1)
    assert first.process.poll() is None
    first.process.terminate()
    assert first.process.wait(WAIT_S) == 0
    assert not runs(hung)


def test_they_hold_less_memory_than_two_servers(pair: tuple[Replica, Replica]) -> None:
    serving = [pair[0].process.pid, *processes(pair).values()]
    held = [Path(f"/proc/{pid}/smaps_rollup").read_text() for pid in serving]
    assert kib(held, "Pss") < 0.7 * kib(held, "Rss")


def kib(held: list[str], name: str) -> int:
    return sum(int(number) for text in held for number in re.findall(rf"^{name}: +(\d+) kB", text, re.MULTILINE))


def run_two(serve: str, seconds: float | None = None) -> tuple[int, str]:
    """Exit status and log of two replicas, each of which does `serve`; a signal ends them after some seconds."""
    script = (
        "import socket, sys, time; from hosting import replicas\n"
        f"def serve(opened, beat):\n    {serve}\n"
        "first, second = socket.create_server(('127.0.0.1', 0)), socket.create_server(('127.0.0.1', 0))\n"
        "replicas.run([first, second], serve)"
    )
    process = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stderr=subprocess.PIPE, text=True)
    if seconds is not None:
        time.sleep(seconds)
        process.terminate()
    _, written = process.communicate(timeout=WAIT_S)
    return process.returncode, written


def test_none_that_can_live_ends_the_start_with_a_sentence() -> None:
    code, written = run_two("sys.exit(3)")
    assert code == 1
    assert written.splitlines()[-1] == "no replica lives for 10 s, 4 tries: its log lines say why."
    assert written.count("ended with 3") == 8
    assert "Traceback" not in written


def test_one_that_cannot_live_is_started_with_pauses_beside_one_that_can() -> None:
    serve = "[beat() or time.sleep(.1) for _ in range(200)] if opened is first else sys.exit(3)"
    code, written = run_two(serve, seconds=8)
    assert code == 0
    assert 2 <= written.count("ended with 3") <= 5, "after 0, 1, 3 and 6 s"
    assert "no replica" not in written


def test_streamlit_runs_one_alone() -> None:
    port = free_port()
    ended = subprocess.run(
        [sys.executable, "-m", "streamlit", "run", "serve.py", "--server.headless=true", f"--server.port={port}"],
        cwd=ROOT, env=os.environ | {"KV_EXPLORER_REPLICAS": "2"}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert "KV_EXPLORER_REPLICAS: 2 given; allowed with streamlit run: 1, or python serve.py" in ended.stderr
