"""Running replicas, stopped at the end, and nginx."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.helpers.machine import free_port, missing
from tests.helpers.replicas import ROOT, Replica, wait_until_ready

Start = Callable[..., Replica]


@pytest.fixture(scope="session")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Starts replicas that are stopped at the end: settings without their prefix, in lower case."""
    running: list[Replica] = []

    def start_one(*, root: Path = ROOT, command: list[str] | None = None, **settings: str) -> Replica:
        port = int(settings.pop("port", free_port()))
        named = {f"KV_EXPLORER_{name.upper()}": value for name, value in settings.items()}
        environment = os.environ | named | {"KV_EXPLORER_PORT": str(port), "PYTHONDONTWRITEBYTECODE": "1"}
        log = tmp_path_factory.mktemp("replica") / "log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                command or [sys.executable, "serve.py"], cwd=root, env=environment, stdin=subprocess.DEVNULL,
                stdout=output, stderr=output,
            )  # fmt: skip
        path = settings.get("base_path", "")
        replica = Replica(process, port, log, f"/{path}" if path else "")
        running.append(replica)
        wait_until_ready(replica)
        return replica

    yield start_one
    for replica in running:
        replica.stop()


@pytest.fixture(scope="session")
def replica(start: Start) -> Replica:
    """One server for the tests that leave it as it was."""
    return start()


@pytest.fixture(scope="session")
def nginx() -> str:
    found = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    return found or missing("no nginx on this machine: apt-get install nginx")
