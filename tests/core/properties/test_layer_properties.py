"""`MultiHeadAttention` of the NumPy room with each encoding inside: pieces of a sequence, rows of a batch, and groups.

Projections and tokens are float64, tables and `Fire`'s and `Kerple`'s scores float32, the same for the same positions:
see `attending.py`.
"""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from posenc_backends import load
from posenc_core.encodings import AxialRotary

from .attending import close, weights_of
from .kinds import INSIDE
from .numbers import RNGS

ROOM = load("numpy")
NAMES = ("W_q", "W_k", "W_v", "W_o")

few = settings(max_examples=8)
each = pytest.mark.parametrize("kind", INSIDE)


def attention(encoding, rng, kv_heads=None):
    """A layer with random numbers for all that is learned."""
    heads, head_dim = getattr(encoding, "num_heads", 2), getattr(encoding, "head_dim", 4)
    layer = ROOM.MultiHeadAttention(heads * head_dim, heads, position=encoding, num_kv_heads=kv_heads)
    for name in NAMES:
        kernel = getattr(layer, name).kernel
        getattr(layer, name).kernel = rng.normal(size=kernel.shape) / len(kernel) ** 0.5
    holder = layer.scoring or layer.rotary
    holder.set_tables({name: array.astype(np.float32) for name, array in weights_of(encoding, rng).items()})
    return layer


def everywhere(encoding, length):
    """What has to be said of positions: nothing, but to encodings of grids."""
    return {"positions": np.arange(length), "key_positions": np.arange(length)} if needs(encoding) else {}


def needs(encoding):
    return isinstance(encoding, AxialRotary)


@each
@few
@given(st.data(), RNGS, st.lists(st.integers(0, 4), min_size=2, max_size=4))
def test_pieces_with_a_cache_are_the_whole(kind, data, rng, pieces):
    encoding, length = data.draw(INSIDE[kind]), sum(pieces)
    assume(length and (getattr(encoding, "longest", None) or length) >= length)  # else frequencies change underway
    heads = getattr(encoding, "num_heads", 2)
    kv_heads = data.draw(st.sampled_from([n for n in range(1, heads + 1) if heads % n == 0]))
    layer = attention(encoding, rng, kv_heads)
    x = rng.normal(size=(2, length, layer.num_hiddens))
    whole, cache = layer(x, x, x, causal=True, **everywhere(encoding, length)), ()
    for begin, end in pairwise(np.cumsum([0, *pieces]).tolist()):
        told = {"positions": np.arange(begin, end), "key_positions": np.arange(end)} if needs(encoding) else {}
        piece = x[:, begin:end]
        result, _, cache = layer(piece, piece, piece, start=begin, causal=True, cache=cache, **told)
        close(result, whole[:, begin:end], encoding)
        assert [array.shape[1:3] for array in cache] == [(kv_heads, end)] * 2


@each
@few
@given(st.data(), RNGS, st.integers(2, 9))
def test_valid_lengths_are_sequences_of_that_length(kind, data, rng, length):
    encoding = data.draw(INSIDE[kind])
    assume((getattr(encoding, "longest", None) or length) >= length)
    layer = attention(encoding, rng)
    x, counts = rng.normal(size=(2, length, layer.num_hiddens)), data.draw(st.tuples(*[st.integers(1, length)] * 2))
    got = layer(x, x, x, np.array(counts), causal=True, **everywhere(encoding, length))
    for row, count in enumerate(counts):
        alone = x[row : row + 1, :count]
        wanted = layer(alone, alone, alone, causal=True, **everywhere(encoding, count))
        close(got[row : row + 1, :count], wanted, encoding)


@each
@few
@given(st.data(), RNGS, st.integers(1, 9))
def test_weights_are_what_values_are_weighed_by(kind, data, rng, length):
    encoding = data.draw(INSIDE[kind])
    assume((getattr(encoding, "longest", None) or length) >= length and not getattr(encoding, "adds_values", False))
    layer = attention(encoding, rng)
    x = rng.normal(size=(1, length, layer.num_hiddens))
    got = layer(x, x, x, causal=True, weights=True, **everywhere(encoding, length))
    values = np.swapaxes((x @ layer.W_v.kernel).reshape(1, length, layer.num_heads, -1), 1, 2)
    wanted = np.swapaxes(got.weights @ values, 1, 2).reshape(x.shape) @ layer.W_o.kernel
    close(got.result, wanted)
    close(got.weights.sum(axis=-1), 1)
    assert not np.triu(got.weights, 1).any()
