"""What tests that start programs ask of the machine they run on."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn, TypeVar

import pytest

from benchmarks.server import free_ports

T = TypeVar("T")


def missing(what: str) -> NoReturn:
    """Skip, or fail where KVMODEL_REQUIRE_ALL says that nothing may be left out."""
    if os.environ.get("KVMODEL_REQUIRE_ALL"):
        pytest.fail(what)
    pytest.skip(what)


def free_port() -> int:
    return free_ports(1)[0]


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
