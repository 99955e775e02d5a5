"""Decoding: writing answers token by token, with the keys and values of what is written kept; numbers are compared on the host."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from .._array_api.checks import check_integer
from .._array_api.namespace import Array, namespace_of
from .config import END, PAD, START, Transformer
from .model import Memory, Weights, decode, read

Host = npt.NDArray[Any]


class Arrays(Protocol):
    """What decoding asks of a room."""

    def from_numpy(self, array: Host, /, *, like: Any = None) -> Any:
        """The framework's array of the same numbers, on the device of `like`."""

    def to_numpy(self, array: Any, /) -> Host:
        """The numbers of the framework's array."""


class Beams(NamedTuple):
    """Answers found by `beam`, the best first.

    Attributes:
        tokens: each with `END` after it, then `PAD`, shape `(batch, width, length)`.
        scores: the logarithm of how likely each is, in nats, shape `(batch, width)`.
    """

    tokens: npt.NDArray[np.int32]
    scores: npt.NDArray[np.float64]


def greedy(
    model: Transformer, weights: Weights, source: Array, *, backend: Arrays, length: int | None = None
) -> npt.NDArray[np.int32]:
    """Answers made of the likeliest token each time.

    Args:
        model: the sizes.
        weights: parameters and constants, by name, as arrays of one framework.
        source: questions, integers, shape `(batch, source_len)`.
        room: the framework's room.
        length: the most tokens to write; `model.max_len` by default.
    Returns:
        Integers, shape `(batch, length)`: tokens up to `END`, then `PAD`.
    Raises:
        ValueError: if `length` is not positive, or longer than `model.max_len`.

    >>> from posenc_backends import load
    >>> model = Transformer(vocabulary=5, max_len=4, num_hiddens=8, num_heads=2)
    >>> greedy(model, model.initial(seed=0) | model.constants(), np.array([[3, 4, 0]]), backend=load("numpy")).shape
    (1, 4)
    """
    return beam(model, weights, source, backend=backend, width=1, length=length).tokens[:, 0]


def beam(
    model: Transformer, weights: Weights, source: Array, *, backend: Arrays, width: int = 4, length: int | None = None
) -> Beams:
    """The likeliest answers found by keeping the best `width` beginnings at each step.

    Arguments and errors are those of `greedy`. Likelihoods are multiplied as they are, without a favour to long answers.

    Source: Graves 2012 (arXiv:1211.3711), in the form of Sutskever et al. 2014, section 3.2 (arXiv:1409.3215).
    """
    length = _checked(model, width, length)
    memory = read(model, weights, source)
    rows = source.shape[0]
    tokens = np.full((rows, 1, length), PAD, np.int32)
    scores = np.zeros((rows, 1))
    last = np.full((rows, 1), START, np.int32)
    for step in range(length):
        logits, memory = decode(model, weights, backend.from_numpy(last.reshape(-1, 1), like=source), memory)
        likely = _log_softmax(backend.to_numpy(logits)[:, -1]).reshape(*scores.shape, -1)
        done = np.isin(last, (END, PAD))[..., None]
        scores, parents, last = _best(scores, np.where(done, _only(PAD, likely.shape[-1]), likely), width)
        tokens = np.take_along_axis(tokens, parents[..., None], axis=1)
        tokens[..., step] = last
        if np.isin(last, (END, PAD)).all():
            break
        memory = _followed(memory, parents, backend)
    return Beams(tokens, scores)


def _checked(model: Transformer, width: int, length: int | None) -> int:
    check_integer("width", width)
    length = model.max_len if length is None else length
    check_integer("length", length)
    if length > model.max_len:
        raise ValueError(f"`length` must be at most the `max_len` {model.max_len} of the model, got {length}.")
    return length


def _log_softmax(logits: Host) -> npt.NDArray[np.float64]:
    shifted = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
    surprise: npt.NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return surprise


def _only(token: int, vocabulary: int) -> npt.NDArray[np.float64]:
    """The likelihoods of an answer that is finished: it goes on with this token, for certain."""
    certain = np.full(vocabulary, -np.inf)
    certain[token] = 0
    return certain


def _best(
    scores: npt.NDArray[np.float64], likely: npt.NDArray[np.float64], width: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """The best continuations of all beginnings: their scores, what they go on from, and with which token."""
    together = (scores[..., None] + likely).reshape(len(scores), -1)
    order = np.argsort(-together, axis=-1, kind="stable")[:, :width]
    parents, tokens = np.divmod(order, likely.shape[-1])
    return np.take_along_axis(together, order, axis=-1), parents, tokens.astype(np.int32)


def _followed(memory: Memory, parents: npt.NDArray[np.int64], backend: Arrays) -> Memory:
    """The memory of the beginnings that are kept, in their order."""
    before = memory.visible.shape[0]
    first = np.arange(0, before, before // len(parents))  # of each question
    kept = (first[:, None] + parents).reshape(-1)
    if np.array_equal(kept, np.arange(before)):
        return memory
    xp, index = namespace_of(memory.visible), backend.from_numpy(kept.astype(np.int32), like=memory.visible)

    def following(pairs: Any) -> Any:
        return tuple((xp.take(k, index, axis=0), xp.take(v, index, axis=0)) for k, v in pairs)

    return Memory(xp.take(memory.visible, index, axis=0), following(memory.source), following(memory.past))
