"""Shrink a failing call to the smallest that fails, and write it so that it can be pasted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile
from typing import Any, NamedTuple

import numpy as np

from .budget import Budget
from .sample_calls import Caller, TestCall

MOST_CALLS = 60
FEW_CALLS = 12  # where a call takes long: that of a program, and one that compiles for its shape
SMALLEST: dict[str, Any] = {"batch": 1, "heads": (1, 1), "is_strided": False}


class Code(NamedTuple):
    """How the code of a framework makes arrays.

    Attributes:
        imports: its lines.
        tokens: of numbers of NumPy and a dtype.
        positions: of a list.
        arange: of the first position and the end.
        integers: the dtype of positions, where it must be given.
    """

    imports: tuple[str, ...]
    tokens: str
    positions: str
    arange: str
    integers: str = "int64"


CODE = {
    "numpy": Code(("import numpy as np",), '{}.astype("{dtype}")', "np.array({})", "np.arange({})"),
    "torch": Code(("import torch",), "torch.tensor({}, dtype=torch.{dtype})", "torch.tensor({})", "torch.arange({})"),
    "jax": Code(("import jax.numpy as jnp",), "jnp.array({}, dtype=jnp.{dtype})", "jnp.array({})", "jnp.arange({})"),
    "tensorflow": Code(("import tensorflow as tf",), "tf.cast({}, tf.{dtype})", "tf.constant({})", "tf.range({})"),
    "keras": Code(("from keras import ops",), 'ops.cast({}, "{dtype}")', "ops.convert_to_tensor({})", "ops.arange({})"),
    "paddle": Code(
        ("import paddle",), 'paddle.to_tensor({}).astype("{dtype}")', "paddle.to_tensor({})", "paddle.arange({})"
    ),
    "mxnet": Code(
        ("import mxnet as mx", "mx.npx.set_np()"),
        'mx.np.array({}, dtype="{dtype}")',
        'mx.np.array({}, dtype="{dtype}")',
        'mx.np.arange({}, dtype="{dtype}")',
        integers="int32",
    ),
    "mlx": Code(
        ("import mlx.core as mx",),
        "mx.array({}, dtype=mx.{dtype})",
        "mx.array({}, dtype=mx.{dtype})",
        "mx.arange({}, dtype=mx.{dtype})",
    ),
}


def shrink(failing: TestCall, caller: Caller, fails: Callable[[TestCall], bool], *, most: int = MOST_CALLS) -> TestCall:
    """Return a smaller call that fails, the smallest that is found; the call itself if no smaller one fails.

    Args:
        failing: a call that fails.
        caller: what all calls have in common.
        fails: whether a call fails.
        most: how many calls to try.
    """
    smallest, found, budget = failing, True, Budget(most)
    while found:
        smaller = next(filter(fails, takewhile(lambda _: budget.take(), _smaller(smallest, caller))), None)
        smallest, found = smaller or smallest, smaller is not None
    return smallest


def _smaller(call: TestCall, caller: Caller) -> Iterator[TestCall]:
    """Yield calls with fewer positions, rows and heads, the smallest first."""
    sizes: dict[str, Any] = {name: getattr(call, name) for name in ("batch", "heads", "is_strided", "is_optional")}
    changes = {name: size for name, size in SMALLEST.items() if call.tokens and sizes[name] != size}
    positions = call.positions[0] if caller.encoding.num_axes > 1 else call.positions
    count = call.num_queries
    fewer: Iterable[tuple[Any, int]] = ((some, count) for some in _fewer(positions))
    if count and positions.ndim == 1:
        fewer = _fewer_pairs(positions[:count], positions[count:])
    for some, queries in fewer:
        yield caller.call(call.name, call.dtype, some, queries, **sizes | SMALLEST)
        if changes:
            yield caller.call(call.name, call.dtype, some, queries, **sizes)
    if positions.ndim == 1:
        for change in (changes, *({name: size} for name, size in changes.items())):
            if change:
                yield caller.call(call.name, call.dtype, positions, count, **sizes | change)


def _fewer_pairs(queries: Any, keys: Any) -> Iterator[tuple[Any, int]]:
    """Yield fewer queries and keys, with the number of queries; queries that are among the keys stay there."""
    are_among = np.isin(queries, keys).all()
    for some, others in (*((one, keys) for one in _parts(queries)), *((queries, one) for one in _parts(keys))):
        if not are_among or np.isin(some, others).all():
            yield np.r_[some, others], len(some)
    first = int(min(queries.min(), keys.min()))
    for shift in sorted({first, (first + 1) // 2} - {0}, reverse=True):
        yield np.r_[queries, keys] - shift, len(queries)


def _fewer(positions: Any) -> Iterator[Any]:
    """Yield some of these positions, or a smaller one instead of a single one."""
    if positions.ndim > 1:
        yield from positions
    elif len(positions) > 1:
        yield from _parts(positions)
    elif positions[0] > 0:
        last = int(positions[0])
        yield from (np.array([position]) for position in sorted({0, 1, last // 2, last - 1} - {last}))


def _parts(positions: Any) -> Iterator[Any]:
    """Yield the first and the last of these positions: one, two, half of them and more, and all but one."""
    length = len(positions)
    for count in sorted({1, 2, length // 2, 3 * length // 4, length - 1} & {*range(1, length)}):
        yield from (positions[:count], positions[-count:])


def program_of(call: TestCall, name: str, framework: str) -> str:
    """Return Python code that makes the arguments of a call in a framework and calls the function of this name."""
    code, axes = CODE.get(framework, CODE["numpy"]), call.expected.encoding.num_axes
    lines = list(dict.fromkeys(["import numpy as np", *code.imports] if call.tokens else code.imports))
    if call.tokens:
        lines.append(f"draw = np.random.default_rng({call.positions.size // axes}).standard_normal")
    sizes = "" if call.expected.norm is None else " * sizes"
    if sizes:
        lines.append(f"sizes = 2.0 ** -(3 * (np.arange({call.positions.shape[-1]}) % 4))[:, None]")
    names = ("q", "k")[: len(call.tokens)]
    is_cast = code is not CODE["numpy"] or call.dtype != "bfloat16"
    for array, tokens in zip(names, call.tokens, strict=True):
        drawn = f"(draw({tokens.shape}){sizes})" if sizes else f"draw({tokens.shape})"
        made = code.tokens.format(drawn, dtype=call.dtype if is_cast else "float32")
        lines.append(f"{array} = {made}{'' if is_cast else '  # then in bfloat16'}")
    lines.append(f"{name}({', '.join([*names, *(_written(each, code) for each in call.position_arguments)])})")
    return "\n".join(lines)


def _written(positions: Any, code: Code) -> str:
    """Return positions as an expression of a framework."""
    dtype = "float32" if positions.dtype.kind == "f" else code.integers
    if positions.ndim == 1 and len(positions) > 2 and (np.diff(positions) == 1).all():
        return code.arange.format(f"{positions[0]}, {positions[-1] + 1}", dtype=dtype)
    return code.positions.format(positions.tolist(), dtype=dtype)
