"""Every page in a dark and a light language, every step in one of them, wide and on a phone: whole, open to everyone.

Its picture goes to build/screenshots, to be looked at.
"""

import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import ConsoleMessage, Page, Response, expect

from explorer import prose
from explorer.frame import PAGES
from explorer.share import path_of
from kvmodel.explain import guided_path

ROOT = Path(__file__).resolve().parents[2]
PICTURES = ROOT / "build" / "screenshots"
QUERIES = {"pressure": "requests=100", "diagnose": "sample=pressure", "claims": "claim=A10"}
ADDRESSES = {name: f"/{path_of(name)}?{QUERIES.get(name, '')}" for name in PAGES} | {
    f"step-{step.id}": f"/path?step={step.number}" for step in guided_path.steps()
}
CHARTS = "home kv_size roofline crossover scenarios capacity pressure diagnose claims".split()
CHART = ".js-plotly-plot .main-svg, svg.live-plot"
expect.set_options(timeout=30_000)  # the machine may be busy
WIDE, PHONE = (1440, 900), (390, 844)
# Language and colours of a page, the size in which it is opened cold, and the size that its window takes then, in which
# axe looks at it.
VIEWS = {"en-dark": ("en", "dark", {"phone": PHONE, "wide": WIDE}),
         "ko-light": ("ko", "light", {"wide": WIDE, "phone": PHONE})}  # fmt: skip


# The steps of the path are one page: each is looked at in one view.
CASES = [
    (name, view)
    for place, name in enumerate(ADDRESSES)
    for number, view in enumerate(VIEWS)
    if not name.startswith("step-") or place % len(VIEWS) == number
]


@pytest.mark.parametrize(("name", "view"), CASES)
def test_a_page(page: Page, foreign_requests: list[str], name: str, view: str) -> None:
    language, scheme, sizes = VIEWS[view]
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text) if is_error(message) else None)
    page.on("response", lambda answer: said.append(answer.url) if is_missing(answer) else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    title = prose.sections_in(language, "path" if name.startswith("step-") else name)["title"].splitlines()[0]
    page.emulate_media(color_scheme=scheme)
    for size, (width, height) in sizes.items():
        page.set_viewport_size({"width": width, "height": height})
        if page.url == "about:blank":
            page.goto(f"{ADDRESSES[name]}&lang={language}")
        expect(page.get_by_role("heading", level=1, name=title)).to_be_visible()
        if name in CHARTS:
            expect(page.locator(CHART).first).to_be_visible()
        script_is_done(page)
        picture(page, f"{name}-{view}-{size}")
        assert page.get_by_test_id("stMain").evaluate("main => main.scrollWidth - main.clientWidth") <= 0, size
    assert violations(page) == []
    expect(page.get_by_test_id("stException")).to_have_count(0)
    expect(page.get_by_test_id("stSidebar").get_by_role("link")).to_have_count(len(PAGES))
    assert page.locator("html").get_attribute("lang") == language
    assert foreign_requests == []
    assert said == []


def is_error(message: ConsoleMessage) -> bool:
    """Failed requests are told apart by their addresses."""
    return message.type == "error" and not message.text.startswith("Failed to load resource")


def is_missing(answer: Response) -> bool:
    """Streamlit's browser part looks for its server below the page's own address first, then above it."""
    tried = re.fullmatch(r"/\w+/_stcore/(health|host-config)", urlsplit(answer.url).path)
    return answer.status >= 400 and not tried


# Until nothing has been added, taken away or resized for ten frames.
STILL = """async () => {
    const main = document.querySelector("[data-testid=stMain]");
    for (let frame = 0, same = 0, before = ""; frame < 600 && same < 10; frame++) {
        await new Promise(requestAnimationFrame);
        const now = [main.scrollWidth, main.scrollHeight, main.querySelectorAll("*").length].join();
        same = now === before ? same + 1 : 0;
        before = now;
    }
}"""


def script_is_done(page: Page) -> None:
    page.wait_for_function(
        "document.querySelector('[data-testid=stApp]')?.dataset.testScriptState === 'notRunning'"
        " && !document.querySelector('[data-stale=true], [data-testid=stSkeleton]')"
    )


def picture(page: Page, name: str) -> None:
    """The whole page: what scrolls in it is drawn out, and stays so, as axe tells the contrast of what is in view."""
    page.evaluate(STILL)
    PICTURES.mkdir(parents=True, exist_ok=True)
    size = page.viewport_size
    assert size is not None
    tall = page.get_by_test_id("stMain").evaluate("main => main.scrollHeight")
    page.set_viewport_size({"width": size["width"], "height": max(size["height"], min(int(tall), 12_000))})
    page.screenshot(path=PICTURES / f"{name}.png")


def violations(page: Page) -> list[str]:
    """What axe finds: rule, how many, and the first place."""
    found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    return [f"{rule['id']} x{len(rule['nodes'])}: {rule['nodes'][0]['target']}" for rule in found]
