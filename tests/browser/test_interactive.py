"""Figures with sliders: the numbers that they show are those of the library, in both languages."""

import math
import re

import numpy as np
import pytest

from posenc_core import Rotary, Sinusoidal, attention_weights, causal, rotate

PAGES = {"clock": "rotary", "product": "offsets", "wavelengths": "context", "decoding": "transformer"}


def numbers(text):
    """Return the numbers of a text."""
    found = re.findall(r"−?\d[\d,]*(?:\.\d+)?", text)
    return [float(number.replace("−", "-").replace(",", "")) for number in found]


def said(page, name, **values):
    """Set sliders, and return what the figure says then."""
    figure = page.locator(f'[data-figure="{name}"]')
    for slider, value in values.items():
        field = figure.locator(f'input[name="{slider}"]')
        field.evaluate("(field, value) => { field.value = value; }", str(value))
        field.dispatch_event("input", {"bubbles": True})
    return figure.locator(".says").inner_text()


@pytest.mark.parametrize("language", ["", "zh/"])
def test_the_angles_and_the_cosine_are_those_of_rotary(opened, pages, language):
    page = opened(f"{pages}{language}tutorial/rotary.html")
    frequencies = Rotary(head_dim=64, layout="half").frequencies()
    for m, n, pair in ((7, 3, 6), (0, 60, 31), (41, 5, 0)):
        omega = frequencies[pair]
        shown = numbers(said(page, "clock", m=m, n=n, pair=pair))
        between = (m - n) * omega
        wanted = [omega, m, m * omega, n, n * omega, m - n, between, math.cos(between)]
        np.testing.assert_allclose(shown, wanted, atol=5.001e-5, rtol=5.001e-4)


def test_the_dot_product_is_that_of_the_table(opened, pages):
    page = opened(f"{pages}tutorial/offsets.html")
    for t, delta, dim in ((12, 5, 32), (1000, 100, 128), (0, 1, 2)):
        first, second = Sinusoidal(dim=dim).table([t, t + delta]).astype(float)
        shown = numbers(said(page, "product", t=t, delta=delta, dim=dim))
        np.testing.assert_allclose(shown, [t, t + delta, first @ second, dim / 2], atol=1e-4)


def test_the_wavelengths_are_those_of_rotary(opened, pages):
    page = opened(f"{pages}tutorial/context.html")
    for tenths, power, dim in ((40, 12, 64), (57, 17, 128), (20, 8, 16)):
        base, length = round(10 ** (tenths / 10)), 2**power
        waves = 2 * np.pi / Rotary(head_dim=dim, layout="half", base=base).frequencies()
        shown = numbers(said(page, "wavelengths", base=tenths, length=power, dim=dim))
        wanted = [base, waves[0], waves[-1], length, (waves <= length).sum(), dim / 2]
        np.testing.assert_allclose(shown, wanted, atol=0.5 if waves[-1] >= 100 else 5.001e-3)


@pytest.mark.parametrize("language", ["", "zh/"])
def test_each_call_computes_the_weights_of_its_queries_and_counts_what_the_cache_saves(opened, pages, language):
    page = opened(f"{pages}{language}howto/cache.html")
    cos, sin = Rotary(head_dim=64, layout="half").cos_sin(range(12))
    ones = rotate(np.ones((12, 64)), cos, sin, layout="half")
    weights = attention_weights(ones, ones, mask=causal(np.arange(12), np.arange(12)))
    for prompt, step in ((4, 2), (1, 0), (6, 0), (6, 6), (1, 6)):
        shown = numbers(said(page, "decoding", prompt=prompt, step=step))
        start, last = (prompt + step - 1 if step else 0), prompt + step - 1
        computed, again = prompt + step, sum(prompt + each for each in range(step + 1))
        wanted = [step + 1, start, last + 1 - start, start, last, last + 1, weights[last, last], computed, again]
        np.testing.assert_allclose(shown, wanted, atol=5.1e-5)
        cells = page.locator('[data-figure="decoding"] rect.dot').evaluate_all(
            "all => all.map(one => one.getAttribute('opacity'))"
        )
        np.testing.assert_allclose(
            np.array(cells[-last - 1 :], float), 0.1 + 0.9 * weights[last, : last + 1] / weights[last, last], atol=1e-5
        )


@pytest.mark.parametrize(("name", "page"), PAGES.items())
def test_sliders_follow_the_keyboard_and_fit_a_phone(opened, pages, name, page):
    page = opened(f"{pages}tutorial/{page}.html", width=390, scheme="dark")
    figure = page.locator(f'[data-figure="{name}"]')
    for slider in figure.locator("input").all():
        before, drawn = figure.locator(".says").inner_text(), figure.locator("svg").inner_html()
        slider.focus()
        page.keyboard.press("ArrowRight")
        assert slider.get_attribute("aria-valuetext") in slider.locator("xpath=..").inner_text()
        assert (figure.locator(".says").inner_text(), figure.locator("svg").inner_html()) != (before, drawn)
        assert page.get_by_role("slider", name=slider.locator("xpath=..").inner_text().partition(":")[0]).count() == 1
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert "JavaScript" in figure.locator("noscript").text_content()
