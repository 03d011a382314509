"""Tables reach Streamlit as Arrow; nothing that a page shows has pandas imported for it."""

import subprocess
import sys

import pyarrow
from hypothesis import given
from hypothesis import strategies as st

from explorer import arrow_tables
from explorer.frame import PAGES
from tests.helpers.visit import ROOT

OPENED = """
import sys
from streamlit.testing.v1 import AppTest
at = AppTest.from_file("app.py", default_timeout=60).run()
for page in {pages!r}:
    at.switch_page(page).run()
    assert not at.exception, page
print("pandas" in sys.modules, len(at.get("table")))
"""


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_a_column_holds_its_cells(cells):
    column = arrow_tables.texts(cells)
    column.validate(full=True)
    assert column.to_pylist() == cells
    assert column.type == pyarrow.string()


def test_pages_come_without_pandas():
    """In a process of its own: the tests read tables as pandas' frames. The last page has tables."""
    pages = [*list(PAGES.values())[1:], PAGES["scenarios"]]
    done = subprocess.run(
        [sys.executable, "-c", OPENED.format(pages=pages)], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]
    imported, tables = done.stdout.split()
    assert (imported, int(tables) > 0) == ("False", True)
