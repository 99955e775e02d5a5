"""The languages of the explorer: a page below `/zh/` is Chinese, all others are English."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from typing import Any

import numpy as np
from flask import has_request_context, request

CHINESE_PATH = "/zh/"
CHINESE: dict[str, str] = json.loads((files(__package__) / "chinese.json").read_text(encoding="utf-8"))


def in_chinese() -> bool:
    """Return whether the request that is answered comes from a Chinese page."""
    return has_request_context() and request.path.startswith(CHINESE_PATH)


def translate(text: str, **values: Any) -> str:
    """Return a text in the language of the page, with values in place of the names in braces, floats by `number`."""
    text = CHINESE.get(text, text) if in_chinese() else text
    shown = {name: number(value) if isinstance(value, float | np.floating) else value for name, value in values.items()}
    return text.format(**shown) if values else text


def number(value: Any) -> str:
    """Return a number with four digits."""
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.4g}"


def translate_phrases(text: str) -> str:
    """Return a text that consists of numbers and phrases, with each phrase and mark in the language of the page."""
    return re.sub(r"[a-z]{2,}(?: [a-z]+)*|: |; ", lambda phrase: translate(phrase[0]), text)


def join_sentences(*sentences: str) -> str:
    """Return sentences behind each other: with a space between them in English, and without one in Chinese."""
    return ("" if in_chinese() else " ").join(filter(None, sentences))
