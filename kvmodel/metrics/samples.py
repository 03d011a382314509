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
    """A server as it was simulated: Llama 3.1 8B on one GPU, chat, or requests of one length (prompt and output).

    `others_per_s` are the requests a second of further engines beside it; one that stops does nothing from then on.
    """

    gpu: str
    requests_per_s: float
    max_num_seqs: int = 256
    lengths: tuple[int, int] | None = None
    num_blocks: int | None = None
    others_per_s: tuple[float, ...] = ()
    stops_s: float | None = None
    by_priority: bool = False

    @property
    def load(self) -> str:
        """What it served, in words for its first line."""
        lengths = "chat" if self.lengths is None else "{:,} + {:,} tokens".format(*self.lengths)
        parts = [f"{lengths} at {self.requests_per_s:g} requests/s", f"--max-num-seqs {self.max_num_seqs}"]
        parts += [f"{self.num_blocks:,} blocks"] if self.num_blocks else []
        parts += ["two priorities"] if self.by_priority else []
        parts += [f"{len(self.others_per_s)} others at {max(self.others_per_s):g}"] if self.others_per_s else []
        return ", ".join(parts + ([f"stopped at {self.stops_s:,.0f} s"] if self.stops_s else []))


SAMPLES = {
    "healthy": Sample("l40s", 3),
    "pressure": Sample("l40s", 3.6),
    "queueing": Sample("h100-sxm5-80gb", 9, max_num_seqs=64),
    "prefill": Sample("h100-sxm5-80gb", 7, lengths=(6000, 3)),
    "head": Sample("l40s", 0.02, lengths=(40_000, 45_000), num_blocks=5500),
    "stuck": Sample("l40s", 3, stops_s=290),
    "priority": Sample("l40s", 3.6, by_priority=True),
    "hot": Sample("l40s", 3.6, others_per_s=(1.0, 1.1, 0.9)),
}
SECONDS = WHEN_S["after"] - WHEN_S["before"]


def path(name: str, when: str) -> Path:
    """The file of a sample "before" or "after"."""
    return FOLDER / f"{name}_{when}.prom"


def read(name: str) -> tuple[str, str]:
    """Both scrapes of a sample, the earlier first."""
    before, after = (path(name, when).read_text(encoding="utf-8") for when in WHEN_S)
    return before, after
