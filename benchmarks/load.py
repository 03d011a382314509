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
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.WidgetStates_pb2 import WidgetStates
from websockets.asyncio.client import ClientConnection, connect

from benchmarks.pages import asked, shown
from benchmarks.server import free_ports, running
from kvmodel import catalog
from kvmodel.curves import live_terms
from kvmodel.errors import CaseError
from kvmodel.inputs.case import Case
from kvmodel.recovery.comparison import compare_case
from kvmodel.units import KIB, MB

PAGES = ("", "kv_size", "roofline", "crossover")
ANSWER_S = 60
LEAST_TOKENS, MOST_TOKENS = 256, 8192
STOPS = [at for at in live_terms.live_terms(compare_case(Case())).lengths if LEAST_TOKENS <= at <= MOST_TOKENS]
TYPED = range(LEAST_TOKENS + 1, MOST_TOKENS, 7)
P95_MS, BURST_S, MOST_MB = 150, 2.0, 250


@contextmanager
def server(replicas: int) -> Iterator[tuple[range, list[int]]]:
    """The hosted form on free ports; gives ports and process ids, first that of the process which holds the others."""
    ports = free_ports(replicas)
    settings = {"PORT": ports[0], "REPLICAS": replicas, "LOG_LEVEL": "warning"}
    environment = os.environ | {f"KV_EXPLORER_{name}": str(value) for name, value in settings.items()}
    with running([sys.executable, "serve.py"], ports, "/readyz", environment) as pid:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        yield ports, [pid, *map(int, children)]


def memory_mb(pids: Sequence[int]) -> float:
    """Memory that the processes hold, what they share counted once (Linux: PSS)."""
    kib = 0
    for pid in pids:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            kib += int(line.split()[1]) if line.startswith("Pss:") else 0
    return kib * KIB / MB


def processor_s(pids: Sequence[int]) -> float:
    """Processor time that the processes have used."""
    used = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        used += int(fields[11]) + int(fields[12])
    return used / os.sysconf("SC_CLK_TCK")


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

    def __init__(self, ports: range, pages: tuple[str, ...], sessions: int, lengths: Sequence[float]) -> None:
        self.addresses = [f"ws://127.0.0.1:{port}/_stcore/stream" for port in ports]
        self.pages, self.sessions, self.lengths = pages, sessions, lengths
        self.first_s: list[float] = []
        self.moved_ms: list[float] = []
        self.errors: list[str] = []

    async def session(self, index: int, go: asyncio.Event, every_s: float, until: list[float]) -> None:
        page = self.pages[index % len(self.pages)]
        address = self.addresses[index // len(self.pages) % len(self.addresses)]  # as a proxy spreads visitors
        chance = random.Random(index)
        await go.wait()
        try:
            start = time.perf_counter()
            async with connect(address, max_size=None, compression=None, open_timeout=ANSWER_S) as connection:
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

    async def all(self, every_s: float, seconds: float, pids: Sequence[int]) -> None:
        go = asyncio.Event()
        tasks = [
            asyncio.create_task(self.session(index, go, every_s, until))
            for until in [[0.0, seconds]]
            for index in range(self.sessions)
        ]
        await asyncio.sleep(0.2)
        go.set()
        watch = asyncio.create_task(self.watch(pids))
        await asyncio.gather(*tasks)
        watch.cancel()

    async def watch(self, pids: Sequence[int]) -> None:
        """A line a minute."""
        while True:
            await asyncio.sleep(60)
            print(f"  {len(self.moved_ms)} moves, {memory_mb(pids):.0f} MB, {len(self.errors)} errors", flush=True)


def report(load: Load, pids: Sequence[int], used_s: float) -> bool:
    """Print the figures; gives whether all are within their limits."""
    first, moved = sorted(load.first_s), sorted(load.moved_ms)
    if not first or not moved:
        print("no session was served:", load.errors[:3])
        return False
    p95 = statistics.quantiles(moved, n=100)[94] if len(moved) > 1 else moved[0]
    mb = memory_mb(pids)
    print(f"burst: {len(first)} first visits, median {statistics.median(first):.2f} s, last {first[-1]:.2f} s")
    print(
        f"moves: {len(moved)}, median {statistics.median(moved):.0f} ms, p95 {p95:.0f} ms, longest {moved[-1]:.0f} ms"
    )
    print(f"server: {mb:.0f} MB, {1000 * used_s / len(moved):.1f} ms of processor a move; errors: {len(load.errors)}")
    for error in sorted(set(load.errors))[:5]:
        print("  ", error)
    return first[-1] <= BURST_S and p95 <= P95_MS and mb <= MOST_MB and not load.errors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--every", type=float, default=2)
    parser.add_argument("--pages", default=",".join(PAGES), help="by their paths, the first page by nothing")
    parser.add_argument("--replicas", type=int, default=2, help="processes, as docs/hosting.md has two")
    parser.add_argument("--typed", action="store_true", help="lengths as typed, not those where the slider stops")
    chosen = parser.parse_args()
    fitting_models()
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    with server(chosen.replicas) as (ports, pids):
        load = Load(ports, tuple(chosen.pages.split(",")), chosen.sessions, TYPED if chosen.typed else STOPS)
        print(f"replicas: {chosen.replicas}, sessions: {chosen.sessions}, a move every {chosen.every:g} s")
        print(f"other load: {os.getloadavg()[0]:.1f}")
        before_s = processor_s(pids)
        asyncio.run(load.all(chosen.every, chosen.seconds, pids))
        good = report(load, pids, processor_s(pids) - before_s)
    print("within limits" if good else f"over: {P95_MS} ms, {BURST_S} s, {MOST_MB} MB, no errors")
    raise SystemExit(0 if good else 1)


if __name__ == "__main__":
    main()
