"""Values: frozen dataclasses that can be compared and hashed, and that `repr` and JSON reproduce exactly."""

from __future__ import annotations

import operator
from abc import ABCMeta
from dataclasses import dataclass, fields
from difflib import get_close_matches
from importlib import import_module
from inspect import Parameter, Signature, isabstract, signature
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ._array_api.checks import shown
from ._calls import explain_call

if TYPE_CHECKING:
    from typing import Self

V = TypeVar("V", bound="Value")

_DEEPEST = 16  # dicts and lists in each other; an encoding has a scaling, which has lists


class ValueClass(ABCMeta):
    """The class of the classes of values: arguments that do not fit are explained in one sentence."""

    if not TYPE_CHECKING:  # the types of arguments are those of each class

        def __call__(cls, *given: Any, **named: Any) -> Any:
            try:
                return super().__call__(*given, **named)
            except TypeError as error:
                known = cls.__signature__.parameters
                explained = explain_call(cls.__name__, known, given, named, {})
                if explained is None:
                    raise
                raise explained from error

    @property
    def __signature__(cls) -> Signature:
        """The arguments, without those of `__call__` above."""
        return Signature(list(signature(cls.__init__).parameters.values())[1:])  # type: ignore[misc]


@dataclass(frozen=True, kw_only=True)
class Value(metaclass=ValueClass):
    """The base class of encodings and scalings: keyword arguments that are checked once and never change."""

    def __post_init__(self) -> None:
        """Replace numbers and arrays of libraries by Python's, so that `repr` and JSON can reproduce the value."""
        for field in fields(self):
            if field.init:
                object.__setattr__(self, field.name, _to_python(getattr(self, field.name)))

    def __repr__(self) -> str:
        """Return the call that makes this value, without arguments that have their default."""
        defaults = {name: p.default for name, p in signature(type(self)).parameters.items()}
        shown = {name: value for name, value in self._arguments().items() if value != defaults[name]}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    def _arguments(self) -> dict[str, Any]:
        """Return the keyword arguments that make an equal value."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.init}

    def to_dict(self) -> dict[str, Any]:
        """Return the name of the class, as `kind`, and the fields, in types that JSON has."""
        return {"kind": type(self).__name__} | {name: _to_json(value) for name, value in self._arguments().items()}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Return the value that `to_dict` described.

        Raises:
            TypeError: if `data` is not a dict.
            ValueError: if `kind` is unknown, a field is missing, or the class has no such field.
        """
        if not isinstance(data, dict):
            raise TypeError(f"`data` must be a dict, as `to_dict` makes it, got {shown(data)}.")
        _check_depth(data)
        kind, classes = data.get("kind"), _concrete_classes(cls)
        if not isinstance(kind, str) or kind not in classes:
            _import_public_classes()
            classes = _concrete_classes(cls)
        if not isinstance(kind, str) or kind not in classes:
            near = get_close_matches(shown(kind).strip("'"), classes, n=3, cutoff=0.0)
            raise ValueError(f"`kind` must be a class of posenc, like {', '.join(near)}, got {shown(kind)}.")
        arguments = {name: _from_json(value) for name, value in data.items() if name != "kind"}
        known = signature(classes[kind]).parameters
        if unknown := [name for name in arguments if name not in known]:
            fields = ", ".join(sorted(known))
            raise ValueError(f"`{shown(unknown[0])[1:-1]}` is not a field of {kind}; its fields are {fields}.")
        if missing := [name for name in known if known[name].default is Parameter.empty and name not in arguments]:
            raise ValueError(f"`{missing[0]}` must be given to {kind}, got {shown(data)}.")
        try:
            return classes[kind](**arguments)
        except TypeError as error:
            raise ValueError(str(error)) from error


def _check_depth(data: Any) -> None:
    """Raise if dicts and lists are nested more deeply than any value is; each is looked at once."""
    level, seen = [data], {id(data)}
    for _ in range(_DEEPEST):
        inner = [item for each in level for item in (each.values() if isinstance(each, dict) else each)]
        level = [item for item in inner if isinstance(item, (dict, list, tuple)) and id(item) not in seen]
        seen.update(map(id, level))
    if level:
        raise ValueError(f"`data` must be nested at most {_DEEPEST} deep, as `to_dict` makes it, got more.")


def _import_public_classes() -> None:
    """Import the modules of all public names, which are imported when a name is first read."""
    package = import_module(__package__)
    for name in package.__all__:
        getattr(package, name)


def _concrete_classes(cls: type[V]) -> dict[str, type[V]]:
    """Return the class and its subclasses by name, except abstract ones."""
    classes = {} if isabstract(cls) or cls is Value else {cls.__name__: cls}
    for subclass in cls.__subclasses__():
        classes |= _concrete_classes(subclass)
    return classes


def _to_python(value: Any) -> Any:
    """Return NumPy's scalars as numbers, other integers as int, lists and arrays as tuples, and the rest unchanged."""
    if type(value) in (int, float, str):
        return value
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return tuple(map(_to_python, value))
    is_integer = hasattr(value, "__index__") and not isinstance(value, int) and not hasattr(value, "shape")
    return operator.index(value) if is_integer else value


def _to_json(value: Any) -> Any:
    if isinstance(value, Value):
        return value.to_dict()
    return [_to_json(item) for item in value] if isinstance(value, tuple) else value


def _from_json(value: Any) -> Any:
    if isinstance(value, dict):
        return Value.from_dict(value)
    return tuple(_from_json(item) for item in value) if isinstance(value, list) else value
