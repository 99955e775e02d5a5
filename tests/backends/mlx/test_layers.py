"""Layers of MLX inside MLX's own tools: states, casts, optimizers, compiled code and its limits."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import mlx.core as mx
import numpy as np
import pytest
from mlx import nn, optimizers
from mlx.utils import tree_flatten

from posenc_backends.mlx import (
    AttentionBias,
    MultiHeadAttention,
    PositionalEncoding,
    RotaryEmbedding,
    from_state,
    is_traced,
    to_numpy,
    to_state,
)
from posenc_core import Alibi, Learned, Rotary, T5Bias

ROTARY = Rotary(head_dim=8, layout="half")


class Model(nn.Module):
    def __init__(self, length=6):
        super().__init__()
        self.embed = PositionalEncoding(16, encoding=Learned(dim=16, length=length))
        self.blocks = [MultiHeadAttention(16, 2, position=ROTARY) for _ in range(2)]

    def __call__(self, x):
        x = self.embed(x)
        for block in self.blocks:
            x = x + block(x, x, x, causal=True)
        return x


def test_biases_wait_for_no_pending_work_and_are_the_same_when_compiled(monkeypatch):
    layer = AttentionBias(T5Bias(num_heads=2))
    monkeypatch.setattr(mx, "eval", None)
    for length in (4, 90):
        eager, traced = (call(mx.zeros((2, 1, length))) for call in (layer, mx.compile(layer)))
        np.testing.assert_array_equal(np.array(eager), np.array(traced))


def tokens(*shape):
    return mx.array(np.random.default_rng(0).normal(size=shape).astype(np.float32))


def test_parameters_are_those_that_train():
    names = {name for name, _ in tree_flatten(Model().trainable_parameters())}
    of_blocks = {f"blocks.{block}.W_{which}.weight" for block in range(2) for which in "qkvo"}
    assert names == of_blocks | {"embed.table"}


def test_tables_have_the_bytes_of_the_core():
    cos, sin = RotaryEmbedding(ROTARY, max_len=300).tables
    for table, wanted in zip((cos, sin), ROTARY.cos_sin(range(300)), strict=True):
        assert np.array(table).tobytes() == wanted.tobytes()
        assert np.array(mx.view(table, mx.uint32)).tobytes() == wanted.tobytes()


def test_a_cast_changes_parameters_only():
    model = Model()
    model.set_dtype(mx.bfloat16)
    assert {array.dtype for _, array in tree_flatten(model.parameters())} == {mx.bfloat16}
    assert {table.dtype for table in model.blocks[0].rotary.tables} == {mx.float32}
    assert model(tokens(1, 5, 16).astype(mx.bfloat16)).dtype == mx.bfloat16


@pytest.mark.parametrize("suffix", ["safetensors", "npz"])
def test_states_are_saved_with_their_encodings(suffix, tmp_path):
    model, path = Model(), str(tmp_path / f"model.{suffix}")
    (mx.save_safetensors(path, to_state(model)) if suffix == "safetensors" else mx.savez(path, **to_state(model)))
    loaded = from_state(Model(), mx.load(path))
    x = tokens(2, 5, 16)
    np.testing.assert_array_equal(to_numpy(loaded(x)), to_numpy(model(x)))


def test_weights_are_saved_by_mlx_alone(tmp_path):
    model, other, path = Model(), Model(), str(tmp_path / "model.safetensors")
    model.save_weights(path)
    other.load_weights(path)
    x = tokens(2, 5, 16)
    np.testing.assert_array_equal(to_numpy(other(x)), to_numpy(model(x)))


def test_a_state_of_another_encoding_is_refused():
    state = to_state(AttentionBias(T5Bias(num_heads=2)))
    with pytest.raises(ValueError, match=r"`encoding` must be T5Bias\(num_heads=2, max_distance=64\), as in the layer"):
        from_state(AttentionBias(T5Bias(num_heads=2, max_distance=64)), state)
    with pytest.raises(ValueError, match=r"`state` must have an encoding, `encoding`, as `to_state` writes it, got \["):
        from_state(AttentionBias(T5Bias(num_heads=2)), {"table": state["table"]})
    with pytest.raises(ValueError, match="`encoding` must be an encoding as it is saved"):
        from_state(AttentionBias(T5Bias(num_heads=2)), state | {"encoding": state["table"]})
    with pytest.raises(ValueError, match="Missing 1 parameters"):
        from_state(AttentionBias(T5Bias(num_heads=2)), {"encoding": state["encoding"]})


def test_an_optimizer_trains_blocks_that_share_a_learned_layer():
    layer = AttentionBias(T5Bias(num_heads=2))
    model, x = nn.Sequential(*[Block(layer) for _ in range(2)]), tokens(2, 5, 16)

    def loss(table):
        layer.table = table
        return mx.mean(mx.square(model(x)))

    table = layer.table
    gradient = to_numpy(mx.grad(loss)(table))
    layer.table = table
    _, gradients = nn.value_and_grad(model, lambda x: mx.mean(mx.square(model(x))))(x)
    optimizers.SGD(1.0).update(model, gradients)
    assert gradient.any()
    np.testing.assert_allclose(to_numpy(layer.table), to_numpy(table) - gradient, rtol=0, atol=1e-6)


class Block(nn.Module):
    def __init__(self, position):
        super().__init__()
        self.attention = MultiHeadAttention(16, 2, position=position)

    def __call__(self, x):
        return x + self.attention(x, x, x)


def test_a_compiled_training_step_follows_the_eager_one():
    eager, compiled = Model(), Model()
    compiled.update(eager.parameters())
    x = tokens(2, 5, 16)

    def losses(model, compile_step):
        optimizer = optimizers.SGD(0.1)
        state = [model.state, optimizer.state]

        def step(x):
            value, gradients = nn.value_and_grad(model, lambda x: mx.mean(mx.square(model(x))))(x)
            optimizer.update(model, gradients)
            return value

        step = mx.compile(step, inputs=state, outputs=state) if compile_step else step
        return [step(x).item() for _ in range(3)]

    np.testing.assert_allclose(losses(compiled, True), losses(eager, False), rtol=1e-5)


def test_values_are_unknown_under_compile_and_vmap_and_known_under_grad():
    found = []

    def look(x):
        found.append((is_traced(x), is_traced(mx.arange(3))))
        return mx.sum(x)

    x = mx.ones((2, 3))
    for call in (look, mx.grad(look), mx.compile(look), mx.vmap(look)):
        mx.eval(call(x))
    assert found == [(False, False), (False, False), (True, False), (True, False)]


def test_compiled_code_has_nan_beyond_the_table_and_says_so_of_known_positions():
    rope = RotaryEmbedding(ROTARY, max_len=4)
    call = mx.compile(lambda x, start: rope(x, start=start))
    rows = to_numpy(call(mx.ones((1, 3, 8)), mx.array(2)))[0]
    assert np.isnan(rows).any(axis=-1).tolist() == [False, False, True]
    with pytest.raises(ValueError, match="`max_len` is 4, but position 4 is asked for while the layer is traced"):
        mx.compile(rope)(mx.ones((1, 5, 8)))


def test_compiled_code_keeps_its_rows_when_the_layer_grows():
    rope, x = RotaryEmbedding(ROTARY, max_len=4), tokens(1, 4, 8)
    call = mx.compile(rope)
    before = to_numpy(call(x))
    rope(tokens(1, 9, 8))
    assert rope.tables[0].shape[0] > 4
    np.testing.assert_array_equal(to_numpy(call(x)), before)


@pytest.mark.parametrize("layer", [PositionalEncoding(8), RotaryEmbedding(ROTARY)], ids=["add", "rotate"])
def test_code_compiled_for_any_shape_raises(layer):
    """`shapeless=True` would replay the rows of the first length; MLX cannot slice a table there, and says so."""
    with pytest.raises(ValueError, match=r"(Slice|Split) cannot infer output shapes"):
        mx.compile(layer, shapeless=True)(mx.ones((1, 3, 8)))


def test_a_pending_result_is_computed_in_the_thread_that_made_it():
    """If this fails, MLX can compute it elsewhere: take it out of the known failures."""
    with ThreadPoolExecutor(1) as pool:
        pending = pool.submit(PositionalEncoding(8), mx.ones((1, 3, 8))).result()
    with pytest.raises(RuntimeError, match="There is no Stream"):
        mx.eval(pending)


def test_strided_parameters_are_exported_in_the_order_of_memory(tmp_path):
    """If this fails, MLX exports them right: take it out of the known failures."""
    linear, x, path = nn.Linear(3, 3, bias=False), tokens(2, 3), str(tmp_path / "linear.mlxfn")
    linear.weight = linear.weight.T
    mx.eval(linear.weight)
    mx.export_function(path, linear, x)
    (exported,) = mx.import_function(path)(x)
    assert not np.allclose(to_numpy(exported), to_numpy(linear(x)))


def test_dropout_drops_in_training_only():
    layer = PositionalEncoding(8, dropout=0.5)
    assert (to_numpy(layer(mx.ones((1, 100, 8)) * 2)) == 0).any()
    assert not (to_numpy(layer.eval()(mx.ones((1, 100, 8)) * 2)) == 0).any()


def test_a_layer_pickles_and_prints_its_encoding():
    layer = pickle.loads(pickle.dumps(RotaryEmbedding(ROTARY)))
    assert repr(layer) == f"RotaryEmbedding({ROTARY!r})"
    assert "(rotary): RotaryEmbedding(" in repr(MultiHeadAttention(16, 2, position=ROTARY))


@pytest.mark.parametrize(
    ("position", "error"), [(4095, "0.0001"), (32767, "0.001"), (131071, "0.004"), (1048576, "0.03")]
)
def test_errors_of_the_operator_of_mlx_are_those_of_the_page(position, error):
    rotary = Rotary(head_dim=64, layout="half")
    x = np.repeat(np.float32([1, 0]), 32).reshape(1, 1, 1, 64)  # cosines and sines
    wanted = np.concatenate(rotary.cos_sin([position]), axis=-1)[0]
    theirs = mx.fast.rope(mx.array(x), 64, traditional=False, base=10000.0, scale=1.0, offset=position)
    assert f"{np.abs(to_numpy(theirs)[0, 0, 0] - wanted).max():.1g}" == error
    np.testing.assert_array_equal(to_numpy(RotaryEmbedding(rotary)(mx.array(x), start=position))[0, 0, 0], wanted)


def test_quantized_projections_attend():
    attention = MultiHeadAttention(64, 2, position=Rotary(head_dim=32, layout="half"))
    x = tokens(1, 5, 64)
    wanted = to_numpy(attention(x, x, x))
    nn.quantize(attention, group_size=32, bits=8)
    assert isinstance(attention.W_q, nn.QuantizedLinear)
    np.testing.assert_allclose(to_numpy(attention(x, x, x)), wanted, atol=0.05)


@pytest.mark.parametrize("heads", [1, 8, 12, 20])
def test_slopes_of_alibi_are_those_of_mlx(heads):
    """As the page on scoring says: those of Press et al. for numbers of heads that are no power of two, too."""
    ours = to_numpy(AttentionBias(Alibi(num_heads=heads))(mx.zeros((1, heads, 2, 2))))
    np.testing.assert_allclose(-ours[0, :, 1, 0], np.array(nn.ALiBi.create_alibi_slope(heads))[:, 0, 0], rtol=1e-6)
