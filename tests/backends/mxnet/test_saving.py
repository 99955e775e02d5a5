"""Parameter files: what they contain, and errors of layers with another encoding."""

import copy
import pickle

import mxnet as mx
import numpy as np
import pytest
from mxnet import gluon

from posenc_backends.mxnet import AttentionBias, MultiHeadAttention, PositionalEncoding, RotaryEmbedding
from posenc_core import Alibi, Learned, QueryScale, Rotary
from posenc_core.encodings import LearnedSinusoidal, ShawBias, T5Bias


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
    names = [f"W_{name}.weight" for name in "koqv"]
    assert sorted(mx.npx.load(saved(layer, tmp_path))) == [*names, "rotary.encoding"]


def attending(*, layout="half", slope=0.1, shared=None):
    """Return two blocks of attention, one with RoPE and one with ALiBi, whose queries are scaled."""
    stack = gluon.nn.HybridSequential()
    stack.add(MultiHeadAttention(8, 2, position=shared or Rotary(head_dim=4, layout=layout)))
    scale = QueryScale(length=8, scale=slope)
    stack.add(MultiHeadAttention(8, 2, position=Alibi(num_heads=2), query_scale=scale))
    return started(stack)


@pytest.mark.parametrize("deduplicate", [False, True])
def test_files_with_and_without_encodings_that_learn_nothing_are_loaded(tmp_path, deduplicate):
    model, file = attending(), str(tmp_path / "model.params")
    model.save_parameters(file, deduplicate=deduplicate)
    arrays = mx.npx.load(file)
    tags = {name for name in arrays if name.endswith(".encoding")}
    assert tags == (set() if deduplicate else {"0.rotary.encoding", "1.scoring.encoding", "1.scaling.encoding"})
    assert len(arrays) == 8 + len(tags)
    mx.npx.save(str(tmp_path / "old.params"), {name: array for name, array in arrays.items() if "encoding" not in name})
    for name in ("model", "old"):
        other = attending()
        other.load_parameters(str(tmp_path / f"{name}.params"))
        for got, expected in zip(*[m.collect_params().values() for m in (other, model)], strict=True):
            np.testing.assert_array_equal(got.data().asnumpy(), expected.data().asnumpy())


def test_errors_for_another_layout_name_both(tmp_path):
    file = saved(attending(), tmp_path)
    with pytest.raises(ValueError, match=r"encoding Rotary\(.*'interleaved'.*\), got one of Rotary\(.*'half'.*\)"):
        attending(layout="interleaved").load_parameters(file)
    with pytest.raises(ValueError, match=r"encoding QueryScale\(.*0\.2.*\), got one of QueryScale\(.*0\.1.*\)"):
        attending(slope=0.2).load_parameters(file)


def test_attention_without_the_weights_of_a_file_is_refused_by_name(tmp_path):
    names = {"rotary.encoding": mx.np.zeros(3, dtype="uint8"), "W_k.weight": mx.np.zeros((8, 8))}
    mx.npx.save(str(tmp_path / "part.params"), names)
    with pytest.raises(AssertionError, match=r"Parameter 'W_v.weight' is missing in file"):
        started(MultiHeadAttention(8, 2, position=Rotary(head_dim=4, layout="half"))).load_parameters(
            str(tmp_path / "part.params")
        )


def test_errors_for_another_length_name_both_encodings(tmp_path):
    layer = learned(7)
    before = layer.table.data().asnumpy()
    with pytest.raises(ValueError, match=r"encoding Learned\(dim=8, length=7\), got one of Learned\(dim=8, length=9\)"):
        layer.load_parameters(saved(learned(9), tmp_path))
    np.testing.assert_array_equal(layer.table.data().asnumpy(), before)


@pytest.mark.parametrize("parent", [False, True], ids=["layer", "model"])
def test_errors_for_another_encoding_of_the_same_shape_name_both(tmp_path, parent):
    def model(distance, **options):
        layer = AttentionBias(T5Bias(num_heads=2, num_buckets=8, max_distance=distance, **options))
        stack = gluon.nn.HybridSequential()
        stack.add(gluon.nn.Dense(3, in_units=3), layer)
        return started(stack if parent else layer)

    file = saved(model(6), tmp_path)
    with pytest.raises(ValueError, match=r"encoding T5Bias\(.*max_distance=9\), got one of T5Bias\(.*max_distance=6\)"):
        model(9).load_parameters(file)
    model(6, std=0.5).load_parameters(file)  # the initial deviation does not matter


@pytest.mark.parametrize("deduplicate", [False, True])
def test_files_with_and_without_the_name_of_the_encoding_are_loaded(tmp_path, deduplicate):
    """With `deduplicate`, Gluon leaves out parameters that it considers equal."""
    encoding = ShawBias(num_heads=2, head_dim=4, max_distance=2)
    layer, file = started(AttentionBias(encoding)), str(tmp_path / "layer.params")
    layer.save_parameters(file, deduplicate=deduplicate)
    names = {".key_table", ".value_table"}
    assert set(mx.npx.load(file)) == names if deduplicate else names | {".encoding"}
    mx.npx.save(
        str(tmp_path / "old.params"), {name: array for name, array in mx.npx.load(file).items() if name in names}
    )
    for name in ("layer", "old"):
        other = started(AttentionBias(encoding))
        other.load_parameters(str(tmp_path / f"{name}.params"))
        for got, expected in ((other.key_table, layer.key_table), (other.value_table, layer.value_table)):
            np.testing.assert_array_equal(got.data().asnumpy(), expected.data().asnumpy())


def test_another_shape_in_a_file_without_the_name_is_rejected(tmp_path):
    mx.npx.save(str(tmp_path / "old.params"), {".table": mx.np.zeros((9, 8))})
    with pytest.raises(ValueError, match=r"of Learned\(dim=8, length=7\) must have shape \(7, 8\), got \(9, 8\)"):
        learned(7).load_parameters(str(tmp_path / "old.params"))


def test_errors_for_another_encoding_in_a_model_name_both(tmp_path):
    def model(buckets):
        position = T5Bias(num_heads=2, num_buckets=buckets, max_distance=9)
        return started(MultiHeadAttention(8, 2, position=position))

    with pytest.raises(
        ValueError, match=r"encoding T5Bias\(.*num_buckets=4.*\), got one of T5Bias\(.*num_buckets=6.*\)"
    ):
        model(4).load_parameters(saved(model(6), tmp_path))


def test_errors_for_another_class_of_encoding_name_both(tmp_path):
    other = started(PositionalEncoding(8, encoding=LearnedSinusoidal(dim=8)))
    before = other.alpha.data().asnumpy()
    for options in ({}, {"allow_missing": True, "ignore_extra": True}):
        with pytest.raises(ValueError, match=r"LearnedSinusoidal\(dim=8\), got one of Learned\(dim=8, length=9\)"):
            other.load_parameters(saved(learned(), tmp_path), **options)
    np.testing.assert_array_equal(other.alpha.data().asnumpy(), before)


def test_half_precision_is_cast_with_cast_dtype(tmp_path):
    half, single = learned(), learned()
    half.cast("float16")
    with pytest.raises(AssertionError, match=r"dtype incompatible expected .*float32.* vs saved .*float16"):
        single.load_parameters(saved(half, tmp_path))
    single.load_parameters(saved(half, tmp_path), cast_dtype=True)
    np.testing.assert_array_equal(single.table.data().asnumpy(), half.table.data().asnumpy())


@pytest.mark.parametrize(
    "again", [copy.deepcopy, lambda layer: pickle.loads(pickle.dumps(layer))], ids=["copied", "pickled"]
)
def test_copies_are_independent(again):
    layer = learned()
    before, other = layer.table.data().asnumpy(), again(layer)
    other.table.set_data(mx.np.zeros((9, 8)))
    np.testing.assert_array_equal(layer.table.data().asnumpy(), before)
    rope = RotaryEmbedding(Rotary(head_dim=8, layout="half"), max_len=4)
    copied = again(rope)
    copied(mx.np.ones((1, 1, 7, 8)))
    assert [each.tables[0].shape[0] for each in (rope, copied)] == [4, 8]


def test_hybridized_layers_are_copied():
    layer, x = AttentionBias(T5Bias(num_heads=2)), mx.np.ones((1, 2, 5, 5))
    started(layer).hybridize()
    wanted = layer(x).asnumpy()
    other = copy.deepcopy(layer)
    np.testing.assert_array_equal(other(x).asnumpy(), wanted)


def test_a_model_is_saved_with_its_own_names(tmp_path):
    def model():
        stack = gluon.nn.HybridSequential()
        stack.add(learned(), PositionalEncoding(8), learned())
        return stack

    one, other = model(), model()
    other.load_parameters(saved(one, tmp_path))
    assert sorted(mx.npx.load(str(tmp_path / "layer.params"))) == ["0.encoding", "0.table", "2.encoding", "2.table"]
    x = mx.np.ones((1, 4, 8))
    np.testing.assert_array_equal(other(x).asnumpy(), one(x).asnumpy())


def test_arrays_for_all_parameters_bring_no_table_of_another_encoding():
    own, other = [
        started(RotaryEmbedding(Rotary(head_dim=8, layout="half", base=base), max_len=4)).collect_params()
        for base in (1e4, 500.0)
    ]
    arrays = [parameter.data() for parameter in other.values()]
    with pytest.raises(ValueError, match="` is a table, which follows from the encoding of its layer, got others"):
        own.load_dict(dict(zip(own, arrays, strict=True)))
    other.load_dict(dict(zip(other, arrays, strict=True)))
