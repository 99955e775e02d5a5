"""Attention written out: which token stands where, and sees which keys at which positions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Tokens = npt.NDArray[Any]  # (length,) integers, or (length, width) vectors


class Window(NamedTuple):
    """The keys that a decoder sees: the last `window` tokens (None: all) and the first `sinks` tokens.

    With `remaps`, positions are counted in the cache, as in StreamingLLM: sinks follow the window.
    """

    window: int | None = None
    sinks: int = 0
    remaps: bool = True

    @property
    def places(self) -> int:
        """How many keys it has; 0 without a window."""
        return 0 if self.window is None else self.window + self.sinks

    def visible(self, length: int) -> npt.NDArray[np.bool_]:
        """Return which keys each query see, shape `(length, length)`."""
        at = np.arange(length)
        back = at[:, None] - at
        recent = back < (length if self.window is None else self.window)
        return (back >= 0) & (recent | (at < self.sinks))

    def key_positions(self, positions: Ints) -> Ints:
        """Return the position at which each query sees each key."""
        keys = np.tile(positions, (len(positions), 1))
        if self.sinks and self.remaps:
            for query in range(self.places, len(positions)):
                keys[query, : self.sinks] = positions[query] - self.places + 1 + np.arange(self.sinks)
        return keys


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row of a batch, and the calls that it has been through.

    Attributes:
        prompt: the tokens of the prefill that the cache should still hold.
        decoded: the tokens of the calls of `decode` after it, as many in each as `calls` say.
        pad: how many tokens of padding stand left of the prompt: the first `pad` of `padding`.
        removed: tokens after the prompt that `trim` has removed.
        before: the tokens of another prefill.
        shift: by how many positions `move` has moved the keys.
        stayed: the row that stood here before `reorder`, with the same tokens after it.
        skip: how many decoded tokens came before `reorder`; their outputs are not compared.
        with_prompt: whether the last output of the prefill is compared as well.
    """

    prompt: Tokens
    decoded: Tokens
    calls: tuple[int, ...]
    pad: int = 0
    padding: Tokens | None = None
    removed: Tokens | None = None
    before: Tokens | None = None
    shift: int = 0
    stayed: Row | None = None
    skip: int = 0
    with_prompt: bool = False

    @property
    def starts(self) -> Ints:
        """For each decoded token, the number of tokens before its call."""
        return len(self.prompt) + np.repeat(np.cumsum((0, *self.calls[:-1])), self.calls)


class Attention(NamedTuple):
    """One row of attention.

    Attributes:
        tokens: of any order, shape `(length, …)`.
        positions: of the queries, and of keys unless said otherwise, shape `(length,)`.
        keys: the position at which each query sees each key, shape `(length, length)`.
        visible: the keys that each query see, shape `(length, length)`.
        outputs: the tokens whose outputs are compared.
    """

    tokens: Tokens
    positions: Ints
    keys: Ints
    visible: npt.NDArray[np.bool_]
    outputs: Ints

    def at(self, positions: Ints, window: Window) -> Attention:
        """Return the same tokens at other positions, queries and keys alike."""
        return self._replace(positions=positions, keys=window.key_positions(positions))

    def is_plain(self, window: Window) -> bool:
        """Return whether a decoder with this window computes it from the tokens alone, but for the first position."""
        count = np.arange(len(self.positions))
        return (
            np.array_equal(self.positions - self.positions[0], count)
            and not self.has_other_keys
            and np.array_equal(self.visible, window.visible(len(count)))
            and (not window.sinks or len(count) <= window.places)
        )

    def computes(self, other: Attention) -> bool:
        """Return whether another attention has the same tokens, positions and keys."""
        pairs = zip(
            self._replace(keys=self.keys * self.visible), other._replace(keys=other.keys * other.visible), strict=True
        )
        return all(np.array_equal(one, another) for one, another in pairs)

    @property
    def has_other_keys(self) -> bool:
        """Whether a query sees a key at another position than its token's."""
        return bool(((self.keys != self.positions) & self.visible).any())

    def expanded(self) -> tuple[Tokens, Ints, Ints, npt.NDArray[np.bool_]]:
        """Return tokens, positions of queries, positions of keys and what is visible.

        A key that is seen at another position than its token's is a copy of the token, which sees what the token sees
        and which only those queries see. So one position for each query and each key is enough, in any number of
        layers.
        """
        count = len(self.positions)
        copies: dict[tuple[int, int], int] = {}
        columns = np.tile(np.arange(count), (count, 1))
        for query, key in np.argwhere(self.visible & (self.keys != self.positions)):
            at = int(key), int(self.keys[query, key])
            columns[query, key] = copies.setdefault(at, count + len(copies))
        of = np.array([*range(count), *(key for key, _ in copies)])
        visible = np.zeros((len(of), len(of)), bool)
        for number, token in enumerate(of):
            visible[number, columns[token, self.visible[token]]] = True
        key_positions = np.array([*self.positions, *(position for _, position in copies)])
        return self.tokens[of], self.positions[of], key_positions, visible


def attention_of(row: Row, window: Window) -> Attention:
    """Return what a right decoder computes for a row."""
    length = len(row.prompt) + len(row.decoded)
    positions = np.arange(length) + row.shift
    outputs = np.arange(len(row.prompt) + row.skip - row.with_prompt, length)
    tokens = np.concatenate([row.prompt, row.decoded])
    return Attention(tokens, positions, window.key_positions(positions), window.visible(length), outputs)


def with_tokens(attention: Attention, extra: Tokens, at: int, window: Window) -> Attention:
    """Return the attention with other tokens in front of token number `at`, which all later tokens see."""
    length = len(attention.positions) + len(extra)
    tokens = np.concatenate([attention.tokens[:at], extra, attention.tokens[at:]])
    positions = np.arange(length)
    outputs = attention.outputs + np.where(attention.outputs >= at, len(extra), 0)
    return Attention(tokens, positions, window.key_positions(positions), window.visible(length), outputs)
