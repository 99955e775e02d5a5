"""Time the rotation of queries and keys, ours and others', against a memcpy and the framework's own copy.

    python benchmarks/rotation.py --backend torch -o rotation-torch.json
    python benchmarks/rotation.py --backend torch --only prefill bfloat16 --threads 1 --rounds 7

Backends: numpy, torch (with the peers that are installed), paddle, mxnet, jax, mlx, keras (on `KERAS_BACKEND`). `q` and
`k` are both rotated; "grouped" has one head of keys for four of queries. "copy" is the framework's own copy of both
into fresh memory; with a backward pass, both yardsticks copy twice the bytes. "without the kernel" is what a process
does that has no compiled library. Tables are computed before: transformers, diffusers and x-transformers do so once for
all layers.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from harness import Case, Implementation, main, memcpy
from implementations import Rotation

from posenc_backends._kernels import library
from posenc_core import Rotary
from posenc_core._array_api import kernels

SHAPES = {
    "prefill": (1, 32, 4096, 128),
    "training": (4, 12, 512, 64),
    "decode": (8, 32, 1, 128),
    "decode one row": (1, 32, 1, 128),
    "decode one row grouped": (1, 32, 1, 128),
}
GROUP = 4  # heads of queries for each of keys, where they are grouped
KERNEL_IN = ("posenc", "posenc.rotate", "posenc.apply_rotary")  # what is also measured without it
LAYOUTS = ("half", "interleaved")
WITHIN = {"float32": 6e-3, "float16": 2e-2, "bfloat16": 1.5e-1}  # float32 angles; tables and sums in half precision
DECODED = 4095  # the position of its one token


def cases(backend: str, shapes: dict[str, tuple[int, ...]] = SHAPES) -> Iterator[Case]:
    """Yield a case for every shape of the queries, dtype, layout and pass of the backend."""
    implementations = import_module(f"implementations.{backend}")
    passes = ("forward",) if implementations.gradients is None else ("forward", "forward and backward")
    without_backward = getattr(implementations, "FORWARD_SHAPES", ())
    for shape, dtype, layout, direction in itertools.product(shapes, implementations.DTYPES, LAYOUTS, passes):
        if direction != "forward" and shape in without_backward:
            continue
        batch, heads, *rest = shapes[shape]
        keys = (batch, heads // GROUP if "grouped" in shape else heads, *rest)
        build = partial(_implementations, implementations, (shapes[shape], keys), dtype, layout, direction)
        yield Case(f"{shape}, {dtype}, {layout}, {direction}", build, WITHIN[dtype])


def _implementations(
    implementations: Any, shapes: tuple[tuple[int, ...], ...], dtype: str, layout: Any, direction: str
) -> dict[str, Implementation]:
    """Return the two yardsticks, and each implementation, eager, without the kernel, and with each of its compilers."""
    numbers = _numbers(shapes if direction == "forward" else (*shapes, *shapes))
    arrays = [implementations.array(one, dtype) for one in numbers]
    found = {
        "memcpy": memcpy(sum(one.size for one in numbers) * np.dtype(dtype.replace("bfloat", "float")).itemsize),
        "copy": Implementation(lambda: implementations.ready([implementations.copy(one) for one in arrays])),
    }
    *_, length, width = shapes[0]
    start = DECODED if length == 1 else 0
    rotations = implementations.rotations(Rotary(head_dim=width, layout=layout), start, length, dtype)
    swapped = [implementations.array(np.ascontiguousarray(one.swapaxes(1, 2)), dtype) for one in numbers]
    for name, rotation in rotations.items():
        if direction != "forward" and not rotation.gradients:
            continue
        given = arrays if rotation.seq_axis == -2 else swapped
        if rotation.eager:
            found[name] = _implementation(implementations, rotation, rotation.function, given)
            if name in KERNEL_IN and library.LIBRARY is not None and type(arrays[0]) in kernels._kernels:
                without = found[name]._replace(call=without_the_kernel(found[name].call))
                found[f"{name}, without the kernel"] = without
        left_out = set() if direction == "forward" else getattr(implementations, "FORWARD_ONLY", set())
        for compiler in (name for name in rotation.compilers if name not in left_out):
            found[f"{name}, {compiler}"] = _implementation(
                implementations, rotation, implementations.COMPILERS[compiler](rotation.function), given
            )
    return found


def _implementation(
    implementations: Any, rotation: Rotation, function: Callable[..., Any], arrays: list[Any]
) -> Implementation:
    """Return the call to time: of two arrays the result, of four the gradients."""

    def both_to_numpy(both: Any) -> Any:
        found = [implementations.to_numpy(one) for one in both]
        return np.concatenate(found if rotation.seq_axis == -2 else [one.swapaxes(1, 2) for one in found], axis=1)

    call = (lambda: function(*arrays)) if len(arrays) == 2 else implementations.gradients(function, *arrays)
    return Implementation(lambda: implementations.ready(call()), both_to_numpy, rotation.within)


def without_the_kernel(call: Callable[[], Any]) -> Callable[[], Any]:
    """Return a call as in a process that has no compiled library."""

    def called() -> Any:
        held, library.LIBRARY = library.LIBRARY, None
        try:
            return call()
        finally:
            library.LIBRARY = held

    return called


def _numbers(shapes: tuple[tuple[int, ...], ...]) -> list[Any]:
    generator = np.random.default_rng(0)
    return [generator.standard_normal(shape, np.float32) for shape in shapes]


if __name__ == "__main__":
    main("rotation", cases)
