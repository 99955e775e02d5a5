"""Check arguments: each error is one sentence that names the argument, its value and the fix."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from .._foreign_names import our_value
from .namespace import A, Array, dtype_name, dtype_of, is_floating, namespace_of

LARGEST = 2**127  # of a number in float32, whose exponent ends there
WIDEST = 2**16  # channels or heads: as many frequencies in 110 digits take some seconds
_SHOWN = 80  # characters of a value in a message, which has 300 at most


def shown(value: object) -> str:
    """Return the `repr` of a value for a message: one line, at most 80 characters, and no error of its own.

    >>> shown(list(range(1000)))[-40:]
    '2, 13, 14, 15, 16, 17, 18, 19, 20, 21, …'
    """
    try:
        line = re.sub(r"\s*\n\s*", " ", repr(value))
    except Exception:  # noqa: BLE001 - of a class that we do not know, or an integer of more digits than Python prints
        line = f"<{type(value).__name__}>"
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 2]} …"


def check_integer(name: str, value: object, *, minimum: float = 1, maximum: float = 2**53) -> int:
    """Return `value` as an int; raise unless it is an integer from `minimum` to `maximum`, to which float64 counts.

    An array must have no axes.
    """
    number = value if type(value) is int else as_integer(value)
    if number is None:
        raise TypeError(f"`{name}` must be an integer, got {shown(value)}.")
    if number < minimum:
        raise ValueError(f"`{name}` must be at least {minimum}, got {shown(value)}.")
    if number > maximum:
        raise ValueError(f"`{name}` must be at most {maximum}, got {shown(value)}.")
    return number


def check_flag(name: str, value: object) -> bool:
    """Return `value` as a bool; raise unless it is True or False."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    raise TypeError(f"`{name}` must be True or False, got {shown(value)}.")


def as_integer(value: Any) -> int | None:
    """Return `value` as an int, or None if it is a boolean, an array with axes or not an integer at all."""
    is_of_other_type = dtype_of(value) is not None and not dtype_name(value).startswith(("int", "uint"))
    if isinstance(value, bool) or is_of_other_type or getattr(value, "ndim", 0) != 0:
        return None
    try:
        return operator.index(value) if dtype_of(value) is None else int(value)  # some scalars have no `__index__`
    except (TypeError, ValueError):  # the second of tracers
        return None


def check_even(name: str, value: object) -> int:
    """Return `value` as an int; raise unless it is a positive even integer."""
    number = check_integer(name, value)
    if number % 2:
        raise ValueError(f"`{name}` must be even, got {shown(value)}.")
    return number


def check_number(name: str, value: object, *, above: float = -math.inf, minimum: float = -math.inf) -> None:
    """Raise unless `value` is a finite real number, greater than `above` and at least `minimum`."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"`{name}` must be a number, got {shown(value)}.")
    if not -1e308 < value < 1e308 or value <= above or value < minimum:
        bound = "" if above == -math.inf else f" greater than {above:g}"
        bound = bound if minimum == -math.inf else f" of at least {minimum:g}"
        raise ValueError(f"`{name}` must be a finite number{bound}, got {shown(value)}.")


def check_type(name: str, value: object, kind: Any, what: str) -> None:
    """Raise unless `value` is an instance of `kind`, a class or a union of classes, which is `what` in words."""
    if not isinstance(value, kind):
        raise TypeError(f"`{name}` must be {what}, got {shown(value)}.")


def check_items(name: str, values: Any, kind: Any, what: str) -> tuple[Any, ...]:
    """Return `values` as a tuple; raise unless they are a list or a tuple whose items are all of this `kind`."""
    if not isinstance(values, list | tuple) or not all(isinstance(value, kind) for value in values):
        raise TypeError(f"`{name}` must be a list or tuple of {what}, got {shown(values)}.")
    return tuple(values)


def check_decimals(name: str, values: Any, *, minimum: int = -LARGEST) -> tuple[Decimal, ...]:
    """Return `values` as a tuple; raise unless they are decimals that are at least `minimum` and at most 2**127."""
    decimals = check_items(name, values, Decimal, "decimals")
    wrong = next((value for value in decimals if not (value.is_finite() and minimum <= value <= LARGEST)), None)
    if wrong is not None:
        least = "-2**127" if minimum == -LARGEST else minimum
        raise ValueError(f"`{name}` must be finite, from {least} to 2**127, got {shown(wrong)}.")
    return decimals


def check_known(name: str, value: object, known: Sequence[str]) -> None:
    """Raise unless `value` is one of the strings `known`; the error lists them."""
    if not isinstance(value, str) or value not in known:  # `in` alone would compare an array entry by entry
        choices, own = ", ".join(repr(choice) for choice in known), our_value(name, value)
        here = f", which is {own!r} here" if own in known else ""
        raise ValueError(f"`{name}` must be one of {choices}, got {shown(value)}{here}.")


def host_array(name: str, values: Any) -> Any:
    """Return a list, a number or an array that NumPy can read as a NumPy array; raise if it is none or ragged."""
    check_not_masked(name, values)
    try:
        return np.asarray(values)
    except Exception as error:
        if hasattr(values, "shape"):
            raise TypeError(
                f"`{name}` must be an array that NumPy can read, without a gradient and of a dtype that NumPy has, got "
                f"{type(values).__name__} of {dtype_name(values)}; detach and cast it first."
            ) from error
        raise TypeError(f"`{name}` must be an array, or a list of equal rows, got {shown(values)}.") from error


def check_array(name: str, x: Any) -> None:
    """Raise unless `x` is an array, and not one whose mask would be lost."""
    if not (hasattr(x, "shape") and hasattr(type(x), "__getitem__")) or isinstance(x, type):
        raise TypeError(f"`{name}` must be an array, got {type(x).__name__}.")
    check_not_masked(name, x)
    if getattr(dtype_of(x), "names", None):
        raise TypeError(f"`{name}` must be an array of numbers, got records; give one of their fields.")


def check_not_masked(name: str, x: object) -> None:
    """Raise for a masked array of NumPy: its hidden numbers would be used like the others."""
    if type(x) is not np.ndarray and isinstance(x, np.ma.MaskedArray):
        raise TypeError(f"`{name}` must not be a masked array; pass its `filled(…)` numbers, and the mask as `mask`.")


def check_floating(name: str, x: Array) -> None:
    """Raise unless `x` is an array of floating-point numbers."""
    check_array(name, x)
    if is_floating(x):
        return
    if isinstance(x, np.ndarray) and x.dtype.kind == "f":
        raise TypeError(f"`{name}` must be in the byte order of this machine, got {x.dtype}; cast it first.")
    raise TypeError(f"`{name}` must be floating-point, got {dtype_name(x)}; cast it first.")


def check_numbers(name: str, x: Array, *, kinds: tuple[str, ...] = ("int", "uint", "float", "bfloat")) -> None:
    """Raise unless `x` is an array whose dtype is one of `kinds`; symbols without a dtype pass."""
    check_array(name, x)
    if dtype_of(x) is not None and not dtype_name(x).startswith(kinds):
        wanted = " or ".join(_WORDS[kind] for kind in kinds if kind in _WORDS)
        raise TypeError(f"`{name}` must be {wanted}, got {dtype_name(x)}; cast it first.")


_WORDS = {"bool": "booleans", "int": "integers", "float": "real numbers"}


def check_rank(name: str, x: Array, *, minimum: int, maximum: float = math.inf, axes: str) -> None:
    """Raise unless `x` is an array of `minimum` to `maximum` axes; `axes` names them."""
    check_array(name, x)
    if not minimum <= len(x.shape) <= maximum:
        raise ValueError(f"`{name}` must have shape {axes}, got {len(x.shape)} axes: {_sizes(x)}.")


def check_width(name: str, x: Array, width: int) -> None:
    """Raise unless the last axis of `x` is `width` wide."""
    if is_static(x.shape[-1]) and x.shape[-1] != width:
        raise ValueError(f"`{name}` must be {width} wide, got shape {_sizes(x)}.")


def check_sized(name: str, x: Array) -> None:
    """Raise if a size of `x` is NaN, which is how lazy libraries mark a size that is not computed yet."""
    if any(isinstance(size, float) for size in x.shape):
        raise ValueError(
            f"`{name}` must have known sizes, got shape {_sizes(x)}; call its `compute_chunk_sizes` first."
        )


def check_library(name: str, x: Array, y: Array) -> None:
    """Raise unless `x` is an array of the library of `y`."""
    if not hasattr(x, "shape") or isinstance(x, type) or namespace_of(x) is not namespace_of(y):
        raise TypeError(f"`{name}` must be an array of {type(y).__name__}'s library, got {type(x).__name__}.")


def check_libraries(like: Array, **arrays: Array | None) -> None:
    """Raise unless all `arrays`, by their names, are of the library of `like`; None passes."""
    for name, x in arrays.items():
        if x is not None:
            check_library(name, x, like)


def named(operation: Callable[[], A], arrays: dict[str, Array]) -> A:
    """Return `operation()`, which has these arrays by their names; its error names one that the library cannot take."""
    try:
        return operation()
    except Exception as error:
        first = next(iter(arrays.values()))
        for name, x in arrays.items():  # only now, as some libraries take arrays of others, and compare any integers
            check_library(name, x, first)
            if dtype_name(x) in ("uint16", "uint32", "uint64"):
                raise TypeError(f"`{name}` must be int32 or int64, got {dtype_name(x)}; cast it first.") from error
        raise


def check_alike(name: str, x: Array, y: Array) -> None:
    """Raise unless `x` is an array of the library, shape and dtype of `y`."""
    check_library(name, x, y)
    if _sizes(x) != _sizes(y):
        raise ValueError(f"`{name}` must have shape {_sizes(y)}, got {_sizes(x)}.")
    if dtype_name(x) != dtype_name(y):
        raise TypeError(f"`{name}` must be {dtype_name(y)}, got {dtype_name(x)}.")


def write(name: str, to: A, result: Any) -> A:
    """Copy `result` into the array `to`, which is called `name`, and return `to`; raise if it is read-only."""
    try:
        to[...] = result  # type: ignore[index]
    except (TypeError, ValueError, RuntimeError) as error:
        why = str(error).partition(". ")[0].rstrip(".")  # JAX goes on with advice
        raise TypeError(f"`{name}` must be an array that can be written to, got {type(to).__name__}: {why}.") from error
    return to


def check_as_long(name: str, x: Array, other: str, y: Array) -> None:
    """Raise unless `x` and `y`, which is called `other`, have the same size on the axis before the last."""
    check_sized(name, x)
    check_sized(other, y)
    if x.shape[-2] != y.shape[-2]:
        raise ValueError(f"`{name}` must be as long as `{other}`, got shapes {_sizes(x)} and {_sizes(y)}.")


def check_broadcasts(name: str, x: Array, shape: Sequence[Any]) -> None:
    """Raise unless `x` broadcasts to `shape` without enlarging it; sizes that a tracer does not know pass."""
    check_sizes_broadcast(name, _sizes(x), shape)


def check_sizes_broadcast(name: str, sizes: tuple[Any, ...], shape: Sequence[Any]) -> None:
    """Raise unless these `sizes` broadcast to `shape`, as `check_broadcasts` does for an array."""
    pairs = _from_the_end(sizes, tuple(shape))
    known = [(size, wanted) for size, wanted in pairs if is_static(size) and is_static(wanted)]
    fits = all([size == 1 or size == wanted for size, wanted in known])  # noqa: C419, PLR1714 - symbols have no hash
    if len(sizes) > len(shape) or not fits:
        raise ValueError(f"`{name}` must broadcast to shape {tuple(shape)}, got {sizes}.")


def check_rows(name: str, x: Array, other: str, y: Array) -> None:
    """Raise unless the axes before the last of `x` and of `y`, which is called `other`, broadcast to each other."""
    if not _meet(_sizes(x)[:-1], _sizes(y)[:-1]):
        raise ValueError(f"`{name}` must have as many rows as `{other}`, got shapes {_sizes(x)} and {_sizes(y)}.")


def check_meet(name: str, x: Array, other: str, y: Array) -> None:
    """Raise unless `x` and `y`, which is called `other`, broadcast to each other."""
    if not _meet(_sizes(x), _sizes(y)):
        raise ValueError(f"`{name}` must broadcast with `{other}`, got shapes {_sizes(x)} and {_sizes(y)}.")


def _from_the_end(first: tuple[Any, ...], second: tuple[Any, ...]) -> list[tuple[Any, Any]]:
    """Return the sizes that meet in broadcasting. Some compilers take no `zip` of unequal lengths."""
    count = min(len(first), len(second))
    return list(zip(first[len(first) - count :], second[len(second) - count :], strict=True))


def _meet(first: tuple[Any, ...], second: tuple[Any, ...]) -> bool:
    pairs = _from_the_end(first, second)
    return not any([a != b and 1 not in (a, b) for a, b in pairs if is_static(a) and is_static(b)])  # noqa: C419


def check_positions_shape(name: str, sizes: tuple[Any, ...], tail: tuple[Any, ...], batch: Any) -> None:
    """Raise unless positions of these `sizes` fit tokens: `tail`, or that after 1 or the `batch`, which may be None."""
    heads = [()] if batch is None else [(), (1,), (batch,)]
    if not any(sizes_match(sizes, (*head, *tail)) for head in heads):
        wanted = " or ".join(dict.fromkeys(str((*head, *tail)) for head in heads))
        raise ValueError(f"`{name}` must have shape {wanted} to fit the tokens, got {sizes}.")


def sizes_match(sizes: tuple[Any, ...], wanted: tuple[Any, ...]) -> bool:
    """Return whether two shapes agree, as far as their sizes are static."""
    pairs = zip(sizes, wanted, strict=False)
    return len(sizes) == len(wanted) and all(a == b for a, b in pairs if is_static(a) and is_static(b))


def is_static(size: Any) -> bool:
    """Return whether the size of an axis is known; for an unknown size, frameworks give None, -1 or an array."""
    return isinstance(size, int) and size >= 0


def is_specialized(size: Any, like: Array) -> bool:
    """Return whether the compiled program has `size` as a constant.

    Tracers that also have symbolic integers provide `is_specialized` in the namespace of `like`.
    """
    check = getattr(namespace_of(like), "is_specialized", None)
    return is_static(size) and (check is None or check(size))


def _sizes(x: Array) -> tuple[Any, ...]:
    return tuple(x.shape)
