"""Tables to sort hold numbers as numbers, and only they have pandas imported."""

import subprocess
import sys

import pytest

from explorer import page_tables
from explorer.frame import PAGES
from tests.helpers.visit import ROOT

OPENED = """
import sys
from streamlit.testing.v1 import AppTest
at = AppTest.from_file("app.py", default_timeout=60).run()
for page in {pages!r}:
    at.switch_page(page).run()
    assert not at.exception, page
print("pandas" in sys.modules, sum(element.value.startswith("| ") for element in at.markdown))
at = AppTest.from_file("app.py", default_timeout=60).run()
at.session_state["export-crossover"] = True
at.run()
print("pandas" in sys.modules, len(at.dataframe))
"""


def test_a_page_without_a_table_to_sort_comes_without_pandas() -> None:
    """In a process of its own: the tests import pandas themselves. The last page before the menu has tables to read."""
    pages = [*list(PAGES.values())[1:], PAGES["scenarios"]]
    done = subprocess.run(
        [sys.executable, "-c", OPENED.format(pages=pages)], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]
    without, tables, with_menu, sortable = done.stdout.split()
    assert (without, int(tables) > 0) == ("False", True)
    assert (with_menu, sortable) == ("True", "1")


@pytest.mark.parametrize(
    ("value", "shown", "in_a_file"),
    [
        (None, None, "–"), ("swap", "swap", "swap"), ("a|b", "a|b", r"a\|b"), (131072, 131072, "131,072"),
        (131072.0, 131072.0, "131,072"), (0.0123456, 0.01235, "0.01235"),
        (230912345678901.5, 2.309e14, "230,900,000,000,000"),
    ],
)  # fmt: skip
def test_a_value_of_a_table_to_sort(value: float | str | None, shown: float | str | None, in_a_file: str) -> None:
    assert page_tables.rounded(value) == shown
    assert page_tables.cell(value) == in_a_file


@pytest.mark.parametrize(
    ("column", "form"),
    [([1, 131072, None], "localized"), ([1.5, 2.309e14], "localized"), ([0, 0.5], "%.4g"), ([-2e-6, 5.0], "%.4g")],
)
def test_small_numbers_keep_their_digits(column: list[float | None], form: str) -> None:
    assert page_tables.number_format(column) == form
