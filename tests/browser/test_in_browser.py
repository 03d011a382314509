"""What only a browser shows: cold links, inputs kept from page to page, links between pages, no outside request."""

import re
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, expect

PATHS = {
    "home": "/",
    "kv_size": "/kv_size",
    "roofline": "/roofline",
    "crossover": "/crossover",
    "scenarios": "/scenarios",
}
CHART = ".js-plotly-plot .main-svg"
expect.set_options(timeout=30_000)  # the machine may be busy


def query(page: Page) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_a_cold_link_opens_its_page_and_asks_nobody_else(page: Page, foreign_requests: list[str], path: str) -> None:
    page.goto(path)
    expect(page.locator(CHART).first).to_be_visible()
    expect(page.get_by_test_id("stSidebar").get_by_role("link")).to_have_count(len(PATHS))
    expect(page.locator("[data-testid=stException]")).to_have_count(0)
    assert foreign_requests == []


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)], ids=["wide", "phone"])
@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_nothing_sticks_out_sideways(page: Page, path: str, width: int, height: int) -> None:
    page.set_viewport_size({"width": width, "height": height})
    page.goto(path)
    expect(page.locator(CHART).first).to_be_visible()
    wider_by = page.get_by_test_id("stMain").evaluate("main => main.scrollWidth - main.clientWidth")
    assert wider_by <= 0


def test_inputs_go_with_the_reader_from_page_to_page(page: Page) -> None:
    page.goto("/?model=llama-2-7b&tokens=10000")
    expect(page.get_by_text("10,000 tokens").first).to_be_visible()
    page.get_by_test_id("stSidebar").get_by_role("link", name="KV size").click()
    expect(page.get_by_role("heading", name="How big is the KV cache?")).to_be_visible()
    expect(page.get_by_text("10,000 tokens").first).to_be_visible()
    page.wait_for_url(re.compile("model=llama-2-7b"))
    assert query(page)["tokens"] == "10000"


def test_a_change_reaches_the_url_and_a_reload_keeps_it(page: Page) -> None:
    page.goto("/crossover")
    tokens = page.get_by_role("spinbutton", name="Sequence length [tokens]")
    tokens.fill("12345")
    tokens.press("Enter")
    page.wait_for_url(re.compile("tokens=12345"))
    page.reload()
    expect(page.get_by_text("12,345 tokens").first).to_be_visible()


def test_a_row_of_scenarios_opens_in_crossover_with_its_inputs(page: Page) -> None:
    page.goto("/scenarios")
    page.get_by_text("Open in Crossover").nth(2).click()
    page.get_by_role("link", name="V100, the article's conditions").click()
    expect(page.get_by_role("heading", name="Swap or recompute?")).to_be_visible()
    expect(page.get_by_text("vLLM V0").first).to_be_visible()
    assert query(page)["gpu"] == "v100-sxm2-32gb"


def test_back_undoes_the_first_change(page: Page) -> None:
    page.goto("/crossover")
    tokens = page.get_by_role("spinbutton", name="Sequence length [tokens]")
    expect(tokens).to_have_value("4096")
    tokens.fill("12345")
    tokens.press("Enter")
    page.wait_for_url(re.compile("tokens=12345"))
    page.go_back()
    expect(tokens).to_have_value("4096")
    expect(page.get_by_text("prefilling 4,096 tokens").first).to_be_visible()


def test_quick_clicks_all_count(page: Page) -> None:
    page.goto("/")
    preemptions = page.get_by_role("spinbutton", name="Preemption count")
    expect(preemptions).to_have_value("1")
    for _ in range(6):
        page.get_by_test_id("stNumberInputStepUp").nth(1).click()
    page.wait_for_url(re.compile("preemptions=7"))
    expect(preemptions).to_have_value("7")


def test_a_preset_reaches_the_controls_and_the_url(page: Page) -> None:
    page.goto("/crossover")
    page.get_by_role("button", name="Figure 19 of the vLLM paper").click()
    expect(page.get_by_text("OPT 13B").first).to_be_visible()
    page.wait_for_url(re.compile("model=opt-13b"))


def test_garbage_in_a_link_is_named(page: Page) -> None:
    page.goto("/?tokens=1e999&gpu=%3Cscript%3Ealert(1)%3C/script%3E")
    expect(page.get_by_text("tokens: '1e999' given; allowed: a whole number from 1 to 10,000,000")).to_be_visible()
    expect(page.locator(CHART).first).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_curves_take_the_colours_of_the_mode(page: Page, scheme: str) -> None:
    """Figures carry Streamlit's placeholder colours: the browser must have replaced them."""
    page.emulate_media(color_scheme=scheme)
    page.goto("/crossover")
    expect(page.locator(CHART).first).to_be_visible()
    colours = page.evaluate(
        "() => [...document.querySelectorAll('.scatterlayer .js-line')].map(line => getComputedStyle(line).stroke)"
    )
    swap = {"light": "rgb(0, 114, 178)", "dark": "rgb(86, 180, 233)"}[scheme]
    assert swap in colours
    assert not [colour for colour in colours if re.fullmatch(r"rgb\(0, 0, \d\)", colour)]


def test_markup_in_a_link_stays_text(page: Page, foreign_requests: list[str]) -> None:
    page.goto("/?tokens=![](http://192.0.2.1/x.png)&gpu=[click](http://192.0.2.1/)")
    expect(page.get_by_text("given; allowed: a whole number from 1 to 10,000,000")).to_be_visible()
    expect(page.locator("[data-testid=stAlert] img, [data-testid=stAlert] a")).to_have_count(0)
    assert foreign_requests == []
