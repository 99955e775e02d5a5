"""Immutable pytrees, which layers of JAX are, and the random numbers that their parameters start from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import jax
from jax import Array
from jax import numpy as jnp

from posenc_core.layers.base import unchangeable


class Module:
    """An immutable pytree: the attributes named in `children` lead to its parameters, the others are static."""

    children: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        jax.tree_util.register_pytree_with_keys(cls, cls._flattened, cls._unflattened)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in vars(self):
            raise AttributeError(unchangeable(name, self))
        super().__setattr__(name, value)

    def _flattened(self) -> tuple[list[tuple[Any, Any]], tuple[tuple[str, Any], ...]]:
        children = [(jax.tree_util.GetAttrKey(name), getattr(self, name)) for name in self.children]
        return children, tuple(item for item in vars(self).items() if item[0] not in self.children)

    @classmethod
    def _unflattened(cls, static: Iterable[tuple[str, Any]], children: Iterable[Any]) -> Module:
        module = object.__new__(cls)
        vars(module).update(static)
        vars(module).update(zip(cls.children, children, strict=True))
        return module


def split(key: Any, count: int, *, is_needed: bool) -> list[Array]:
    """Return as many keys, drawn from one, which may only be None if none of them is needed."""
    if key is None and is_needed:
        raise TypeError("`key` must be given to a layer that draws initial parameters, such as `jax.random.key(0)`.")
    return list(jax.random.split(jax.random.key(0) if key is None else key, count))


def normal(key: Array, shape: tuple[int, ...]) -> Array:
    """Return normally distributed numbers of mean 0 and standard deviation 1: float32, not the float64 of x64 mode."""
    return jax.random.normal(key, shape, jnp.float32)
