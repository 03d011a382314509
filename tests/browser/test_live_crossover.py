"""The live crossover in a browser: it follows the hand, says what Python says, and hands its values on."""

import re
from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from playwright.sync_api import Locator, Page, expect

from kvmodel.curves.live_terms import ALONE, LiveTerms, live_terms
from kvmodel.curves.slider_stops import LENGTH, RATE
from kvmodel.inputs.case import DEFAULTS, Case
from kvmodel.recovery.comparison import compare_case
from kvmodel.texts.comparison import comparison_texts
from kvmodel.units import format_rate

CHART = "svg.live-plot"
FRAMES_S = 2 / 60
COLOURS = {
    "light": {"swap": "rgb(0, 114, 178)", "recompute": "rgb(194, 65, 12)", "offload": "rgb(122, 79, 163)"},
    "dark": {"swap": "rgb(86, 180, 233)", "recompute": "rgb(240, 137, 74)", "offload": "rgb(183, 155, 224)"},
}
PARITY = {
    "default": Case(),
    "many heads on an H100": Case(model="llama-2-7b", gpu="h100-sxm5-80gb", timing="kernels", tokens=3000),
    "an engine that offloads prompts": Case(policy="vllm-v1-offload", survival=0.35, tokens=10_000),
    "experts, slow copies": Case(model="deepseek-v3", gpu="h200-sxm-141gb", tp=8, copy_gb_per_s=1.8),
}
expect.set_options(timeout=30_000)  # the machine may be busy

COUNT = """() => {
    window.inputs = 0;
    document.querySelector("[data-testid=stBidiComponentIsolated]").shadowRoot.addEventListener("input", () => {
        window.inputs++;
    }, true);
}"""
NUMBERS = ".say span, .part .total"  # of the sentence, and the totals of the bars
# What the numbers are at each of the stops, which the sliders take one after the other; all in the page, at once.
TRY = f"""async (tried) => {{
    const root = document.querySelector("[data-testid=stBidiComponentIsolated]").shadowRoot;
    const shown = [];
    for (const stops of tried) {{
        for (const [name, stop] of Object.entries(stops)) {{
            const field = root.querySelector(`input[name=${{name}}]`);
            field.value = stop;
            field.dispatchEvent(new Event("input", {{ bubbles: true }}));
        }}
        await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
        shown.push([...root.querySelectorAll("{NUMBERS}")].map((span) => [span.className, span.textContent]));
    }}
    return shown;
}}"""


@pytest.fixture
def errors(page: Page) -> list[str]:
    """What the page wrote to the console as an error, or threw."""
    found: list[str] = []
    page.on("console", lambda message: found.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: found.append(str(error)))
    return found


def opened(page: Page, case: Case | None = None, path: str = "/") -> None:
    chosen = {name: value for name, value in vars(case or Case()).items() if value != DEFAULTS[name]}
    page.goto(f"{path}?{urlencode(chosen)}")
    expect(page.locator(CHART)).to_be_visible()
    expect(page.locator(".say")).not_to_be_empty()


def slider(page: Page, name: str) -> Locator:
    return page.locator(f"input[name={name}]")


def drag(page: Page, name: str, share: float, moves: int = 25) -> None:
    """Take a slider's thumb to a share of its way, and keep it held."""
    box = slider(page, name).bounding_box()
    assert box is not None
    now = slider(page, name).evaluate("field => field.value / field.max")
    start, end = (box["x"] + 9 + part * (box["width"] - 18) for part in (now, share))
    height = box["y"] + box["height"] / 2
    page.mouse.move(start, height)
    page.mouse.down()
    for move in range(1, moves + 1):
        page.mouse.move(start + (end - start) * move / moves, height)
        page.wait_for_timeout(16)


def query(page: Page) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}


def test_a_drag_takes_less_than_two_frames(page: Page) -> None:
    """In CPU time of the page's thread for each input event, which other work on the machine does not lengthen."""
    opened(page)
    page.evaluate(COUNT)
    metrics = page.context.new_cdp_session(page)
    metrics.send("Performance.enable", {"timeDomain": "threadTicks"})

    def busy_s() -> float:
        found = metrics.send("Performance.getMetrics")["metrics"]
        return next(float(metric["value"]) for metric in found if metric["name"] == "TaskDuration")

    held_s = 0.0
    for name, share in ((RATE, 0.05), (LENGTH, 0.95), (RATE, 0.9), (LENGTH, 0.1)):
        before = busy_s()
        drag(page, name, share)
        held_s += busy_s() - before
        value = slider(page, name).evaluate("field => field.value")
        page.mouse.up()
        page.wait_for_url(re.compile(f"{name}="))
        expect(page.locator(".live")).not_to_have_attribute("aria-busy", "true")  # Python has answered
        assert slider(page, name).evaluate("field => field.value") == value
    inputs = page.evaluate("() => window.inputs")
    assert inputs > 40
    assert 0 < held_s / inputs < FRAMES_S


def stops_to_try(found: LiveTerms) -> Iterator[dict[str, int]]:
    """Length and rate together; every other slider alone, at a rate and at the chosen length."""
    ends = {name: len(of.values) - 1 for name, of in found.sliders.items()}
    chosen = {name: of.case_stop for name, of in found.sliders.items()}
    for length in range(0, ends[LENGTH] + 1, 13):
        for rate in range(0, ends[RATE] + 1, 12):
            yield chosen | {LENGTH: length, RATE: rate}
    for name in ALONE:
        for stop in range(0, ends[name] + 1, 3):
            for rate in (10, ends[RATE] - 10):
                yield chosen | {name: stop, RATE: rate}


@pytest.mark.parametrize("case", PARITY.values(), ids=PARITY)
def test_browser_and_python_say_the_same(page: Page, case: Case) -> None:
    """To the displayed digit, while the slider is held: Python has not been asked."""
    opened(page, case)
    found = live_terms(compare_case(case))
    before = page.url
    tried = list(stops_to_try(found))
    shown = page.evaluate(TRY, tried)
    for stops, numbers in zip(tried, shown, strict=True):
        values = {name: found.sliders[name].values[stop] for name, stop in stops.items()}
        moved = compare_case(replace(case, **values))  # type: ignore[arg-type]
        assert by_name(numbers) == expected(moved.case), values
    assert len(tried) > 40
    assert page.url == before


def said(page: Page) -> dict[str, str]:
    spans = page.locator(NUMBERS)
    return by_name(spans.evaluate_all("spans => spans.map(span => [span.className, span.textContent])"))


def by_name(numbers: list[tuple[str, str]]) -> dict[str, str]:
    return {name.replace(" ", "."): text.replace("\N{NO-BREAK SPACE}", " ") for name, text in numbers}


def expected(case: Case) -> dict[str, str]:
    """What the sentence's numbers are, from the model's own figures."""
    result = compare_case(case)
    texts = comparison_texts(result)
    pair = result.verdict.swap_or_recompute
    swap_s, recompute_s = (float(result.prices[name].victim_delay_s) for name in ("swap", "recompute"))
    names = {"tokens": "tokens", "kv": "kv_mib", "swap": "swap_delay"}
    if recompute_s > 0:
        names |= {"recompute": "recompute_delay"}
    if not pair.close and recompute_s > 0:
        names["factor"] = "pair_factor"
    if case.preemptions == 1 and recompute_s > 0:
        names |= {"effective": "effective_rate", "even": "even_rate"}
    if "offload" in result.inputs.available:
        names["offload"] = "offload_delay"
    found = {name: texts[key] for name, key in names.items()}
    if case.preemptions > 1:
        rates = {"effective": swap_s, "even": recompute_s}
        moved = float(result.prices["swap"].link_bytes / result.inputs.tp)
        found |= {name: format_rate(moved / seconds) for name, seconds in rates.items() if seconds}
        found["preemptions"] = str(case.preemptions)
    bars = ("recompute", "swap", "offload") if "offload" in result.inputs.available else ("recompute", "swap")
    return found | {f"total.{name}": texts[f"{name}_delay"] for name in bars}


@pytest.mark.parametrize("name", [LENGTH, RATE, *ALONE])
def test_values_arrive_in_the_url_on_release_and_nothing_jumps(page: Page, name: str) -> None:
    opened(page)
    before = page.locator(CHART).bounding_box()
    drag(page, name, 0.3 if name == RATE else 0.85)
    held, url = said(page), page.url
    page.wait_for_timeout(400)
    assert page.url == url, "nothing is sent while the hand is on the slider"
    page.mouse.up()
    page.wait_for_url(re.compile(f"{name}="))
    expect(page.locator(".live")).not_to_have_attribute("aria-busy", "true")
    value = query(page)[name]
    assert said(page) == held == expected(replace(Case(), **{name: type(DEFAULTS[name] or 0.0)(value)}))
    assert page.locator(CHART).bounding_box() == before


def test_two_sliders_one_after_the_other_and_back(page: Page) -> None:
    """The second is taken before the first has been sent: what the hand passes on its way is not sent."""
    opened(page)
    drag(page, "survival", 0.5)
    page.mouse.up()
    drag(page, "gemm_efficiency", 0.2)
    page.mouse.up()
    page.wait_for_url(re.compile("survival=.*gemm_efficiency=|gemm_efficiency=.*survival="))
    chosen = {name: float(value) for name, value in query(page).items()}
    expect(page.locator(".live")).to_have_attribute("aria-busy", "false")
    assert said(page) == expected(replace(Case(), **chosen))
    page.go_back()
    expect(slider(page, "gemm_efficiency")).to_have_attribute("aria-valuetext", re.compile("model"))


def test_it_works_by_keyboard_and_is_heard(page: Page) -> None:
    opened(page)
    expect(page.get_by_role("slider", name="Context length")).to_have_attribute("aria-valuetext", "4,096 tokens")
    field = page.get_by_role("slider", name="Copy rate")
    field.focus()
    field.press("Home")
    expect(field).to_have_attribute("aria-valuetext", "0.5 GB/s")
    page.wait_for_url(re.compile("copy_gb_per_s=0.5"))
    expect(page.locator("[role=status]")).to_contain_text("recompute is")
    expect(page.locator(CHART)).to_have_attribute("aria-label", re.compile("recompute is .*GB/s swap would win"))
    page.wait_for_function("document.querySelector('[data-testid=stApp]').dataset.testScriptState === 'notRunning'")
    field.press("ArrowRight")
    page.wait_for_url(re.compile("copy_gb_per_s=0.56"))


def test_the_chart_itself_can_be_dragged(page: Page) -> None:
    opened(page)
    box = page.locator(CHART).bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 0.75 * box["width"], box["y"] + 0.5 * box["height"])
    page.mouse.down()
    page.mouse.up()
    page.wait_for_url(re.compile("tokens="))
    assert int(query(page)["tokens"]) > 16_000


def test_the_pages_own_inputs_move_the_sliders(page: Page) -> None:
    opened(page)
    tokens = page.get_by_role("spinbutton", name="Sequence length [tokens]")
    tokens.fill("12345")
    tokens.press("Enter")
    expect(slider(page, LENGTH)).to_have_attribute("aria-valuetext", "12,345 tokens")
    assert said(page) == expected(Case(tokens=12345))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_curves_have_the_colours_of_the_mode_and_nothing_goes_wrong(
    page: Page, scheme: str, errors: list[str], foreign_requests: list[str]
) -> None:
    page.emulate_media(color_scheme="dark" if scheme == "light" else "light")
    opened(page)
    page.emulate_media(color_scheme=scheme)  # the page turns while it is open
    for name, colour in COLOURS[scheme].items():
        expect(page.locator(f"path.curve.{name}")).to_have_css("stroke", colour)
        expect(page.locator(f".total.{name}")).to_have_css("color", colour)
    drag(page, RATE, 0.2)
    page.mouse.up()
    page.wait_for_url(re.compile("copy_gb_per_s="))
    assert errors == []
    assert foreign_requests == []


def test_a_phone_shows_text_of_full_size_and_nothing_sideways(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    opened(page)
    box = page.locator(CHART).bounding_box()
    assert box is not None
    assert 340 < box["width"] <= 390
    sizes = page.locator(f"{CHART} text").evaluate_all("texts => texts.map(text => getComputedStyle(text).fontSize)")
    assert set(sizes) == {"12px"}
    wider_by = page.get_by_test_id("stMain").evaluate("main => main.scrollWidth - main.clientWidth")
    assert wider_by <= 0
    heights = page.locator(".slider").evaluate_all("boxes => boxes.map(box => box.getBoundingClientRect().bottom)")
    assert max(heights) - box["y"] < 844, "chart and sliders on one screen"


def test_without_its_script_the_plain_chart_remains(page: Page) -> None:
    page.route(re.compile("/live/live.js"), lambda route: route.abort())
    page.goto("/")
    expect(page.get_by_text("The live chart could not be loaded.")).to_be_visible()
    page.get_by_text("Plain chart: all five ways").click()
    expect(page.locator(".js-plotly-plot .main-svg").first).to_be_visible()


def test_a_link_may_leave_some_sliders_out(page: Page) -> None:
    page.goto("/?only=tokens,copy_gb_per_s")
    expect(slider(page, RATE)).to_be_visible()
    expect(slider(page, "survival")).to_be_hidden()
