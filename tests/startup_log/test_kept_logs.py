"""What is said of start-up logs is as it was last read: each whole, without each of its lines, and with other numbers.

After a change that is meant, write `data/kept/logs.json` anew and read what differs:

    python -m tests.startup_log.test_kept_logs
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvmodel.errors import CaseError
from kvmodel.hf import config_file
from kvmodel.inputs.case import Case
from kvmodel.startup_log import log_answer
from kvmodel.texts import startup_log as texts
from tests.helpers import kept
from tests.startup_log import log_texts

FIELD = Path(__file__).parent / "field"
LOGS = {path.stem: path.read_text("utf-8") for path in sorted(FIELD.glob("*.log"))} | {
    name: text for name, text in vars(log_texts).items() if name.isupper() and name != "ENGINE"
}
REFUSAL = (
    "ValueError: To serve at least one request with the models's max seq len ({length}), ({needed} GiB KV cache is "
    "needed, which is larger than the available KV cache memory (0.59 GiB). Based on the available memory, the "
    "estimated maximum model length is 12080.\n"
)
LOGS |= {f"12-refusal of {needed} GiB": REFUSAL.format(length=221000, needed=needed) for needed in (4.94, 5.14, 20.24)}
NUMBER = re.compile(r"(?<![\w.:])\d[\d,]*(?:\.\d+)?(?=\s?(?:GiB|GB|MiB|tokens|x\b|blocks|,|\)|$))")
MOST_NUMBERS = 8  # of a log
OTHER = {"model": "llama-3.1-8b"}
OPTIONS: dict[str, dict[str, Any]] = {
    "pp 2": {"pp": 2}, "dcp 2": {"dcp": 2}, "of another model": OTHER, "another at dcp 2": OTHER | {"dcp": 2},
    "another at pp 2": OTHER | {"pp": 2}, "another in parts": OTHER | {"pp": 3, "pp_partition": "20,8,4"},
}  # fmt: skip


def explained(text: str, **given: Any) -> dict[str, Any]:
    try:
        return log_answer.explain_text(text, Case(), given)
    except CaseError as error:
        return {"refused": str(error), "findings": []}


def marks(text: str, **given: Any) -> list[str]:
    """Each figure with whether it agrees and what was expected; a refusal and what mends it."""
    found = explained(text, **given)
    said = [f"{one['figure']}: {one['agrees']}, {one['expected']}" for one in found["findings"]]
    return [*said, *(str(found[name]) for name in ("refused", "mend") if found.get(name))]


def changed(text: str) -> Iterator[tuple[str, str]]:
    """The log without each line, and with each of its first numbers a half more."""
    rows = text.splitlines(keepends=True)
    for at, row in enumerate(rows if len(rows) > 1 else ()):
        yield f"without line {at}", text.replace(row, "", 1)
    for match in list(NUMBER.finditer(text))[:MOST_NUMBERS]:
        number = float(match[0].replace(",", "")) * 1.5
        yield f"{match[0]} at {match.start()}", f"{text[: match.start()]}{number:g}{text[match.end() :]}"


def of(name: str) -> dict[str, Any]:
    """Held against the model that stands beside the log, where one does."""
    text, beside = LOGS[name], sorted(FIELD.glob(f"{name[:2]}-*.json"))
    own = {"model": config_file.read_file(str(beside[0])).text} if beside else {}
    whole, found = marks(text, **own), explained(text, **own)
    said = [] if "consistent" not in found else texts.explain_log(found).splitlines()
    others = {about: marks(one, **own) for about, one in changed(text)} | {
        about: marks(text, **own | given) for about, given in OPTIONS.items()
    }
    differs = {
        about: [line for line in lines if line not in whole] for about, lines in others.items() if lines != whole
    }
    return dict(kept.as_json({"said": said, "marks": whole, **differs}))


@pytest.fixture(scope="module")
def read() -> dict[str, Any]:
    return kept.read("logs")


@pytest.mark.parametrize("name", LOGS)
def test_a_log_is_explained_as_it_was_read(name: str, read: dict[str, Any]) -> None:
    assert of(name) == read[name]


if __name__ == "__main__":
    kept.write("logs", {name: of(name) for name in LOGS})
