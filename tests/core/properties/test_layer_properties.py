"""`MultiHeadAttention` of the NumPy backend with each encoding: chunks of a sequence, rows of a batch, grouped heads.

Projections and tokens are float64; tables and the scores of `Fire` and `Kerple` are float32, equal for equal positions.
See `random_attention.py`.
"""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from posenc_backends import load
from posenc_core.encodings import AxialRotary, MixedRotary

from .numbers import RNGS
from .random_attention import close, weights_of
from .strategies import IN_ATTENTION

BACKEND = load("numpy")
NAMES = ("W_q", "W_k", "W_v", "W_o")

few = settings(max_examples=8)
each = pytest.mark.parametrize("kind", IN_ATTENTION)


def attention(encoding, rng, kv_heads=None):
    """Return a layer with random parameters."""
    heads, head_dim = (getattr(encoding, "num_heads", None) or 2), getattr(encoding, "head_dim", 4)
    layer = BACKEND.MultiHeadAttention(heads * head_dim, heads, position=encoding, num_kv_heads=kv_heads)
    for name in NAMES:
        kernel = getattr(layer, name).kernel
        getattr(layer, name).kernel = rng.normal(size=kernel.shape) / len(kernel) ** 0.5
    base_layer = layer.scoring or layer.rotary
    base_layer.set_tables({name: array.astype(np.float32) for name, array in weights_of(encoding, rng).items()})
    return layer


def all_positions(encoding, length):
    """Return the position arguments: none, except for encodings with several axes."""
    return {"positions": np.arange(length), "key_positions": np.arange(length)} if has_axes(encoding) else {}


def has_axes(encoding):
    return isinstance(encoding, AxialRotary | MixedRotary)


@each
@few
@given(st.data(), RNGS, st.lists(st.integers(0, 4), min_size=2, max_size=4))
def test_chunks_with_a_cache_equal_the_whole_sequence(kind, data, rng, chunks):
    encoding, length = data.draw(IN_ATTENTION[kind]), sum(chunks)
    assume(length and (getattr(encoding, "max_seq_len", None) or length) >= length)  # longer ones change frequencies
    heads = getattr(encoding, "num_heads", None) or 2
    kv_heads = data.draw(
        st.sampled_from([n for n in range(getattr(encoding, "table_heads", None) or 1, heads + 1) if heads % n == 0])
    )
    layer = attention(encoding, rng, kv_heads)
    x = rng.normal(size=(2, length, layer.num_hiddens))
    whole, cache = layer(x, x, x, causal=True, **all_positions(encoding, length)), ()
    for begin, end in pairwise(np.cumsum([0, *chunks]).tolist()):
        positions = {"positions": np.arange(begin, end), "key_positions": np.arange(end)} if has_axes(encoding) else {}
        chunk = x[:, begin:end]
        result, _, cache = layer(chunk, chunk, chunk, start=begin, causal=True, cache=cache, **positions)
        close(result, whole[:, begin:end], encoding)
        assert [array.shape[1:3] for array in cache] == [(kv_heads, end)] * 2


@each
@few
@given(st.data(), RNGS, st.integers(2, 9))
def test_valid_lengths_equal_shorter_sequences(kind, data, rng, length):
    encoding = data.draw(IN_ATTENTION[kind])
    assume((getattr(encoding, "max_seq_len", None) or length) >= length)
    layer = attention(encoding, rng)
    x, counts = rng.normal(size=(2, length, layer.num_hiddens)), data.draw(st.tuples(*[st.integers(1, length)] * 2))
    got = layer(x, x, x, np.array(counts), causal=True, **all_positions(encoding, length))
    for row, count in enumerate(counts):
        alone = x[row : row + 1, :count]
        wanted = layer(alone, alone, alone, causal=True, **all_positions(encoding, count))
        close(got[row : row + 1, :count], wanted, encoding)


@each
@few
@given(st.data(), RNGS, st.integers(1, 9))
def test_results_are_values_averaged_by_the_weights(kind, data, rng, length):
    encoding = data.draw(IN_ATTENTION[kind])
    assume((getattr(encoding, "max_seq_len", None) or length) >= length and not getattr(encoding, "adds_values", False))
    layer = attention(encoding, rng)
    x = rng.normal(size=(1, length, layer.num_hiddens))
    got = layer(x, x, x, causal=True, weights=True, **all_positions(encoding, length))
    values = np.swapaxes((x @ layer.W_v.kernel).reshape(1, length, layer.num_heads, -1), 1, 2)
    wanted = np.swapaxes(got.weights @ values, 1, 2).reshape(x.shape) @ layer.W_o.kernel
    close(got.result, wanted)
    close(got.weights.sum(axis=-1), 1)
    assert not np.triu(got.weights, 1).any()
