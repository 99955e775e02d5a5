"""The own part of JAX and flax.nnx in a check of a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import jax
import numpy as np
import numpy.typing as npt
from flax import nnx
from jax import lax

from .eager import Pair, Run

KEY = "posenc_key"  # an attribute, which copies of a module have too
WITH_WEIGHTS = (nnx.Linear, nnx.LinearGeneral, nnx.Einsum, nnx.Embed)


class NNX:
    """Reads models of `flax.nnx`."""

    is_lazy, checks_rows = False, True

    @contextmanager
    def prepare(self, model: nnx.Module) -> Iterator[None]:
        """Return a context in which all is computed at once, and modules and their copies have a key."""
        modules = [module for _, module in nnx.iter_modules(model)]
        for key, module in enumerate(modules):
            setattr(module, KEY, key)
        try:
            with jax.disable_jit():
                yield
        finally:
            for module in modules:
                delattr(module, KEY)

    def modules(self, model: nnx.Module) -> list[tuple[str, Any]]:
        """Return all modules of a model and their names, the model first."""
        return sorted((".".join(map(str, path)), module) for path, module in nnx.iter_modules(model))

    def held(self, module: nnx.Module) -> Iterator[tuple[Any, Callable[[Any], None]]]:
        """Yield each array that a module holds, and a function that puts another in its place."""
        for key, x in list(vars(module).items()):
            if isinstance(x, nnx.Variable):
                if isinstance(x.get_value(), jax.Array):
                    yield x.get_value(), x.set_value
            elif isinstance(x, jax.Array | np.ndarray):
                yield x, partial(setattr, module, key)

    def function(self, model: nnx.Module) -> Callable[..., Any]:
        """Return the function that has the arguments of the model."""
        return model.__call__

    def dtype(self, model: nnx.Module) -> Any:
        """Return the dtype in which linear layers compute; None if it is that of the weights."""
        layers = (module for _, module in nnx.iter_modules(model) if isinstance(module, WITH_WEIGHTS))
        return next((jax.numpy.dtype(one.dtype) for one in layers if one.dtype is not None), None)

    def key(self, module: Any) -> Any:
        """Return what a module has in common with its copies in a compiled function; None if it is not of the model."""
        return getattr(module, KEY, None)

    def make_cache(self, model: nnx.Module, start: int) -> None:
        """Return None: models of flax have no common form of a cache."""

    def is_array(self, x: Any) -> bool:
        """Return whether a value is an array with numbers, and not one of a trace."""
        return isinstance(x, jax.Array) and not isinstance(x, jax.core.Tracer)

    def to_numpy(self, x: Any) -> npt.NDArray[Any]:
        """Return an array in float64 or complex128."""
        return np.asarray(x, np.complex128 if "complex" in str(x.dtype) else np.float64)

    def from_numpy(self, x: npt.NDArray[Any], like: Any = None) -> Any:
        """Return an array of integers, or one of the dtype of another."""
        return jax.numpy.asarray(x, jax.numpy.int32 if like is None else like.dtype)

    def replacements(self, run: Run) -> Iterator[tuple[Any, str, Any]]:
        """Yield each function to replace: its owner, its name, and what takes its place.

        With `jax.disable_jit` all functions come down to operations on numbers, but for those of `vmap`, which are
        seen twice: with tracers, and then with numbers.
        """
        yield lax.cos_p, "bind", run.at_zero(lax.cos_p.bind, 1.0)
        yield lax.sin_p, "bind", run.at_zero(lax.sin_p.bind, 0.0)
        multiply, transpose, reduce_max = lax.dot_general_p.bind, lax.transpose_p.bind, lax.reduce_max_p.bind
        last: list[Any] = [None, ()]  # the result of a product, and the arguments that `note` had

        def note_product(x: Any, y: Any, *, dimension_numbers: Any, **options: Any) -> Any:
            result = multiply(x, y, dimension_numbers=dimension_numbers, **options)
            if run.is_array(result) and dimension_numbers[1][0]:
                note(result, x, y, dimension_numbers, tuple(range(result.ndim)))
            return result

        def note_transposition(x: Any, *, permutation: Any) -> Any:
            result = transpose(x, permutation=permutation)
            if x is last[0]:
                one, other, numbers, order = last[1]
                note(result, one, other, numbers, tuple(order[axis] for axis in permutation))
            return result

        def note(result: Any, x: Any, y: Any, numbers: Any, order: tuple[int, ...]) -> None:
            last[:] = result, (x, y, numbers, order)
            run.note(lambda: _arrange(run.to_numpy(x), run.to_numpy(y), numbers, order[-1], run.sizes[1]), result)

        def note_softmax(x: Any, *, axes: Any, **options: Any) -> Any:
            if run.is_array(x) and axes == (x.ndim - 1,):
                run.take_last(x)
            return reduce_max(x, axes=axes, **options)

        yield lax.dot_general_p, "bind", note_product
        yield lax.transpose_p, "bind", note_transposition
        yield lax.reduce_max_p, "bind", note_softmax

        attend = jax.nn.dot_product_attention

        def note_attention(query: Any, key: Any, value: Any, bias: Any = None, mask: Any = None, **options: Any) -> Any:
            if run.is_array(query):
                run.attend(*(x.swapaxes(-3, -2) for x in (query, key)), bias, mask)
            return attend(query, key, value, bias, mask, **options)

        yield jax.nn, "dot_product_attention", note_attention
        yield lax.add_p, "bind", run.sum(lax.add_p.bind)


def _arrange(x: npt.NDArray[Any], y: npt.NDArray[Any], numbers: Any, last: int, length: int) -> Pair:
    """Return queries and keys of a product, each `(…, length, width)`, the axis of rows first.

    Args:
        x, y: the operands.
        numbers: their axes that are summed, and those that both have.
        last: the axis of the product that belongs to keys.
        length: of the tokens.
    """
    contract, batch = numbers
    order = np.argsort(batch[0])

    def arrange(one: npt.NDArray[Any], width: Any, shared: Any) -> npt.NDArray[Any]:
        free = [axis for axis in range(one.ndim) if axis not in (*width, *shared)]
        free.sort(key=lambda axis: one.shape[axis] == length)
        return one.transpose([*(shared[at] for at in order), *free, *width])

    both = arrange(x, contract[0], batch[0]), arrange(y, contract[1], batch[1])
    return both if last >= x.ndim - len(contract[0]) else (both[1], both[0])
