"""Scrapes to try the diagnosis with: simulated servers under the names of vLLM 0.33, each scraped twice.

`fitting/scrapes.py` makes them; the first line of each file says what was simulated.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kvmodel.files import DATA

FOLDER = DATA / "scrapes"
WHEN_S = {"before": 300, "after": 900}  # after the server's start


@dataclass(frozen=True)
class Sample:
    """A server as it was simulated: Llama 3.1 8B on one GPU, chat."""

    gpu: str
    requests_per_s: float
    max_num_seqs: int = 256


SAMPLES = {
    "healthy": Sample("l40s", 3),
    "pressure": Sample("l40s", 3.6),
    "queueing": Sample("h100-sxm5-80gb", 9, max_num_seqs=64),
}
SECONDS = WHEN_S["after"] - WHEN_S["before"]


def path(name: str, when: str) -> Path:
    """The file of a sample "before" or "after"."""
    return FOLDER / f"{name}_{when}.prom"


def read(name: str) -> tuple[str, str]:
    """Both scrapes of a sample, the earlier first."""
    before, after = (path(name, when).read_text(encoding="utf-8") for when in WHEN_S)
    return before, after
