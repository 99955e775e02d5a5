"""What a layer asks an encoding in place of its class: names of tables, and how its rows come about."""

import re

import numpy as np
import pytest

from posenc_core import (
    Alibi,
    AxialRotary,
    Binary,
    Cope,
    DebertaBias,
    DecomposedBias,
    DynamicNTK,
    DynamicPositionBias,
    Fire,
    FoPE,
    ForgettingBias,
    FourierFeatures,
    GridSinusoidal,
    Integer,
    Kerple,
    Learned,
    LearnedRotary,
    LearnedSinusoidal,
    MixedRotary,
    MultimodalRotary,
    Normalized,
    PoPE,
    RandomFourierFeatures,
    RelativeLogits,
    Rotary,
    Sandwich,
    ShawBias,
    Sine,
    Sinusoidal,
    SwinBias,
    SwinV2Bias,
    T5Bias,
    Timestep,
    TransformerXLBias,
    XPos,
)
from posenc_core._array_api.checks import shown

ROTARY = {"head_dim": 8, "layout": "half"}
TABULAR = [  # an encoding, its tables, and which of the three it says yes to
    (Integer(dim=4), "table", ""),
    (Normalized(dim=4, length=9), "table", ""),
    (Binary(dim=4), "table", ""),
    (Sine(dim=4, frequencies="powers_of_two"), "table", ""),
    (Sinusoidal(dim=4), "table", ""),
    (Timestep(dim=4), "table", ""),
    (Learned(dim=4, length=9), "table", ""),
    (LearnedSinusoidal(dim=4), "", "computes_rows"),
    (GridSinusoidal(dim=4, convention="mae"), "table", "needs_positions"),
    (GridSinusoidal(dim=4, convention="tatp22", num_axes=1), "table", ""),
    (FourierFeatures(dim=4), "table", ""),
    (FourierFeatures(dim=4, num_axes=2), "table", "needs_positions"),
    (RandomFourierFeatures(dim=4, scale=1.0, seed=0), "table", ""),
    (RandomFourierFeatures(dim=4, scale=1.0, seed=0, num_axes=2), "", "needs_positions"),
    (Rotary(**ROTARY), "cos sin", ""),
    (Rotary(**ROTARY, scaling=DynamicNTK(factor=2.0, original_max_position_embeddings=32)), "cos sin", ""),
    (LearnedRotary(**ROTARY), "", "computes_rows"),
    (FoPE(**ROTARY, num_terms=3), "cos sin", "mixes_rows"),
    (MixedRotary(**ROTARY, num_heads=3), "", "computes_rows needs_positions"),
    (MultimodalRotary(**ROTARY, sections=(2, 1, 1)), "cos sin", ""),
    (AxialRotary(**ROTARY, axes_dims=(4, 4)), "cos sin", "needs_positions"),
    (AxialRotary(**ROTARY, axes_dims=(8,)), "cos sin", "needs_positions"),
    (XPos(**ROTARY), "cos sin key_cos key_sin", "keys_differ"),
    (PoPE(head_dim=8, num_heads=2), "cos sin", "keys_differ"),
]
SCORING = [
    Alibi(num_heads=2),
    T5Bias(num_heads=2),
    Kerple(num_heads=2),
    Fire(num_heads=2),
    SwinV2Bias(num_heads=2, window=(2, 3)),
    DynamicPositionBias(num_heads=2, hidden=4),
    Sandwich(num_heads=2, max_distance=5),
    SwinBias(num_heads=2, window=(2, 3)),
    ShawBias(num_heads=2, head_dim=4, max_distance=3),
    TransformerXLBias(num_heads=2, head_dim=4, max_distance=3),
    Cope(num_heads=2, head_dim=4, max_position=3),
    ForgettingBias(num_heads=2, head_dim=4),
    DecomposedBias(num_heads=2, head_dim=4, window=(2, 3)),
    DebertaBias(num_heads=2, head_dim=4, max_distance=3),
    RelativeLogits(num_heads=2, head_dim=4, max_distance=3, num_curves=2),
]


@pytest.mark.parametrize(("encoding", "names", "true"), TABULAR, ids=repr)
def test_tables_are_named_and_have_one_row_per_position(encoding, names, true):
    assert encoding.table_names == tuple(names.split())
    learned = {name: parameter.shape for name, parameter in encoding.parameters().items()}
    shapes = {name: table.shape for name, table in encoding.constants(9).items()} | learned
    assert [name for name, shape in shapes.items() if shape[0] == 9] == names.split()
    for name in ("needs_positions", "computes_rows", "mixes_rows", "keys_differ"):
        assert getattr(encoding, name) is (name in true.split())


@pytest.mark.parametrize(("encoding", "names", "true"), TABULAR, ids=repr)
def test_rows_are_computed_from_parameters_where_an_encoding_says_so(encoding, names, true):
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


@pytest.mark.parametrize("encoding", SCORING, ids=repr)
def test_scoring_encodings_have_no_table_of_positions(encoding):
    assert encoding.table_names == ()
    assert encoding.needs_all_keys is isinstance(encoding, Cope | ForgettingBias)
