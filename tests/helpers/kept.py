"""Answers kept as files that a person can read: of each base the whole, of each change to it what then differs."""

import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kvmodel import __version__

FOLDER = Path(__file__).parents[1] / "data" / "kept"
DIGITS = 7
GONE = "(gone)"

Flat = dict[str, Any]


def flat(answer: Any, path: str = "") -> Flat:
    """Path -> value, but for None; numbers with as many digits as show a changed constant."""
    if answer is None:
        return {}
    if isinstance(answer, Mapping):
        return {key: value for name, one in answer.items() for key, value in flat(one, f"{path}.{name}").items()}
    if isinstance(answer, (list, tuple)):
        return {key: value for at, one in enumerate(answer) for key, value in flat(one, f"{path}[{at}]").items()}
    if dataclasses.is_dataclass(answer):
        return flat({one.name: getattr(answer, one.name) for one in dataclasses.fields(answer)}, path)
    if hasattr(answer, "tolist"):
        return flat(answer.tolist(), path)
    if isinstance(answer, str):
        answer = answer.replace(f"kvmodel {__version__}", "kvmodel VERSION")
    is_number = isinstance(answer, (int, float)) and not isinstance(answer, bool)
    return {path.removeprefix("."): float(f"{answer:.{DIGITS}g}") if is_number else answer}


def differing(base: Flat, other: Flat) -> Flat:
    return {path: other.get(path, GONE) for path in (*base, *other) if base.get(path, GONE) != other.get(path, GONE)}


def with_changes(answer: Callable[[Any], Any], base: Any, changes: Mapping[str, Any]) -> dict[str, Flat]:
    """The base's answer under "base", and under the name of each change what differs from it there, if anything."""
    whole = flat(answer(base))
    found = {name: differing(whole, flat(answer(one))) for name, one in changes.items()}
    return as_json({"base": whole} | {name: other for name, other in found.items() if other})


def as_json(value: Any) -> Any:
    return json.loads(json.dumps(value))


def read(name: str) -> dict[str, Any]:
    return dict(json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8")))


def write(name: str, kept: Mapping[str, Mapping[str, Flat]]) -> None:
    """A line for each value."""
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.json").write_text(
        json.dumps(kept, indent=0, ensure_ascii=False, separators=(",", ": ")) + "\n", encoding="utf-8"
    )
