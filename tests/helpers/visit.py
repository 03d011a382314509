"""A page of the app as a visitor with a link sees it."""

import os
import re
from pathlib import Path
from typing import Any

import pandas as pd
from streamlit.testing.v1 import AppTest

from explorer.controls import LAST_INPUTS
from explorer.frame import PAGES

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 120
HOME = "app.py"
CELL = re.compile(r" ((?:\\.|[^|\\])*?) (?=\|)")


def visited(file: str, **query: str | list[str]) -> AppTest:
    """The page of a file, before its first run."""
    os.chdir(ROOT)
    at = AppTest.from_file(str(ROOT / HOME), default_timeout=TIMEOUT_S)
    if file != HOME:
        at.switch_page(file)
    for name, value in query.items():
        at.query_params[name] = value
    return at


def opened(page: str, **query: str | list[str]) -> AppTest:
    """A page by its name, run without an exception."""
    at = visited(PAGES[page], **query).run()
    assert not at.exception
    return at


def components(at: AppTest, name: str) -> list[Any]:
    """The components of our own of one name that a page shows."""
    return [found for found in at.get("bidi_component") if found.proto.component_name == name]


def inputs(at: AppTest) -> dict[str, Any]:
    """What the controls hold, shown or not, by Case field."""
    return dict(at.session_state[LAST_INPUTS])


def tables(at: AppTest) -> list[pd.DataFrame]:
    """The tables to read of a page, their cells as Markdown."""
    return [frame_of(element.value) for element in at.markdown if element.value.startswith("| ")]


def frame_of(table: str) -> pd.DataFrame:
    """A table of GitHub's Markdown, markup of its cells as it stands."""
    header, rule, *rows = [[cell.replace(r"\|", "|") for cell in CELL.findall(line)] for line in table.split("\n")]
    assert set(rule) <= {"---", "---:"}
    return pd.DataFrame(rows, columns=header)


def cells(table: pd.DataFrame) -> list[list[str]]:
    """Rows of a table as they are read: what keeps a number and its unit on one line is a space."""
    return [[cell.replace("\N{NO-BREAK SPACE}", " ") for cell in row] for row in table.values.tolist()]
