"""d2l's `MultiHeadAttention` beside ours, of the same matrices."""

import numpy as np
import pytest

from .truth import attention, exact

RNG = np.random.default_rng(0)
LENGTHS = {"none": None, "rows": [5, 3, 1], "queries": [[1, 2, 3, 4], [5, 5, 1, 2], [4, 3, 2, 1]]}


def numbers(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def both(original, backend, num_heads, matrices):
    """Their layer and ours, with the same matrices, as functions of NumPy's arrays."""
    layer = original.testing.eval_mode(backend.MultiHeadAttention(len(matrices["W_o"]), num_heads))
    layer = original.testing.with_projections(layer, matrices)
    return original.attention(num_heads, matrices), lambda *given: original.called(layer, *given)


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize(("width", "num_heads"), [(12, 3), (100, 5)])
def test_as_near_as_float32_sums_allow(original, backend, width, num_heads, lengths):
    matrices = {name: numbers(width, width) / np.float32(width**0.5) for name in ("W_q", "W_k", "W_v", "W_o")}
    tokens = numbers(3, 4, width), numbers(3, 5, width), numbers(3, 5, width)
    truth = attention(*map(exact, tokens), lengths, matrices, num_heads)
    assert truth.slack.max() < 1e-5
    for layer in both(original, backend, num_heads, matrices):
        result = layer(*tokens, lengths)
        assert result.shape == (3, 4, width)
        assert np.all(np.abs(result - truth.value) <= truth.slack)


def test_a_query_that_sees_no_key(original, backend):
    """Its scores are all -1e6 in d2l, so that it takes the mean of all the values, padding too; ours gives zeros."""
    matrices = {name: np.eye(4, dtype=np.float32) for name in ("W_q", "W_k", "W_v", "W_o")}
    tokens = numbers(2, 3, 4), numbers(2, 5, 4), numbers(2, 5, 4)
    theirs, ours = (layer(*tokens, [0, 2]) for layer in both(original, backend, 2, matrices))
    mean = tokens[2][0].mean(axis=0, dtype=np.float64)
    np.testing.assert_allclose(theirs[0], np.broadcast_to(mean, (3, 4)), rtol=0, atol=1e-6)
    np.testing.assert_array_equal(ours[0], np.zeros((3, 4)))
    np.testing.assert_allclose(ours[1], theirs[1], rtol=0, atol=1e-6)


def test_integers_as_lengths(original, backend, monkeypatch):
    """Pages have them; in Paddle, d2l compares them with float32 numbers, which Paddle 3 no longer does."""
    matrices = {name: np.eye(4, dtype=np.float32) for name in ("W_q", "W_k", "W_v", "W_o")}
    tokens = numbers(2, 3, 4), numbers(2, 5, 4), numbers(2, 5, 4)
    theirs, ours = both(original, backend, 2, matrices)
    wanted = theirs(*tokens, [3, 2])
    np.testing.assert_allclose(ours(*tokens, [3, 2]), wanted, rtol=0, atol=1e-6)
    monkeypatch.setattr(original, "lengths", "int32")
    if original.framework == "paddle":
        with pytest.raises(TypeError, match=r"Type promotion only support .* x: float32, y: int32"):
            theirs(*tokens, [3, 2])
    else:
        np.testing.assert_array_equal(theirs(*tokens, [3, 2]), wanted)
