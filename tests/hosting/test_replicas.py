"""Replicas forked from one process: each answers, one that is killed comes back, and none outlives the first."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

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


def test_one_that_cannot_live_is_not_started_without_pause() -> None:
    sockets = "[socket.socket(), socket.socket()]"
    script = f"import socket, sys; from hosting import replicas; replicas.run({sockets}, lambda *_: sys.exit(3))"
    process = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stderr=subprocess.PIPE, text=True)
    assert "ended with 3: started again" in process.stderr.readline()
    time.sleep(3)
    process.terminate()
    _, written = process.communicate(timeout=WAIT_S)
    assert process.returncode == 0
    assert 1 <= written.count("ended with 3: started again") <= 5


def test_streamlit_runs_one_alone() -> None:
    port = free_port()
    ended = subprocess.run(
        [sys.executable, "-m", "streamlit", "run", "serve.py", "--server.headless=true", f"--server.port={port}"],
        cwd=ROOT, env=os.environ | {"KV_EXPLORER_REPLICAS": "2"}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert "KV_EXPLORER_REPLICAS: 2 given; allowed with streamlit run: 1, or python serve.py" in ended.stderr
