"""What tests that start programs ask of the machine they run on."""

import os
import socket
from typing import NoReturn

import pytest


def missing(what: str) -> NoReturn:
    """Skip, or fail where KVMODEL_REQUIRE_ALL says that nothing may be left out."""
    if os.environ.get("KVMODEL_REQUIRE_ALL"):
        pytest.fail(what)
    pytest.skip(what)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
