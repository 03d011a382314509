"""Draw crossover.png anew from the running app: light mode, the Crossover page without its navigation.

python docs/pictures/draw.py
"""

import io
import shutil
import subprocess
import sys
import time
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests" / "browser"))

from conftest import CHROMIUM_OPTIONS, CHROMIUMS, START_SECONDS, free_port, is_healthy, stop  # noqa: E402

WIDTH, NAVIGATION, MARGIN = 1280, 301, 24
CHART, LAST_PARAGRAPH = ".js-plotly-plot .main-svg", "Why?"
SETTLED_MILLISECONDS = 2500  # fonts and the chart's last redraw


def screenshot(url: str) -> bytes:
    chromium = next(filter(None, map(shutil.which, CHROMIUMS)))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_OPTIONS)
        page = browser.new_page(viewport={"width": NAVIGATION + WIDTH, "height": 1200}, color_scheme="light")
        page.goto(f"{url}/crossover")
        page.locator(CHART).first.wait_for()
        page.wait_for_timeout(SETTLED_MILLISECONDS)
        ends = page.locator("p", has_text=LAST_PARAGRAPH).first.bounding_box()
        assert ends
        height = ends["y"] + ends["height"] + MARGIN
        image = page.screenshot(clip={"x": NAVIGATION, "y": MARGIN, "width": WIDTH, "height": height - MARGIN})
        browser.close()
    return image


def main() -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    address = ["--server.address=127.0.0.1", f"--server.port={port}"]
    command = [sys.executable, "-m", "streamlit", "run", "app.py", *address]
    server = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + START_SECONDS
        while not is_healthy(url):
            if server.poll() is not None or time.monotonic() > deadline:
                sys.exit("the app did not start")
            time.sleep(0.1)
        image = screenshot(url)
    finally:
        stop(server)
    Image.open(io.BytesIO(image)).convert("RGB").save(HERE / "crossover.png", optimize=True)


if __name__ == "__main__":
    main()
