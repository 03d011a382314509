"""The guided path where only a browser can tell: Back and Forward, reload, the top of a new step, links to terms."""

import re

from playwright.sync_api import Page, expect

expect.set_options(timeout=30_000)  # the machine may be busy
PHONE = {"width": 390, "height": 844}


def heading(page: Page, name: str) -> None:
    expect(page.get_by_role("heading", name=name)).to_be_visible()


def guess(page: Page, number: str) -> None:
    page.get_by_role("spinbutton").first.fill(number)
    page.get_by_role("spinbutton").first.press("Enter")


def test_back_forward_and_reload_keep_step_and_answers(page: Page) -> None:
    page.goto("/path")
    guess(page, "64")
    expect(page.get_by_text("2.0x too low")).to_be_visible()
    page.get_by_role("button", name="Next").click()
    heading(page, "How many fit?")
    page.get_by_role("button", name="Skip").click()
    expect(page.get_by_text("The answer is")).to_be_visible()
    page.wait_for_url(re.compile("step=2&answers=token-64_pool-skip"))
    page.go_back()
    expect(page.get_by_role("button", name="Skip")).to_be_visible()
    page.go_back()
    heading(page, "What is a KV cache?")
    expect(page.get_by_text("2.0x too low")).to_be_visible()
    page.go_forward()
    page.go_forward()
    expect(page.get_by_text("The answer is")).to_be_visible()
    page.reload()
    heading(page, "How many fit?")
    expect(page.get_by_text("The answer is")).to_be_visible()


def test_a_new_step_begins_at_the_top_on_a_phone(page: Page) -> None:
    page.set_viewport_size(PHONE)
    page.goto("/path?step=3&answers=copy-20")
    expect(page.locator(".js-plotly-plot .main-svg").first).to_be_visible()
    page.get_by_role("button", name="Next").click()
    heading(page, "The second way back: compute again")
    expect(page.get_by_role("heading", level=1)).to_be_in_viewport()


def test_a_term_opens_beside_the_path_on_its_card(page: Page) -> None:
    page.goto("/path?step=6")
    with page.context.expect_page() as opened:
        page.get_by_role("link", name="GQA").first.click()
    card = opened.value
    card.wait_for_url(re.compile(r"/glossary\?term=gqa"))
    expect(card.get_by_text("Grouped-query attention")).to_be_visible()
    heading(page, "Why GQA changed the answer")
