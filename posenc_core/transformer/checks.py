"""Checks of what the functions of the Transformer are given: arguments by their names, arrays by their shapes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from .._array_api.checks import check_floating, check_known, check_numbers, check_rank, check_type, shown, sizes_match
from .config import Transformer

LABELS = "labels"  # the constant that the loss alone needs
SIDES = ("encoder", "decoder")
Shape = tuple[Any, ...]


def check(**arguments: Any) -> None:
    """Raise unless each argument is what its name says."""
    for name, value in arguments.items():
        _CHECKS[name](name, value)


def check_model(model: Transformer, weights: Mapping[str, Any], **tokens: Any) -> None:
    """Raise unless `weights` has the arrays of `model`, and `tokens`, by their names, are tokens of its vocabulary."""
    check(model=model, weights=weights, **tokens)
    check_shapes("weights", weights, _shapes(model))
    for name, numbers in tokens.items():
        if isinstance(numbers, np.ndarray):  # numbers of frameworks would have to be fetched first
            outside = numbers[(numbers < 0) | (numbers >= model.vocabulary)]
            if outside.size:
                raise ValueError(
                    f"`{name}` must be tokens from 0 to {model.vocabulary - 1}, got {shown(outside[0].item())}."
                )


def check_part(part: Mapping[str, Any], x: Any, *names: str) -> None:
    """Raise unless a part of the model has the arrays of these names, in shapes that fit the width of `x`."""
    check(part=part, x=x)
    width = x.shape[-1]
    wanted = {name: tuple(width if size == "width" else None for size in _SIZES[name]) for name in names}
    check_shapes("part", part, wanted)


def check_shapes(name: str, arrays: Mapping[str, Any], wanted: Mapping[str, Shape]) -> None:
    """Raise unless there is an array of each wanted name and shape; None is any size."""
    for key, shape in wanted.items():
        if key not in arrays:
            raise ValueError(f"`{name}` must have an array called {shown(key)}, got none.")
        found = getattr(arrays[key], "shape", None)
        if found != shape and (found is None or not sizes_match(tuple(found), shape)):
            raise ValueError(f"`{name}` must have {shown(key)} in shape {shape}, got {shown(found)}.")


def check_keys_values(name: str, pair: Any, like: Any = None) -> None:
    """Raise unless `pair` is keys and values, `(batch, heads, length, head_dim)` each, of the other sizes of `like`."""
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise TypeError(f"`{name}` must be a pair of keys and values, got {shown(pair)}.")
    for each in pair:
        check_floating(name, each)
        check_rank(name, each, minimum=4, maximum=4, axes="(batch, heads, length, head_dim)")
        if like is not None and not sizes_match(tuple(each.shape), (*like.shape[:2], None, like.shape[3])):
            raise ValueError(f"`{name}` must fit keys of shape {tuple(like.shape)}, got {tuple(each.shape)}.")


def check_batch(name: str, x: Any, other: str, y: Any) -> None:
    """Raise unless `x` has as many rows as `y`, which is called `other`."""
    if not sizes_match(tuple(x.shape[:1]), tuple(y.shape[:1])):
        raise ValueError(f"`{name}` must have as many rows as `{other}`, got {x.shape[0]} and {y.shape[0]}.")


@lru_cache(maxsize=16)
def _shapes(model: Transformer) -> dict[str, Shape]:
    constants = {name: table.shape for name, table in model.constants().items() if name != LABELS}
    return constants | {name: parameter.shape for name, parameter in model.parameters().items()}


def _check_tokens(name: str, value: Any) -> None:
    check_numbers(name, value, kinds=("int", "uint"))
    check_rank(name, value, minimum=2, maximum=2, axes="(batch, length)")


def _check_vectors(name: str, value: Any) -> None:
    check_floating(name, value)
    check_rank(name, value, minimum=3, maximum=3, axes="(batch, length, width)")


def _check_arrays(name: str, value: Any) -> None:
    check_type(name, value, Mapping, "a dict of arrays by name")


def _check_backend(name: str, value: Any) -> None:
    if not all(callable(getattr(value, function, None)) for function in ("from_numpy", "to_numpy")):
        raise TypeError(f"`{name}` must have the functions `from_numpy` and `to_numpy`, got {shown(value)}.")


_CHECKS = {
    "model": lambda name, value: check_type(name, value, Transformer, "a Transformer"),
    "weights": _check_arrays,
    "part": _check_arrays,
    "source": _check_tokens,
    "target": _check_tokens,
    "tokens": _check_tokens,
    "x": _check_vectors,
    "side": lambda name, value: check_known(name, value, SIDES),
    "positions": lambda name, value: check_type(name, value, range, "a range"),
    "backend": _check_backend,
}
_SIZES: dict[str, tuple[str | None, ...]] = {
    **dict.fromkeys(("query", "key", "value", "output"), ("width", "width")),
    "inner": ("width", None),
    "inner_bias": (None,),
    "outer": (None, "width"),
    **dict.fromkeys(("outer_bias", "scale", "shift"), ("width",)),
}
