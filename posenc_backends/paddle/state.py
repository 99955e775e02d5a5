"""What states say of the encoding that learned a parameter, and what is made of it when they are loaded."""

from __future__ import annotations

from typing import Any

import paddle
from paddle import Tensor

OF = " of "  # between the name of a parameter and that of its encoding; `paddle.save` keeps it


class Place:
    """A parameter, as a model is handed it to load a state into; for all else it is that parameter.

    Of a layer inside a model, Paddle compares the shape alone, and skips what does not fit with a warning; so this has
    any shape until it is told its numbers.
    """

    def __init__(self, key: str, own: Tensor) -> None:
        self._key, self._own = key, own

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def __len__(self) -> int:
        return len(self._own)

    @property
    def shape(self) -> list[Any]:
        """As many sizes as it has axes, each equal to any."""
        return [_Any() for _ in self._own.shape]

    def set_value(self, value: Any) -> None:
        """Take these numbers, if they were learned by the same encoding."""
        check(self._key, value, self._own)
        wanted, given = list(self._own.shape), list(value.shape)
        if wanted != given:
            raise ValueError(f"`{self._key}` must have shape {wanted}, got {given}.")
        self._own.set_value(value)


class _Any:
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


def check(key: str, found: Any, own: Tensor) -> None:
    """Raise if what a state has under a key was learned by another encoding; states of other origin name none."""
    theirs, ours = (_encoding_of(getattr(x, "name", "")) for x in (found, own))
    if theirs and ours and theirs != ours:
        raise ValueError(f"`state_dict` must be of the layer's encoding {ours}, got `{key}` of {theirs}.")


def _encoding_of(name: str) -> str:
    """The encoding in the name of a parameter, if it is one of ours; copies have more after it."""
    written = name.partition(OF)[2]
    return written[: written.rfind(")") + 1]


def places(state: dict[str, Any], keys: list[str]) -> dict[str, Any]:
    """A state with places for these parameters; outside of dynamic mode, Paddle loads what it is told by name."""
    if paddle.in_dynamic_mode():
        state.update({key: Place(key, state[key]) for key in keys})
    return state
