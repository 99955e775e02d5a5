"""Pictures of the pages, as built: each has a caption and an alternative text, and nothing in them is cut."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

BUILT = Path(__file__).parents[2] / "docs" / "_build"
IMAGES = BUILT / "_images"
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
