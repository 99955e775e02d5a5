"""What a layer asks an encoding in place of its class: names of tables, and how its rows come about."""

import re

import numpy as np
import pytest

from posenc_backends.numpy import PositionalEncoding, RotaryEmbedding
from posenc_core import DynamicNTK, FoPE, FourierFeatures, GridSinusoidal, RandomFourierFeatures, Rotary, XPos
from posenc_core._array_api.checks import shown
from posenc_core.encodings import Additive, PoPE, RotaryEncoding, Scoring
from posenc_core.encodings.examples import examples

ROTARY = {"head_dim": 8, "layout": "half"}
TABULAR = [
    *examples(Additive, length=9),
    *examples(RotaryEncoding),
    *examples(PoPE),
    GridSinusoidal(dim=4, convention="tatp22", num_axes=1),
    FourierFeatures(dim=4),
    RandomFourierFeatures(dim=4, scale=1.0, seed=0),
    Rotary(**ROTARY, scaling=DynamicNTK(factor=2.0, original_max_position_embeddings=32)),
    FoPE(**ROTARY, num_terms=3),
    XPos(**ROTARY, direction="inverse"),
]


def weights_of(encoding):
    rng = np.random.default_rng(0)
    drawn = {name: rng.normal(size=each.shape).astype(np.float32) for name, each in encoding.parameters().items()}
    return encoding.constants(9) | drawn


@pytest.mark.parametrize("encoding", TABULAR, ids=repr)
def test_tables_are_named_and_have_one_row_per_position(encoding):
    shapes = {name: array.shape for name, array in weights_of(encoding).items()}
    assert [name for name, shape in shapes.items() if shape[0] == 9] == list(encoding.table_names)


@pytest.mark.parametrize("encoding", TABULAR, ids=repr)
def test_what_an_encoding_says_of_itself_is_so(encoding):
    """Which calls need positions, which rows are mixed by parameters, and which tokens differ as keys."""
    if isinstance(encoding, Additive):
        layer, x = PositionalEncoding(encoding.dim, encoding=encoding), np.ones((1, 3, encoding.dim), np.float32)
    else:
        layer, x = RotaryEmbedding(encoding), np.ones((1, 2, 3, encoding.head_dim), np.float32)
    if encoding.needs_positions:
        with pytest.raises(ValueError, match="`positions` must be given"):
            layer(x)
        return
    weights = weights_of(encoding)
    layer.set_tables({name: weights[name] for name in encoding.parameters()})
    if not isinstance(encoding, Additive):
        q, k = layer(x, x)
        assert np.array_equal(q, k) is not encoding.keys_differ
    rows = tuple(weights[name][:3] for name in encoding.table_names)
    assert (encoding.mixed(weights, rows) is not rows) is encoding.mixes_rows


@pytest.mark.parametrize("encoding", TABULAR, ids=repr)
def test_rows_are_computed_from_parameters_where_an_encoding_says_so(encoding):
    weights = encoding.constants(1) | {name: np.zeros(each.shape) for name, each in encoding.parameters().items()}
    if encoding.computes_rows:
        length_axis = 0 if encoding.table_heads is None else 1
        computed = encoding.rows_of(weights, np.arange(3))
        assert [rows.shape[length_axis] for rows in computed] == [3] * len(encoding.rows(range(1)))
    else:
        message = (
            f"`rows_of` is for encodings whose rows are computed from parameters, got {shown(encoding)}; call `rows`."
        )
        with pytest.raises(TypeError, match=re.escape(message)):
            encoding.rows_of(weights, np.arange(3))


@pytest.mark.parametrize("encoding", examples(Scoring), ids=repr)
def test_scoring_encodings_have_no_table_of_positions(encoding):
    assert encoding.table_names == ()
