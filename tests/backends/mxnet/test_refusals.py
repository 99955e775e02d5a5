"""Errors in hybridized parents: symbols have neither sizes nor dtypes."""

import mxnet as mx
import numpy as np
import pytest
from mxnet import gluon

from posenc_backends.conformance.frameworks.mxnet import runs
from posenc_backends.mxnet import AttentionBias, PositionalEncoding, RotaryEmbedding
from posenc_core import Alibi, Rotary
from posenc_core.encodings import ShawBias
from posenc_core.positions.sequences import from_mask

ALIBI, SHAW = Alibi(num_heads=2), ShawBias(num_heads=2, head_dim=4, max_distance=2)
HALF = Rotary(head_dim=8, layout="half")


class Parent(gluon.HybridBlock):
    """A block that calls a layer with its inputs by these names."""

    def __init__(self, layer, names):
        super().__init__()
        self.layer, self.names = layer, names

    def hybrid_forward(self, F, *inputs):  # noqa: N803
        return self.layer(**dict(zip(self.names, inputs, strict=True)))


def tokens(*shape):
    return mx.np.array(np.random.default_rng(0).normal(size=shape), dtype="float32")


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("name", ["query_positions", "start"])
def test_real_positions_are_rejected_as_inputs(name, dtype):
    """The name of the failing operator is the message: a graph reports nothing else."""
    parent = Parent(AttentionBias(ALIBI), ["scores", name])
    parent.hybridize()
    with pytest.raises(mx.MXNetError, match="operator positions_and_starts_must_be_integers"):
        parent(tokens(2, 2, 2, 2), tokens(2).astype(dtype)).wait_to_read()


@pytest.mark.parametrize(
    ("layer", "names", "shapes", "wrong"),
    [
        (lambda: RotaryEmbedding(HALF), ["q"], [(8, 1, 3, 9)], r"shape \[8,1,3,9\] into shape \[-4,8\]"),
        (lambda: RotaryEmbedding(HALF), ["q"], [(8, 1, 3, 16)], r"shape \[8,1,3,16\] into shape \[-4,8\]"),
        (lambda: PositionalEncoding(8), ["x"], [(8, 3, 7)], r"shape \[8,3,7\] into shape \[-4,8\]"),
        (lambda: AttentionBias(ALIBI), ["scores"], [(4, 1, 3, 3)], r"shape \[4,1,3,3\] into shape \[-4,2,"),
        (
            lambda: AttentionBias(SHAW),
            ["scores", "q", "k"],
            [(2, 2, 3, 3), (2, 2, 3, 8), (2, 2, 3, 8)],
            r"shape \[2,2,3,8\] into shape \[-4,-2,-2,4\]",
        ),
    ],
    ids=["wider", "twice as wide", "narrower", "one head", "content"],
)
def test_sizes_that_do_not_fit_the_encoding_are_rejected(layer, names, shapes, wrong):
    """A graph fails when it runs; the operator reports the given and the wanted sizes."""
    parent = Parent(layer(), names)
    parent.initialize()
    parent.hybridize()
    with pytest.raises(mx.MXNetError, match=wrong):
        parent(*(tokens(*shape) for shape in shapes)).wait_to_read()


def test_a_parent_is_cast_to_the_dtype_of_its_inputs():
    """Symbols have no dtype: without the cast, half precision becomes float32 in a graph, but not in eager code."""
    layer, x = RotaryEmbedding(HALF), tokens(1, 2, 5, 8).astype("float16")
    assert layer(x).dtype == np.float16
    for dtype, result in (("float32", np.float32), ("float16", np.float16)):
        parent = Parent(layer, ["q"])
        parent.cast(dtype)
        parent.hybridize()
        got = parent(x)
        assert got.dtype == result
        np.testing.assert_array_equal(got.astype("float16").asnumpy(), layer(x).asnumpy())


def test_functions_of_the_core_take_no_symbols():
    """Symbols tell neither their dtype nor their axes: positions are made before, and are an input."""

    class Counter(gluon.HybridBlock):
        def hybrid_forward(self, F, mask):  # noqa: N803
            return from_mask(mask)

    block = Counter()
    block.hybridize()
    with pytest.raises(TypeError, match="`mask` must be an array, got _Symbol"):
        block(mx.np.array([[0, 1]], dtype="int32"))


def test_graphs_are_frozen_for_the_encodings_of_today():
    for check in ("compiled", "hybridized", "in a model, static", "exported", "symbolic", "gradient, in a model"):
        assert not runs(check, "NextYear")
        assert runs(check, "Alibi")
        assert runs(check, None)  # attention without a position
    for check in ("forward", "gradient", "cast", "saved", "copied", "pickled"):
        assert runs(check, "NextYear")
