"""MLX's own part of a check of a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import mlx.core as mx
import numpy as np
import numpy.typing as npt
from mlx import nn

from .eager import Run


class Cache:
    """The keys and values of one layer in MLX-LM's form, for tokens that are all equal.

    Args:
        offset: the position of the next token.
    """

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self.arrays: tuple[mx.array, ...] = ()

    def update_and_fetch(self, *arrays: mx.array) -> tuple[mx.array, ...]:
        """Return the keys and values of all tokens."""
        self.offset += arrays[0].shape[-2]
        both = zip(self.arrays, arrays, strict=True)
        self.arrays = tuple(mx.concatenate(each, axis=-2) for each in both) if self.arrays else arrays
        return self.arrays

    def make_mask(self, *args: Any, **options: Any) -> None:
        """Return None: each token may see all."""


class MLX:
    """Reads models of `mlx.nn`."""

    is_lazy, checks_rows = False, False

    @contextmanager
    def prepare(self, model: nn.Module) -> Iterator[None]:
        """Return a context in which all is computed at once."""
        mx.disable_compile()
        try:
            yield
        finally:
            mx.enable_compile()

    def modules(self, model: nn.Module) -> list[tuple[str, Any]]:
        """Return all modules of a model and their names, the model first."""
        return sorted(model.named_modules())

    def held(self, module: nn.Module) -> Iterator[tuple[Any, Callable[[Any], None]]]:
        """Yield each array that a module holds, and a function that puts another in its place."""
        for items in (module, vars(module)):
            for key, x in list(items.items()):
                if isinstance(x, mx.array | np.ndarray):
                    yield x, partial(items.__setitem__, key)

    def function(self, model: nn.Module) -> Callable[..., Any]:
        """Return the function that has the arguments of the model."""
        return model.__call__

    def dtype(self, model: nn.Module) -> None:
        """Return None: layers compute in the dtype of the weights."""

    def key(self, module: Any) -> int:
        """Return the identity of a module."""
        return id(module)

    def make_cache(self, model: Any, start: int) -> Any:
        """Return an empty cache of MLX-LM's form whose first token has this position; None without layers."""
        if not hasattr(model, "make_cache"):
            return [Cache(start) for _ in model.layers] if hasattr(model, "layers") else None
        caches = model.make_cache()
        for one in caches if start else ():
            if hasattr(one, "update_and_fetch"):
                one.offset, one.update_and_fetch = start, lambda *keys_and_values: keys_and_values
                one.make_mask = lambda *args, **options: None
        return caches

    def is_array(self, x: Any) -> bool:
        """Return whether a value is an array."""
        return isinstance(x, mx.array)

    def to_numpy(self, x: Any) -> npt.NDArray[Any]:
        """Return an array in float64 or complex128."""
        if isinstance(x, mx.array) and x.dtype == mx.bfloat16:
            x = x.astype(mx.float32)
        x = np.asarray(x)
        return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)

    def from_numpy(self, x: npt.NDArray[Any], like: Any = None) -> Any:
        """Return an array of integers, or one of the dtype of another."""
        return mx.array(x) if like is None else mx.array(x).astype(like.dtype)

    def replacements(self, run: Run) -> Iterator[tuple[Any, str, Any]]:
        """Yield each function to replace: its owner, its name, and what takes its place."""
        for owner in (mx, mx.array):
            for name, number in (("cos", 1.0), ("sin", 0.0)):
                yield owner, name, run.at_zero(getattr(owner, name), number)
        yield mx, "matmul", run.multiply(mx.matmul)
        yield mx.array, "__matmul__", run.multiply(mx.array.__matmul__)
        yield mx, "einsum", run.contract(mx.einsum)
        yield mx, "softmax", run.softmax(mx.softmax)
        yield mx, "add", run.sum(mx.add)
        for name in ("__add__", "__radd__", "__iadd__"):
            yield mx.array, name, run.sum(getattr(mx.array, name))
        rope, attend = mx.fast.rope, mx.fast.scaled_dot_product_attention

        def rotate(x: Any, *args: Any, **options: Any) -> Any:
            return rope(x, *args, **options) if run.is_rotated else x

        def note(q: Any, k: Any, v: Any, **options: Any) -> Any:
            run.attend(q, k, options.get("mask"))
            return attend(q, k, v, **options)

        yield mx.fast, "rope", rotate
        yield mx.fast, "scaled_dot_product_attention", note
