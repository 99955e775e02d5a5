"""Files of parameters: what is in them, and what a layer of another encoding says."""

import copy
import pickle

import mxnet as mx
import numpy as np
import pytest
from mxnet import gluon

from posenc_backends.mxnet import AttentionBias, MultiHeadAttention, PositionalEncoding, RotaryEmbedding
from posenc_core import Learned, Rotary
from posenc_core.encodings import LearnedSinusoidal, T5Bias


def learned(length=9):
    return started(PositionalEncoding(8, encoding=Learned(dim=8, length=length)))


def started(layer):
    layer.initialize(mx.init.Normal(0.3))
    return layer


def saved(layer, folder):
    layer.save_parameters(str(folder / "layer.params"))
    return str(folder / "layer.params")


def test_tables_are_not_saved(tmp_path):
    layer = started(MultiHeadAttention(8, 2, position=Rotary(head_dim=4, layout="half")))
    assert sorted(mx.npx.load(saved(layer, tmp_path))) == [f"W_{name}.weight" for name in "koqv"]


def test_another_length_is_told_by_both(tmp_path):
    with pytest.raises(ValueError, match=r"of Learned\(dim=8, length=7\) must have shape \(7, 8\), got \(9, 8\)"):
        learned(7).load_parameters(saved(learned(9), tmp_path))


def test_another_encoding_in_a_model_is_told_by_both(tmp_path):
    def model(buckets):
        position = T5Bias(num_heads=2, num_buckets=buckets, max_distance=9)
        return started(MultiHeadAttention(8, 2, position=position))

    with pytest.raises(
        ValueError, match=r"'.*table' of T5Bias\(.*num_buckets=4.*must have shape \(4, 2\), got \(6, 2\)"
    ):
        model(4).load_parameters(saved(model(6), tmp_path))


def test_another_kind_of_encoding_is_told_by_both_names(tmp_path):
    other = started(PositionalEncoding(8, encoding=LearnedSinusoidal(dim=8)))
    with pytest.raises(AssertionError, match=r"'\.alpha' is missing in file .* contains parameters: '\.table'"):
        other.load_parameters(saved(learned(), tmp_path))
    with pytest.raises(ValueError, match=r"'\.table' loaded from file .* is not present in ParameterDict"):
        other.load_parameters(saved(learned(), tmp_path), allow_missing=True)
    before = other.alpha.data().asnumpy()
    other.load_parameters(saved(learned(), tmp_path), allow_missing=True, ignore_extra=True)
    np.testing.assert_array_equal(other.alpha.data().asnumpy(), before)


def test_half_precision_is_cast_where_that_is_said(tmp_path):
    half, single = learned(), learned()
    half.cast("float16")
    with pytest.raises(AssertionError, match=r"dtype incompatible expected .*float32.* vs saved .*float16"):
        single.load_parameters(saved(half, tmp_path))
    single.load_parameters(saved(half, tmp_path), cast_dtype=True)
    np.testing.assert_array_equal(single.table.data().asnumpy(), half.table.data().asnumpy())


@pytest.mark.parametrize(
    "again", [copy.deepcopy, lambda layer: pickle.loads(pickle.dumps(layer))], ids=["copied", "pickled"]
)
def test_copies_are_of_their_own(again):
    layer = learned()
    before, other = layer.table.data().asnumpy(), again(layer)
    other.table.set_data(mx.np.zeros((9, 8)))
    np.testing.assert_array_equal(layer.table.data().asnumpy(), before)
    rope = RotaryEmbedding(Rotary(head_dim=8, layout="half"), max_len=4)
    grown = again(rope)
    grown(mx.np.ones((1, 1, 7, 8)))
    assert [each.tables[0].shape[0] for each in (rope, grown)] == [4, 8]


def test_what_ran_as_a_graph_is_copied():
    layer, x = AttentionBias(T5Bias(num_heads=2)), mx.np.ones((1, 2, 5, 5))
    started(layer).hybridize()
    wanted = layer(x).asnumpy()
    other = copy.deepcopy(layer)
    np.testing.assert_array_equal(other(x).asnumpy(), wanted)


def test_a_model_is_saved_by_names_of_its_own(tmp_path):
    def model():
        stack = gluon.nn.HybridSequential()
        stack.add(learned(), PositionalEncoding(8), learned())
        return stack

    one, other = model(), model()
    other.load_parameters(saved(one, tmp_path))
    assert sorted(mx.npx.load(str(tmp_path / "layer.params"))) == ["0.table", "2.table"]
    x = mx.np.ones((1, 4, 8))
    np.testing.assert_array_equal(other(x).asnumpy(), one(x).asnumpy())
