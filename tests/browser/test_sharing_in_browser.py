"""Taking things along: files of a chart and of tables, a copied link, a chart in the page of another site."""

import http.server
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page, expect

from explorer import prose, share
from kvmodel import __version__
from kvmodel.charts import pictures
from kvmodel.inputs import addresses
from kvmodel.inputs.case import Case
from kvmodel.report import table_files
from tests.report.test_table_files import read_csv, read_markdown

expect.set_options(timeout=30_000)  # the machine may be busy
ROOT = Path(__file__).resolve().parents[2]
TABLE = "[data-testid=stMarkdownContainer] > table"
CHART = ".js-plotly-plot .main-svg"
FIRST_CHART_MS = 90_000  # of a cold app in a cold browser on a busy machine
CASE = Case(model="llama-2-7b", tokens=3000)
EXPORT, TABLES, COPY = (
    prose.sections_in("en", "share")[name].splitlines()[0] for name in ("export", "tables", "copy_link")
)


@pytest.fixture
def export_menu(page: Page) -> Locator:
    """The open menu of the roofline."""
    page.goto(f"/roofline?{urlencode(addresses.query(CASE))}")
    expect(page.locator(CHART).first).to_be_visible(timeout=FIRST_CHART_MS)
    page.get_by_role("button", name=EXPORT).first.click()
    menu = page.get_by_test_id("stPopoverBody")
    expect(menu.get_by_test_id("stDataFrame")).to_be_visible()
    return menu


def downloaded(menu: Locator, button: str) -> bytes:
    with menu.page.expect_download() as caught:
        menu.get_by_role("button", name=button, exact=True).click()
    return Path(caught.value.path()).read_bytes()


def test_a_charts_files_are_those_of_the_shell(export_menu: Locator, tmp_path: Path) -> None:
    file = tmp_path / "roofline.csv"
    given = ("--model", CASE.model, "--tokens", str(CASE.tokens))
    subprocess.run(
        [sys.executable, "-m", "kvmodel", "chart", "roofline", *given, "-o", str(file)], cwd=ROOT, check=True,
        capture_output=True,
    )  # fmt: skip
    assert downloaded(export_menu, "CSV") == file.read_bytes()
    note = downloaded(export_menu, "Markdown").decode()
    assert note.startswith("## Llama 2 7B on ")
    assert f"tokens={CASE.tokens}" in note
    if pictures.available():
        drawn = downloaded(export_menu, "SVG")
        assert drawn.startswith(b"<svg ")
        assert f"kvmodel {__version__}".encode() in drawn


def test_the_table_of_a_chart_scrolls_in_its_own_frame_on_a_phone(page: Page, export_menu: Locator) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    expect(export_menu).to_be_visible()
    wider_by = export_menu.evaluate("menu => menu.scrollWidth - menu.clientWidth")
    assert wider_by <= 0
    page.wait_for_timeout(500)  # until what scrolls can be reached by keyboard
    found = Axe().run(page).response["violations"]
    assert [rule["id"] for rule in found] == []


def test_tables_are_taken_along(page: Page) -> None:
    page.goto(f"/?{urlencode(addresses.query(CASE))}")
    page.get_by_role("button", name=TABLES).click()
    menu = page.get_by_test_id("stPopoverBody")
    written = read_csv(downloaded(menu, "prices.csv").decode())
    assert written[0][0] == "strategy"
    assert read_markdown(downloaded(menu, "prices.md").decode()) == written
    shown = page.locator(TABLE).first.locator("tbody tr").first
    assert [text.translate(table_files.UNSEEN) for text in shown.locator("td").all_inner_texts()] == written[1]


def test_a_copied_link_opens_the_same_numbers(page: Page) -> None:
    page.goto("/crossover?view=copy-rate&model=llama-2-7b&tokens=3000&survival=0.25")
    expect(page.locator(CHART).first).to_be_visible(timeout=FIRST_CHART_MS)
    prices = first_table(page)
    page.get_by_role("button", name=COPY).click()
    link = page.get_by_test_id("stPopoverBody").locator("code").inner_text()
    other = page.context.new_page()
    other.goto("".join(link.split()))
    assert first_table(other) == prices
    assert other.url.startswith(page.url.partition("?")[0])
    assert "view=copy-rate" in other.url


def first_table(page: Page) -> list[str]:
    table = page.locator(TABLE).first
    expect(table).to_be_visible(timeout=FIRST_CHART_MS)
    return table.locator("td").all_inner_texts()


@pytest.fixture
def other_site(app_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A page of another origin with a chart in a frame, as a wiki has it."""
    monkeypatch.setattr(share, "app_address", lambda: app_url)
    body = f"<!DOCTYPE html><title>Wiki</title>{share.embed_code('roofline', CASE)}".encode()

    class Wiki(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Wiki)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


def test_a_chart_shows_in_the_page_of_another_site(page: Page, other_site: str, foreign_requests: list[str]) -> None:
    page.goto(other_site)
    frame = page.frame_locator("iframe")
    expect(frame.locator(CHART).first).to_be_visible(timeout=FIRST_CHART_MS)
    expect(frame.get_by_test_id("stCaptionContainer")).to_contain_text("tokens 3000")
    expect(frame.get_by_test_id("stSidebar")).to_have_count(0)
    assert foreign_requests == []
