"""Keras's own part of a check of a model."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
from keras.src import backend

from .eager import Run


@contextmanager
def _run_tensorflow_eagerly() -> Iterator[None]:
    from tensorflow import config

    before = config.functions_run_eagerly()
    config.run_functions_eagerly(True)
    try:
        yield
    finally:
        config.run_functions_eagerly(before)


def _run_jax_eagerly() -> AbstractContextManager[Any]:
    import jax

    return jax.disable_jit()


def _run_torch_eagerly() -> AbstractContextManager[Any]:
    import torch

    return torch.compiler.set_stance("force_eager")


RUN_EAGERLY: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "tensorflow": _run_tensorflow_eagerly,
    "jax": _run_jax_eagerly,
    "torch": _run_torch_eagerly,
}


class Keras:
    """Reads models of Keras 3 on any of its backends."""

    is_lazy, checks_rows = True, True

    @contextmanager
    def prepare(self, model: Any) -> Iterator[None]:
        """Return a context in which all is computed at once, without Keras's warning of a softmax over one number."""
        with warnings.catch_warnings(), RUN_EAGERLY[keras.backend.backend()]():
            warnings.simplefilter("ignore", UserWarning)
            yield

    def modules(self, model: Any) -> list[tuple[str, Any]]:
        """Return all layers of a model and their names, the model first."""
        return list(_layers("", model, set()))

    def held(self, module: Any) -> Iterator[tuple[Any, Callable[[Any], None]]]:
        """Yield each array that a layer holds, and a function that puts another in its place."""
        for key, x in list(vars(module).items()):
            if isinstance(x, keras.Variable):
                yield keras.ops.copy(x.value), x.assign  # which may write into the value
            elif keras.ops.is_tensor(x) or isinstance(x, np.ndarray):
                yield x, partial(object.__setattr__, module, key)

    def function(self, model: Any) -> Callable[..., Any]:
        """Return the function that has the arguments of the model."""
        return model.call

    def dtype(self, model: Any) -> Any:
        """Return the dtype in which layers compute."""
        return model.compute_dtype

    def key(self, module: Any) -> int:
        """Return the identity of a layer."""
        return id(module)

    def make_cache(self, model: Any, start: int) -> None:
        """Return None: models of Keras have no common form of a cache."""

    def is_array(self, x: Any) -> bool:
        """Return whether a value is a tensor."""
        return bool(keras.ops.is_tensor(x))

    def to_numpy(self, x: Any) -> npt.NDArray[Any]:
        """Return an array in float64 or complex128."""
        x = np.asarray(keras.ops.convert_to_numpy(x))
        return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)

    def from_numpy(self, x: npt.NDArray[Any], like: Any = None) -> Any:
        """Return a tensor of integers, or one of the dtype of another."""
        dtype = "int32" if like is None else keras.backend.standardize_dtype(like.dtype)
        return keras.ops.convert_to_tensor(x, dtype=dtype)

    def replacements(self, run: Run) -> Iterator[tuple[Any, str, Any]]:
        """Yield each function to replace: its owner, its name, and what takes its place; `keras.ops` call these."""
        arrays, layers = backend.numpy, backend.nn
        yield arrays, "cos", run.at_zero(arrays.cos, 1.0)
        yield arrays, "sin", run.at_zero(arrays.sin, 0.0)
        yield arrays, "matmul", run.multiply(arrays.matmul)
        yield arrays, "einsum", run.contract(arrays.einsum)
        yield layers, "softmax", run.softmax(layers.softmax)
        for owner, name in ((arrays, "add"), *_sums()):
            yield owner, name, run.sum(getattr(owner, name))
        attend = layers.dot_product_attention

        def note(query: Any, key: Any, value: Any, bias: Any = None, mask: Any = None, **options: Any) -> Any:
            run.attend(*(keras.ops.swapaxes(x, 1, 2) for x in (query, key)), bias, mask)
            return attend(query, key, value, bias, mask, **options)

        yield layers, "dot_product_attention", note


def _sums() -> list[tuple[Any, str]]:
    """Return the functions that add where `keras.ops.add` is not called, by operators or by the library's function."""
    if keras.backend.backend() == "tensorflow":
        from tensorflow.python.ops import gen_math_ops

        return [(gen_math_ops, "add_v2")]
    if keras.backend.backend() == "jax":
        from jax import lax

        return [(lax.add_p, "bind")]
    import torch

    return [(torch, "add"), *((torch.Tensor, name) for name in ("add", "add_", "__add__", "__radd__", "__iadd__"))]


def _layers(name: str, value: Any, known: set[int]) -> Iterator[tuple[str, Any]]:
    """Yield a layer and those in it, by the names of attributes; the others of a functional model by their own."""
    if isinstance(value, keras.Layer) and id(value) not in known:
        known.add(id(value))
        yield name, value
        held = vars(value) | vars(value).get("_modules", {})  # where Keras on PyTorch has layers
        inner = {key: one for key, one in held.items() if not key.startswith("_")}
        inner |= {one.name: one for one in getattr(value, "layers", ()) if one not in inner.values()}
    elif isinstance(value, list | tuple | dict):
        inner = value if isinstance(value, dict) else dict(enumerate(value))
    else:
        return
    for key, one in inner.items():
        yield from _layers(f"{name}.{key}".lstrip("."), one, known)
