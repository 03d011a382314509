"""Many visitors at once on the hosted form, server and visitors on this one machine.

    python -m benchmarks.load [--sessions 50] [--seconds 60] [--every 2] [--pages roofline,kv_size] [--typed]

First a burst: all sessions open a page at the same moment. Then each chooses a model of its own and moves the sequence
length from stop to stop of its slider every few seconds, at moments of its own. A time goes from the message that asks
for a run to the one that says its script has finished, over the app's own websocket. `--seconds 1800` is the half hour
in which memory must not grow after the first five minutes: a line a minute says how it stands.
"""

import argparse
import asyncio
import functools
import os
import random
import resource
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.WidgetStates_pb2 import WidgetStates
from websockets.asyncio.client import ClientConnection, connect

from benchmarks.pages import asked, shown
from kvmodel import basis, catalog
from kvmodel.case import Case, CaseError
from kvmodel.comparison import compare_case

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("", "kv_size", "roofline", "crossover")
ANSWER_S = 60
LEAST_TOKENS, MOST_TOKENS = 256, 8192
STOPS = [at for at in basis.basis(compare_case(Case())).lengths if LEAST_TOKENS <= at <= MOST_TOKENS]
TYPED = range(LEAST_TOKENS + 1, MOST_TOKENS, 7)
KIB_PER_MIB = 1024
P95_MS, BURST_S, MOST_MIB = 150, 2.0, 250


@contextmanager
def server() -> Iterator[tuple[int, int]]:
    """The hosted form on a free port; gives port and process id."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = os.environ | {"KV_EXPLORER_PORT": str(port), "KV_EXPLORER_LOG_LEVEL": "warning"}
    process = subprocess.Popen([sys.executable, "serve.py"], cwd=ROOT, env=environment, stderr=subprocess.DEVNULL)
    try:
        for _ in range(240):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=1).close()
                break
            except OSError:
                time.sleep(0.25)
        yield port, process.pid
    finally:
        process.terminate()
        process.wait(20)


def memory_mib(pid: int) -> float:
    """Resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / KIB_PER_MIB
    raise SystemExit("the server is gone")


def processor_s(pid: int) -> float:
    """Processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def run(
    connection: ClientConnection, page: str, states: WidgetStates, part: str = ""
) -> tuple[float, list[ForwardMsg]]:
    """Seconds to the end of the script, and what the server sent. An exception on the page is an error."""
    start = time.perf_counter()
    await connection.send(asked(page, states, part))
    received = []
    async with asyncio.timeout(ANSWER_S):
        while True:
            message = ForwardMsg.FromString(await connection.recv())
            received.append(message)
            if message.delta.new_element.WhichOneof("type") == "exception":
                raise RuntimeError(f"{page}: an exception on the page")
            if message.WhichOneof("type") == "script_finished":
                return time.perf_counter() - start, received


def chosen_model(states: WidgetStates, session: int) -> None:
    """Another model for each of many sessions, small ones first: those fit the GPU that the page begins with."""
    fitting = fitting_models()
    for widget in states.widgets:
        if widget.string_value in fitting:
            widget.string_value = fitting[session % len(fitting)]


@functools.cache
def fitting_models() -> list[str]:
    """Worked out before the load begins: the sessions have one processor with the server."""
    return [name for name in catalog.model_ids() if fits(name)]


def fits(model: str) -> bool:
    try:
        compare_case(Case(model=model, tokens=MOST_TOKENS))
    except CaseError:
        return False
    return True


class Load:
    """The sessions, what they measured, and how many failed."""

    def __init__(self, port: int, pages: tuple[str, ...], sessions: int, lengths: Sequence[float]) -> None:
        self.address = f"ws://127.0.0.1:{port}/_stcore/stream"
        self.pages, self.sessions, self.lengths = pages, sessions, lengths
        self.first_s: list[float] = []
        self.moved_ms: list[float] = []
        self.errors: list[str] = []

    async def session(self, index: int, go: asyncio.Event, every_s: float, until: list[float]) -> None:
        page = self.pages[index % len(self.pages)]
        chance = random.Random(index)
        await go.wait()
        try:
            start = time.perf_counter()
            async with connect(self.address, max_size=None, compression=None, open_timeout=ANSWER_S) as connection:
                states, tokens, part = shown((await run(connection, page, WidgetStates()))[1])
                self.first_s.append(time.perf_counter() - start)
                while len(self.first_s) + len(self.errors) < self.sessions:
                    await asyncio.sleep(0.05)
                until[0] = until[0] or time.perf_counter() + until[1]
                await asyncio.sleep(chance.uniform(0, every_s))
                chosen_model(states, index)
                while time.perf_counter() < until[0]:
                    tokens.double_value = chance.choice(self.lengths)
                    taken_s, _ = await run(connection, page, states, part)
                    self.moved_ms.append(1000 * taken_s)
                    await asyncio.sleep(max(0.0, chance.uniform(0.8, 1.2) * every_s - taken_s))
        except Exception as error:
            self.errors.append(f"{type(error).__name__}: {error}"[:120])

    async def all(self, every_s: float, seconds: float, pid: int) -> None:
        go = asyncio.Event()
        tasks = [
            asyncio.create_task(self.session(index, go, every_s, until))
            for until in [[0.0, seconds]]
            for index in range(self.sessions)
        ]
        await asyncio.sleep(0.2)
        go.set()
        watch = asyncio.create_task(self.watch(pid))
        await asyncio.gather(*tasks)
        watch.cancel()

    async def watch(self, pid: int) -> None:
        """A line a minute."""
        while True:
            await asyncio.sleep(60)
            print(f"  {len(self.moved_ms)} moves, {memory_mib(pid):.0f} MiB, {len(self.errors)} errors", flush=True)


def report(load: Load, pid: int, used_s: float) -> bool:
    """Print the figures; gives whether all are within their limits."""
    first, moved = sorted(load.first_s), sorted(load.moved_ms)
    if not first or not moved:
        print("no session was served:", load.errors[:3])
        return False
    p95 = statistics.quantiles(moved, n=100)[94] if len(moved) > 1 else moved[0]
    mib = memory_mib(pid)
    print(f"burst: {len(first)} first visits, median {statistics.median(first):.2f} s, last {first[-1]:.2f} s")
    print(
        f"moves: {len(moved)}, median {statistics.median(moved):.0f} ms, p95 {p95:.0f} ms, longest {moved[-1]:.0f} ms"
    )
    print(f"server: {mib:.0f} MiB, {1000 * used_s / len(moved):.1f} ms of processor a move; errors: {len(load.errors)}")
    for error in sorted(set(load.errors))[:5]:
        print("  ", error)
    return first[-1] <= BURST_S and p95 <= P95_MS and mib <= MOST_MIB and not load.errors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--every", type=float, default=2)
    parser.add_argument("--pages", default=",".join(PAGES), help="by their paths, the first page by nothing")
    parser.add_argument("--typed", action="store_true", help="lengths as typed, not those where the slider stops")
    chosen = parser.parse_args()
    fitting_models()
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    with server() as (port, pid):
        load = Load(port, tuple(chosen.pages.split(",")), chosen.sessions, TYPED if chosen.typed else STOPS)
        print(f"{chosen.sessions} sessions, a move every {chosen.every:g} s, other load {os.getloadavg()[0]:.1f}")
        before_s = processor_s(pid)
        asyncio.run(load.all(chosen.every, chosen.seconds, pid))
        good = report(load, pid, processor_s(pid) - before_s)
    print("within limits" if good else f"over: {P95_MS} ms, {BURST_S} s, {MOST_MIB} MiB, no errors")
    raise SystemExit(0 if good else 1)


if __name__ == "__main__":
    main()
