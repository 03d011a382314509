"""A server of the app on free ports, for as long as a measurement takes."""

import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
START_S, STOP_S = 60, 20


@contextmanager
def running(
    command: Sequence[str], ports: Sequence[int], ready: str, environment: Mapping[str, str] | None = None
) -> Iterator[int]:
    """The process id of a command, once `ready` is there on all its ports; it ends with the block."""
    silent = subprocess.DEVNULL
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=silent, stderr=silent)
    try:
        for port in ports:
            wait_for(f"http://127.0.0.1:{port}{ready}")
        yield process.pid
    finally:
        process.terminate()
        process.wait(STOP_S)


def wait_for(url: str) -> None:
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        with suppress(OSError):
            urllib.request.urlopen(url, timeout=1).close()
            return
        time.sleep(0.25)
    raise SystemExit(f"nothing answers at {url}")


def free_ports(number: int) -> range:
    """Ports that follow each other."""
    while True:
        with ExitStack() as probes:
            first = probes.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1]
            with suppress(OSError, OverflowError):
                for port in range(first + 1, first + number):
                    probes.enter_context(socket.create_server(("127.0.0.1", port)))
                return range(first, first + number)
