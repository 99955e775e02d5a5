"""Load states that were saved before the files of the package moved, and compare their numbers.

`tests/golden/saved_before.py` wrote them, with the code of commit 0cd9e1f.
"""

from pathlib import Path

import numpy as np
import paddle
import pytest
from paddle import nn

from posenc_backends.paddle import AttentionBias, MultiHeadAttention, PositionalEncoding, RotaryEmbedding
from posenc_core import Fire, Kerple, Learned, LearnedRotary, Rotary, T5Bias

SAVED = Path(__file__).with_name("saved_before")
HALF, INTERLEAVED = (Rotary(head_dim=4, layout=layout) for layout in ("half", "interleaved"))
T5, OTHER_T5 = T5Bias(num_heads=2), T5Bias(num_heads=2, max_distance=99)


class Model(nn.Layer):
    """Add learned positions to tokens, then attend with an encoding."""

    def __init__(self, encoding):
        super().__init__()
        self.positions = PositionalEncoding(8, encoding=Learned(dim=8, length=5))
        self.blocks = nn.LayerList([MultiHeadAttention(8, 2, position=encoding)])

    def forward(self, x):
        x = self.positions(x)
        return self.blocks[0](x, x, x, causal=True)


def positional_encoding(encoding):
    return PositionalEncoding(4, encoding=encoding)


def attention(encoding):
    return MultiHeadAttention(8, 2, position=encoding)


CASES = {  # the function that makes a layer, the saved encoding, and another encoding
    "learned": (positional_encoding, Learned(dim=4, length=5), Learned(dim=4, length=7)),
    "rotary": (RotaryEmbedding, HALF, INTERLEAVED),
    "learned_rotary": (
        RotaryEmbedding,
        LearnedRotary(head_dim=4, layout="half"),
        LearnedRotary(head_dim=4, layout="half", base=99.0),
    ),
    "t5": (AttentionBias, T5, OTHER_T5),
    "fire": (AttentionBias, Fire(num_heads=2, hidden=4), Fire(num_heads=2, hidden=4, threshold=99)),
    "kerple": (AttentionBias, Kerple(num_heads=2), Kerple(num_heads=2, sides="past")),
    "attention_rotary": (attention, INTERLEAVED, HALF),
    "attention_t5": (attention, T5, OTHER_T5),
    "model": (Model, T5, OTHER_T5),
}
UNLEARNED = ("rotary",)
WITHOUT_PARAMETERS = ("rotary", "attention_rotary")  # a state does not name their encoding
EXACT = ("learned", "rotary", "t5")


def call(layer, arrays):
    """Call a layer with NumPy arrays; return its results as a list."""
    inputs = [paddle.to_tensor(array) for array in arrays]
    layer.eval()
    with paddle.no_grad():
        result = layer(*inputs * 3, causal=True) if isinstance(layer, MultiHeadAttention) else layer(*inputs)
    return [each.numpy() for each in (result if isinstance(result, tuple) else (result,))]


def numbers(name):
    """Read the inputs and results of the layer of a case."""
    with np.load(SAVED / "numbers.npz") as saved:
        return [
            [saved[key] for key in sorted(saved) if key.startswith(f"{name}.{role}.")] for role in ("given", "wanted")
        ]


def compare(name, results, wanted):
    """Compare bit by bit if each number is looked up, a sum or a sum of two products: all machines round them alike."""
    assert len(results) == len(wanted) > 0
    for result, array in zip(results, wanted, strict=True):
        assert result.dtype == array.dtype
        # In other cases the order of sums, exponentials and logarithms depend on the machine: the largest number may be
        # off by 16 ulp.
        tolerance = 0 if name in EXACT else 2.0**-20 * np.abs(array).max()
        np.testing.assert_allclose(result, array, rtol=0, atol=tolerance)


def state(name):
    """Read the state of a case."""
    return paddle.load(str(SAVED / f"{name}.pdparams"))


@pytest.mark.parametrize("name", CASES)
def test_a_saved_state_gives_the_same_numbers(name):
    make, encoding, _ = CASES[name]
    layer = make(encoding)
    inputs, wanted = numbers(name)
    if name not in UNLEARNED:
        assert np.abs(call(layer, inputs)[0] - wanted[0]).max() > 1e-3
    assert tuple(layer.set_state_dict(state(name))) == ([], [])
    compare(name, call(layer, inputs), wanted)


@pytest.mark.parametrize("name", [name for name in CASES if name not in WITHOUT_PARAMETERS])
def test_a_saved_state_of_another_encoding_is_rejected(name):
    make, encoding, other = CASES[name]
    with pytest.raises(ValueError, match="`state_dict` must be of the layer's encoding") as caught:
        make(other).set_state_dict(state(name))
    assert f"encoding {other!r}, got" in str(caught.value)
    assert repr(encoding) in str(caught.value)


@pytest.mark.parametrize(("name", "missing"), [("rotary", "table"), ("attention_rotary", "scoring.table")])
def test_a_saved_state_without_the_parameters_is_reported_by_paddle(name, missing):
    layer = AttentionBias(T5) if name == "rotary" else attention(T5)
    with pytest.warns(UserWarning, match=f"Skip loading for {missing}"):
        assert tuple(layer.set_state_dict(state(name))) == ([missing], [])
