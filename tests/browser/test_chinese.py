"""The Chinese pages: their catalogues translate every English text, and links connect the two languages."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from babel.messages.pofile import read_po

DOCS = Path(__file__).parents[2] / "docs"
CATALOGUES = DOCS / "locale" / "zh_CN" / "LC_MESSAGES"
BUILT = DOCS / "_build"
PAGES = sorted(path.relative_to(CATALOGUES).with_suffix("").as_posix() for path in CATALOGUES.rglob("*.po"))
PAGES = [page for page in PAGES if page not in ("sphinx", "figures")]  # words of the theme, labels of figures
HOWTO = {f"howto/{path.stem}" for path in (DOCS / "howto").glob("*.md")}
TABS = ["PyTorch", "TensorFlow / Keras", "Paddle", "MXNet", "JAX", "MLX"]
GLOSSARY = json.loads((CATALOGUES.parent / "glossary.json").read_text("utf-8"))
KEPT = re.compile(r"`[^`]+`|\$[^$]+\$|\]\([^)]+\)")  # code, formulas, where links lead


def read(folder, name, suffix):
    with (folder / f"{name}{suffix}").open("rb") as file:
        return read_po(file)


def test_catalogues_have_the_messages_of_the_pages_and_no_others(tmp_path):
    command = (sys.executable, "-m", "sphinx", "-q", "-b", "gettext", "-t", "translated", DOCS, tmp_path)
    subprocess.run(command, check=True)
    assert {"index", "explanation/which", "tutorial/index", *HOWTO} <= {*PAGES}
    for name in PAGES:
        catalogue, template = read(CATALOGUES, name, ".po"), read(tmp_path, name, ".pot")
        assert {message.id for message in catalogue} == {message.id for message in template}, name
        assert not catalogue.obsolete, name


@pytest.mark.parametrize("name", PAGES)
def test_all_is_said_in_chinese(name):
    messages = [message for message in read(CATALOGUES, name, ".po") if message.id]
    assert [message.id for message in messages if not message.string or message.fuzzy] == []
    for message in messages:
        english, chinese = (sorted(KEPT.findall(text)) for text in (message.id, message.string))
        assert english == chinese


def has_term(text, term):
    """Say whether an English text has a term of the glossary, in the singular or the plural."""
    for other in term.get("unless", ()):
        text = text.replace(other, "")
    word = re.sub("y$", "(y|ie)", term["english"])
    return re.search(rf"(?<![\w-]){word}(e?s)?(?![\w-])", text, re.IGNORECASE)


@pytest.mark.parametrize("name", [*PAGES, "figures"])
def test_a_term_has_one_translation(name):
    for message in read(CATALOGUES, name, ".po"):
        english, chinese = (KEPT.sub("", text) for text in (message.id, message.string))
        for term in GLOSSARY if english != chinese else ():
            if has_term(english, term):
                assert term["chinese"] in chinese, (term, message.string)
                assert [word for word in term.get("rejected", ()) if word in chinese] == [], (term, message.string)


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_to_what_has_been_built(name):
    page, up = BUILT / "zh" / f"{name}.html", "../" * name.count("/")
    assert f'<p class="language"><a href="../{up}{name}.html"' in page.read_text("utf-8")
    english = (BUILT / f"{name}.html").read_text("utf-8")
    assert f'<p class="language"><a href="{up}zh/{name}.html"' in english
    _, _, article = page.read_text("utf-8").partition("<article")
    for address, _, place in re.findall(r'href="(?!http)([^"#]*)(#([^"]*))?"', article):
        found = (page.parent / address).resolve() if address else page
        assert found.is_file(), address
        assert not place or f'id="{place}"' in found.read_text("utf-8"), (address, place)


def test_a_chinese_page_and_its_way_back(opened, pages):
    page = opened(f"{pages}index.html")
    page.get_by_role("link", name="中文", exact=True).click()
    page.wait_for_url(f"{pages}zh/index.html")
    page.locator("article").get_by_role("link", name="教程", exact=True).last.click()
    page.locator("article").get_by_role("link", name="旋转位置编码").click()
    page.wait_for_url("**/zh/tutorial/rotary.html")
    assert page.locator("html").get_attribute("lang") == "zh-CN"
    assert "位置编码" in page.locator("article h1").inner_text()
    assert "下一页" in page.locator("footer").inner_text()
    assert page.locator(".sd-tab-set").first.locator("> label").all_inner_texts() == TABS
    page.locator(".sd-tab-set > label", has_text="MXNet").first.click()
    page.get_by_role("link", name="English").click()
    page.wait_for_url(f"{pages}tutorial/rotary.html")
    chosen = page.locator(".sd-tab-set > input:checked + label").all_text_contents()  # also in closed dropdowns
    assert {name.strip() for name in chosen} == {"MXNet"}


def test_the_first_chinese_page_lists_the_others():
    article = (BUILT / "zh" / "index.html").read_text("utf-8").partition("<article")[2]
    listed = {address.removesuffix(".html") for address in re.findall(r'toctree-l1"><a[^>]* href="([^"#]*)"', article)}
    below = {f"{Path(name).parent}/{entry}" for name in listed for entry in contents(DOCS / f"{name}.md")}
    assert listed == {*PAGES} - below - {"index"}


def contents(page):
    """Return the pages that a page has in its tables of contents."""
    tables = re.findall(r"^```\{toctree\}\n(?::.*\n)*([^`]*)```", page.read_text("utf-8"), re.MULTILINE)
    return [line.rpartition("<")[2].rstrip(">") for table in tables for line in table.split("\n") if line]


def test_links_to_english_pages_are_marked():
    page = (BUILT / "zh" / "howto" / "check.html").read_text("utf-8")
    text = re.sub(r"</?span[^>]*>", "", page)
    assert re.search(r'href="../../reference/mistakes.html"[^>]*>已知的错误</a>（英文）', text)
    assert re.search(r'href="ci.html"[^>]*>[^<]+</a>(?!（英文）)', text)


FOUND = ["旋转", "RoPE", "位置编码", "正弦", "词元", "位置嵌入", "长度外推"]
FOUND += [f"{kind}位置编码" for kind in ("绝对", "相对", "旋转", "正弦")]


@pytest.mark.parametrize("words", FOUND)
def test_the_chinese_search_finds(opened, pages, words):
    page = opened(f"{pages}zh/search.html?q={words}")
    page.locator("#search-results .search li a").first.wait_for()
    assert "/zh/" in page.locator("#search-results .search li a").first.evaluate("a => a.href")
