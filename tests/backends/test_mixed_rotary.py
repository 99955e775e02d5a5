"""RoPE-Mixed in every backend: where it starts, its positions, and attention on a grid."""

import re

import numpy as np
import pytest

from posenc_core import MixedRotary, grid, rotate

RNG = np.random.default_rng(24)
ENCODING = MixedRotary(head_dim=8, layout="half", num_heads=2)


def tokens(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def made(on, encoding=ENCODING):
    """Return a layer and its frequencies."""
    layer = on.testing.eval_mode(on.backend.RotaryEmbedding(encoding))
    return layer, on.backend.to_numpy(layer.arrays["frequencies"])


def rotated(x, frequencies, positions, layout="half"):
    """Return `x`, `(batch, heads, length, 8)`, rotated in float64 at `(axes, length)` or `(axes, batch, length)`."""
    at = np.asarray(positions, np.float64)
    angles = sum(own[..., None, :, None] * each[:, None] for own, each in zip(at, frequencies, strict=True))
    share = x.shape[1] // frequencies.shape[1]
    cos, sin = (np.repeat(f(angles), share, axis=-3) for f in (np.cos, np.sin))
    return rotate(x.astype(np.float64), cos, sin, layout=layout)


@pytest.mark.parametrize("num_axes", [2, 3])
def test_a_layer_starts_from_the_axes_turned_by_a_rotation_for_each_head(on, num_axes):
    encoding = MixedRotary(head_dim=12, layout="half", num_heads=50, num_axes=num_axes)
    _, frequencies = made(on, encoding)
    assert frequencies.dtype == np.float32
    sizes = np.linalg.norm(frequencies, axis=0)
    np.testing.assert_allclose(sizes, np.broadcast_to(encoding.frequencies(), sizes.shape), rtol=2e-6)
    directions = (frequencies / sizes).reshape(num_axes, 50, num_axes, -1)
    np.testing.assert_allclose(directions, np.broadcast_to(directions[..., :1], directions.shape), atol=2e-6)
    turns = directions[..., 0].transpose(1, 2, 0).astype(np.float64)  # of each head, one row for each group of pairs
    np.testing.assert_allclose(turns @ turns.swapaxes(1, 2), np.eye(num_axes)[None].repeat(50, axis=0), atol=2e-6)
    np.testing.assert_allclose(np.linalg.det(turns), 1, atol=1e-5)
    assert np.abs(turns.mean(axis=0)).max() < 0.5  # 1 if all heads had the same; the standard deviation is below 0.1


@pytest.mark.parametrize(
    "positions",
    [
        grid(2, 3),
        np.stack([grid(2, 3), grid(2, 3)[::-1] + 4], axis=1),
        np.array([[0.5, -1.25, 3, 2, 1, 0], [0, 1, 2, 0.75, 4, 5]], np.float32),
    ],
    ids=["grid", "one for each row", "real"],
)
def test_each_head_has_its_directions_and_serves_neighbouring_heads(on, to_backend, positions):
    (layer, frequencies), q, k = made(on), tokens(2, 4, 6, 8), tokens(2, 2, 6, 8)
    for given in (positions, positions.tolist(), to_backend(positions) if positions.dtype.kind == "f" else positions):
        for got, x in zip(layer(to_backend(q), to_backend(k), positions=given), (q, k), strict=True):
            wanted = rotated(x, frequencies, positions)
            np.testing.assert_allclose(on.backend.to_numpy(got), wanted, rtol=0, atol=1e-5)
    moved = layer(to_backend(q.swapaxes(1, 2)), positions=positions, seq_axis=-3)
    wanted = rotated(q, frequencies, positions).swapaxes(1, 2)
    np.testing.assert_allclose(on.backend.to_numpy(moved), wanted, rtol=0, atol=1e-5)


def test_rows_of_positions(on):
    layer, frequencies = made(on)
    cos, sin = map(on.backend.to_numpy, layer.cos_sin(grid(2, 3)))
    angles = np.einsum("al,ahp->hlp", grid(2, 3), frequencies)
    np.testing.assert_allclose(cos, np.cos(angles), rtol=0, atol=2e-6)
    np.testing.assert_allclose(sin, np.sin(angles), rtol=0, atol=2e-6)


@pytest.mark.parametrize(
    ("x", "positions", "message"),
    [
        ((1, 2, 4, 8), None, "`positions` must be given to MixedRotary("),
        ((1, 2, 4, 8), np.zeros((3, 4)), "`positions` must have shape (2, ..., length), got (3, 4)."),
        ((1, 2, 4, 8), np.zeros((2, 5)), "`positions` must have shape (4,) or (1, 4) to fit the tokens, got (5,)."),
        ((1, 3, 4, 8), grid(2, 2), "`q` must have a multiple of the 2 heads of the tables, got 3."),
    ],
    ids=["none", "axes", "length", "heads"],
)
def test_positions_and_heads_are_checked(on, to_backend, x, positions, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        made(on)[0](to_backend(tokens(*x)), positions=positions)


def test_attention_depends_on_distances_alone(on, to_backend):
    encoding = MixedRotary(head_dim=4, layout="interleaved", num_heads=2)
    layer = on.testing.eval_mode(on.backend.MultiHeadAttention(16, 4, position=encoding, num_kv_heads=2))
    widths = {"W_q": 16, "W_k": 8, "W_v": 8, "W_o": 16}
    matrices = {name: tokens(16, width) / 4 for name, width in widths.items()}
    layer, x = on.testing.with_projections(layer, matrices), to_backend(tokens(2, 6, 16))
    near, moved, turned = (
        on.backend.to_numpy(layer(x, x, x, positions=at, key_positions=at))
        for at in (grid(2, 3), grid(2, 3) + np.array([[7], [-2]]), grid(3, 2))
    )
    np.testing.assert_allclose(moved, near, rtol=0, atol=2e-5)
    assert np.abs(turned - near).max() > 1e-3
