"""RoPE-Mixed: its value, its initial frequencies, and STRING, which is RoPE-Mixed of other projections."""

import numpy as np
import pytest

from posenc_core import AxialRotary, MixedRotary, Placed, attend, grid
from posenc_core.encodings import Parameter

RNG = np.random.default_rng(2025)
HEADS, WIDTH = 2, 8
MIXED = MixedRotary(head_dim=WIDTH, layout="interleaved", num_heads=HEADS)
AT = grid(3, 4)


def test_without_the_random_rotation_it_is_axial():
    for num_axes, dims in ((2, (6, 6)), (3, (4, 4, 4))):
        mixed = MixedRotary(head_dim=12, layout="half", num_heads=2, num_axes=num_axes)
        axial = AxialRotary(head_dim=12, layout="half", axes_dims=dims, base=10)
        positions = grid(*(1,) * (num_axes - 2), 3, 4) + 7
        np.testing.assert_array_equal(mixed.frequencies(), axial.frequencies())
        for ours, theirs in zip(mixed.cos_sin(positions), axial.cos_sin(positions), strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_a_rotary_dim_of_all_channels_is_none():
    whole, named = (MixedRotary(head_dim=8, layout="half", num_heads=2, rotary_dim=each) for each in (None, 8))
    assert whole == named
    assert MixedRotary.from_dict(named.to_dict()) == whole


def test_the_initial_frequencies_of_the_paper():
    """Cosine and sine of an angle for each head, and of that angle + π/2, times powers of the base."""
    angles = np.array([0.3, 4.1])
    drawn = np.zeros((2, HEADS, 4))
    drawn[:, :, 0] = 3 * np.array([np.cos(angles), np.sin(angles)])  # the length does not matter
    sizes = np.array([1, 10**-0.5])
    for axis, wave in enumerate((np.cos, np.sin)):
        groups = [sizes * wave(angles[:, None] + turn) for turn in (0, np.pi / 2)]
        turned = np.concatenate(groups, axis=-1)
        got = MIXED.parameters()["frequencies"].initial(drawn)[axis]
        np.testing.assert_allclose(got, turned, rtol=0, atol=1e-7)


def test_parameters_start_from_scaled_normal_numbers_or_as_they_say():
    drawn = np.array([-1.0, 0.0, 2.0])
    np.testing.assert_array_equal(Parameter(shape=(3,), std=0.5, mean=1).initial(drawn), [0.5, 1, 2])
    np.testing.assert_array_equal(Parameter(shape=(3,), start=np.abs).initial(drawn), [1, 0, 2])


def test_frequencies_of_float64_give_rows_of_float64():
    frequencies = RNG.normal(size=(2, HEADS, 4))
    for dtype, error in ((np.float32, 1e-5), (np.float64, 1e-14)):
        cos, sin = MIXED.rows_of({"frequencies": frequencies.astype(dtype)}, AT)
        angles = np.einsum("al,ahp->hlp", AT, frequencies.astype(dtype).astype(np.float64))
        assert cos.dtype == sin.dtype == dtype
        np.testing.assert_allclose(cos + 1j * sin, np.exp(1j * angles), rtol=0, atol=error)


def test_one_position_for_all_axes():
    frequencies = {"frequencies": RNG.normal(size=(2, HEADS, 4))}
    same = MIXED.rows_of(frequencies, np.array([[3, 5], [3, 5]]))
    np.testing.assert_array_equal(MIXED.rows_of(frequencies, np.array([3, 5])), same)


# STRING (arXiv:2502.02562) rotates the heads by exp(r_1 L_1 + r_2 L_2), of generators that commute.


def cayley():
    """Return an orthogonal matrix as Cayley-STRING makes it, and frequencies of all pairs."""
    skew = RNG.normal(size=(WIDTH, WIDTH))
    skew = skew - skew.T
    return (np.eye(WIDTH) - skew) @ np.linalg.inv(np.eye(WIDTH) + skew), RNG.normal(size=(2, 4))


def fourier():
    """Return the basis in which circulant matrices (Circulant-STRING) are rotations; one pair stands still."""
    k, n = np.arange(1, WIDTH // 2), np.arange(WIDTH)[:, None]
    waves = np.stack([np.cos(2 * np.pi * n * k / WIDTH), np.sin(2 * np.pi * n * k / WIDTH)], axis=-1) / 2
    still = np.stack([np.ones(WIDTH), (-1.0) ** np.arange(WIDTH)], axis=-1) / WIDTH**0.5
    return np.concatenate([waves.reshape(WIDTH, -1), still], axis=-1), RNG.normal(size=(2, 4)) * [1, 1, 1, 0]


def generators(basis, frequencies):
    """Return the antisymmetric generator of each axis."""
    blocks = np.zeros((2, WIDTH, WIDTH))
    even = np.arange(0, WIDTH, 2)
    blocks[:, even + 1, even], blocks[:, even, even + 1] = frequencies, -frequencies
    return basis @ blocks @ basis.T


def exponential(skew):
    """Return the exponential of an antisymmetric matrix."""
    values, vectors = np.linalg.eigh(1j * skew)
    return ((vectors * np.exp(-1j * values)) @ vectors.conj().T).real


def string_attention(q, k, v, of_heads):
    """Return attention with the heads of each token rotated by STRING."""
    result = []
    for head, made in enumerate(of_heads):
        turns = [exponential(sum(r * one for r, one in zip(at, made, strict=True))) for at in AT.T]
        turned = [np.einsum("nij,nj->ni", turns, x[head]) for x in (q, k)]
        scores = np.exp(turned[0] @ turned[1].T / WIDTH**0.5)
        result.append(scores / scores.sum(axis=-1, keepdims=True) @ v[head])
    return np.stack(result)


@pytest.mark.parametrize("make", [cayley, fourier], ids=["Cayley", "circulant"])
def test_string_is_this_encoding_after_other_projections(make):
    x = RNG.normal(size=(AT.shape[1], 5))
    w_q, w_k, w_v = (RNG.normal(size=(HEADS, 5, WIDTH)) for _ in "qkv")
    bias, scale = RNG.normal(size=(HEADS, 1, WIDTH)), RNG.normal(size=WIDTH)
    bases, frequencies = zip(*[make() for _ in range(HEADS)], strict=True)
    made = [generators(*one) for one in zip(bases, frequencies, strict=True)]
    for first, second in made:
        np.testing.assert_allclose(first @ second, second @ first, rtol=0, atol=1e-12)
    if make is fourier:
        np.testing.assert_allclose(np.roll(made[0], 1, axis=(1, 2)), made[0], rtol=0, atol=1e-12)
    at = Placed(MIXED, AT, AT, {"frequencies": np.stack(frequencies, axis=1)})
    absorbed = [np.stack([one @ basis for one, basis in zip(each, bases, strict=True)]) for each in (w_q, w_k, bias)]

    def both(change):
        string = string_attention(change(x @ w_q + bias), change(x @ w_k), x @ w_v, made)
        ours = attend(change(x @ absorbed[0] + absorbed[2]), change(x @ absorbed[1]), x @ w_v, position=at)
        return np.abs(ours - string).max()

    assert both(lambda q: q) < 1e-12
    assert both(lambda q: q / np.linalg.norm(q, axis=-1, keepdims=True)) < 1e-12  # a norm without weights
    assert both(lambda q: scale * q / np.linalg.norm(q, axis=-1, keepdims=True)) > 1e-3  # one with weights
