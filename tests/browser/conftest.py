"""A running app and a Chromium to look at it with; both bounded in time, both on this machine only."""

import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Request, sync_playwright

from tests.helpers.machine import free_port, missing

ROOT = Path(__file__).resolve().parents[2]
CHROMIUMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
CHROMIUM_OPTIONS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]
LOCAL_HOSTS = ("127.0.0.1", "localhost")
START_SECONDS = 60
STOP_SECONDS = 10
PAGE_MILLISECONDS = 30_000


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)


def is_healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/_stcore/health", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def stop(server: "subprocess.Popen[bytes]") -> None:
    server.terminate()
    try:
        server.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait(STOP_SECONDS)


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of a Chromium installed on this machine."""
    found = next(filter(None, map(shutil.which, CHROMIUMS)), None)
    return found or missing(f"no browser on PATH: install one of {', '.join(CHROMIUMS)}")


@pytest.fixture(scope="session")
def app_url(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the app, started for this session; asked for after a browser was found."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    log = tmp_path_factory.mktemp("app") / "server.log"
    command = [
        sys.executable,
        "-m",
        "streamlit",
        "run",
        "app.py",
        "--server.address=127.0.0.1",
        f"--server.port={port}",
    ]
    with log.open("wb") as output:
        server = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        deadline = time.monotonic() + START_SECONDS
        while not is_healthy(url):
            if server.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"the app did not start:\n{log.read_text()}")
            time.sleep(0.1)
        yield url
    finally:
        stop(server)


@pytest.fixture(scope="session")
def browser(chromium: str) -> Iterator[Browser]:
    try:
        playwright = sync_playwright().start()
    except Exception as error:  # Playwright names no narrower one
        missing(f"Playwright's driver does not start ({error}): on Debian, is libatomic1 installed?")
    running = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_OPTIONS)
    yield running
    running.close()
    playwright.stop()


@pytest.fixture
def foreign_requests() -> list[str]:
    """The addresses outside this machine that `page` has asked for; a test may assert that there are none."""
    return []


@pytest.fixture(scope="session")
def warm_context(browser: Browser, app_url: str) -> Iterator[BrowserContext]:
    """One profile for all tests, as a fresh one compiles Streamlit's and plotly's scripts anew for every page.

    It asks for little motion: without a graphics card, placeholders that shimmer take more of the CPU than the page.
    """
    context = browser.new_context(base_url=app_url, viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    context.set_default_timeout(PAGE_MILLISECONDS)
    yield context
    context.close()


@pytest.fixture
def context(warm_context: BrowserContext, foreign_requests: list[str]) -> Iterator[BrowserContext]:
    """A profile without cookies or storage, whose relative addresses are those of the app: `page.goto("/")`."""

    def note(url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme in ("http", "https", "ws", "wss") and parts.hostname not in LOCAL_HOSTS:
            foreign_requests.append(url)

    def note_request(request: Request) -> None:
        note(request.url)

    def note_sockets(page: Page) -> None:
        page.on("websocket", lambda websocket: note(websocket.url))

    warm_context.on("request", note_request)
    warm_context.on("page", note_sockets)
    yield warm_context
    warm_context.remove_listener("request", note_request)
    warm_context.remove_listener("page", note_sockets)
    for page in warm_context.pages:
        if page.url.startswith("http"):
            page.evaluate("() => { localStorage.clear(); sessionStorage.clear(); }")
        page.close()
    warm_context.clear_cookies()


@pytest.fixture
def page(context: BrowserContext) -> Page:
    return context.new_page()
