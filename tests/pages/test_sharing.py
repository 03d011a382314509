"""Links, notices, the export menu and the page of one chart."""

import ast
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pandas as pd
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from explorer import page_keys as page_links
from explorer import page_tables, share
from explorer.frame import PAGES
from kvmodel import __version__, charts
from kvmodel.charts import chart_files
from kvmodel.files import as_csv
from kvmodel.inputs import addresses
from kvmodel.inputs.case import DEFAULTS, Case
from kvmodel.report import table_files
from tests.helpers import visit
from tests.report.test_table_files import read_csv, read_markdown

ROOT = Path(__file__).resolve().parents[2]
COLOUR = re.compile(r":gray\[(.*?)\]")


def opened(file: str, query: dict[str, str]) -> AppTest:
    return visit.visited(file, **query).run()


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What the download buttons of the last run make when they are pressed, by name; pictures are left out."""
    found: dict[str, str] = {}

    def button(label: str, data: Any, file_name: str, *_: Any, **__: Any) -> None:
        if file_name.endswith((".csv", ".md")):
            found[file_name] = data() if callable(data) else data

    monkeypatch.setattr(st, "download_button", button)
    return found


def with_menu(file: str, key: str, query: dict[str, str]) -> AppTest:
    """A page with one of its menus open."""
    at = opened(file, query)
    at.session_state[key] = True
    at.run()
    assert not at.exception
    return at


def test_a_link_opens_the_same_numbers() -> None:
    case = Case(model="llama-2-7b", gpu="h100-sxm5-80gb", tokens=6000, copy_gb_per_s=20.5, survival=0.25)
    at = opened("pages/roofline.py", addresses.query(case))
    assert not at.info
    assert not at.warning
    assert {field: visit.inputs(at)[field] for field in DEFAULTS} == vars(case)


@pytest.mark.parametrize("file", ["app.py", "pages/kv_size.py", "pages/crossover.py"])
def test_unknown_keys_and_other_formats_open_with_a_notice(file: str) -> None:
    query = {"tokens": "5000", "sequence": "7", "colour": "red", "<b>x": "1", "last": "9", "v": "2"}
    at = opened(file, query)
    assert not at.exception
    said = [info.value for info in at.info]
    assert "format 2, and this version reads format 1" in said[0]
    assert r"sequence, colour, \<b\>x, …" in said[1]
    assert visit.inputs(at)["tokens"] == 5000, "what is known still counts"


def test_a_link_without_a_format_opens_without_a_notice() -> None:
    at = opened("pages/kv_size.py", {"tokens": "5000", "sources": "true", "embed": "true"})
    assert not at.info


def test_every_key_that_a_page_keeps_in_the_url_is_known() -> None:
    """Otherwise a page's own link would open with a notice."""
    bound = set()
    for path in (*(ROOT / "explorer").rglob("*.py"), *(ROOT / "pages").glob("*.py"), ROOT / "app.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                given = {keyword.arg: keyword.value for keyword in node.keywords}
                if "bind" in given and isinstance(given.get("key"), ast.Constant):
                    bound.add(given["key"].value)  # type: ignore[attr-defined]
    unknown = bound - {*page_links.PAGE_KEYS, *DEFAULTS}
    assert not unknown, f"add them to PAGE_KEYS in explorer/page_keys.py: {sorted(unknown)}"


def test_the_copied_link_holds_every_input_and_opens_the_page() -> None:
    at = opened("pages/roofline.py", {"tokens": "5000"})
    at.session_state["copy_link"] = True
    at.run()
    shown = [code.value for code in at.code if "v=1" in code.value]
    assert urlsplit(shown[0]).path == "/roofline"
    assert addresses.case_of(parse_qsl(urlsplit(shown[0]).query)) == Case(tokens=5000)


def test_a_closed_menu_has_no_content() -> None:
    at = opened("pages/roofline.py", {})
    assert not at.get("download_button")
    assert not [code for code in at.code if "iframe" in code.value]


def test_an_open_menu_offers_every_kind_of_file(monkeypatch: pytest.MonkeyPatch) -> None:
    for pictures, offered in ((True, "SVG PNG CSV HTML Markdown"), (False, "CSV HTML Markdown")):
        monkeypatch.setattr(share, "has_pictures", lambda pictures=pictures: pictures)
        at = opened("pages/roofline.py", {"tokens": "5000"})
        at.session_state["export-roofline"] = True
        at.run()
        assert not at.exception
        assert [button.proto.label for button in at.get("download_button")] == offered.split()
        framed = next(code.value for code in at.code if "iframe" in code.value)
        assert addresses.case_of(parse_qsl(urlsplit(source_of(framed)).query.partition("&chart=")[0])) == Case(
            tokens=5000
        )
        assert "chart=roofline" in framed


def source_of(framed: str) -> str:
    """The address of an iframe as a browser reads it: some names of inputs begin like those of characters."""
    found: list[str] = []

    class Frames(HTMLParser):
        def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
            found.append(dict(attributes)["src"] or "")

    Frames().feed(framed)
    return found[0]


def test_what_a_page_shows_is_what_it_exports() -> None:
    """With other models beside the chosen one, and on a chart of every name that pages use."""
    at = opened("pages/roofline.py", {"tokens": "5000"})
    spec = json.loads(at.get("plotly_chart")[0].proto.spec)
    drawn = charts.draw("roofline", Case(tokens=5000), palette=charts.STREAMLIT)
    assert spec["data"] == json.loads(drawn.to_json())["data"]
    assert chart_files.chart_file("roofline", Case(tokens=5000), ".csv") == as_csv(
        charts.points("roofline", Case(tokens=5000))
    )


TABLES = {
    "home": {"sources": "true"},
    "path": {"step": "10", "answers": "remedy-skip"},
    "kv_size": {},
    "crossover": {},
    "scenarios": {},
    "capacity": {},
    "pressure": {"requests": "100"},
    "diagnose": {"sample": "pressure"},
    "evidence": {},
    "claims": {},
}


@pytest.mark.parametrize("page", TABLES)
def test_every_table_of_a_page_is_taken_along(page: str, files: dict[str, str]) -> None:
    at = with_menu(PAGES[page], "page-tables", TABLES[page])
    shown = visit.tables(at)
    assert shown
    tables = [name.removesuffix(".md") for name in files if name.endswith(".md") and f"{name[:-3]}.csv" in files]
    assert len(tables) == len(shown), "a CSV and a Markdown file each"
    for name, table in zip(tables, shown, strict=True):
        rows = [list(table.columns), *table.to_numpy().tolist()]
        assert read_csv(files[f"{name}.csv"]) == [[table_files.plain_text(cell) for cell in row] for row in rows]
        cells = [[COLOUR.sub(r"\1", cell.translate(table_files.UNSEEN)) for cell in row] for row in rows]
        assert read_markdown(files[f"{name}.md"]) == cells


def test_a_cell_without_markup_is_in_the_csv_as_it_is_shown(files: dict[str, str]) -> None:
    at = with_menu("app.py", "page-tables", {"lang": "ko"})
    (table,) = visit.tables(at)
    rows = [list(table.columns), *table.to_numpy().tolist()]
    assert read_csv(files["prices.csv"]) == [[cell.translate(table_files.UNSEEN) for cell in row] for row in rows]


def test_a_log_that_was_pasted_is_no_formula_in_a_spreadsheet(files: dict[str, str]) -> None:
    at = opened("pages/capacity.py", {})
    log = "INFO [gpu_worker.py] Available KV cache memory: 56.60 GiB\nmodel='=HYPERLINK(1)', dtype=torch.bfloat16"
    at.session_state["log_text"], at.session_state["page-tables"] = log, True
    at.run()
    assert not at.exception
    cells = [cell for row in read_csv(files["log-figures.csv"]) for cell in row]
    assert not [cell for cell in cells if "HYPERLINK" in cell], "that is no model's name"
    assert not [cell for cell in cells if cell.startswith(("=", "+", "@"))]


def test_a_page_without_tables_has_no_menu_of_them() -> None:
    at = with_menu("pages/roofline.py", "page-tables", {})
    assert not at.get("download_button")


CHARTS = [
    ("home", {}, "crossover"),
    ("home", {"plain": "true"}, "crossover"),
    ("kv_size", {"compare": "llama-2-7b"}, "kv-size"),
    ("roofline", {"tokens": "5000"}, "roofline"),
    ("crossover", {"view": "copy-rate"}, "crossover-copy-rate"),
    ("crossover", {"lang": "ko"}, "parts"),
    ("scenarios", {}, "scenarios"),
    ("capacity", {}, "capacity"),
    ("pressure", {"requests": "100"}, "pressure"),
    ("evidence", {}, "evidence"),
    ("path", {"step": "3", "answers": "copy-skip"}, "path-copy"),
    ("claims", {"claim": "A10"}, "claim-A10"),
    ("diagnose", {"sample": "pressure"}, "bands"),
]


@pytest.mark.parametrize(("page", "query", "key"), CHARTS)
def test_the_table_of_a_chart_is_what_its_csv_has(
    page: str, query: dict[str, str], key: str, files: dict[str, str]
) -> None:
    at = with_menu(PAGES[page], f"export-{key}", query)
    header, *rows = read_csv(next(text for name, text in files.items() if name.endswith(".csv")))
    (table,) = (element.value for element in at.dataframe)
    assert list(table.columns) == header
    cells = [[None if pd.isna(value) else value for value in row] for row in table.to_numpy().tolist()]
    assert cells == [list(map(seen, row)) for row in rows]


def seen(cell: str) -> float | str | None:
    """A cell of a CSV as the table of a chart has it: numbers to four digits, whole ones with all."""
    try:
        return page_tables.rounded(float(cell))
    except ValueError:
        return cell or None


@pytest.mark.parametrize("name", charts.NAMES)
def test_every_chart_has_a_page_of_its_own(name: str) -> None:
    at = opened("pages/embed.py", {"chart": name, "embed": "true", "v": "1", "tokens": "5000"})
    assert not at.exception
    assert not at.warning
    assert not at.title
    assert not at.sidebar.children
    assert at.get("plotly_chart")[0].proto.alt == charts.alt(name, Case(tokens=5000))
    assert f"kvmodel {__version__}" in at.caption[0].value
    assert "tokens 5000" in at.caption[0].value
    assert "v=1" in at.markdown[-1].value


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ({}, "This address names no chart"),
        ({"chart": "<b>"}, "This address names no chart"),
        ({"chart": "crossover", "tokens": "x"}, "tokens: 'x' given"),
        ({"chart": "crossover", "colour": "red"}, "colour: no such input"),
        ({"chart": "crossover", "v": "2"}, "v: '2' given; allowed: 1"),
        ({"chart": "crossover", "model": "llama-3-70b", "gpu": "l4"}, "model: llama-3-70b needs"),
    ],
)
def test_an_address_that_is_wrong_gets_one_sentence(query: dict[str, str], sentence: str) -> None:
    at = opened("pages/embed.py", query)
    assert not at.exception
    assert not at.get("plotly_chart")
    assert [warning.value.replace("\\", "").startswith(sentence) for warning in at.warning] == [True]


def test_the_page_of_one_chart_is_not_in_the_navigation() -> None:
    assert "pages/embed.py" not in PAGES.values()


@pytest.mark.parametrize(
    ("url", "app"),
    [
        ("http://localhost:8501/", "http://localhost:8501"),
        ("http://localhost:8501/roofline", "http://localhost:8501"),
        ("https://kv.example.com/kv/", "https://kv.example.com/kv"),
        ("https://kv.example.com/tools/kv/crossover", "https://kv.example.com/tools/kv"),
        ("https://kv.example.com/kv/embed", "https://kv.example.com/kv"),
        (None, addresses.APP),
    ],
)
def test_the_apps_address_is_the_pages_without_its_own_path(
    url: str | None, app: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(share, "st", type("Seen", (), {"context": type("Context", (), {"url": url})}))
    assert share.app_address() == app


def test_markdown_shows_the_picture_by_address_only_where_charts_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share, "app_address", lambda: "https://kv.example.com/kv")
    monkeypatch.setattr(share, "has_pictures", lambda: True)
    monkeypatch.setattr(share, "_charts_at", [])
    assert "](<crossover.svg>)" in share.markdown("crossover", Case(), None)()
    share.serve_charts_at("/kv/charts")
    assert "](<https://kv.example.com/kv/charts/crossover.svg?v=1&model=" in share.markdown("crossover", Case(), None)()
