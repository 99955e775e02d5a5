"""Our layers under d2l's names, by the lines that `docs/explanation/d2l.md` tells its reader to write."""

import re
from contextlib import contextmanager
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "d2l.md"
HEADINGS = {"torch": "PyTorch", "tensorflow": "TensorFlow", "paddle": "Paddle", "mxnet": "MXNet", "jax": "JAX"}
NAMES = ("PositionalEncoding", "MultiHeadAttention")


@contextmanager
def replace_layers(book, framework):
    """d2l's module, with our layers in it for as long as the context lasts."""
    theirs = dict(vars(book))
    try:
        exec(compile(lines(HEADINGS[framework]), str(PAGE), "exec"), {"__name__": "page"})  # noqa: S102
        if any(getattr(book, name) is theirs[name] for name in NAMES):
            raise AssertionError(f"The lines for {HEADINGS[framework]} in {PAGE.name} must replace all of {NAMES}.")
        yield book
    finally:
        vars(book).update(theirs)


def lines(heading):
    """The code below a heading of the page, on the lines where it is."""
    page = PAGE.read_text(encoding="utf-8")
    (block,) = re.finditer(
        rf"^## {heading}\n(?:(?!^## )[^\n]*\n)*?```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL
    )
    return "\n" * page.count("\n", 0, block.start(1)) + block[1]
