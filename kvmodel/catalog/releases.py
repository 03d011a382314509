"""What exists in which engine release: flags, metrics, defaults, and where a preempted request's KV goes.

Source: data/releases.toml, read from the engines' source distributions; every row names its own.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from kvmodel import catalog
from kvmodel.errors import LONGEST_ECHO, CaseError, bad_value
from kvmodel.words import say

KINDS = ("flag", "metric")
VERSION = re.compile(r"v?(\d+(?:\.\d+)*)")


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A name in one period of an engine: from `since` (or from where it was `seen`) to before `gone`."""

    kind: str
    engine: str
    name: str
    since: str | None = None
    seen: str | None = None
    gone: str | None = None
    default: str | None = None
    note: str | None = None
    source: str

    def covers(self, version: str) -> bool:
        """Whether a version lies in the period. Raises CaseError where it is no version."""
        begins = self.since or self.seen or "0"
        after = self.gone is not None and release(version) >= release(self.gone)
        return release(version) >= release(begins) and not after


@dataclass(frozen=True, kw_only=True)
class Fact:
    """A sentence about an engine, the versions it was read in, and the source."""

    text: str
    version: str
    source: str


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a preempted request's KV goes in one engine; `keeps` is dropped, gpu, host or none."""

    id: str
    label: str
    keeps: str
    victim: Fact
    goes: Fact
    resume: Fact


def release(version: str) -> tuple[int, ...]:
    """A version as numbers that compare: "v0.11.0rc2" and "0.11" are both (0, 11). Raises CaseError.

    What follows the numbers is left out: a candidate has what its release has.
    """
    match = VERSION.match(version.strip())
    if match is None:
        raise bad_value("version", version, say("numbers with dots, such as 0.11.0"))
    numbers = [int(part) for part in match.group(1).split(".")]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


@functools.cache
def entries() -> tuple[Entry, ...]:
    """All flags and metrics, in the order of the file."""
    table = catalog.table("releases")
    return tuple(Entry(kind=kind, **row) for kind in KINDS for row in table[kind])


@functools.cache
def places() -> tuple[Place, ...]:
    """Where the KV goes, an engine each."""
    rows = catalog.table("releases")["place"]
    return tuple(
        Place(
            id=row_id,
            label=row["label"],
            keeps=row["keeps"],
            victim=Fact(**row["victim"]),
            goes=Fact(**row["goes"]),
            resume=Fact(**row["resume"]),
        )
        for row_id, row in rows.items()
    )


def periods(name: str, engine: str) -> tuple[Entry, ...]:
    """All periods of a name. Raises CaseError where the table does not know it."""
    rows = tuple(entry for entry in entries() if (entry.engine, entry.name) == (engine, name))
    if not rows:
        engines = ", ".join(sorted({entry.engine for entry in entries()}))
        raise CaseError(
            say(
                "name: {name!r} of {engine!r} given; allowed: a flag or metric of releases.toml, of {known}",
                name=name[:LONGEST_ECHO],
                engine=engine[:LONGEST_ECHO],
                known=engines,
            )
        )
    return rows


def exists(name: str, engine: str, version: str) -> bool:
    """Whether a flag or a metric exists in a version of an engine. Raises CaseError for an unknown name or version.

    Of a thing that was only seen, earlier versions are not known to have it: for them the answer is no.

    >>> exists("--preemption-mode", "vllm", "0.10.2"), exists("--preemption-mode", "vllm", "0.11.0")
    (True, False)
    """
    return any(entry.covers(version) for entry in periods(name, engine))


def default(name: str, engine: str, version: str) -> str | None:
    """The default of a flag in a version, as text; None where it has none or does not exist. Raises CaseError.

    >>> default("--gpu-memory-utilization", "vllm", "0.19.1"), default("--gpu-memory-utilization", "vllm", "0.33.0")
    ('0.90', '0.92')
    """
    return next((entry.default for entry in periods(name, engine) if entry.covers(version)), None)


def gone(name: str, engine: str) -> str | None:
    """The first version without a name; None while it is there. Raises CaseError."""
    return periods(name, engine)[-1].gone
