"""d2l's `PositionalEncoding` beside ours: the table, the tokens, the page that draws it."""

import mpmath
import numpy as np
import pytest

from posenc_core import Sinusoidal

from .truth import UNIT, sinusoids

SIZES = [(32, 1000), (6, 2**17), (100, 60), (512, 4099)]


@pytest.mark.parametrize(("num_hiddens", "max_len"), SIZES)
def test_the_tables_are_as_near_as_float32_angles_allow(original, backend, num_hiddens, max_len):
    theirs = original.table(num_hiddens, max_len)
    ours = backend.to_numpy(backend.PositionalEncoding(num_hiddens, 0, max_len).P)
    assert theirs.shape == ours.shape == (1, max_len, num_hiddens)
    true, slack = sinusoids(range(max_len), num_hiddens)
    assert np.all(np.abs(theirs[0] - true) <= slack)
    assert np.all(np.abs(ours[0] - true) <= UNIT)


@pytest.mark.parametrize(("num_hiddens", "max_len"), SIZES[::2])
def test_tokens_are_as_near(original, backend, num_hiddens, max_len):
    x = np.random.default_rng(0).normal(size=(3, 37, num_hiddens)).astype(np.float32)
    theirs = original.added(x, max_len)
    ours = original.called(backend.PositionalEncoding(num_hiddens, 0, max_len), x)
    true, slack = sinusoids(range(37), num_hiddens)
    for result, off in ((theirs, slack), (ours, UNIT)):
        assert result.dtype == np.float32
        assert np.all(np.abs(result - (x + true)) <= off + UNIT * np.abs(result))


def test_far_from_the_start_ours_is_the_true_one(original, backend):
    """Where d2l's float32 angles are furthest off, 50 digits decide."""
    dim, max_len = 6, 2**20 + 3
    theirs = original.table(dim, max_len)[0]
    ours = backend.to_numpy(backend.PositionalEncoding(dim, 0, max_len).P)[0]
    position, column = np.unravel_index(np.argmax(np.abs(theirs - ours)), ours.shape)
    with mpmath.workdps(50):
        angle = int(position) * mpmath.mpf(10000) ** (-mpmath.mpf(int(column) // 2 * 2) / dim)
        true = float((mpmath.cos if column % 2 else mpmath.sin)(angle))
    assert ours[position, column] == np.float32(true)
    assert abs(theirs[position, column] - true) > 1e-3


def test_the_page_runs_with_ours_in_place_of_theirs(original, backend):
    """Columns 6 to 9 of a table of 60 × 32, which the page draws as curves."""
    encoding_dim, num_steps = 32, 60
    positional = backend.PositionalEncoding(encoding_dim, 0)
    tokens = positional(original.to_backend(np.zeros((1, num_steps, encoding_dim))))
    table = positional.P[:, : tokens.shape[1], :]
    np.testing.assert_array_equal(backend.to_numpy(tokens), backend.to_numpy(table))
    columns = backend.to_numpy(table[0, :, 6:10]).T
    np.testing.assert_array_equal(columns, Sinusoidal(dim=32).table(range(60))[:, 6:10].T)
    theirs = original.table(encoding_dim, 1000)[0, :num_steps, 6:10].T
    _, slack = sinusoids(range(num_steps), encoding_dim)
    assert np.all(np.abs(columns - theirs) <= slack[:, 6:10].T + UNIT)


def test_an_odd_number_of_columns_is_too_much_for_theirs(original, backend):
    kind, message = original.odd
    with pytest.raises(Exception, match=message) as caught:
        original.table(7, 10)
    assert caught.type.__name__ == kind
    np.testing.assert_array_equal(
        backend.to_numpy(backend.PositionalEncoding(7, 0, 10).P)[0], Sinusoidal(dim=7).table(range(10))
    )
