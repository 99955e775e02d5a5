"""The explorer in a browser: pictures, numbers and URL follow the controls."""

import json
import re
from contextlib import contextmanager
from urllib.parse import parse_qs, urlparse

import pytest

from posenc_backends.cli.explorer.links import controls_of

# The numbers of every visible plot, and the text below it.
STATE = """() => Object.fromEntries([...document.querySelectorAll(".card:not([hidden])")].map(card => [
  card.querySelector("h2").textContent,
  [[...card.querySelectorAll(".halves > :not([hidden]) .words")].map(words => words.textContent).join(" "),
   JSON.stringify([...card.querySelectorAll(".halves > :not([hidden]) .js-plotly-plot")].map(
     plot => plot.data.map(trace => [trace.x, trace.y, trace.z])))],
]))"""
AT_REST = """() => {
  const {stored, completed, ...waiting} = window.dash_stores?.[0]?.getState().callbacks ?? {nothing: [""]};
  const found = document.querySelector("#code:not(:empty), #message:not(:empty)");
  return found && Object.values(waiting).every(each => !each.length) && !document.querySelector(".dash-graph--pending");
}"""


def settle(page):
    """Wait until all callbacks are answered, as Dash's own tests do, and all plots drawn."""
    page.wait_for_function(AT_REST, polling=30)


def start(opened, address, **screen):
    page = opened(address, **screen)
    settle(page)
    page.evaluate("() => document.querySelectorAll('details').forEach(details => details.open = true)")
    return page


def state(page):
    return page.evaluate(STATE)


def code(page):
    return page.locator("#code").inner_text()


def link(page):
    """What the address says."""
    return {name: value for name, (value,) in parse_qs(urlparse(page.url).query).items()}


def names(page):
    """The controls on the page, by the kind of their part."""
    ids = page.eval_on_selector_all("#panel form input", "inputs => inputs.map(each => each.name || each.id)")
    parts = [json.loads(each) for each in dict.fromkeys(ids)]
    return {kind: [part["name"] for part in parts if part["part"] == kind] for kind in ("words", "slider", "text")}


def slider(page, name):
    return page.locator(f'[id=\'{{"name":"{name}","part":"slider"}}\']')


def chips(page, name):
    return page.locator("fieldset", has=page.locator(f'[id=\'{{"name":"{name}","part":"words"}}\']'))


def choose(page, kind, name="encoding"):
    chips(page, name).evaluate(
        "chips => { chips.closest('details').open = true; }" if "encoding" in name else "() => {}"
    )
    chips(page, name).get_by_role("radio", name=kind, exact=True).check(force=True)


@contextmanager
def choosing(page, name):
    """Check that encoding, pictures, numbers and URL change when the body uses a control, without an error."""
    address, before = page.url, (link(page), code(page), state(page))
    yield
    page.wait_for_function("before => location.href !== before", arg=address, polling=30)
    settle(page)
    after = link(page), code(page), state(page)
    assert page.locator("#message").inner_text() == ""
    assert after[0][name] != before[0].get(name), name
    if not name.startswith("with.") and name not in ("length", "side", "pair", "head", "cell", "position"):
        assert after[1] != before[1], name
    pictures = [title for title, (_, numbers) in after[2].items() if numbers != before[2].get(title, ("", ""))[1]]
    words = [title for title, (text, _) in after[2].items() if text != before[2].get(title, ("", ""))[0]]
    assert pictures, name
    assert words, name


def test_pictures_numbers_and_address_follow_the_controls(opened, explorer):
    """Controls of each kind, in each region of the panel; test_answers.py goes over all of them without a browser."""
    page = start(opened, f"{explorer}?encoding=Integer&dim=12&length=48")
    for name, kind in (("encoding", "Alibi"), ("encoding", "Rotary"), ("scaling", "YaRN"), ("with.encoding", "XPos")):
        with choosing(page, name):
            choose(page, kind, name)
    for name in ("head_dim", "scaling.factor", "with.head_dim", "pair"):
        with choosing(page, name):
            slider(page, name).press("ArrowRight")


def test_a_link_restores_all_that_was_chosen(opened, explorer):
    asked = (
        "?encoding=Rotary&head_dim=96&layout=interleaved&placement=trail&direction=inverse&precision=exact&base=123456.5"
        "&rotary_dim=48&scaling=Linear&scaling.factor=3.5&length=77&pair=11&position=33"
    )
    page = start(opened, explorer + asked)
    assert code(page) == (
        "Rotary(head_dim=96, layout='interleaved', placement='trail', direction='inverse', base=123456.5, "
        "rotary_dim=48, scaling=Linear(factor=3.5))"
    )
    assert urlparse(page.url).query == asked[1:]
    for name, number in (
        ("base", "123456.5"),
        ("rotary_dim", "48"),
        ("factor", "3.5"),
        ("length", "77"),
        ("pair", "11"),
    ):
        assert page.get_by_label(name, exact=True).input_value() == number
    page.get_by_label("head_dim", exact=True).fill("64")
    page.wait_for_function("document.querySelector('#code').textContent.includes('head_dim=64')")
    settle(page)
    shared = state(page)
    page.get_by_role("link", name="Link to this view").click()
    settle(page)
    assert link(page)["head_dim"] == "64"
    assert state(page) == shared
    assert "position 33" in shared["Rotation of one pair"][0].lower()


def test_errors_in_a_link_are_reported_in_sentences(opened, explorer):
    page = start(opened, f"{explorer}?encoding=Rotary&base=much&head_dim=8&colour=red&pair=1&pair=2")
    message = page.locator("#link-message").inner_text()
    assert "`base` must be a number from 2 to 100000000, got 'much'." in message
    assert "`colour` is not a control here" in message
    assert "`pair` is given twice; leave one of the two out." in message
    assert code(page) == "Rotary(head_dim=8, layout='half')"
    page.get_by_role("radio", name="interleaved", exact=True).check()
    settle(page)
    assert page.locator("#link-message").inner_text() == ""


def test_contradictions_are_reported_and_can_be_fixed(opened, explorer):
    page = start(opened, f"{explorer}?encoding=Rotary&head_dim=32&rotary_dim=64&length=16")
    assert page.locator("#message").inner_text() == "`rotary_dim` must not exceed `head_dim` 32, got 64."
    assert state(page) == {}
    page.get_by_label("head_dim", exact=True).fill("128")
    page.get_by_text("Rotary(head_dim=128, layout='half', rotary_dim=64)").wait_for()
    settle(page)
    assert page.locator("#message").inner_text() == ""
    assert len(state(page)) == 8
    page.get_by_label("head_dim", exact=True).fill("600")
    page.keyboard.press("Enter")
    page.locator("#message:not(:empty)").wait_for()
    assert page.locator("#message").inner_text() == "`head_dim` must be a whole number from 2 to 512."


def test_the_keyboard_is_enough(opened, explorer):
    page = start(opened, f"{explorer}?encoding=Rotary&head_dim=16&length=16&position=3")
    page.locator("h1").click()
    focused = "() => document.activeElement.value || document.activeElement.id || document.activeElement.tagName"
    for wanted in ("language", "SUMMARY", "Rotary"):
        page.keyboard.press("Tab")
        assert page.evaluate(focused) == wanted
    page.keyboard.press("ArrowRight")
    page.get_by_text("XPos(head_dim=16, layout='half')").wait_for()
    settle(page)
    assert page.evaluate(focused) == "XPos"
    page.keyboard.press("Tab")
    page.keyboard.press("Control+a")
    page.keyboard.type("24")
    page.get_by_text("XPos(head_dim=24, layout='half')").wait_for()
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowLeft")
    page.get_by_text("XPos(head_dim=22, layout='half')").wait_for()
    settle(page)
    for _ in range(150):
        page.keyboard.press("Tab")
        if page.evaluate(focused) == "play":
            break
    outline = "() => getComputedStyle(document.activeElement).outlineStyle"
    assert (page.evaluate(focused), page.evaluate(outline)) == ("play", "solid")
    page.keyboard.press("Enter")
    page.wait_for_function("document.querySelector('#position').value > 4")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Play").wait_for()
    settle(page)
    assert int(link(page)["position"]) >= 5
    page.keyboard.press("Tab")
    page.keyboard.press("Home")
    page.get_by_text("Position 0:").wait_for()


def test_what_is_computed_is_said_until_its_pictures_are_shown(opened, explorer):
    page = start(opened, explorer)
    assert page.get_by_role("status").get_by_text("Computing …").is_hidden()
    held = []

    def hold_the_pictures(route):
        is_of_pictures = route.request.post_data_json["output"] == "drawn.data"
        held.append(route) if is_of_pictures and not held else route.continue_()

    page.route("**/_dash-update-component?*", hold_the_pictures)
    page.get_by_label("head_dim", exact=True).fill("32")
    page.get_by_text("Computing …").wait_for()
    assert "head_dim=64" in code(page)
    assert float(page.locator(".cards").evaluate("cards => getComputedStyle(cards).opacity")) < 0.5
    held[0].continue_()
    page.get_by_text("Computing …").wait_for(state="hidden")
    assert "head_dim=32" in code(page)


def test_the_first_visit_takes_at_most_three_megabytes(opened, explorer):
    page = opened("about:blank")
    devtools, sizes = page.context.new_cdp_session(page), []
    devtools.send("Network.enable")
    devtools.send("Network.setCacheDisabled", {"cacheDisabled": True})
    devtools.on("Network.loadingFinished", lambda event: sizes.append(event["encodedDataLength"]))
    page.goto(explorer)
    settle(page)
    assert len(sizes) > 10
    assert 500_000 < sum(sizes) <= 3_000_000


def test_it_speaks_chinese_and_keeps_the_view(opened, explorer):
    page = start(opened, f"{explorer}?encoding=Sinusoidal&dim=16&length=16&position=3&pair=2")
    numbers = {title: figures for title, (_, figures) in state(page).items()}
    page.get_by_role("link", name="中文").click()
    page.wait_for_url("**/zh/?*")
    settle(page)
    assert page.locator("html").get_attribute("lang") == "zh-CN"
    assert code(page) == "Sinusoidal(dim=16)"
    assert link(page)["position"] == "3"
    assert [figures for _, figures in state(page).values()] == [*numbers.values()]
    said = "h2:visible, .words:visible, .help:visible, summary:visible, .xtitle, #link"
    texts = page.locator(said).all_text_contents()
    assert len(texts) > 20
    assert [text for text in texts if not re.search(r"[\u4e00-\u9fff]", text)] == []
    page.get_by_role("button", name="播放").click()
    page.wait_for_function("document.querySelector('#position').value > 4")
    page.get_by_role("button", name="暂停").click()
    page.get_by_role("link", name="English").click()
    page.get_by_role("link", name="Link to this view").wait_for()
    settle(page)
    assert code(page) == "Sinusoidal(dim=16)"


def test_parameters_come_first_on_a_phone(opened, explorer):
    page = opened(explorer, width=390)
    settle(page)
    base = page.get_by_label("base", exact=True).bounding_box()
    assert base["y"] + base["height"] < 500
    assert page.locator(".card:visible").first.bounding_box()["y"] < 1200
    page.locator(".kinds > summary").first.click()
    page.locator(".chips label", has_text="Alibi").first.click()
    page.get_by_text("Alibi(num_heads=8)").wait_for()
    assert page.locator(".kinds > summary").first.inner_text().split() == ["encoding", "Alibi"]
    assert page.locator(".chips label", has_text="Binary").first.is_hidden()


def test_it_fits_a_phone_in_either_scheme(opened, explorer):
    page = start(opened, f"{explorer}?encoding=Rotary&scaling=LongRoPE&with.encoding=GridSinusoidal", width=390)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert all(card.bounding_box()["width"] <= 390 for card in page.locator(".card:visible").all())
    colors = "[style.color, style.backgroundColor, style.fill]"
    paint = f"element => {{ const style = getComputedStyle(element); return {colors} }}"
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        paper, ink, ticks = (
            sum(map(int, page.eval_on_selector(where, paint)[which].strip("rgb()").split(",")))
            for where, which in (("body", 1), ("h1", 0), (".js-plotly-plot .xtick text", 2))
        )
        assert (paper > ink, paper > ticks) == (scheme == "light", scheme == "light")
        assert min(abs(paper - ink), abs(paper - ticks)) > 300


@pytest.mark.parametrize("pause", [0, 150])
def test_what_is_shown_is_what_was_clicked_last(opened, explorer, pause):
    """Nobody waits for an answer before the next click."""
    page = start(opened, explorer)
    chosen = "Binary", "Rotary", "Sine", "XPos"
    for name in chosen:
        choose(page, name)
        page.wait_for_timeout(pause)
    settle(page)
    assert code(page).startswith(f"{chosen[-1]}(")
    assert link(page)["encoding"] == chosen[-1]
    assert set(names(page)["words"] + names(page)["slider"]) == {
        control.name for control in controls_of({"encoding": chosen[-1]}) if control.name != "position"
    }


def test_the_name_of_a_chip_can_be_read_after_a_click(opened, explorer):
    page = start(opened, f"{explorer}?encoding=Integer")
    chip = chips(page, "encoding").locator("label", has_text="Alibi")
    chip.click()
    settle(page)
    text = chip.locator(".dash-options-list-option-text span")
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        color = text.evaluate("text => getComputedStyle(text).color")
        assert color != chip.evaluate("chip => getComputedStyle(chip).backgroundColor")


def test_two_encodings_stand_beside_each_other_on_the_same_axes(opened, explorer):
    page = start(opened, f"{explorer}?encoding=Sinusoidal&length=32&pair=3")
    choose(page, "Rotary", "with.encoding")
    page.locator("#code-with:not(:empty)").wait_for()
    settle(page)
    assert code(page) == "Sinusoidal(dim=64)"
    assert page.locator("#code-with").inner_text().startswith("Rotary(head_dim=64")
    left, right = page.locator(".card.wavelengths .plot:visible").all()
    assert left.bounding_box()["y"] == right.bounding_box()["y"]
    ranges = page.eval_on_selector_all(
        ".card.wavelengths .js-plotly-plot", "plots => plots.map(p => p.layout.yaxis.range)"
    )
    assert ranges[0] == ranges[1]
    scales = page.eval_on_selector_all(
        ".card.scores .js-plotly-plot", "plots => plots.map(plot => [plot.data[0].zmin, plot.data[0].zmax])"
    )
    assert scales[0] == scales[1]
    assert scales[0][1] == pytest.approx(1)
    shared = state(page)
    page.goto(page.url)
    settle(page)
    assert state(page) == shared
    choose(page, "none", "with.encoding")
    page.locator("#code-with").filter(has_text="Rotary").wait_for(state="detached")
    settle(page)
    assert page.locator(".card.wavelengths .plot:visible").count() == 1


def test_a_model_and_a_pasted_config_become_links(opened, explorer):
    page = start(opened, f"{explorer}?encoding=Alibi&num_heads=4")
    config = {"model_type": "llama", "head_dim": 64, "rope_theta": 12345.0}
    page.get_by_label("config.json of a model").fill(json.dumps(config))
    page.get_by_role("button", name="Read the config").click()
    page.locator("#found").get_by_role("link", name="compare all layers: Rotary").click()
    page.locator("#code-with:not(:empty)").wait_for()
    settle(page)
    assert code(page) == "Alibi(num_heads=4)"
    assert page.locator("#code-with").inner_text() == "Rotary(head_dim=64, layout='half', base=12345)"
    page.locator("#models > summary").click()
    page.locator(".model", has_text="Llama 3.1 8B").get_by_role("link", name="all layers: Rotary", exact=True).click()
    page.get_by_text("base=500000").wait_for()
    settle(page)
    assert "Llama3(factor=8, low_freq_factor=1, high_freq_factor=4, original_max_position_embeddings=8192)" in code(
        page
    )
    page.locator("#models > summary").click()
    page.get_by_label("config.json of a model").fill("{")
    page.get_by_role("button", name="Read the config").click()
    alert = page.locator("#found [role=alert]")
    alert.wait_for()
    assert alert.inner_text().startswith("`config` must be JSON: ")


def test_eight_binary_digits_are_not_carried_over(opened, explorer):
    page = start(opened, f"{explorer}?encoding=Binary")
    choose(page, "Sinusoidal")
    page.get_by_text("Sinusoidal(dim=64)").wait_for()
    settle(page)
