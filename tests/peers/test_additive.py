"""Other libraries' additive tables beside ours: theirs may be off by what their float32 angles are, and no further."""

from itertools import product

import numpy as np
import pytest
import torch
from diffusers.models import embeddings as diffusers
from keras_hub.layers import SinePositionEncoding
from positional_encodings.torch_encodings import PositionalEncoding1D, PositionalEncoding2D, PositionalEncoding3D
from transformers.models.fsmt import modeling_fsmt as fsmt
from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding as Marian
from transformers.models.speech_to_text.modeling_speech_to_text import Speech2TextSinusoidalPositionalEmbedding

from posenc_core import GridSinusoidal, Sinusoidal, Timestep, grid

from .importing import lone
from .rounding import UNIT, assert_within

timm = lone("timm.layers.pos_embed_sincos")

LENGTH = 5000
TIMES = torch.tensor([0.0, 1.0, 2.5, 250.0, 999.0])

# A power (two roundings, libraries promise 1 ulp), its reciprocal, the product with the position.
POWER = {"roundings": 4, "exponents": 1}


@pytest.mark.parametrize("dim", [4, 8, 64])
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_timm(dim, interleaved, reverse):
    theirs = timm.build_sincos2d_pos_embed([5, 7], dim, 500.0, reverse, interleaved)
    # Reversed, timm walks the grid column by column too: a grid of the exchanged sizes, the width first.
    cells = grid(7, 5) if reverse else grid(5, 7)
    convention = "timm_interleaved" if interleaved else "timm"
    assert_within(theirs, GridSinusoidal(dim=dim, convention=convention, base=500), cells, **POWER)


@pytest.mark.parametrize("dim", [4, 12, 64])
@pytest.mark.parametrize(("height", "width"), [(6, 6), (4, 7)])
def test_mae_as_diffusers_has_it(dim, height, width):
    theirs = diffusers.get_2d_sincos_pos_embed(dim, (height, width), interpolation_scale=1.5, base_size=16)
    positions = grid(height, width) * 16 / np.array([[height], [width]]) / 1.5
    assert_within(theirs, GridSinusoidal(dim=dim, convention="mae"), positions, roundings=3)


@pytest.mark.parametrize("dim", [16, 48, 64])
def test_diffusers_videos(dim):
    theirs = diffusers.get_3d_sincos_pos_embed(dim, (5, 4), 3, 1.875, 2.0)  # width, height, frames
    positions = grid(3, 4, 5) / np.array([[2.0], [1.875], [1.875]])
    encoding = GridSinusoidal(dim=dim, convention="diffusers", num_axes=3)
    assert_within(theirs, encoding, positions, roundings=3)


@pytest.mark.parametrize("dim", [1, 2, 5, 6, 7, 10, 48])
@pytest.mark.parametrize(
    ("theirs", "sizes"),
    [(PositionalEncoding1D, (LENGTH,)), (PositionalEncoding2D, (30, 40)), (PositionalEncoding3D, (3, 4, 50))],
)
def test_positional_encodings(theirs, sizes, dim):
    encoding = GridSinusoidal(dim=dim, convention="tatp22", num_axes=len(sizes))
    assert_within(theirs(dim)(torch.zeros(1, *sizes, dim))[0].numpy(), encoding, grid(*sizes), **POWER)


@pytest.mark.parametrize("dim", [2, 3, 4, 5, 8, 320])
def test_diffusers_timesteps(dim):
    """Compare all 36 settings of the options.

    The logarithm, its product and the quotient are rounded, then `exp`, the time, the scale.
    """
    for flip, shift, scale, base in product([False, True], [0.0, 0.5, 1.0], [1.0, 0.25, 1000.0], [10000, 100]):
        theirs = diffusers.get_timestep_embedding(TIMES, dim, flip, shift, scale, base).numpy()
        order = "cos_first" if flip else "sin_first"
        encoding = Timestep(dim=dim, order=order, shift=shift, scale=scale, base=base)
        if dim // 2 == shift:  # 0 / 0 there
            assert np.isnan(theirs[:, :2]).all()
            sine = encoding.table(TIMES.numpy())[:, 1 if flip else 0]
            np.testing.assert_allclose(sine, np.sin(scale * TIMES.numpy().astype(float)), rtol=0, atol=UNIT)
            continue
        assert_within(theirs, encoding, TIMES.numpy(), roundings=5, exponents=3)


@pytest.mark.parametrize("dim", [2, 5, 64, 65])
def test_marian(dim):
    """Its table is computed in float64 and rounded."""
    table = Marian(LENGTH, dim).create_weight()
    assert_within(table, Sinusoidal(dim=dim, convention="concatenated"), range(LENGTH), roundings=0)


@pytest.mark.parametrize("dim", [4, 5, 64])
@pytest.mark.parametrize("theirs", [fsmt.SinusoidalPositionalEmbedding, Speech2TextSinusoidalPositionalEmbedding])
def test_fairseq(theirs, dim):
    """Compare frequencies by `exp` of a rounded step times i; the caller counts positions from the padding."""
    encoding = Sinusoidal(dim=dim, convention="tensor2tensor")
    assert_within(theirs.get_embedding(LENGTH, dim, None), encoding, range(LENGTH), roundings=3, exponents=2)
    with pytest.raises(ZeroDivisionError):
        theirs.get_embedding(LENGTH, 2, None)
    assert np.isfinite(Sinusoidal(dim=2, convention="tensor2tensor").table(range(LENGTH))).all()


@pytest.mark.parametrize("dim", [1, 5, 64])
def test_keras_hub(dim):
    """A power of the rounded `1 / base`."""
    theirs = SinePositionEncoding()(torch.zeros(1, LENGTH, dim))[0].cpu().numpy()
    assert_within(theirs, Sinusoidal(dim=dim), range(LENGTH), **POWER)
