"""One visitor who attacks, and what the others notice: two replicas behind the example nginx, all on this machine.

    python -m benchmarks.attacks [ATTACK ...] [--seconds 30] [--rest 60]

Eight visitors move the sequence length every second, from one address; the attacker has another. For each attack: how
long a move took (median, 95th percentile), pages lost, memory before, at most, and after the rest. Then a replica is
stopped (SIGSTOP), later one killed, under the same load: how long until every visitor has a page again.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import random
import re
import resource
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from streamlit.proto.WidgetStates_pb2 import WidgetStates
from websockets.asyncio.client import ClientConnection, connect

from benchmarks import attackers
from benchmarks.load import STOPS, memory_mb, run
from benchmarks.pages import shown
from benchmarks.server import free_ports
from benchmarks.server import running as server_running
from tests.helpers import nginx

HOST, VISITORS, EVERY_S = "kv.example.com", 8, 1.0
PAGES = ("", "kv_size", "roofline", "crossover")
P95_MS, BACK_S = 300, 10
# As the unit has it: a browser would raise its own priority.
WITHOUT_RIGHTS = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if shutil.which("setpriv") else []
ANSWER_S = 60


@dataclass
class Site:
    """The port of nginx, and the processes of the server: the first holds the others."""

    port: int
    pids: list[int]

    @property
    def replicas(self) -> list[int]:
        return list(map(int, Path(f"/proc/{self.pids[0]}/task/{self.pids[0]}/children").read_text().split()))

    def memory_mb(self) -> float:
        """Of the server and all that it started; browsers too."""
        return sum(map(held_mb, below(self.pids[0])))


def below(pid: int) -> Iterator[int]:
    """A process and all that it and they started."""
    yield pid
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            for child in children.read_text().split():
                yield from below(int(child))


def held_mb(pid: int) -> float:
    with suppress(OSError):  # it ended meanwhile
        return memory_mb([pid])
    return 0.0


@dataclass
class Seen:
    """What the visitors noticed."""

    moved_ms: list[float] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    pages_s: dict[int, list[float]] = field(default_factory=dict)  # when each visitor had one


@contextmanager
def site() -> Iterator[Site]:
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if program is None:
        raise SystemExit("no nginx on this machine: apt-get install nginx")
    ports = free_ports(3)
    settings = re.findall(
        r"^Environment=(\w+)=(.*)$", (nginx.EXAMPLES / "kv-explorer.service").read_text(), re.MULTILINE
    )
    environment = os.environ | dict(settings) | {"KV_EXPLORER_PORT": str(ports[1]), "KV_EXPLORER_LOG_LEVEL": "warning"}
    with tempfile.TemporaryDirectory() as folder, server_running(
        [*WITHOUT_RIGHTS, sys.executable, "serve.py"], ports[1:], "/kv/readyz", environment
    ) as pid, nginx.running(program, Path(folder), ports[0], ports[1:]):  # fmt: skip
        yield Site(ports[0], [pid])


async def visitor(port: int, number: int, seen: Seen, until_s: float, *, comes_back: bool) -> None:
    """Move the sequence length; where the connection breaks, open the page again, or count it as lost."""
    page, chance = PAGES[number % len(PAGES)], random.Random(number)
    cookie = attackers.replica_cookie(number)
    while time.monotonic() < until_s:
        try:
            async with connect(
                f"ws://{HOST}/kv/_stcore/stream", host="127.0.0.1", port=port, max_size=None, compression=None,
                additional_headers={"Cookie": cookie}, open_timeout=ANSWER_S,
            ) as connection:  # fmt: skip
                await moves(connection, page, chance, number, seen, until_s)
        except Exception as error:
            if not comes_back:
                seen.lost.append(f"{type(error).__name__}: {error}"[:100])
                return
            await asyncio.sleep(0.5)  # a browser tries again


async def moves(
    connection: ClientConnection, page: str, chance: random.Random, number: int, seen: Seen, until_s: float
) -> None:
    states, tokens, part = shown((await run(connection, page, WidgetStates()))[1])
    seen.pages_s.setdefault(number, []).append(time.monotonic())
    while time.monotonic() < until_s:
        await asyncio.sleep(chance.uniform(0.8, 1.2) * EVERY_S)
        tokens.double_value = chance.choice(STOPS)
        taken_s, _ = await run(connection, page, states, part)
        seen.moved_ms.append(1000 * taken_s)
        seen.pages_s[number].append(time.monotonic())


async def under(attack: str, where: Site, seconds: float) -> tuple[Seen, float]:
    """What visitors see while the attack goes on, and the most memory."""
    seen, until_s = Seen(), time.monotonic() + seconds
    visitors = [asyncio.create_task(visitor(where.port, n, seen, until_s, comes_back=False)) for n in range(VISITORS)]
    attacking = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.attackers", attack, str(where.port), str(seconds)
    )
    most_mb = where.memory_mb()
    while not all(task.done() for task in visitors):
        await asyncio.sleep(0.5)
        most_mb = max(most_mb, where.memory_mb())
    await attacking.wait()
    return seen, most_mb


async def lost_replica(where: Site, sent: signal.Signals, seconds: float) -> tuple[float, int]:
    """Seconds until every visitor has a page again after a signal to a replica, and how many waited for it."""
    seen, until_s = Seen(), time.monotonic() + seconds
    visitors = [asyncio.create_task(visitor(where.port, n, seen, until_s, comes_back=True)) for n in range(VISITORS)]
    await asyncio.sleep(seconds / 3)
    victim = where.replicas[0]
    hit_s = time.monotonic()
    os.kill(victim, sent)
    await asyncio.gather(*visitors)
    away_s = [
        next((page_s for page_s in pages_s if page_s > hit_s), math.inf) - hit_s for pages_s in seen.pages_s.values()
    ]
    return max(away_s), sum(each > 2 * EVERY_S for each in away_s)


def report(name: str, seen: Seen, before_mb: float, most_mb: float, after_mb: float) -> bool:
    p95 = statistics.quantiles(seen.moved_ms, n=20)[18] if len(seen.moved_ms) > 20 else float("inf")
    median = statistics.median(seen.moved_ms) if seen.moved_ms else float("inf")
    print(
        f"{name:<22} {len(seen.moved_ms):>6} {median:>8.0f} {p95:>8.0f} {len(seen.lost):>6} "
        f"{before_mb:>8.0f} {most_mb:>8.0f} {after_mb:>8.0f}",
        flush=True,
    )  # fmt: skip
    for text in sorted(set(seen.lost)):
        print("  ", text)
    return p95 < P95_MS and not seen.lost


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("attacks", nargs="*", help=f"of {', '.join(attackers.ATTACKS)}; all without any")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--rest", type=float, default=60, help="before memory is looked at again")
    chosen = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (8192, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    good = True
    with site() as where:
        print(f"{'attack':<22} {'moves':>6} {'median':>8} {'p95 ms':>8} {'lost':>6} {'MB':>8} {'most':>8} {'after':>8}")
        for name in chosen.attacks or attackers.ATTACKS:
            before_mb = where.memory_mb()
            seen, most_mb = asyncio.run(under(name, where, chosen.seconds))
            time.sleep(chosen.rest)
            good = report(name, seen, before_mb, most_mb, where.memory_mb()) and good
        for sent in () if chosen.attacks else (signal.SIGSTOP, signal.SIGKILL):
            back_s, waited = asyncio.run(lost_replica(where, sent, 30))
            print(f"{sent.name} of a replica: every visitor has a page after {back_s:.1f} s ({waited} of them waited)")
            good = good and back_s <= BACK_S
    raise SystemExit(0 if good else 1)


if __name__ == "__main__":
    main()
