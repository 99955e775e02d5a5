"""Check the English of pages, docstrings and messages: `nox -s lint`, or `python -m tests.prose`.

proselint reads them with its own checks and with those below. Code, formulas and words in quotation marks are left out.
"""

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.colon_fence import colon_fence_plugin
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.front_matter import front_matter_plugin
from proselint.checks import __register__ as everything
from proselint.config import DEFAULT
from proselint.registry import CheckRegistry
from proselint.registry.checks import Check, types
from proselint.registry.checks.engine import Fancy, RegexOptions
from proselint.tools import LintFile

ROOT = Path(__file__).parents[1]
PYTHON = ("posenc_core", "posenc_backends", "docs")
MADE = {"_build", "_drawn", "README.zh.md"}  # by the build of the docs, or not English
MARKDOWN = MarkdownIt().enable("table").use(colon_fence_plugin).use(dollarmath_plugin).use(front_matter_plugin)

WORDS = {  # home-made words, and what the field or a technical writer says
    "rooms?": "backend",
    "houses?|roof": "architecture",
    "holders?": "base layer",
    "told": "given",
    r"turned(?! (?:on|off|into)\b)": "rotated",
    "guests?|strangers?|citizens?": "the thing itself",
    "rungs?": "step",
    "wish(?:es)?": "property",
    "gaps?": "known failure",
    "specimens?": "layer case",
    "dealt": "grouped",
    "finer points": "advanced",
    "mend(?:s|ed|ing)?": "fix",
    "anew": "again",
    "thereof|therein|whereof|whereby": "a plain clause",
    "hand(?:s|ed|ing)? out": "provide",
    "for good": "permanently",
    "in silence": "silently",
    "by heart": "memorise",
    "nobody's|no one's": "undefined",
    "content with": "satisfied by",
    "as if by": "by",
}
TICS = (  # how sentences are not built, and the advice
    (r"(?:^\s*|[.!?:]\s)(?:What|Who)\b(?![^.?!:]*\?)[^.?!:]*[\w#][.:]", "name the subject; a question ends with '?'"),
    (r",\s+too(?:[.,;:)]|$)", "write 'also' before the verb"),
    (
        r"(?<!there )(?<!There )\b(?:is|are|was)\s+no\s+(?!longer|more|less|fewer|other|better|worse|such)\w+",
        "write 'is not a' or 'has no'",
    ),
    (
        r"(?<!\bdo)(?<!\bdoes)(?<!\bdid)(?<!\bdoing)(?<!\bif)(?<!\bIf)(?<!\bor)(?<!\bsays)\s+so[.;:)](?:\s|$)",
        "a sentence does not end with 'so'",
    ),
    (r"\bis what [\w ]+ (?:is|are|does|do|has|have)[.;,]", "put the verb early"),
    (r"(?<![-#])\b([a-z]{2,})[ \t]+\1\b(?!-)", "the word stands twice"),
)
FIRM = Fancy(RegexOptions(case_insensitive=False))
OURS = (
    Check(
        path="posenc.words",
        check_type=types.PreferredForms({f"(?:{said})": better for said, better in WORDS.items()}),
        engine=Fancy(),
        message="say '{}', not '{}'",
    ),
    *(
        Check(path="posenc.tics", check_type=types.ExistenceSimple(tic), engine=FIRM, message=f"'{{}}': {advice}")
        for tic, advice in TICS
    ),
)
OFF = ("dates_times", "lexical_illusions", "misc.but", "misc.phrasal_adjectives.ly", "typography")
CHECKS = (
    dict.fromkeys(OFF, False) | {"posenc": True} | {key: on for key, on in DEFAULT["checks"].items() if key not in OFF}
)
CheckRegistry().register_many((*everything, *OURS))

Passage = tuple[int, str]  # the line that it begins in, from 1, and its text


def main() -> int:
    """Print the findings in the files that are named, or in all; return 1 if there are any."""
    paths = [Path(name).absolute() for name in sys.argv[1:]] or files()
    findings = [finding for path in paths for finding in check(path)]
    print(*findings, sep="\n", end="\n" if findings else "")  # noqa: T201
    return int(bool(findings))


def files() -> list[Path]:
    """Return the pages and modules of the project, without those that are generated."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    modules = [path for name in PYTHON for path in (ROOT / name).rglob("*.py")]
    return sorted(path for path in (*pages, *modules) if not MADE & set(path.relative_to(ROOT).parts))


def check(path: Path) -> list[str]:
    """Return the findings in a page or module, one line each."""
    text = path.read_text(encoding="utf-8")
    found = passages(MARKDOWN.parse(text)) if path.suffix == ".md" else strings(text)
    name = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
    return [
        f"{name}:{start + passage[: result.check_result.span[0] - 1].count(chr(10))}: {result.check_result.message}"
        for start, passage in found
        if passage.strip()  # of an empty one, the linter would read the whole file
        for result in LintFile(path, passage).lint({"max_errors": 100, "checks": CHECKS})
    ]


def passages(tokens: list[Token], line: int = 1) -> Iterator[Passage]:
    """Yield the paragraphs, headings, items and cells of a page, those inside of directives as well."""
    row = 0
    for token in tokens:
        row = token.map[0] if token.map else row  # cells have no line of their own
        if token.type == "inline":
            yield line + row, "".join(map(plain, token.children or ()))
        elif token.type == "colon_fence" or token.info.startswith(("{note", "{tip", "{dropdown", "{admonition")):
            yield from passages(MARKDOWN.parse(re.sub(r"\A(?::[\w-]+:.*\n)+", "\n", token.content)), line + row + 1)


def plain(token: Token) -> str:
    """Return the text of an inline token; code and formulas are a sign."""
    if token.type in ("softbreak", "hardbreak"):
        return "\n"
    return {"text": token.content, "code_inline": "#", "math_inline": "#"}.get(token.type, "")


def strings(source: str) -> Iterator[Passage]:
    """Yield the paragraphs of docstrings, and other texts of four words or more, of a module."""
    within = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            parts = [getattr(part, "value", "") if isinstance(part, ast.Constant) else "#" for part in node.values]
            within |= {id(part) for part in node.values}
            text = "".join(parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in within:
            text = inspect.cleandoc(node.value) if "\n" in node.value else node.value
        else:
            continue
        start = node.lineno
        for paragraph in re.split(r"\n(?=\s*\n)", text):
            prose = re.sub(r"``.*?``|`[^`]*`|(?m:^ {4}[\w, ]+:)", "#", paragraph, flags=re.DOTALL)
            if re.search(r"\w+ \w+ .*[.:;,A-Z]", prose) and not prose.lstrip().startswith((">>>", "<")):
                yield start, prose
            start += paragraph.count("\n") + 1


if __name__ == "__main__":
    sys.exit(main())
