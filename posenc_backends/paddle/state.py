"""The encoding of a parameter, as recorded in a saved state, and the check that refuses another encoding."""

from __future__ import annotations

from typing import Any

import paddle
from paddle import Tensor

from posenc_core.layers.saved_encodings import changed_fields, why_refused

SEPARATOR = " of "  # between the name of a parameter and its encoding; `paddle.save` keeps it


class CheckedParameter:
    """A parameter that checks what is loaded into it; for all else it is that parameter.

    For a layer inside a model Paddle compares only shapes, and skips what does not fit with a warning. So the shape of
    this object equals every shape of its rank, and `set_value` compares.
    """

    def __init__(self, key: str, own: Tensor) -> None:
        self._key, self._own = key, own

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def __len__(self) -> int:
        return len(self._own)

    @property
    def shape(self) -> list[Any]:
        """As many sizes as the parameter has axes; each equals any size."""
        return [_AnySize() for _ in self._own.shape]

    def set_value(self, value: Any) -> None:
        """Set the parameter; raise if the value was learned with another encoding or has another shape."""
        check_encoding(self._key, value, self._own)
        wanted, given = list(self._own.shape), list(value.shape)
        if wanted != given:
            raise ValueError(f"`{self._key}` must have shape {wanted}, got {given}.")
        self._own.set_value(value)


class _AnySize:
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


def check_encoding(key: str, found: Any, own: Tensor) -> None:
    """Raise if the array under this key was learned with another encoding; arrays of other origin name none."""
    theirs, ours = (_encoding_of(getattr(x, "name", "")) for x in (found, own))
    if theirs and ours and (why := why_refused(changed_fields(theirs, ours))):
        raise ValueError(f"`state_dict` must be of the layer's encoding {ours}, got `{key}` of {theirs}; {why}.")


def _encoding_of(name: str) -> str:
    """Return the encoding in the name of a parameter, or ""; the names of copies have a suffix after it."""
    encoding = name.partition(SEPARATOR)[2]
    return encoding[: encoding.rfind(")") + 1]


def loadable(state: dict[str, Any], keys: list[str]) -> dict[str, Any]:
    """Return a state in which these parameters check what is loaded; in static mode Paddle loads by name instead."""
    if paddle.in_dynamic_mode():
        state.update({key: CheckedParameter(key, state[key]) for key in keys})
    return state
