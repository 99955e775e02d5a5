"""Queries and keys, turned: ours and the forms of others beside a memcpy and the framework's own copy.

    python benchmarks/rotation.py --backend torch -o rotation-torch.json
    python benchmarks/rotation.py --backend torch --only prefill bfloat16 --threads 1 --rounds 7

Rooms: numpy, torch (with the peers that are installed), paddle, mxnet, jax, keras (on the backend of `KERAS_BACKEND`).
Both `q` and `k` are turned. "copy" is the framework's own copy of both into fresh memory; with a backward pass, both yardsticks copy twice the bytes.
Tables are made before: transformers, diffusers and x-transformers make theirs once for all layers of a model.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from harness import Case, Form, main, memcpy
from implementations import Turn

from posenc_core import Rotary

SHAPES = {"prefill": (1, 32, 4096, 128), "training": (4, 12, 512, 64), "decode": (8, 32, 1, 128)}
LAYOUTS = ("half", "interleaved")
WITHIN = {"float32": 6e-3, "float16": 2e-2, "bfloat16": 1.5e-1}  # float32 angles; tables and sums in half precision
DECODED = 4095  # the position of the one token


def cases(backend: str, shapes: dict[str, tuple[int, ...]] = SHAPES) -> Iterator[Case]:
    """Every shape, dtype, layout and pass that the room has."""
    forms = import_module(f"implementations.{backend}")
    passes = ("forward",) if forms.gradients is None else ("forward", "forward and backward")
    for shape, dtype, layout, way in itertools.product(shapes, forms.DTYPES, LAYOUTS, passes):
        made = partial(_forms, forms, shapes[shape], dtype, layout, way)
        yield Case(f"{shape}, {dtype}, {layout}, {way}", made, WITHIN[dtype])


def _forms(forms: Any, shape: tuple[int, ...], dtype: str, layout: Any, way: str) -> dict[str, Form]:
    """The two yardsticks, and each way to turn; each compiler that it is for."""
    numbers = _numbers(shape, 4 if way != "forward" else 2)
    arrays = [forms.array(one, dtype) for one in numbers]
    found = {
        "memcpy": memcpy(sum(one.size for one in numbers) * np.dtype(dtype.replace("bfloat", "float")).itemsize),
        "copy": Form(lambda: forms.ready([forms.copy(one) for one in arrays])),
    }
    *_, length, width = shape
    start = DECODED if length == 1 else 0
    turns = forms.turns(Rotary(head_dim=width, layout=layout), start, length, dtype)
    swapped = [forms.array(np.ascontiguousarray(one.swapaxes(1, 2)), dtype) for one in numbers]
    for name, turn in turns.items():
        if way != "forward" and not turn.gradients:
            continue
        given = arrays if turn.seq_axis == -2 else swapped
        if turn.eager:
            found[name] = _form(forms, turn, turn.function, given)
        left_out = set() if way == "forward" else getattr(forms, "FORWARD_ONLY", set())
        for compiler in (name for name in turn.compilers if name not in left_out):
            found[f"{name}, {compiler}"] = _form(forms, turn, forms.COMPILERS[compiler](turn.function), given)
    return found


def _form(forms: Any, turn: Turn, function: Callable[..., Any], arrays: list[Any]) -> Form:
    """The call that is timed: the result, or, where there are four arrays, the gradients."""

    def shown(both: Any) -> Any:
        found = np.stack([forms.shown(one) for one in both])
        return found if turn.seq_axis == -2 else found.swapaxes(2, 3)

    call = (lambda: function(*arrays)) if len(arrays) == 2 else forms.gradients(function, *arrays)
    return Form(lambda: forms.ready(call()), shown, turn.within)


def _numbers(shape: tuple[int, ...], count: int) -> list[Any]:
    generator = np.random.default_rng(0)
    return [generator.standard_normal(shape, np.float32) for _ in range(count)]


if __name__ == "__main__":
    main("rotation", cases)
