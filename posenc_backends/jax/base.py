"""What every layer of the JAX room is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import jax
from jax import Array
from jax import numpy as jnp

from posenc_core.encodings import Encoding
from posenc_core.encodings.base import Tables
from posenc_core.layers.base import BaseLayer

from . import backend as arrays
from .namespace import is_recorded


class Module:
    """An immutable pytree: the attributes named in `children` lead to its parameters, the others are static."""

    children: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        jax.tree_util.register_pytree_with_keys(cls, cls._flattened, cls._unflattened)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in vars(self):
            raise AttributeError(f"`{name}` of a {type(self).__name__} is set for good; make another.")
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


@dataclass(frozen=True)
class Constants:
    """The arrays that a layer's encoding implies: no leaves; between two layers of one encoding, a number of rows.

    A layer whose tables have grown is the same tree as before: what was compiled serves it, and the state of its
    optimizer fits it. So what is recorded sees the tables that the layer was made with, whatever has grown meanwhile.

    Attributes:
        rows: how many there were when the layer was made.
        arrays: those, by name.
        grown: longer ones in their place, for calls that run at once; none until there was such a call.
    """

    rows: int
    arrays: dict[str, Array] = field(compare=False, repr=False)
    grown: dict[str, Array] = field(default_factory=dict, compare=False, repr=False)


class Layer(BaseLayer, Module):
    """Holds an encoding: its constants as float32 arrays that no map over leaves reaches, its parameters as leaves."""

    backend = arrays
    children = ("parameters",)
    constants: Constants

    def __init__(self, encoding: Encoding, max_len: int = 0, key: Any = None) -> None:
        self.encoding = encoding
        self.hold(encoding.constants(max_len))
        named = encoding.parameters().items()
        keys = split(key, len(named))
        self.parameters = {
            name: p.mean + normal(key, p.shape, p.std) for (name, p), key in zip(named, keys, strict=True)
        }

    def hold(self, constants: Tables) -> None:
        ours = {name: arrays.from_numpy(constant) for name, constant in constants.items()}
        before = vars(self).get("constants")
        made = Constants(max(map(len, ours.values()), default=0), ours)
        vars(self)["constants"] = made if before is None else replace(before, grown=ours)

    def is_recorded(self, x: Any) -> bool:
        return is_recorded()

    def settled(self, operation: Callable[..., Any], *given: Any) -> Any:
        if any(map(arrays.is_traced, given)):
            return operation(*given)
        with jax.ensure_compile_time_eval():  # so that compiled code holds these rows, and not the whole table
            return operation(*given)

    @property
    def held(self) -> dict[str, Any]:
        grown = self.constants.grown
        return {**(grown if grown and not is_recorded() else self.constants.arrays), **self._learned()}

    @property
    def initial_arrays(self) -> dict[str, Any]:
        return {**self.constants.arrays, **self._learned()}

    def _learned(self) -> dict[str, Array]:
        """The parameters, which a tree whose leaves were exchanged may have of another encoding."""
        wanted = {name: parameter.shape for name, parameter in self.encoding.parameters().items()}
        learned = {name: to_backend(given) for name, given in self.parameters.items()}
        for name, shape in wanted.items():
            if learned[name].shape != shape:
                raise ValueError(
                    f"`{name}` of {self.encoding!r} must have shape {shape}, got {learned[name].shape}, of another encoding; "
                    "make the layer with the one that was saved."
                )
        return learned

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.encoding})"


def to_backend(leaf: Any) -> Array:
    """A leaf as an array: another tool may have put a NumPy array in its place, or flax a variable."""
    return leaf if isinstance(leaf, Array) else jnp.asarray(leaf)


def split(key: Any, count: int) -> list[Array]:
    """As many keys, drawn from one, which is `jax.random.key(0)` by default."""
    return list(jax.random.split(jax.random.key(0) if key is None else key, count))


def normal(key: Array, shape: tuple[int, ...], std: float) -> Array:
    """Normally distributed numbers of mean 0, float32 also where JAX would take float64."""
    return std * jax.random.normal(key, shape, jnp.float32)


def dropped(x: Array, rate: float, key: Any) -> Array:
    """`x` with the share `rate` of its numbers set to 0 and the others scaled up; as it is without a key."""
    if key is None or rate == 0:
        return x
    kept = jax.random.bernoulli(key, 1 - rate, x.shape)
    return jnp.where(kept, x / (1 - rate), 0)
