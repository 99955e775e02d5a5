"""The base class of the layers of the JAX backend."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import jax
import numpy as np
from jax import Array
from jax import numpy as jnp

from posenc_core.encodings import Encoding
from posenc_core.encodings.base import Tables
from posenc_core.layers import Backend
from posenc_core.layers.base import PROJECTIONS

from . import module
from .backend import BACKEND, from_numpy
from .module import normal, split
from .namespace import is_recorded


@dataclass(frozen=True)
class Constants:
    """The arrays that a layer's encoding implies: no leaves; equal in two layers with the same number of rows.

    A layer whose tables have grown is the same tree as before: what was compiled serves it, and the state of its
    optimizer fits it. So recorded calls see the tables that the layer was made with, whatever has grown meanwhile.

    Attributes:
        rows: how many there were when the layer was made.
        arrays: those, by name.
        grown: longer ones in their place, for calls that run at once; none until there was such a call.
    """

    rows: int
    arrays: dict[str, Array] = field(compare=False, repr=False)
    grown: dict[str, Array] = field(default_factory=dict, compare=False, repr=False)


class Prepared:
    """Prepares the tokens of every layer, whatever the library of its module."""

    def prepare(self, x: Any, width: int | None) -> Array:
        """Return an array of another library as an array of JAX; what is none is refused later, by its name."""
        if isinstance(x, Array) or not hasattr(type(x), "shape") or isinstance(x, np.ma.MaskedArray):
            return x
        is_readable = not isinstance(x, np.ndarray) or (
            x.dtype.kind in "biufcV" and x.dtype.isnative and not x.dtype.names
        )
        return jnp.asarray(x) if is_readable else x


class Module(Prepared, module.Module):
    """The base of every layer, attention included.

    Args:
        key: the random key for initial parameters, which a layer that draws some must have.
        param_dtype: the dtype of the parameters.
        kernel_init, bias_init: the initializers of projections, as `jax.nn.initializers` has them; by default
            normal numbers of variance `1 / num_hiddens`, and 0.
        dtype: in which projections compute, by default that of the tokens.
    Raises:
        TypeError: if the key is missing where numbers are drawn.
    """

    backend: Backend = BACKEND
    dropout: float

    def __init__(
        self,
        *,
        key: Any = None,
        param_dtype: Any = jnp.float32,
        kernel_init: Callable[..., Array] | None = None,
        bias_init: Callable[..., Array] | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()

    def active_dropout(self, *, key: Any = None) -> Callable[[Array], Array] | None:
        """Return what drops numbers, if the call brings a key.

        Args:
            key: the random key for dropout; without it nothing is dropped.
        """
        return None if key is None or self.dropout == 0 else partial(_drop, rate=self.dropout, key=key)

    def part_options(
        self, *, key: Any = None, param_dtype: Any = jnp.float32, **options: Any
    ) -> dict[str, dict[str, Any]]:
        """Return a key for each part that has parameters, and how projections are made."""
        *keys, last = split(key, 5, is_needed=True)
        projections = {"param_dtype": param_dtype, **options}
        parts = {name: {"key": own, **projections} for name, own in zip(PROJECTIONS, keys, strict=True)}
        position = {"key": last, "param_dtype": param_dtype}
        rotary = {**position, "key": jax.random.fold_in(last, 1)}
        return {**parts, "rotary": rotary, "scoring": position, "scaling": position, "norm": position}


class EncodingArrays:
    """The arrays of one encoding: float32 constants that no map over leaves reaches, and parameters, by name."""

    encoding: Encoding
    constants: Constants
    parameters: dict[str, Any]

    def set_tables(self, constants: Tables) -> None:
        """Hold these constants: those of the layer the first time, later longer ones for eager calls."""
        arrays = {name: BACKEND.intern(from_numpy(constant)) for name, constant in constants.items()}
        before = vars(self).get("constants")
        made = Constants(max(map(len, arrays.values()), default=0), arrays)
        vars(self)["constants"] = made if before is None else replace(before, grown=arrays)

    @property
    def arrays(self) -> dict[str, Any]:
        """The constants, grown ones in eager calls, and the parameters, by name."""
        grown = self.constants.grown
        return {**(grown if grown and not is_recorded() else self.constants.arrays), **self._learned()}

    @property
    def initial_arrays(self) -> dict[str, Any]:
        """The constants that the layer was made with, and the parameters, by name."""
        return {**self.constants.arrays, **self._learned()}

    def _learned(self) -> dict[str, Array]:
        """Return the parameters, which a tree whose leaves were exchanged may have of another encoding."""
        wanted = {name: parameter.shape for name, parameter in self.encoding.parameters().items()}
        # another tool may have put a NumPy array in the place of a leaf, or flax a variable
        learned = {
            name: leaf if isinstance(leaf, Array) else jnp.asarray(leaf) for name, leaf in self.parameters.items()
        }
        for name, shape in wanted.items():
            if learned[name].shape != shape:
                raise ValueError(
                    f"`{name}` of {self.encoding!r} must have shape {shape}, got {learned[name].shape}, of another "
                    "encoding; make the layer with the one that was saved."
                )
        return learned

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.encoding})"


class Layer(EncodingArrays, Module):
    """A layer whose parameters are leaves."""

    children = ("parameters",)

    def __init__(
        self, encoding: Encoding, max_len: int = 0, /, *, key: Any = None, param_dtype: Any = jnp.float32
    ) -> None:
        super().__init__()
        self.encoding = encoding
        self.set_tables(encoding.constants(max_len))
        named = encoding.parameters().items()
        keys = split(key, len(named), is_needed=any(parameter.is_drawn for _, parameter in named))
        self.parameters = {
            name: jnp.asarray(p.initial(normal(own, p.shape)), param_dtype)
            for (name, p), own in zip(named, keys, strict=True)
        }


def _drop(x: Array, rate: float, key: Any) -> Array:
    """Set the share `rate` of the numbers to 0 and scale the others up."""
    return jnp.where(jax.random.bernoulli(key, 1 - rate, x.shape), x / (1 - rate), 0)
