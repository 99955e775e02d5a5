"""The cells of d2l's pages on self-attention and on the Transformer, as the book has them and with our two classes.

Sizes are those that its reader types; numbers are compared with the formulas, in each framework.
"""

import numpy as np
import pytest

from posenc_core import Sinusoidal

from .drawing import Notes
from .truth import UNIT, attention, encoder, exact, sinusoids

LENGTHS = np.array([3, 2])


@pytest.fixture
def notes(original, monkeypatch):
    """Return the pictures of d2l."""
    notes = Notes()
    for name in ("plt", "backend_inline"):
        monkeypatch.setattr(original.book, name, notes)
    return notes


def check_shape(original, array, shape):
    """As pages do: d2l for Paddle prints it."""
    if original.framework != "paddle":
        original.book.check_shape(array, shape)
    assert tuple(array.shape) == shape


@pytest.mark.parametrize("pairs", [4, 6], ids=["self", "of pairs"])
@pytest.mark.usefixtures("whose")
def test_attention(original, pairs):
    """The first cell; and that of the page before, on multi-head attention, with 6 pairs of keys and values."""
    rng = np.random.default_rng(0)
    matrices = {name: (rng.normal(size=(100, 100)) / 10).astype(np.float32) for name in ("W_q", "W_k", "W_v", "W_o")}
    queries, keys = np.ones((2, 4, 100)), np.ones((2, pairs, 100))
    result = original.attention(5, matrices)(queries, keys, keys, LENGTHS)
    assert result.shape == (2, 4, 100)
    truth = attention(exact(queries), exact(keys), exact(keys), LENGTHS, matrices, 5)
    assert np.all(np.abs(result - truth.value) <= truth.slack)


def test_curves(original, whose, notes):
    """Columns 6 to 9 of the first 60 rows of a table 32 wide."""
    added, table = original.positions(32, np.zeros((1, 60, 32)))
    check_shape(original, added, (1, 60, 32))
    curves, _ = original.drawn(table[:, : added.shape[1], :])
    names = [f"Col {column}" for column in range(6, 10)]
    original.book.plot(np.arange(60), curves[6:10], xlabel="Row (position)", figsize=(6, 2.5), legend=names)
    assert notes.names == names
    true, slack = sinusoids(range(60), 32)
    if whose == "ours":
        true, slack = Sinusoidal(dim=32).table(range(60)), np.zeros((60, 32))
    assert len(notes.curves) == 4
    for column, (rows, curve) in zip(range(6, 10), notes.curves, strict=True):
        np.testing.assert_array_equal(rows, np.arange(60))
        assert np.all(np.abs(curve - true[:, column]) <= slack[:, column])
    assert np.all(np.abs(original.backend.to_numpy(added)[0] - true) <= slack)


def test_heat_map(original, whose, notes):
    _, table = original.positions(32, np.zeros((1, 60, 32)))
    _, image = original.drawn(table[:, :60])
    original.book.show_heatmaps(image, xlabel="Column (encoding dimension)", ylabel="Row (position)", cmap="Blues")
    (seen,) = notes.images
    true, slack = sinusoids(range(60), 32)
    assert np.all(np.abs(seen - true) <= (UNIT if whose == "ours" else slack))


def test_encoder(original, whose):
    """Two blocks of 8 heads; 100 tokens, all the same, of which 3 and 2 count."""
    tokens = np.ones((2, 100), int)
    result, embedding, blocks, weights = original.encoded(original.encoder(200, 24, 48, 8, 2, 0.5), tokens, LENGTHS)
    assert result.shape == (2, 100, 24)
    truth, seen = encoder(tokens, LENGTHS, embedding, blocks, 8, original.epsilon)
    assert truth.slack.max() < 1e-3  # float32 angles alone are off by 1e-4 there
    assert np.all(np.abs(result - truth.value) <= truth.slack)
    least = 0 if whose == "ours" else original.least
    for weight, true in zip(weights, seen, strict=True):
        assert weight.shape == (2 * 8, 100, 100)
        assert np.all(np.abs(weight.reshape(true.value.shape) - true.value) <= true.slack + least)
        assert max(weight[:8, :, 3:].max(), weight[8:, :, 2:].max()) <= least
