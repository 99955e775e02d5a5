"""Three layers that encode a sequence of tokens, in plain NumPy, and what can be counted of them: products and steps in a row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin


def convolution(tokens: Any, *kernel: Any) -> Any:
    """Each token of its neighbours, by one matrix for each place in a window: `(length, width)`."""
    length, total = tokens.shape[0], 0
    for place, matrix in enumerate(kernel, start=-(len(kernel) // 2)):
        rows = np.arange(length) + place
        inside = ((rows >= 0) & (rows < length)).astype(np.float32)[:, None]
        total = total + (tokens[np.clip(rows, 0, length - 1)] * inside) @ matrix
    return total


def recurrence(tokens: Any, into: Any, onward: Any, *_: Any) -> list[Any]:
    """Each state of the token and of the state before: a list of `length` states."""
    fed = tokens @ into
    states = [np.tanh(fed[0])]
    for row in range(1, tokens.shape[0]):
        states.append(np.tanh(fed[row] + states[-1] @ onward))
    return states


def self_attention(tokens: Any, *_: Any) -> Any:
    """Each token of all tokens: `softmax(x xᵀ / √width) x`, `(length, width)`; projections are left out, as in the text."""
    scores = tokens @ tokens.T / np.float32(np.sqrt(tokens.shape[1]))
    weights = np.exp(scores - np.maximum.reduce(scores, axis=-1, keepdims=True))
    return (weights / np.add.reduce(weights, axis=-1, keepdims=True)) @ tokens


class Layer(NamedTuple):
    """A layer, what the text says that it costs, and the powers that follow from that."""

    run: Callable[..., Any]
    time: str
    steps: str
    time_by_length: float
    time_by_width: float
    memory_by_length: float
    memory_by_width: float


LAYERS = {
    "convolution": Layer(convolution, "O(k n d²)", "O(1)", 1, 2, 1, 1),
    "recurrence": Layer(recurrence, "O(n d²)", "O(n)", 1, 2, 1, 1),
    "self-attention": Layer(self_attention, "O(n² d)", "O(1)", 2, 1, 2, 1),
}


class Counted(NDArrayOperatorsMixin):
    """An array that knows how many steps, one after the other, led to it; products of all are counted in a list of one."""

    def __init__(self, array: Any, products: list[int], steps: int = 0) -> None:
        self.array = array
        self.products = products
        self.steps = steps

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Counted:
        arrays = [one.array if isinstance(one, Counted) else one for one in inputs]
        steps = max(one.steps for one in inputs if isinstance(one, Counted))
        result = getattr(ufunc, method)(*arrays, **options)
        if ufunc is np.matmul:
            self.products[0] += result.size * arrays[1].shape[0]
        return Counted(result, self.products, steps + 1)

    def __getitem__(self, key: Any) -> Counted:
        return Counted(self.array[key], self.products, self.steps)

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the array."""
        return self.array.shape

    @property
    def T(self) -> Counted:  # noqa: N802
        """The array, transposed, in the same step."""
        return Counted(self.array.T, self.products, self.steps)


def arange_like(run: Callable[..., Any], length: int, width: int) -> tuple[int, int]:
    """How many products a layer takes, of matrices alone, and how many steps, of which each waits for the one before."""
    products = [0]
    tokens, *matrices = (np.ones(shape, np.float32) for shape in [(length, width), *[(width, width)] * 3])
    result = run(Counted(tokens, products), *matrices)
    ends = result if isinstance(result, list) else [result]
    return products[0], max(end.steps for end in ends)
