"""Formulas of gluon-nlp's master, which was never released: what `RelAttentionScoreCell` and its sinusoids give.

Restated from dmlc/gluon-nlp, `src/gluonnlp/attention_cell.py` and `layers.py`: softmax((q kᵀ + R) / √head_dim) v, with
R from q and the offset of key and query, cut off at `max_distance` on both sides. What 0.10.0 has runs in `tests/d2l`.
"""

import numpy as np

from posenc_core import Sinusoidal
from posenc_core.attention.attend import AttentionInputs
from posenc_core.encodings import ShawBias, TransformerXLBias

HEADS, WIDTH, FARTHEST = 2, 4, 3
RNG = np.random.default_rng(0)
Q, K = RNG.normal(size=(1, HEADS, 5, WIDTH)), RNG.normal(size=(1, HEADS, 7, WIDTH))
OFFSETS = np.clip(np.arange(7) - np.arange(5)[:, None], -FARTHEST, FARTHEST)


def sinusoids(offsets, units):
    """All sines first, timescales from 1 to 10000 by equal ratios, both ends included."""
    angles = np.multiply.outer(np.asarray(offsets, float), 10000.0 ** -(np.arange(units // 2) / (units // 2 - 1)))
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=-1)


def scores(encoding, **weights):
    content = AttentionInputs(Q, K, Q @ K.swapaxes(-1, -2) / np.sqrt(WIDTH))
    return encoding.scores(weights, range(5), range(7), content)


def test_its_sinusoids_are_those_of_tensor2tensor():
    ours = Sinusoidal(dim=8, convention="tensor2tensor").table(range(-50, 50))
    np.testing.assert_allclose(ours, sinusoids(range(-50, 50), 8), rtol=0, atol=2.0**-24)


def test_two_columns_divide_zero_by_zero_in_its_sinusoids_and_not_in_ours():
    with np.errstate(invalid="ignore"):
        assert np.isnan(sinusoids([5], 2)).all()
    assert np.isfinite(Sinusoidal(dim=2, convention="tensor2tensor").table([5])).all()


def test_shaw():
    """Its table has a vector for each head, and negative offsets count from the end of it: rows 0, 1, …, -2, -1."""
    table = RNG.normal(size=(HEADS, 2 * FARTHEST + 1, WIDTH))
    theirs = np.roll(table, -FARTHEST, axis=1).swapaxes(0, 1)
    wanted = np.einsum("bhqc,qkhc->bhqk", Q, theirs[OFFSETS]) / np.sqrt(WIDTH)
    encoding = ShawBias(num_heads=HEADS, head_dim=WIDTH, max_distance=FARTHEST, applies_to="keys", per_head=True)
    np.testing.assert_allclose(scores(encoding, key_table=table), wanted, rtol=0, atol=1e-13)


def test_transformer_xl():
    """Its sinusoids are of the key less the query, and by tensor2tensor's frequencies; the paper's are neither.

    The bias for positions is a part of its query, that for content it leaves to the caller.
    """
    matrix, bias = RNG.normal(size=(HEADS * WIDTH, HEADS * WIDTH)), RNG.normal(size=(HEADS, WIDTH))
    projected = (sinusoids(OFFSETS, HEADS * WIDTH) @ matrix).reshape(5, 7, HEADS, WIDTH)
    wanted = np.einsum("bhqc,qkhc->bhqk", Q + bias[:, None], projected) / np.sqrt(WIDTH)
    encoding = TransformerXLBias(num_heads=HEADS, head_dim=WIDTH, max_distance=FARTHEST)
    learned = {"u": np.zeros((HEADS, WIDTH)), "v": bias, "W_r": matrix}
    rows = sinusoids(range(-FARTHEST, FARTHEST + 1), HEADS * WIDTH)
    np.testing.assert_allclose(scores(encoding, R=rows, **learned), wanted, rtol=0, atol=1e-13)
    paper = encoding.constants(0)["R"]
    assert np.abs(scores(encoding, R=paper.astype(float), **learned) - wanted).max() > 0.1
