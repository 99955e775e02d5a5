"""Decoding: write answers token by token, with a cache of keys and values; tokens are chosen on the host."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from .._array_api.checks import check_integer, shown
from .._array_api.namespace import Array, Weights, namespace_of
from .checks import check, check_model
from .config import END, PAD, START, Transformer
from .model import Memory, decode, read

Host = npt.NDArray[Any]


class Conversions(Protocol):
    """The two functions of a backend that decoding uses."""

    def from_numpy(self, array: Host, /, *, like: Any = None) -> Any:
        """Return the framework's array of the same numbers, on the device of `like`."""

    def to_numpy(self, array: Any, /) -> Host:
        """Return the numbers of the framework's array."""


class Beams(NamedTuple):
    """The answers of `beam`, the best first.

    Attributes:
        tokens: each answer ends with `END`, then `PAD`, shape `(batch, width, length)`.
        scores: the log-likelihood of each answer, in nats, shape `(batch, width)`.
    """

    tokens: npt.NDArray[np.int32]
    scores: npt.NDArray[np.float64]


def greedy(
    model: Transformer, weights: Weights, source: Array, *, backend: Conversions, length: int | None = None
) -> npt.NDArray[np.int32]:
    """Write answers by greedy decoding: each token is the likeliest one.

    Args:
        model: the sizes and the encoding.
        weights: parameters and constants by name, all of one framework.
        source: questions, integers, shape `(batch, source_len)`.
        backend: `from_numpy` and `to_numpy` of that framework, such as the module `posenc_backends.torch`.
        length: the maximum number of tokens; `model.max_len` by default.
    Returns:
        Integers, shape `(batch, length)`: tokens up to `END`, then `PAD`.
    Raises:
        ValueError: if `length` is not positive, or greater than `model.max_len`.

    >>> from types import SimpleNamespace
    >>> backend = SimpleNamespace(from_numpy=lambda array, like=None: array, to_numpy=lambda array: array)
    >>> model = Transformer(vocabulary=5, max_len=4, num_hiddens=8, num_heads=2)
    >>> greedy(model, model.initial(seed=0) | model.constants(), np.array([[3, 4, 0]]), backend=backend).shape
    (1, 4)
    """
    return beam(model, weights, source, backend=backend, width=1, length=length).tokens[:, 0]


def beam(
    model: Transformer,
    weights: Weights,
    source: Array,
    *,
    backend: Conversions,
    width: int = 4,
    length: int | None = None,
) -> Beams:
    """Write answers by beam search: keep the `width` likeliest beginnings at each step.

    Other arguments and errors are those of `greedy`. There is no length penalty.

    Source: Graves 2012 (arXiv:1211.3711), in the form of Sutskever et al. 2014, section 3.2 (arXiv:1409.3215).
    """
    check_model(model, weights, source=source)
    check(backend=backend)
    width, length = _checked_sizes(model, width, length)
    memory = read(model, weights, source)
    batch = source.shape[0]
    tokens = np.full((batch, 1, length), PAD, np.int32)  # (batch, beams, length)
    scores = np.zeros((batch, 1))  # (batch, beams)
    last = np.full((batch, 1), START, np.int32)  # (batch, beams)
    for step in range(length):
        logits, memory = decode(model, weights, backend.from_numpy(last.reshape(-1, 1), like=source), memory)
        likelihoods = _log_softmax(backend.to_numpy(logits)[:, -1])  # (batch * beams, vocabulary)
        likelihoods = likelihoods.reshape(*scores.shape, -1)  # (batch, beams, vocabulary)
        is_done = np.isin(last, (END, PAD))[..., None]
        likelihoods = np.where(is_done, _certain(PAD, likelihoods.shape[-1]), likelihoods)
        scores, parents, last = _best(scores, likelihoods, width)  # (batch, width) each
        tokens = np.take_along_axis(tokens, parents[..., None], axis=1)
        tokens[..., step] = last
        if np.isin(last, (END, PAD)).all():
            break
        memory = _select(memory, parents, backend)
    return Beams(tokens, scores)


def _checked_sizes(model: Transformer, width: int, length: int | None) -> tuple[int, int]:
    """Return both sizes as int, with the default of `length`."""
    width, length = check_integer("width", width), check_integer("length", model.max_len if length is None else length)
    if length > model.max_len:
        raise ValueError(f"`length` must be at most the `max_len` {model.max_len} of the model, got {shown(length)}.")
    return width, length


def _log_softmax(logits: Host) -> npt.NDArray[np.float64]:
    shifted = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def _certain(token: int, vocabulary: int) -> npt.NDArray[np.float64]:
    """Return log-likelihoods that make a token certain: a finished answer goes on with padding."""
    likelihoods = np.full(vocabulary, -np.inf)
    likelihoods[token] = 0
    return likelihoods


def _best(
    scores: npt.NDArray[np.float64], likelihoods: npt.NDArray[np.float64], width: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """Return the scores of the best continuations, the index of the beginning of each, and its new token."""
    total = (scores[..., None] + likelihoods).reshape(len(scores), -1)
    order = np.argsort(-total, axis=-1, kind="stable")[:, :width]
    parents, tokens = np.divmod(order, likelihoods.shape[-1])
    return np.take_along_axis(total, order, axis=-1), parents, tokens.astype(np.int32)


def _select(memory: Memory, parents: npt.NDArray[np.int64], backend: Conversions) -> Memory:
    """Return the memory of the beginnings that are kept, in their order."""
    rows = memory.visible.shape[0]  # batch * beams
    first = np.arange(0, rows, rows // len(parents))  # the first row of each question
    kept = (first[:, None] + parents).reshape(-1)
    if np.array_equal(kept, np.arange(rows)):
        return memory
    xp, index = namespace_of(memory.visible), backend.from_numpy(kept.astype(np.int32), like=memory.visible)

    def take(pairs: Any) -> Any:
        return tuple((xp.take(k, index, axis=0), xp.take(v, index, axis=0)) for k, v in pairs)

    return Memory(xp.take(memory.visible, index, axis=0), take(memory.source), take(memory.past))
