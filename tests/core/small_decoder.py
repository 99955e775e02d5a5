"""A small decoder in NumPy with a cache of keys before their rotation, and decoders with a mistake."""

from __future__ import annotations

from copy import deepcopy
from types import SimpleNamespace

import numpy as np

HEAD_DIM, HEADS, LAYERS = 8, 2, 2
FREQUENCIES = 100.0 ** (-np.arange(0, HEAD_DIM, 2) / HEAD_DIM)


def rotated(x, positions):
    """Rotate `(batch, heads, length, head_dim)` at positions `(batch, length)`."""
    angles = (positions[..., None] * FREQUENCIES)[:, None]
    first, second = x[..., ::2], x[..., 1::2]
    pairs = first * np.cos(angles) - second * np.sin(angles), second * np.cos(angles) + first * np.sin(angles)
    return np.stack(pairs, axis=-1).reshape(x.shape).astype(x.dtype)


class Small:
    """A right decoder of two layers."""

    width = HEAD_DIM * HEADS
    window, sinks = None, 0

    def __init__(self):
        numbers = np.random.default_rng(0)
        self.weights = numbers.normal(0, 0.35, (LAYERS, 4, self.width, self.width)).astype(np.float32)

    def layer(self, weights, x, positions, key_positions, visible, cache):
        """Return the outputs of a layer; its keys and values are added to the cache."""
        q, k, v = (self.heads(x @ weight) for weight in weights[:3])
        for name, new in (("keys", k), ("values", v)):
            old = cache.get(name)
            cache[name] = new if old is None else np.concatenate([old, new], axis=2)
        scores = rotated(q, positions) @ rotated(cache["keys"], key_positions).swapaxes(-1, -2)
        scores = np.where(visible[:, None], scores, -1e9)
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        shares = shares / shares.sum(axis=-1, keepdims=True)
        result = (shares @ cache["values"]).swapaxes(1, 2).reshape(x.shape)
        return x + np.tanh(result @ weights[3])

    def heads(self, x):
        return x.reshape(*x.shape[:2], HEADS, HEAD_DIM).swapaxes(1, 2)

    def layers(self, x, positions, key_positions, visible, caches):
        for weights, cache in zip(self.weights, caches, strict=True):
            x = self.layer(weights, x, positions, key_positions, visible, cache)
        return x

    def full(self, tokens, positions, visible, key_positions):
        return self.layers(tokens, positions, key_positions, visible, [{} for _ in range(LAYERS)])

    def empty(self, batch):
        count = np.zeros((batch, 0), np.int64)
        caches = [{} for _ in range(LAYERS)]
        return SimpleNamespace(caches=caches, positions=count, is_token=count > 0, start=np.zeros(batch, np.int64))

    def prefill(self, tokens, mask):
        return self.run(tokens, self.empty(len(tokens)), mask)

    def decode(self, tokens, state):
        state = deepcopy(state)
        state.prompt = getattr(state, "prompt", state.positions.shape[1])
        step = 1 if self.sinks else tokens.shape[1]  # the positions of sinks are those for one query
        found = []
        for at in range(0, tokens.shape[1], step):
            outputs, state = self.run(tokens[:, at : at + step], state, np.ones((len(tokens), step), bool))
            found.append(outputs)
        return np.concatenate(found, axis=1), state

    def run(self, tokens, state, is_token):
        positions = self.next_positions(state, np.maximum(np.cumsum(is_token, axis=1) - 1, 0))
        state.positions = np.concatenate([state.positions, positions], axis=1)
        state.is_token = np.concatenate([state.is_token, is_token], axis=1)
        state.start = state.start + is_token.sum(axis=1)
        visible = self.visible(state, tokens.shape[1])
        keys = self.key_positions(state, positions)
        return self.layers(tokens, positions, keys, visible, state.caches), state

    def next_positions(self, state, count):
        return state.start[:, None] + count

    def visible(self, state, length):
        columns = np.arange(state.positions.shape[1])
        back = columns[-length:, None] - columns
        seen = (back >= 0) & state.is_token[:, None]
        if self.window:
            seen &= (back < self.window) | (columns < self.sinks)
        return seen

    def key_positions(self, state, positions):
        keys, places = state.positions.copy(), (self.window or 0) + self.sinks
        if self.sinks and keys.shape[1] > places:
            keys[:, : self.sinks] = positions[:, :1] - places + 1 + np.arange(self.sinks)
        return keys

    def trim(self, state, count):
        state = deepcopy(state)
        for cache in state.caches:
            cache |= {name: array[:, :, :-count] for name, array in cache.items()}
        state.positions, state.is_token = state.positions[:, :-count], state.is_token[:, :-count]
        state.start = state.start - count
        return state

    def reorder(self, state, rows, names=("keys", "values")):
        state = deepcopy(state)
        for cache in state.caches:
            cache |= {name: array[rows] if name in names else array for name, array in cache.items()}
        state.positions, state.is_token, state.start = (
            one[rows] for one in (state.positions, state.is_token, state.start)
        )
        return state

    def move(self, state, by):
        state = deepcopy(state)
        state.positions, state.start = state.positions + by, state.start + by
        return state
