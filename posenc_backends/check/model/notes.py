"""Layers of a model in a run, their products, and the sums before them: the same for all frameworks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np

from .likeness import are_alike
from .protocol import Addition, Call, Float64s, Product


class Memory(NamedTuple):
    """Hidden states and sums of a model that earlier runs have shown.

    Attributes:
        common: the hidden state that all tokens have in a layer, in all runs.
        summands: which sums add rows to tokens: the module, the number of the sum, and which summand the rows are.
    """

    common: dict[str, Float64s]
    summands: set[tuple[str, int, int]]


class Notes(ABC):
    """Notes what a run multiplies, and the rows that it adds to tokens.

    Args:
        memory: of earlier runs.
        call: the call of the model.
        is_rotated: False if rotations are left out.
    """

    def __init__(self, memory: Memory, call: Call, is_rotated: bool) -> None:
        self.memory, self.call, self.is_rotated = memory, call, is_rotated
        self.sizes: tuple[int, int] = (call.tokens.shape[0], call.tokens.shape[1])
        self.running: list[str] = []  # modules
        self.products: list[Product] = []
        self.additions: list[Addition] = []
        self.layers: dict[str, bool] = {}  # whether tokens depend on positions when they enter
        self._sums: dict[str, int] = {}  # how many each module has computed
        self._with_rows: list[Any] = []  # tokens to which rows were added

    @abstractmethod
    def is_float(self, x: Any) -> bool:
        """Return whether a value is an array of real numbers."""

    @abstractmethod
    def to_numpy(self, x: Any) -> Any:
        """Return an array in float64 or complex128."""

    @abstractmethod
    def from_numpy(self, x: Float64s, like: Any) -> Any:
        """Return an array of the dtype of another."""

    @property
    def layer(self) -> str | None:
        """The layer that runs, outside of which tables are added to tokens."""
        return next(filter(_is_layer, self.running), None)

    def enter(self, name: str, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of a module that is called, those of a layer with the same hidden state for all tokens.

        It is the state of the first token in the first run, so that nothing but the positions within the layer makes a
        difference.
        """
        hidden = next(filter(self.is_float, (*args, *named.values())), None)
        if self.layer is not None or not _is_layer(name) or hidden is None or len(hidden.shape) < 3:
            return args, named
        first = tuple(hidden.shape[:2])
        if first not in (self.sizes, self.sizes[::-1]):
            return args, named
        numbers = self.to_numpy(hidden)
        self.layers[name] = not are_alike(numbers if first == self.sizes else numbers.swapaxes(0, 1), self.sizes)
        token = self.memory.common.setdefault(name, numbers[:1, :1].copy())
        if token.shape[2:] != numbers.shape[2:]:
            return args, named
        alike = self.from_numpy(np.full_like(numbers, token), hidden)
        same = tuple(alike if x is hidden else x for x in args)
        return same, {key: alike if x is hidden else x for key, x in named.items()}

    def add_rows(self, *summands: Any) -> bool:
        """Note rows that are added to tokens before a layer; return whether there are some."""
        if self.layer is not None or not self.is_rotated or not all(map(self.is_float, summands)):
            return False
        name = self.running[-1] if self.running else ""
        is_result = any(f".{layer}".startswith(f".{name}.".replace("..", ".")) for layer in self.layers)
        if is_result or (self.products and not self.layers):  # where names do not tell layers
            return False
        number = self._sums[name] = self._sums.get(name, 0) + 1
        for place, (rows, x) in enumerate((summands, summands[::-1])):
            shape, own = tuple(x.shape), tuple(rows.shape)
            if len(shape) != 3 or shape[:2] != self.sizes:
                continue
            if own[-2:] != shape[1:] or own[:-2] not in ((), (1,), shape[:1]):
                continue
            numbers = np.broadcast_to(self.to_numpy(rows), shape)
            if self.sizes == (1, 1):  # where rows cannot be told from tokens
                is_found = (name, number, place) in self.memory.summands
            else:
                is_plain = any(x is one for one in self._with_rows) or are_alike(self.to_numpy(x), self.sizes)
                is_found = is_plain and not are_alike(numbers, self.sizes)
            if is_found:
                self.memory.summands.add((name, number, place))
                self.additions.append(Addition(name, numbers))
                return True
        return False

    def add_product(self, q: Any, k: Any, scores: Any = None, *, is_indexer: bool = False) -> None:
        """Note queries and keys, each `(rows, …, length, width)`, and their scores, or what is added to these."""
        follows = self.layer is None and bool(self._with_rows)
        q, k = (x.reshape(self.sizes[0], -1, *x.shape[-2:]) for x in (q, k))
        if not self.call.with_scores or scores is None or scores.shape[-2] != self.sizes[1]:
            scores = None
        else:
            scores = scores.reshape(self.sizes[0], -1, *scores.shape[-2:])[..., self.call.queries, :]
        name = self.running[-1] if self.running else ""
        self.products.append(Product(name, q, k, scores, follows, is_indexer))


def _is_layer(name: str) -> bool:
    return name.rpartition(".")[2].isdecimal()
