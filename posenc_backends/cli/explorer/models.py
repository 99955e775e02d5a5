"""Models: the encodings that the configs of well-known models, or a config that was pasted, describe."""

from __future__ import annotations

import json
import threading
import warnings
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from itertools import islice
from typing import Any

from posenc_core.encodings import Encoding
from posenc_core.huggingface import PositionEncodings, load_position

from .links import link_to

LONGEST = 2**16  # characters of a pasted config
MOST = 24  # encodings that are listed
MOST_TRIED = 96  # of the parts of a config
_RECORDING = threading.Lock()  # warnings are recorded for the whole process


def read_config(text: str) -> tuple[list[tuple[str, str]], list[str]]:
    """Return a name and a link for each encoding in the text of a `config.json`, and what else there is to say.

    The checks are those of `load_position`, which `load_rope` shares; no file is read and nothing is downloaded.

    Raises:
        TypeError, ValueError: if the text is not a config, or too long, or describes an encoding wrongly.
    """
    if not text.strip():
        raise ValueError("`config` must be the text of a config.json, got nothing.")
    if len(text) > LONGEST:
        raise ValueError(f"`config` must have at most {LONGEST:,} characters, got {len(text):,}; leave out long lists.")
    try:
        config = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"`config` must be JSON: {str(error)[:120]}.") from None
    if not isinstance(config, dict):
        raise TypeError(f"`config` must be a JSON object, got {type(config).__name__}.")
    with _RECORDING, warnings.catch_warnings(record=True) as recorded:
        warnings.simplefilter("always")
        position = load_position(config)
    notes = list(dict.fromkeys(str(warning.message) for warning in recorded))
    found: list[tuple[str, str]] = []
    for name, encoding in islice(_encodings(position), MOST_TRIED):
        try:
            found.append((name, link_to(encoding)))
        except ValueError as error:
            notes.append(f"{name} cannot be drawn: {error}"[:300])
    if not found and not notes:
        notes = ["This model has no positional encoding that the explorer draws."]
    return found[:MOST], notes[:MOST]


@cache
def presets() -> dict[str, tuple[tuple[str, str], ...]]:
    """Return the names and links of the encodings of well-known models, by model, from their configs."""
    models: dict[str, Any] = json.loads((files(__package__) / "models.json").read_text(encoding="utf-8"))
    return {name: tuple(read_config(json.dumps(model["config"]))[0]) for name, model in models.items()}


def _encodings(position: PositionEncodings, part: str = "") -> Iterator[tuple[str, Encoding]]:
    """Yield a name and an encoding for each of a model: the part, and where it is."""
    factors = (("queries", position.query_scale),)
    for where, encoding in (*position.additive, *position.rotary, *position.scoring, *factors):
        if encoding is not None:
            name = " ".join(filter(None, (part, (where or "").replace("_", " ")))) or "all layers"
            yield f"{name}: {type(encoding).__name__}", encoding
    for name, inner in position.parts:
        yield from _encodings(inner, f"{part} {name}".strip())
