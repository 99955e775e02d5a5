"""The pages, as built: their search."""

import pytest


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_search_finds_a_page_and_leads_there(opened, pages, scheme):
    page = opened(f"{pages}index.html", width=1400, scheme=scheme)
    page.get_by_role("textbox", name="Search").first.fill("rotate")
    page.keyboard.press("Enter")
    hit = page.locator("#search-results li a", has_text="rotation").first
    hit.wait_for()
    assert "rotat" in page.locator("#search-results").inner_text().lower()
    hit.click()
    page.wait_for_url("**/rotation.html*")
    assert "rotate" in page.locator("article").inner_text()


def test_the_search_says_when_there_is_nothing(opened, pages):
    page = opened(f"{pages}search.html?q=xyzzyx")
    page.get_by_text("did not match any documents").wait_for()


@pytest.mark.parametrize("name", ["index.html", "reference/rotation.html"])
def test_pages_fit_a_phone(opened, pages, name):
    page = opened(pages + name, width=400)
    assert page.evaluate("document.documentElement.scrollWidth") <= 400


def test_the_chosen_framework_is_that_of_all_pages(opened, pages):
    page = opened(f"{pages}tutorial/order.html")
    page.locator(".sd-tab-set > label", has_text="MXNet").first.click()
    assert shown(page) == {"MXNet"}
    page.goto(f"{pages}tutorial/waves.html")
    assert shown(page) == {"MXNet"}
    page.reload()
    assert shown(page) == {"MXNet"}


def shown(page):
    """The names of the tabs that are open."""
    page.wait_for_load_state("load")
    labels = page.locator(".sd-tab-set > input:checked + label")
    assert labels.count() > 0
    return set(labels.all_inner_texts())
