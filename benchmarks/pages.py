"""Time of a page: a rerun on the server, and the first chart of a cold visit in Chromium.

    python benchmarks/pages.py [RUNS]

Reruns go through Streamlit's test client with garbage frozen as in the app, so they hold what the server does and
not the network; the browser part is left out where no Chromium is installed.
"""

import shutil
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from streamlit.testing.v1 import AppTest

from explorer.frame import PAGES

ROOT = Path(__file__).resolve().parents[1]
BROWSER_OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]


def rerun_ms(page: str, runs: int) -> list[float]:
    """Sorted times of reruns, each with another sequence length."""
    at = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
    if page != "home":
        at.switch_page(PAGES[page])
    at.run()
    times = []
    for run in range(runs):
        at.number_input(key="tokens").set_value(2048 + 16 * run)
        start = time.perf_counter()
        at.run()
        times.append(1000 * (time.perf_counter() - start))
    return sorted(times)


def first_chart_s(runs: int, chromium: str) -> list[float]:
    """Sorted times from `goto` to the first chart, a fresh profile each."""
    from playwright.sync_api import sync_playwright

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", "app.py", "--server.address=127.0.0.1", f"--server.port={port}"]
    server = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(120):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=1).close()
                break
            except OSError:
                time.sleep(0.25)
        times = []
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=BROWSER_OPTIONS)
            for _ in range(runs):
                page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
                start = time.perf_counter()
                page.goto(f"http://127.0.0.1:{port}/")
                page.wait_for_selector(".js-plotly-plot .main-svg", timeout=60_000)
                times.append(time.perf_counter() - start)
                page.context.close()
            browser.close()
        return sorted(times)
    finally:
        server.terminate()
        server.wait(10)


def main(runs: int) -> None:
    for page in PAGES:
        times = rerun_ms(page, runs)
        print(f"{page:<10} rerun: median {statistics.median(times):.1f} ms, best {times[0]:.1f} ms")
    chromium = shutil.which("chromium")
    if chromium:
        cold = first_chart_s(5, chromium)
        listed = ", ".join(f"{seconds:.1f}" for seconds in cold)
        print(f"first chart of a cold visit: median {statistics.median(cold):.1f} s of {listed}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 40)
