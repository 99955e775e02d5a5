"""The encoding that a file of weights was trained with, as recorded in the file."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt

from posenc_core.encodings import Encoding
from posenc_core.layers.inputs import learned_by

ENCODING_KEY = "stated_encoding"  # in a file of weights


def encoding_bytes(encoding: Encoding | None) -> npt.NDArray[np.uint8]:
    """Return the JSON of an encoding, or of none, as bytes, since files of weights hold arrays alone."""
    return np.frombuffer(json.dumps(None if encoding is None else encoding.to_dict()).encode(), np.uint8)


def check_encoding(found: Any, own: Encoding | None) -> None:
    """Raise unless weights come from a layer of the same encoding, or of none; initial deviations do not count."""
    saved = json.loads(np.asarray(found).astype(np.uint8).tobytes())
    other = None if saved is None else Encoding.from_dict(saved)
    if _learned_by(other) != _learned_by(own):
        raise ValueError(f"`encoding` of the weights is {other!r}, that of the layer {own!r}; make it with the first.")


def _learned_by(encoding: Encoding | None) -> str | None:
    return None if encoding is None else learned_by(encoding)
