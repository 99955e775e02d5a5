"""Mark what a test shows of several devices; `docs/devices.py` writes these marks as a page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Test = TypeVar("Test", bound=Callable[..., Any])


def many_devices(framework: str, what: str, *, line: str = "", fails: str = "") -> Callable[[Test], Test]:
    """Return a decorator that leaves a test as it is. Arguments are literals, which the page has as Markdown.

    Args:
        framework: the tab of the page, such as `"PyTorch"`.
        what: the engine, and what of it the test runs.
        line: what a user adds to the program; empty where nothing is needed.
        fails: why it does not work, where the test shows that.
    """
    return lambda test: test
