"""Pictures of the pages, as built: each has a caption and an alternative text, and nothing in them is cut."""

import re
import zipfile
from html.parser import HTMLParser
from pathlib import Path

import pytest

BUILT = Path(__file__).parents[2] / "docs" / "_build"
IMAGES = BUILT / "_images"
DRAWN, DRAWINGS = BUILT.with_name("_drawn"), BUILT.with_name("drawings")
BOXES = """svg => {
    const frame = svg.getBoundingClientRect();
    return [...svg.querySelectorAll('[id^="text_"]')].map(text => {
        const { left, top, right, bottom } = text.getBoundingClientRect();
        return [left - frame.left, top - frame.top, frame.right - right, frame.bottom - bottom, right - left];
    }).filter(box => box[4] > 0);
}"""


class Frames(HTMLParser):
    """The drawn pictures of a page: the alternative texts of their images, and their captions."""

    def __init__(self):
        super().__init__()
        self.found, self.depth = [], 0

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if tag in ("figure", "div") and "drawn" in (attrs.get("class") or "").split():
            self.found.append(([], []))
            self.depth = 1
        elif self.depth and tag in ("figure", "div"):
            self.depth += 1
        if self.depth and tag == "img":
            self.found[-1][0].append(attrs)

    def handle_endtag(self, tag):
        if self.depth and tag in ("figure", "div"):
            self.depth -= 1

    def handle_data(self, data):
        if self.depth and data.strip():
            self.found[-1][1].append(data.strip())


@pytest.mark.parametrize("folder", ["tutorial", "zh/tutorial", "explanation"])
def test_each_picture_has_two_forms_an_alternative_text_and_a_caption(folder):
    count = 0
    for page in sorted((BUILT / folder).glob("*.html")):
        frames = Frames()
        frames.feed(page.read_text(encoding="utf-8"))
        for number, (images, caption) in enumerate(frames.found):
            forms = [each["class"] for each in images]
            assert forms == ["only-light", "only-dark"], (page.name, number)
            assert all(len(each["alt"]) > 20 for each in images), (page.name, number)
            words = " ".join(caption)
            assert len(words) > 20, (page.name, number)
            if folder.startswith("zh"):
                assert re.search(r"[\u4e00-\u9fff]", words), words
                assert all(".zh_CN" in each["src"] for each in images), (page.name, number)
            if folder != "explanation":
                assert re.match(r"(Fig\.|图) *\d+", words), words
        count += len(frames.found)
    assert count > 5


def test_no_label_is_cut_at_the_frame(opened, pages):
    page = opened(f"{pages}index.html")
    cut = []
    files = sorted(IMAGES.glob("*-light*.svg"))
    assert len(files) > 20
    for file in files:
        text = file.read_text(encoding="utf-8")
        page.locator("article").evaluate("(article, svg) => { article.innerHTML = svg; }", text[text.index("<svg") :])
        boxes = page.locator("article svg").first.evaluate(BOXES)
        assert boxes, file.name
        cut += [(file.name, box) for box in boxes if min(box[:4]) < -0.5]
    assert cut == []


def test_the_figures_are_a_file_to_download():
    (archive,) = BUILT.glob("_downloads/*/figures.zip")
    with zipfile.ZipFile(archive) as files:
        names = set(files.namelist())
        captions = files.read("captions.txt").decode()
    pages = "|".join(path.stem for path in DRAWINGS.glob("[a-z]*.py"))
    drawn = {path.stem for path in DRAWN.glob("*.png") if re.match(f"({pages})-", path.name)}
    forms = (".png", *(f"-{form}{language}.svg" for form in ("light", "dark") for language in ("", ".zh_CN")))
    assert len(drawn) > 20
    assert names == {f"{name}{form}" for name in drawn for form in forms} | {"LICENSE", "captions.txt"}
    assert all(f"{name}: " in captions for name in drawn)
