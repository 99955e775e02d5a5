"""The small cells of d2l's pages: what they print, and the shapes that they check."""

import json

import numpy as np
import pytest

from .decoder import Sizes
from .test_d2l_pages import LENGTHS, check_shape
from .truth import UNIT

# Keras traces layers that take lists, to build them; d2l's softmax fails there, and runs all the same.
pytestmark = pytest.mark.filterwarnings("ignore:.*unbuilt state:UserWarning")


@pytest.mark.usefixtures("whose")
def test_binary_numbers(original, capsys):
    """Of 8 positions, beside a table whose columns turn more slowly one after the other, as those bits do."""
    for i in range(8):
        print(f"{i} in binary is {i:>03b}")  # noqa: T201 - as the page does
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "0 in binary is 000"
    bits = np.array([[int(bit) for bit in line[-3:]] for line in lines])
    np.testing.assert_array_equal(bits @ [4, 2, 1], range(8))
    table = original.backend.to_numpy(original.positions(32, np.zeros((1, 8, 32)))[1])[0, :60]
    turns = np.count_nonzero(np.diff(np.sign(table[1:, ::2]), axis=0), axis=0)
    assert np.all(np.diff(turns) <= 0)
    changes = np.count_nonzero(np.diff(bits, axis=0), axis=0)
    assert np.all(np.diff(changes) > 0)


@pytest.mark.usefixtures("whose")
def test_feed_forward(original, capsys):
    """Each token alone: all rows that the page prints are the same."""
    result, held = original.applied(original.parts.ffn(4, 4), original.to_backend(np.ones((2, 3, 4))))
    print(original.backend.to_numpy(result)[0].tolist())  # noqa: T201
    printed = np.array(json.loads(capsys.readouterr().out))
    assert printed.shape == (3, 4)
    ffn = original.ffn(held)
    inner, outer = (
        (np.asarray(matrix, np.float64), np.zeros(4) if bias is None else np.asarray(bias, np.float64))
        for matrix, bias in (ffn["dense1"], ffn["dense2"])
    )
    seen = np.maximum(np.ones(4) @ inner[0] + inner[1], 0)
    bound = (np.abs(inner[0]).sum(axis=0) + np.abs(inner[1])) @ np.abs(outer[0]) + np.abs(outer[1])
    assert np.all(np.abs(printed - (seen @ outer[0] + outer[1])) <= 16 * UNIT * bound)


@pytest.mark.usefixtures("whose")
def test_residual_and_norm(original):
    """Of ones, whose mean is all there is of them."""
    ones = original.to_backend(np.ones((2, 3, 4)))
    result, _ = original.applied(original.parts.addnorm(4, 0.5), ones, ones)
    check_shape(original, result, (2, 3, 4))
    np.testing.assert_array_equal(original.backend.to_numpy(result), np.zeros((2, 3, 4)))


@pytest.mark.usefixtures("whose")
def test_encoder_block(original):
    tokens = original.to_backend(np.ones((2, 100, 24)))
    result, _ = original.applied(original.parts.block(24, 48, 8, 0.5), tokens, original.native_lengths(LENGTHS))
    result = result[0] if isinstance(result, tuple) else result  # Flax's also gives its weights
    check_shape(original, result, (2, 100, 24))
    rows = original.backend.to_numpy(result)
    np.testing.assert_allclose(rows, np.broadcast_to(rows[:, :1], rows.shape), rtol=0, atol=64 * UNIT)


@pytest.mark.usefixtures("whose")
def test_decoder_block(original):
    """One of them, between the embedding and the last layer."""
    sizes = Sizes(vocabulary=20, width=24, ffn=48, num_heads=8, num_blks=1, dropout=0.5)
    memory, tokens = np.ones((2, 100, 24), np.float32), np.ones((2, 100), int)
    made = original.decoded(original.decoder(sizes), sizes, tokens, memory, LENGTHS)
    assert made.result.shape == (2, 100, 20)
    assert np.isfinite(made.result).all()
