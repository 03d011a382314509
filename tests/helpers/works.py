"""Work for another process to do: it imports this module by its name."""

from __future__ import annotations

import os
import signal
import sys
import time

from explorer import aside
from kvmodel.errors import CaseError
from kvmodel.words import say


def sleeping(text: str) -> str:
    time.sleep(60)
    return text


def greedy(text: str) -> int:
    return len(bytearray(4 * aside.MOST_BYTES))


def here(text: str) -> bool:
    return text.startswith("x") and "pytest" in sys.modules


def said(text: str) -> str:
    return say("more than 0")


def refusing(text: str) -> str:
    raise CaseError("field: given; allowed")


def failing(text: str) -> str:
    raise KeyError(text)


def crashing(text: str) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def leaving(text: str) -> None:
    sys.exit(text)
