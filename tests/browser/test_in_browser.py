"""What only a browser shows: inputs kept from page to page, links between pages, no outside request."""

import json
import re
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, expect

from kvmodel.inputs.case import Case
from kvmodel.metrics import samples
from kvmodel.simulation import servers
from kvmodel.simulation.servers import Demand, Pressure
from tests.helpers import pool_picture

CHART = ".js-plotly-plot .main-svg, svg.live-plot"
expect.set_options(timeout=30_000)  # the machine may be busy


def query(page: Page) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}


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


def test_a_pasted_config_goes_along_and_its_link_brings_it_back(page: Page, foreign_requests: list[str]) -> None:
    """KV size takes the file, Capacity has its model and an input of its own; a reload keeps both, and no file."""
    config = {
        "model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 100,
        "intermediate_size": 128, "num_key_value_heads": 2, "secret": "hidden",  # pragma: allowlist secret
    }  # fmt: skip
    page.goto("/kv_size")
    expect(page.locator(CHART).first).to_be_visible()
    page.get_by_text("Another model: its config.json").click()
    page.get_by_role("textbox", name="config.json").fill(json.dumps(config))
    page.get_by_role("textbox", name="Name in lists and links").fill("Mine 2")
    page.get_by_role("button", name="Use this model").click()
    expect(page.get_by_text("256 B of KV for each further token")).to_be_visible()
    page.wait_for_url(re.compile("model=custom~mine-2~"))
    page.get_by_test_id("stSidebar").get_by_role("link", name="Capacity").click()
    longest = page.get_by_role("spinbutton", name="Longest request [tokens]")
    longest.fill("2048")
    longest.press("Enter")
    page.wait_for_url(re.compile("max_model_len=2048"))
    page.reload()
    expect(page.get_by_text("of the longest, 2,048 tokens")).to_be_visible()
    expect(page.get_by_test_id("stSelectbox").first.locator("input")).to_have_value("mine-2")
    assert query(page)["model"].startswith("custom~mine-2~l2_d64_h4_g2_")
    assert "hidden" not in page.url
    assert foreign_requests == []


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
    page.goto("/crossover?view=preemptions")
    expect(page.locator(".scatterlayer .js-line").first).to_be_visible()
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


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)], ids=["wide", "phone"])
def test_a_pasted_scrape_is_answered_on_the_first_screen(
    page: Page, foreign_requests: list[str], width: int, height: int
) -> None:
    """What, why and which flag are in sight at once, and the paste is not in the link."""
    page.set_viewport_size({"width": width, "height": height})
    page.goto("/diagnose")
    page.get_by_role("textbox", name="First scrape").fill(samples.read("pressure")[1])
    page.get_by_role("button", name="Diagnose").click()
    main = page.get_by_test_id("stMain")
    for words in ("Preemption pressure", "preemptions per 100 finished requests", "--gpu-memory-utilization 0.95"):
        expect(main.get_by_text(words).locator("visible=true").first).to_be_in_viewport()
    assert query(page) == {}
    assert foreign_requests == []


def test_the_pool_is_played_and_scrubbed_by_the_keyboard_and_keeps_its_time(page: Page) -> None:
    page.goto("/pressure?requests=100&requests_per_s=9&pool_percent=8&t=5")
    time = page.get_by_role("slider", name="Time of the picture")
    expect(time).to_have_value("5")
    picture = page.get_by_role("img", name="Picture of the KV pool. 5.0 s. vllm-v1:").first
    expect(picture).to_be_visible()
    time.press("ArrowRight")
    expect(time).to_have_value("5.5")
    page.wait_for_url(re.compile(r"[?&]t=5\.5\b"))
    play = page.get_by_role("button", name="Play")
    play.press("Enter")
    page.get_by_role("button", name="Pause").press("Enter")
    page.wait_for_url(re.compile(r"[?&]t=(?!5\.5\b)"))
    shown_s = float(query(page)["t"])
    assert shown_s > 5.5
    page.reload()
    half_seconds = int(2 * shown_s + 0.5) / 2  # the nearest of the slider's steps
    expect(page.get_by_role("slider", name="Time of the picture")).to_have_value(f"{half_seconds:g}")


def test_what_the_picture_says_is_what_the_model_says(page: Page) -> None:
    page.goto("/pressure?requests=100&requests_per_s=9&pool_percent=8&beside=none&t=9")
    asked = Pressure(case=Case(), demand=Demand(requests=100, requests_per_s=9.0), pool_percent=8)
    results = servers.run(asked, "vllm-v1")
    seen = pool_picture.holders(results, 9.0, asked.case.block_tokens)
    used = 100 * seen.blocks.sum() / results.pool_blocks
    told = page.get_by_role("img", name="Picture of the KV pool")
    expect(told).to_have_attribute("aria-label", re.compile(f"9.0 s. vllm-v1: {len(seen.request)} running, "))
    shown = re.search(r"(\d+) % of the pool", told.get_attribute("aria-label") or "")
    assert shown is not None
    assert abs(int(shown.group(1)) - used) < 2
    assert f"{seen.preempted_before.sum()} of them after a preemption" in (told.get_attribute("aria-label") or "")


def test_the_load_curve_can_be_stopped(page: Page) -> None:
    page.goto("/pressure?requests=1000&beside=none")
    page.get_by_role("button", name="Work out the load curve").click()
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("button", name="Work out the load curve")).to_be_visible()
    expect(page.get_by_text("the knee is")).to_have_count(0)
