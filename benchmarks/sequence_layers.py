"""Three layers that encode a sequence of tokens, in plain NumPy, and counts of their products and sequential steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin


def convolution(tokens: Any, *kernel: Any) -> Any:
    """Return the sum over a window of each neighbour times the matrix of its place: `(length, width)`."""
    length, total = tokens.shape[0], 0
    for place, matrix in enumerate(kernel, start=-(len(kernel) // 2)):
        rows = np.arange(length) + place
        inside = ((rows >= 0) & (rows < length)).astype(np.float32)[:, None]
        total = total + (tokens[np.clip(rows, 0, length - 1)] * inside) @ matrix
    return total


def recurrence(tokens: Any, into: Any, onward: Any, *_: Any) -> list[Any]:
    """Return the states, each computed from its token and the state before: a list of `length`."""
    fed = tokens @ into
    states = [np.tanh(fed[0])]
    for row in range(1, tokens.shape[0]):
        states.append(np.tanh(fed[row] + states[-1] @ onward))
    return states


def self_attention(tokens: Any, *_: Any) -> Any:
    """Return `softmax(x xᵀ / √width) x`, `(length, width)`; as in the text, without projections."""
    scores = tokens @ tokens.T / np.float32(np.sqrt(tokens.shape[1]))
    weights = np.exp(scores - np.maximum.reduce(scores, axis=-1, keepdims=True))
    return (weights / np.add.reduce(weights, axis=-1, keepdims=True)) @ tokens


class Layer(NamedTuple):
    """A layer, its cost as the text gives it, and the powers that follow."""

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


class CountingArray(NDArrayOperatorsMixin):
    """An array that knows how many sequential steps led to it; all share a list of one that counts products."""

    def __init__(self, array: Any, products: list[int], steps: int = 0) -> None:
        self.array = array
        self.products = products
        self.steps = steps

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> CountingArray:
        arrays = [one.array if isinstance(one, CountingArray) else one for one in inputs]
        steps = max(one.steps for one in inputs if isinstance(one, CountingArray))
        result = getattr(ufunc, method)(*arrays, **options)
        if ufunc is np.matmul:
            self.products[0] += result.size * arrays[1].shape[0]
        return CountingArray(result, self.products, steps + 1)

    def __getitem__(self, key: Any) -> CountingArray:
        return CountingArray(self.array[key], self.products, self.steps)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return self.array.shape

    @property
    def T(self) -> CountingArray:  # noqa: N802
        """The transposed array, at the same step."""
        return CountingArray(self.array.T, self.products, self.steps)


def count(run: Callable[..., Any], length: int, width: int) -> tuple[int, int]:
    """Return how many products of matrices a layer takes, and how many steps that wait for the one before."""
    products = [0]
    tokens, *matrices = (np.ones(shape, np.float32) for shape in [(length, width), *[(width, width)] * 3])
    result = run(CountingArray(tokens, products), *matrices)
    ends = result if isinstance(result, list) else [result]
    return products[0], max(end.steps for end in ends)
