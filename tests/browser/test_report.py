"""The page of `posenc report --html` in a browser: it sorts, fits a phone, and loads nothing else."""

from base64 import b64encode

import pytest

from posenc_backends.cli.report.html import page as html_page
from posenc_backends.cli.report.results import TARGETS, Section

NUMPY, STRICT = TARGETS[:2]


def result(encoding, check, worst, **more):
    plain = {
        "case": f"{check}: {encoding}",
        "is_mode": False,
        "passed": True,
        "limit": 4.0,
        "gap": None,
        "seconds": 0.5,
    }
    return plain | {"encoding": encoding, "check": check, "worst": worst} | more


@pytest.fixture(scope="module")
def address():
    """Two backends with results of all kinds: a failure, infinity, a known failure, no case."""
    numpy = [
        result("Rotary", "table", 0.0),
        result("Rotary", "forward", 10.0),
        result("Alibi", "forward", 9.0, passed=False),
        result("Binary", "forward", float("nan"), passed=False),
        result("Sine", "forward", 1.0, passed=False, gap="It cannot. https://example.org/1"),
    ]
    strict = [result("Fire", "forward", 0.25), result("Cope", "saved", 0.0), result("Rotary", "gradient", 2.0)]
    text = html_page([Section(NUMPY, numpy, 5), Section(STRICT, strict, 3)], TARGETS[2:])
    return f"data:text/html;base64,{b64encode(text.encode()).decode()}"


def encodings(page):
    return [each.split()[0] for each in page.locator("tbody th").all_inner_texts()]


@pytest.mark.parametrize("press", ["click", "key"])
def test_a_click_on_a_head_sorts_the_rows_and_a_second_one_reverses_them(opened, address, press):
    page = opened(address)
    assert encodings(page) == ["Rotary", "Alibi", "Binary", "Sine", "Fire", "Cope", "Rotary"]

    def choose(name):
        head = page.get_by_role("button", name=name, exact=True)
        head.click() if press == "click" else head.press("Enter")

    choose("forward")
    assert encodings(page)[:4] == ["Fire", "Alibi", "Rotary", "Binary"]  # by number, and those without one come last
    assert page.locator("th[aria-sort]").get_attribute("aria-sort") == "ascending"
    choose("forward")
    assert encodings(page)[:4] == ["Binary", "Rotary", "Alibi", "Fire"]
    assert page.locator("th[aria-sort]").get_attribute("aria-sort") == "descending"
    choose("encoding")
    assert encodings(page) == ["Alibi", "Binary", "Cope", "Fire", "Rotary", "Rotary", "Sine"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 400])
def test_everything_fits_the_window_in_both_color_schemes(opened, address, width, scheme):
    page = opened(address, width=width, scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for picture in page.locator("img").all():
        picture.scroll_into_view_if_needed()
        box = picture.bounding_box()
        assert min(box["width"], box["height"]) > 100
        assert picture.evaluate("img => img.complete && img.naturalWidth > 0")
        assert picture.evaluate("img => img.currentSrc !== img.src") == (scheme == "dark")
        assert len(picture.get_attribute("alt")) > 40
    assert page.locator("img").count() == 3  # cases, forward, gradient
    (box,) = {tuple(page.locator("tbody tr").first.bounding_box().values())[2:]}
    assert box[0] <= width
    assert (box[1] > 60) == (width == 400)  # a card there, and a row elsewhere


def test_failures_known_failures_and_absent_backends_are_listed(opened, address):
    page = opened(address)
    text = page.locator("body").inner_text()
    assert "forward: Alibi: off by 9, limit 4" in text
    assert "2 of 5 cases failed" in text
    assert "no failures in 3 cases" in text
    assert f'pip install "{TARGETS[2].missing or ""}' in text or TARGETS[2].missing is None
    assert page.get_by_role("link", name="https://example.org/1").count() == 1
    assert "xfail" not in text
    assert page.locator("tr.bad").count() == 2
