"""Encodings in files that hold arrays alone: the bytes of their JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from .._array_api.checks import shown
from ..encodings import Encoding
from .saved_encodings import changed_fields, why_refused

Encodings: TypeAlias = Encoding | tuple[Encoding, ...] | None


def to_bytes(encoding: Encodings) -> npt.NDArray[np.uint8]:
    """Return the JSON of an encoding, of several or of none, as an array of bytes.

    >>> from posenc_core import Alibi
    >>> bytes(to_bytes(Alibi(num_heads=2)))[:16]
    b'{"kind": "Alibi"'
    """
    return np.frombuffer(json.dumps(encoding, default=lambda one: one.to_dict()).encode(), np.uint8)


def from_bytes(name: str, saved: Any) -> Encodings:
    """Return what `to_bytes` wrote: an encoding, several or None.

    Args:
        name: of the array in its file, for errors.
        saved: the array, in the dtype that the file has for bytes.
    Raises:
        ValueError: if it is not the JSON of an encoding.
        TypeError: if a field of the encoding has another type.

    >>> from posenc_core import Alibi
    >>> from_bytes("encoding", to_bytes(Alibi(num_heads=2)))
    Alibi(num_heads=2)
    """
    try:
        with np.errstate(invalid="ignore"):
            found = json.loads(np.array(saved).astype(np.uint8).tobytes())
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(
            f"`{name}` must be an encoding as it is saved, the bytes of its JSON, got {shown(saved)}."
        ) from error
    if isinstance(found, list):
        return tuple(map(Encoding.from_dict, found))
    return None if found is None else Encoding.from_dict(found)


def check_saved(encodings: Mapping[str, Encoding], state: Mapping[str, Any]) -> None:
    """Raise ValueError unless a state holds each of these encodings, as `to_bytes` wrote it, under its name."""
    for name, encoding in encodings.items():
        if name not in state:
            raise ValueError(f"`state` must have an encoding, `{name}`, as `to_state` writes it, got {sorted(state)}.")
        saved = from_bytes(name, state[name])
        if why := why_refused(changed_fields(saved, encoding)):
            raise ValueError(
                f"`{name}` must be {encoding!r}, as in the layer, got {saved!r}; make a layer with that, or, {why}."
            )
