"""The length of the tables that a layer begins with: by default what is known of the model."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

from posenc_core import DynamicNTK, LearnedRotary, LongRoPE, Rotary, YaRN, rotate
from posenc_core.huggingface import load_rope

ROTARY = load_rope({"model_type": "llama", "head_dim": 4, "max_position_embeddings": 3000})
YARN = YaRN(factor=4.0, original_max_position_embeddings=1024)
DIVISORS = {"short_factor": (1.0, 1.0), "long_factor": (2.0, 4.0)}


def num_rows(layer):
    return [table.shape[0] for table in layer.tables]


@pytest.mark.parametrize(
    ("encoding", "rows"),
    [
        (Rotary(head_dim=4, layout="half"), 2048),
        (ROTARY, 3000),
        (replace(ROTARY, max_len=512), 2048),
        (Rotary(head_dim=4, layout="half", scaling=YARN), 4096),
        (Rotary(head_dim=4, layout="half", scaling=YARN, max_len=5000), 5000),
        (Rotary(head_dim=4, layout="half", scaling=replace(YARN, factor=1.0001)), 2048),
        (Rotary(head_dim=4, layout="half", scaling=DynamicNTK(factor=2.0, original_max_position_embeddings=64)), 64),
    ],
    ids=repr,
)
def test_the_default_is_what_the_encoding_is_for(backend, encoding, rows):
    assert num_rows(backend.RotaryEmbedding(encoding)) == [rows] * 2
    assert num_rows(backend.MultiHeadAttention(8, 2, position=encoding).rotary) == [rows] * 2


def test_the_frequencies_end_before_the_model_does(backend):
    """A table of LongRoPE is for the short sequences or for the long ones."""
    scaling = LongRoPE(**DIVISORS, original_max_position_embeddings=512, factor=8.0)
    short = Rotary(head_dim=4, layout="half", scaling=scaling, max_len=4096)
    assert num_rows(backend.RotaryEmbedding(short)) == [512] * 2
    assert num_rows(backend.RotaryEmbedding(short.at(4096))) == [4096] * 2


def test_a_shorter_table_is_warned_of_once(backend):
    message = "`max_len` is 16, but Rotary.* is for 3000 positions: .* `max_len=3000`"
    with pytest.warns(UserWarning, match=message) as all_:
        layer = backend.RotaryEmbedding(ROTARY, max_len=16)
    assert len(all_) == 1
    layer(backend.from_numpy(np.ones((1, 1, 20, 4), np.float32)))  # grows the table without a word
    assert len(str(all_[0].message)) <= 300
    with pytest.warns(UserWarning, match="`max_len` is 16"):
        backend.MultiHeadAttention(8, 2, position=ROTARY, max_len=16)


def test_the_longest_default_is_bounded_and_warned_of(backend):
    encoding = replace(ROTARY, head_dim=2, max_len=10**7)
    with pytest.warns(UserWarning, match="`max_len` is 262144, but Rotary.* is for 10000000 positions"):
        assert num_rows(backend.RotaryEmbedding(encoding)) == [262144] * 2


@pytest.mark.parametrize(
    ("encoding", "max_len"),
    [
        (ROTARY, 3000),
        (ROTARY, 4000),
        (Rotary(head_dim=4, layout="half", scaling=YARN), 16),  # was not loaded: nobody said that it goes so far
        (LearnedRotary(head_dim=4, layout="half", max_len=3000), 16),  # has no table
    ],
    ids=repr,
)
def test_other_lengths_are_not_warned_of(backend, encoding, max_len):
    backend.RotaryEmbedding(encoding, max_len=max_len)


@pytest.mark.parametrize("encoding", [ROTARY, LearnedRotary(head_dim=4, layout="half", max_len=3000)], ids=repr)
@pytest.mark.parametrize("max_len", [None, 5000])
def test_a_state_loads_into_a_layer_of_another_length(on, encoding, max_len, tmp_path):
    if not hasattr(on.testing, "save_layer"):
        pytest.skip("This framework saves nothing.")
    saved, other = (
        on.testing.eval_mode(on.backend.MultiHeadAttention(8, 2, position=each))
        for each in (encoding, replace(encoding, max_len=max_len))
    )
    on.testing.save_layer(saved, tmp_path)
    layer = on.testing.load_layer(lambda: other, tmp_path)
    x = on.backend.from_numpy(np.ones((1, 3, 8), np.float32))
    wanted, result = (on.backend.to_numpy(on.testing.eval_mode(each)(x, x, x)) for each in (saved, layer))
    np.testing.assert_array_equal(result, wanted)


def test_traced_positions_of_a_loaded_encoding_are_in_the_table(on, to_backend, traced):
    if "compiled" in on.known_failures:
        pytest.skip("This framework has no compiler.")
    x = np.ones((1, 1, 2, 4), np.float32)
    layer = traced(on.testing.eval_mode(on.backend.RotaryEmbedding(ROTARY)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the compilers
        result = on.backend.to_numpy(layer(to_backend(x), positions=to_backend([2047, 2999])))
    wanted = rotate(x, *ROTARY.cos_sin([2047, 2999]), layout="half")
    np.testing.assert_allclose(result, wanted, rtol=0, atol=1e-6)
