"""The pages, as built: their search."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


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


def test_the_search_for_a_layer_finds_the_page_of_a_framework(opened, pages):
    page = opened(f"{pages}search.html?q=RotaryEmbedding")
    page.locator("#search-results li a[href*='reference/torch.html']").first.wait_for()


def test_the_matrix_is_seen_whole_on_a_phone(opened, pages):
    page = opened(f"{pages}reference/support.html", width=390)
    assert page.locator("table.matrix").first.evaluate("t => t.getBoundingClientRect().right") <= 390


def test_the_words_are_one_link_away(opened, pages):
    page = opened(f"{pages}howto/cache.html")
    page.get_by_role("link", name="Words", exact=True).first.click()
    page.wait_for_url("**/reference/words.html")


def test_no_page_of_the_reference_shows_how_a_class_is_made():
    for source in (DOCS / "reference").glob("*.md"):
        text = (DOCS / "_build" / "reference" / f"{source.stem}.html").read_text(encoding="utf-8")
        assert not re.search("Alias for field number|&lt;factory&gt;|&lt;function ", text), source.stem


@pytest.mark.parametrize("folder", ["", "zh"])
def test_each_page_has_a_description_of_its_own(folder):
    """Which a search engine shows."""
    built = [
        page
        for name in ("", "tutorial", "howto", "explanation", "reference")
        for page in (DOCS / "_build" / folder / name).glob("*.html")
    ]
    sources = [
        page for page in built if (DOCS / page.relative_to(DOCS / "_build" / folder)).with_suffix(".md").exists()
    ]
    tags = [re.findall(r'<meta [^>]*name="description"[^>]*>', page.read_text("utf-8")) for page in sources]
    found = [re.findall(r'content="(.+?)"', "".join(each)) for each in tags]
    assert len({*map(tuple, found)}) == len(found) > 40
    assert {*map(len, found)} == {1}
    assert not any(text.startswith(("Time:", "用时")) for (text,) in found)


def test_fields_that_share_a_text_have_their_names_in_one_line():
    for page in (DOCS / "_build" / "reference").glob("*.html"):
        assert not re.search(r"<strong>\w+</strong> \(<em>[\w, ]+,</em>\)", page.read_text("utf-8")), page.stem


SCHEMES = ["light", "dark"]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", ["index", "tutorial/waves", "howto/explore"])
def test_one_form_of_each_picture_is_loaded(opened, pages, name, scheme):
    """That of the scheme which is chosen on the page: the system has the other one."""
    page = opened(f"{pages}search.html", scheme=SCHEMES[scheme == "light"])
    page.evaluate("scheme => localStorage.setItem('theme', scheme)", scheme)
    loaded = []
    page.on("request", lambda request: loaded.append(request.url))
    page.goto(f"{pages}{name}.html")
    page.locator(f"article img.only-{scheme}").evaluate_all(
        "async all => { for (const each of all) { each.scrollIntoView(); await each.decode(); } }"
    )
    pictures = [url for url in loaded if "/_images/" in url]
    assert len(pictures) == page.locator(f"article img.only-{scheme}").count()
    assert [url for url in pictures if SCHEMES[scheme == "light"] in url] == []
    assert name == "index" or pictures
    page.evaluate("localStorage.removeItem('theme')")


WHITE = """async addresses => {
  const shares = {};
  for (const address of addresses) {
    const image = new Image();
    image.src = address;
    await image.decode();
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
    const context = canvas.getContext("2d");
    context.drawImage(image, 0, 0);
    const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
    let white = 0;
    for (let i = 0; i < data.length; i += 4)
      if (Math.min(data[i], data[i + 1], data[i + 2], data[i + 3]) > 235) white += 1;
    shares[address] = white / (data.length / 4);
  }
  return shares;
}"""


def test_nothing_is_white_in_the_dark(opened, pages):
    """Of no picture that dark pages show is more than a hundredth white, as letters are."""
    tags = [tag for path in DOCS.glob("_build/**/*.html") for tag in re.findall(r"<img[^>]*>", path.read_text("utf-8"))]
    shown = {re.search(r'src="(?:\.\./)*([^"]+)"', tag)[1] for tag in tags if "only-light" not in tag}
    found = [f"/{'zh/' * ('zh_CN' in source)}{source}" for source in sorted(shown) if not source.startswith("data:")]
    assert len(found) > 30
    page = opened(f"{pages}index.html", scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(19, 20, 22)"
    shares = page.evaluate(WHITE, [address for address in found if (DOCS / "_build" / address[1:]).exists()])
    assert len(shares) > 30
    assert {address: share for address, share in shares.items() if share > 0.01} == {}


def test_the_search_says_when_there_is_nothing(opened, pages):
    page = opened(f"{pages}search.html?q=xyzzyx")
    page.get_by_text("did not match any documents").wait_for()


NARROW = ["index", "reference/rotation", "reference/support", "reference/notation", "reference/encodings-rotary"]


@pytest.mark.parametrize("name", [f"{name}.html" for name in NARROW])
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
