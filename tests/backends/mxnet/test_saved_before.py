"""Load files of parameters and exported graphs from before the files of the package moved, and compare their numbers.

`tests/golden/saved_before.py` wrote them, with the code of commit 0cd9e1f.
"""

from functools import partial
from pathlib import Path

import mxnet as mx
import numpy as np
import pytest
from mxnet import gluon

from posenc_backends.mxnet import AttentionBias, MultiHeadAttention, PositionalEncoding, RotaryEmbedding
from posenc_core import Fire, Kerple, Learned, LearnedRotary, Rotary, T5Bias

mx.npx.set_np()

SAVED = Path(__file__).with_name("saved_before")
HALF, INTERLEAVED = (Rotary(head_dim=4, layout=layout) for layout in ("half", "interleaved"))
T5, OTHER_T5 = T5Bias(num_heads=2), T5Bias(num_heads=2, max_distance=99)


class Model(gluon.HybridBlock):
    """Add learned positions to tokens, then attend with an encoding."""

    def __init__(self, encoding):
        super().__init__()
        with self.name_scope():
            self.positions = PositionalEncoding(8, encoding=Learned(dim=8, length=5))
            self.blocks = gluon.nn.HybridSequential()
            self.blocks.add(MultiHeadAttention(8, 2, position=encoding))

    def hybrid_forward(self, F, x):  # noqa: N803
        x = self.positions(x)
        return self.blocks[0](x, x, x, causal=True)


def positional_encoding(encoding):
    return PositionalEncoding(4, encoding=encoding)


def attention(encoding):
    return MultiHeadAttention(8, 2, position=encoding)


CASES = {  # the function that makes a layer, the saved encoding, and another encoding
    "learned": (positional_encoding, Learned(dim=4, length=5), Learned(dim=4, length=7)),
    "rotary": (partial(RotaryEmbedding, max_len=8), HALF, INTERLEAVED),
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
WITHOUT_PARAMETERS = ("rotary", "attention_rotary")  # a file does not name their encoding
EXACT = ("learned", "rotary", "t5")
EXPORTED = ("learned", "rotary", "t5")


def call(layer, arrays):
    """Call a layer with NumPy arrays; return its results as a list."""
    inputs = [mx.np.array(array, dtype="float32") for array in arrays]
    result = layer(*inputs * 3, causal=True) if isinstance(layer, MultiHeadAttention) else layer(*inputs)
    return [each.asnumpy() for each in (result if isinstance(result, (list, tuple)) else (result,))]


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


def started(layer):
    layer.initialize()
    return layer


@pytest.mark.parametrize("name", CASES)
def test_a_saved_file_gives_the_same_numbers(name):
    make, encoding, _ = CASES[name]
    layer = started(make(encoding))
    inputs, wanted = numbers(name)
    if name not in UNLEARNED:
        assert np.abs(call(layer, inputs)[0] - wanted[0]).max() > 1e-3
    layer.load_parameters(str(SAVED / f"{name}.params"))
    compare(name, call(layer, inputs), wanted)


@pytest.mark.parametrize("name", [name for name in CASES if name not in WITHOUT_PARAMETERS])
def test_a_saved_file_of_another_encoding_is_rejected(name):
    make, encoding, other = CASES[name]
    with pytest.raises(ValueError, match="The file must be of the layer's encoding") as caught:
        started(make(other)).load_parameters(str(SAVED / f"{name}.params"))
    assert f"encoding {other!r}, got one of {encoding!r}" in str(caught.value)


def test_a_saved_file_without_the_parameters_is_rejected():
    with pytest.raises(AssertionError, match=r"Parameter 'scoring\..*' is missing in file"):
        started(attention(T5)).load_parameters(str(SAVED / "attention_rotary.params"))


@pytest.mark.parametrize("name", EXPORTED)
def test_an_exported_graph_gives_the_same_numbers(name):
    """Run the graph of a layer with the first of its saved inputs."""
    files = [str(SAVED / f"{name}-{end}") for end in ("symbol.json", "0000.params")]
    inputs, wanted = numbers(name)
    graph = gluon.SymbolBlock.imports(files[0], ["data"], files[1])
    compare(name, call(graph, inputs[:1]), wanted[:1])
