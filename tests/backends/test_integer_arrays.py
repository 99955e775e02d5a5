"""Arrays of the framework where an integer or a word is wanted: one sentence, not the error of the framework."""

import numpy as np
import pytest

from posenc_core import Linear, sequence, shard
from posenc_core._array_api.checks import check_integer


@pytest.mark.parametrize(
    ("values", "dtype"), [([4], np.int32), ([1, 2], np.int32), (True, np.bool_), (4.0, np.float32)], ids=repr
)
def test_arrays_with_axes_and_of_other_dtypes_are_no_integers(values, dtype, to_backend):
    array = to_backend(values, dtype)
    for name, call in {
        "size": lambda: check_integer("size", array),
        "seq_len": lambda: Linear(factor=2).at(array),
        "length": lambda: sequence(array),
    }.items():
        with pytest.raises(TypeError) as caught:
            call()
        assert str(caught.value) == f"`{name}` must be an integer, got {' '.join(repr(array).split())}."


def test_arrays_are_no_words(to_backend):
    array = to_backend([1, 2])
    with pytest.raises(ValueError, match=r"^`order` must be one of 'contiguous', 'zigzag', got "):
        shard(range(4), 0, 2, order=array)


def test_sizes_may_be_integers_of_numpy(on, backend):
    """Keras refuses them in its own words; ours are converted before."""
    x = backend.from_numpy(np.ones((1, 3, 8), np.float32))
    for layer in (
        backend.MultiHeadAttention(np.int64(8), np.int32(2), num_kv_heads=np.uint8(1)),
        backend.PositionalEncoding(np.int16(8), max_len=np.int64(5)),
    ):
        tokens = (x, x, x) if isinstance(layer, backend.MultiHeadAttention) else (x,)
        assert tuple(on.testing.eval_mode(layer)(*tokens).shape) == (1, 3, 8)
