"""Values: frozen descriptions that can be compared, hashed, printed and written as JSON without loss."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterator
from dataclasses import dataclass, fields
from inspect import isabstract, signature
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

if TYPE_CHECKING:
    from typing import Self

V = TypeVar("V", bound="Value")


@dataclass(frozen=True, kw_only=True)
class Value(ABC):  # noqa: B024 - those below it have abstract methods
    """What every encoding and every scaling is: keyword arguments, checked when made, never changed."""

    def __post_init__(self) -> None:
        """Take NumPy's numbers for what they are, so that a value prints and is written as any other."""
        for field in fields(self):
            if field.init:
                object.__setattr__(self, field.name, _own(getattr(self, field.name)))

    def __repr__(self) -> str:
        """The call that makes it, less what goes without saying."""
        defaults = {name: p.default for name, p in signature(type(self)).parameters.items()}
        said = {name: value for name, value in self._arguments().items() if value != defaults[name]}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in said.items())})"

    def _arguments(self) -> dict[str, Any]:
        """What to call the class with, to make an equal value."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.init}

    def to_dict(self) -> dict[str, Any]:
        """The kind and the fields, in types that JSON keeps."""
        return {"kind": type(self).__name__} | {name: _plain(value) for name, value in self._arguments().items()}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """The value that `to_dict` described.

        Raises:
            TypeError: if it is no dict.
            ValueError: if the kind is unknown, or a field is missing or not one of that kind's.
        """
        if not isinstance(data, dict):
            raise TypeError(f"`data` must be a dict, as `to_dict` makes it, got {data!r}.")
        kinds = {kind.__name__: kind for kind in _kinds(cls)}
        kind = data.get("kind")
        if kind not in kinds:
            raise ValueError(f"`kind` must be one of {', '.join(sorted(kinds))}, got {kind!r}.")
        given = {name: _revived(value) for name, value in data.items() if name != "kind"}
        known = signature(kinds[kind]).parameters.keys()
        if unknown := sorted(given.keys() - known):
            raise ValueError(f"`{unknown[0]}` is no field of {kind}; it has {', '.join(sorted(known))}.")
        try:
            return kinds[kind](**given)
        except TypeError as error:
            raise ValueError(f"{kind} cannot be made of {given}: {error}") from error


def _kinds(cls: type[V]) -> Iterator[type[V]]:
    """The class and those below it, as far as they can be made."""
    if not isabstract(cls) and cls is not Value:
        yield cls
    for kind in cls.__subclasses__():
        yield from _kinds(kind)


def _own(value: Any) -> Any:
    """NumPy's numbers as numbers, lists and arrays as tuples."""
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
    return tuple(map(_own, value)) if isinstance(value, (list, tuple)) else value


def _plain(value: Any) -> Any:
    if isinstance(value, Value):
        return value.to_dict()
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _revived(value: Any) -> Any:
    if isinstance(value, dict):
        return Value.from_dict(value)
    return tuple(_revived(item) for item in value) if isinstance(value, list) else value
