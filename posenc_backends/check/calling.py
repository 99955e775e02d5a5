"""Asking a callable: its framework's arrays go in, float64 comes out; whatever goes wrong is told in a sentence."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from posenc_backends import HOST_NAMES, NAMES, load

from .calls import Question
from .candidates import Float64s
from .signatures import Form

FRAMEWORKS = (*(name for name in NAMES if name != "keras"), "tensorflow", "keras", "numpy")
NARROW = ("jax", "keras", "tensorflow", "mxnet")  # whose users count positions in int32


class NoAnswerError(Exception):
    """The callable raised, or returned what is no answer; the message is a sentence."""


class NoNumbersError(NoAnswerError):
    """The callable returned infinity or NaN, which is no refusal."""


class Framework(NamedTuple):
    """What makes arrays, reads them, and differentiates."""

    name: str
    arrays: Any
    testing: Any

    @property
    def differentiates(self) -> bool:
        """Whether it has gradients."""
        return hasattr(self.testing, "gradient")

    def to_backend(self, numbers: npt.NDArray[Any], dtype: str) -> Any:
        """The numbers as an array of the framework, in this dtype."""
        return self.testing.cast(self.arrays.from_numpy(np.ascontiguousarray(numbers, np.float32)), dtype)

    def places(self, positions: npt.NDArray[Any]) -> Any:
        """Positions as the framework's users have them."""
        if positions.dtype.kind == "f":
            return self.to_backend(positions, "float32")
        return self.arrays.from_numpy(positions.astype(np.int32 if self.name in NARROW else np.int64))


def framework(name: str) -> Framework:
    """A framework by its name.

    Raises:
        ValueError: if there is no such.
        ImportError: if it is not installed.
    """
    if name not in FRAMEWORKS:
        raise ValueError(f"`framework` must be one of {', '.join(map(repr, FRAMEWORKS))}, got {name!r}.")
    if name in NAMES + HOST_NAMES:
        load(name)
    adapter = import_module(f"posenc_backends.{name}.backend")
    return Framework(name, adapter, import_module(f"posenc_backends.conformance.frameworks.{name}"))


def frameworks_of(callee: Callable[..., Any]) -> list[str]:
    """The frameworks that the module of a callable names; NumPy, if it names none."""
    inner = getattr(callee, "func", callee)
    names = getattr(inner, "__globals__", None)
    if names is None:
        module = getattr(inner, "__module__", None) or type(inner).__module__
        names = vars(sys.modules.get(module, np))
    roots = {_root(value) for value in list(names.values())} | {_root(base) for base in type(inner).__mro__}
    closed = getattr(inner, "__closure__", None) or ()
    roots |= {_root(type(cell.cell_contents)) for cell in closed if _is_filled(cell)}
    found = [name for name in FRAMEWORKS if name in roots or (name == "jax" and "flax" in roots)]
    if "keras" in found:
        found.insert(0, found.pop(found.index("keras")))
    return found or ["numpy"]


def ask(callee: Callable[..., Any], world: Framework, form: Form, question: Question) -> tuple[Float64s, ...]:
    """What the callable returns to a question.

    Raises:
        NoAnswerError: if it raises, or returns another number of arrays, other shapes, NaN, or another framework's arrays.
    """
    tokens = [world.to_backend(numbers, question.dtype) for numbers in question.tokens]
    got = _called(callee, question, *tokens, *(world.places(each) for each in question.places))
    outputs = got if isinstance(got, tuple | list) else (got,)
    if len(outputs) != len(form.outputs):
        raise NoAnswerError(f"it must return {len(form.outputs)} arrays, got {_told(got)}, of {question.told}.")
    kinds = type(world.places(question.places[0])), type(world.to_backend(np.zeros(1), "float32"))
    return tuple(_read(world, output, kinds, question) for output in outputs)


def ask_gradient(
    callee: Callable[..., Any], world: Framework, form: Form, question: Question, weights: Float64s
) -> Float64s:
    """The gradient of `sum(result * weights)` with respect to the first array, of the first output.

    Raises:
        NoAnswerError: if there is none.
    """
    first, *others = (world.to_backend(numbers, question.dtype) for numbers in question.tokens)
    places = [world.places(each) for each in question.places]

    def call(x: Any) -> Any:
        got = callee(x, *others, *places)
        return got[0] if isinstance(got, tuple | list) else got

    gradient = _called(world.testing.gradient, question, call, first, world.to_backend(weights, question.dtype))
    return np.asarray(world.arrays.to_numpy(gradient), np.float64)


def check_shapes(form: Form, question: Question, got: tuple[Float64s, ...], wanted: tuple[Float64s, ...]) -> None:
    """Raise `NoAnswerError` unless an answer has the shape of the right one and is finite; a leading axis of 1 may be added."""
    for name, one, right in zip(form.outputs, got, wanted, strict=True):
        if one.shape not in (right.shape, (1, *right.shape)):
            raise NoAnswerError(f"{name} must have shape {right.shape}, got {one.shape}, of {question.told}.")
        if not np.isfinite(one).all():
            raise NoNumbersError(f"{name} must be numbers, got {_first_odd(one)}, of {question.told}.")


def has(world: Framework, dtype: str) -> bool:
    """Whether the framework has this dtype."""
    try:
        made = world.to_backend(np.zeros((1, 1)), dtype)
    except Exception:  # noqa: BLE001 - each framework raises what it likes
        return False
    return dtype in str(made.dtype)


def _called(callee: Callable[..., Any], question: Question, *arguments: Any) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return callee(*arguments)
    except (Exception, SystemExit) as error:
        raise NoAnswerError(f"it raised {type(error).__name__}: {_line(error)}, of {question.told}.") from error


def _read(world: Framework, output: Any, kinds: tuple[type, ...], question: Question) -> Float64s:
    if not isinstance(output, kinds) and not (world.name == "numpy" and isinstance(output, np.generic)):
        wanted = f"{kinds[-1].__module__}.{kinds[-1].__qualname__}"
        raise NoAnswerError(
            f"it must return {world.name}'s arrays ({wanted}), got {_told(output)}, of {question.told}."
        )
    try:
        numbers = np.asarray(world.arrays.to_numpy(output))
    except Exception as error:
        told = f"it returned {_told(output)} that cannot be read, {type(error).__name__}: {_line(error)}"
        raise NoAnswerError(f"{told}, of {question.told}.") from error
    if numbers.dtype.kind not in "fiu":
        raise NoAnswerError(f"it must return real numbers, got {numbers.dtype}, of {question.told}.")
    return numbers.astype(np.float64)


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300] or "no message"


def _told(given: Any) -> str:
    if isinstance(given, tuple | list):
        return f"{type(given).__name__} of {len(given)}"
    return f"{type(given).__module__}.{type(given).__qualname__}".removeprefix("builtins.")


def _first_odd(array: Float64s) -> str:
    at = tuple(np.argwhere(~np.isfinite(array))[0].tolist())
    return f"{array[at]} at {at}"


def _root(value: Any) -> str:
    name = getattr(value, "__name__", "") if type(value).__name__ == "module" else getattr(value, "__module__", "")
    return str(name).removeprefix("posenc_backends.").partition(".")[0]


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - of an empty cell it raises
    except ValueError:
        return False
    return True
