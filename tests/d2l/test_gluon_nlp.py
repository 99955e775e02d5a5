"""gluon-nlp 0.10.0 beside ours: the table of its Transformers, and its attention. It takes the old arrays of MXNet."""

import warnings

import mxnet as mx
import numpy as np
import pytest

from posenc_core import Sinusoidal

from ..pages import FOLDER, run
from .test_d2l_attention import LENGTHS, numbers
from .truth import UNIT, attention, exact

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from gluonnlp.model.attention_cell import DotProductAttentionCell, MultiHeadAttentionCell
    from gluonnlp.model.transformer import TransformerEncoder

PROJECTIONS = {"W_q": "proj_query", "W_k": "proj_key", "W_v": "proj_value"}


@pytest.mark.parametrize(("units", "max_length"), [(6, 2**16), (32, 1000), (64, 50)])
def test_its_table_has_a_frequency_for_every_column(units, max_length):
    """Compare with `"column_index"`, which keeps this slip (the paper has one per pair), but for the row of position 0.

    It is made in float64 and rounded, of angles that are off by the roundings of power, product and quotient.
    """
    with mx.util.np_array(False), mx.util.np_shape(False):
        encoder = TransformerEncoder(units=units, max_length=max_length, num_heads=2, num_layers=1)
        table = encoder.position_weight.value.asnumpy()
    ours = Sinusoidal(dim=units, convention="column_index").table(range(max_length))
    assert table.shape == ours.shape
    assert np.all(np.abs(table[1:] - ours[1:]) <= UNIT + max_length * 2.0**-50)
    np.testing.assert_array_equal(table[0], np.arange(units) % 2)
    np.testing.assert_array_equal(ours[0], np.zeros(units))
    assert np.abs(table - Sinusoidal(dim=units).table(range(max_length))).max() > 0.5


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_its_attention(original, backend, lengths):
    """It does not project the result."""
    matrices = {name: numbers(12, 12) for name in PROJECTIONS} | {"W_o": np.eye(12, dtype=np.float32)}
    tokens = numbers(3, 4, 12), numbers(3, 5, 12), numbers(3, 5, 12)
    truth = attention(*map(exact, tokens), lengths, matrices, 3)
    layer = original.testing.with_projections(original.testing.eval_mode(backend.MultiHeadAttention(12, 3)), matrices)
    for result in (attended(tokens, lengths, matrices, 3), original.called(layer, *tokens, lengths)):
        assert np.all(np.abs(result - truth.value) <= truth.slack)


def attended(tokens, lengths, matrices, num_heads):
    """Return the result of gluon-nlp's attention; its mask is for every query and key."""
    seen = None
    if lengths is not None:
        seen = np.arange(5) < np.broadcast_to(np.reshape(lengths, (3, -1)), (3, 4))[..., None]
    with mx.util.np_array(False), mx.util.np_shape(False):
        cell = MultiHeadAttentionCell(DotProductAttentionCell(), 12, 12, 12, num_heads, use_bias=False)
        cell.initialize()
        given = [None if one is None else mx.nd.array(one) for one in (*tokens, seen)]
        cell(*given)
        for name, projection in PROJECTIONS.items():
            getattr(cell, projection).weight.set_data(mx.nd.array(matrices[name].T))
        return cell(*given)[0].asnumpy()


def test_the_page_prints_what_it_shows(tmp_path, monkeypatch):
    """It is written for a process in which `mxnet.npx.set_np()` was not called."""
    monkeypatch.chdir(tmp_path)  # it writes files
    with mx.util.np_array(False), mx.util.np_shape(False):
        run(FOLDER.with_name("howto") / "replace_gluonnlp.md")
