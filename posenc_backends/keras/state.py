"""The encoding that a file of weights was trained with, as recorded in the file."""

from __future__ import annotations

from typing import Any

from posenc_core.layers.encoding_bytes import Encodings, from_bytes
from posenc_core.layers.saved_encodings import changed_fields, why_refused

ENCODING_KEY = "stated_encoding"  # in a file of weights


def check_encoding(found: Any, own: Encodings) -> None:
    """Raise unless weights come from a layer of the same encoding, or of none; initial deviations do not count."""
    other = from_bytes("encoding", found)
    if why := why_refused(changed_fields(other, own)):
        raise ValueError(
            f"`encoding` of the weights is {other!r}, that of the layer {own!r}; make it with the first, or, {why}."
        )
