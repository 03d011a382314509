"""Draw live_chart.webp anew from the running app: the live chart while the copy rate, then the length, is moved.

python docs/pictures/draw.py
"""

import io
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "browser")]

from conftest import CHROMIUM_OPTIONS, CHROMIUMS, START_SECONDS, free_port, is_healthy, stop  # noqa: E402

from kvmodel.curves.slider_stops import LENGTH, RATE  # noqa: E402

WIDTH, NAVIGATION, MARGIN = 1180, 301, 12
CHART = "svg.live-plot"
MOVE = """(field, share) => {
    field.value = Math.round(share * field.max);
    field.dispatchEvent(new Event("input", { bubbles: true }));
}"""
SETTLED_MILLISECONDS = 2500  # fonts, and Python's part of the page after the last move
STEPS, FRAME_MILLISECONDS, PAUSE_MILLISECONDS = 10, 100, 1800


def moves(start: float, end: float) -> Iterator[float]:
    """Shares of a slider's way from one to the other."""
    return (start + (end - start) * step / STEPS for step in range(STEPS + 1))


def frames(page: Page) -> Iterator[tuple[bytes, int]]:
    """Screenshots, each with how long it is shown. [ms]"""
    page.locator(CHART).wait_for()
    page.wait_for_timeout(SETTLED_MILLISECONDS)
    box = page.locator("[data-testid=stBidiComponentIsolated]").first.bounding_box()
    assert box
    left, top, width, height = (round(box[name]) for name in ("x", "y", "width", "height"))
    clip = {"x": left - MARGIN, "y": top - MARGIN, "width": width + 2 * MARGIN, "height": height + 2 * MARGIN}
    for name, end in ((RATE, 0.22), (LENGTH, 0.8), (RATE, 0.55), (LENGTH, 0.5)):
        field = page.locator(f"input[name={name}]")
        for share in moves(field.evaluate("field => field.value / field.max"), end):
            field.evaluate(MOVE, share)
            yield page.screenshot(clip=clip), FRAME_MILLISECONDS
        yield page.screenshot(clip=clip), PAUSE_MILLISECONDS


def drawn(url: str) -> list[tuple[bytes, int]]:
    chromium = next(filter(None, map(shutil.which, CHROMIUMS)))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_OPTIONS)
        page = browser.new_page(viewport={"width": NAVIGATION + WIDTH, "height": 1200}, color_scheme="light")
        page.goto(url)
        found = list(frames(page))
        browser.close()
    return found


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
        found = drawn(url)
    finally:
        stop(server)
    images = [Image.open(io.BytesIO(image)).convert("RGB") for image, _ in found]
    durations = [milliseconds for _, milliseconds in found]
    first, *others = images
    first.save(HERE / "live_chart.webp", save_all=True, append_images=others, duration=durations, loop=0, quality=60)


if __name__ == "__main__":
    main()
