"""What tests that start programs ask of the machine they run on."""

import itertools
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn, TypeVar

import pytest

T = TypeVar("T")
# Of each process of a run (pytest-xdist counts them), below those that the system gives to clients on Linux and macOS.
PORTS_OF_A_PROCESS = 5_000
FIRST_PORT = 10_000 + PORTS_OF_A_PROCESS * int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
untried = itertools.cycle(range(FIRST_PORT, FIRST_PORT + PORTS_OF_A_PROCESS))


def missing(what: str) -> NoReturn:
    """Skip, or fail where KVMODEL_REQUIRE_ALL says that nothing may be left out."""
    if os.environ.get("KVMODEL_REQUIRE_ALL"):
        pytest.fail(what)
    pytest.skip(what)


def is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def free_port() -> int:
    """One that no other test takes, at once or later."""
    return next(filter(is_free, untried))


def free_ports(number: int) -> range:
    """Ports that follow each other."""
    first, *others = (free_port() for _ in range(number))
    return range(first, first + number) if others == [*range(first + 1, first + number)] else free_ports(number)


def runs(pid: int) -> bool:
    """Whether a process is there that has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for(condition: Callable[[], T], seconds: float = 30) -> T:
    """What the condition gives as soon as it holds."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return found
