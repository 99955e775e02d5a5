"""Paddle's compilers and programs with several layers and with wrong input."""

import warnings

import numpy as np
import paddle
import pytest
from paddle.jit.sot.symbolic.compile_cache import CompileSIRCache
from paddle.static import InputSpec

from posenc_backends.paddle import AttentionBias, MultiHeadAttention, PositionalEncoding, RotaryEmbedding
from posenc_core import DynamicNTK, Integer, Learned, Rotary, ShawBias, T5Bias

ROTARY = Rotary(head_dim=8, layout="half")


class Model(paddle.nn.Layer):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x * 2) + x


def test_one_forward_of_models_of_several_sizes():
    """Paddle treats a size as dynamic as soon as it sees a second value."""
    for width in (8, 4, 6):
        for layer in (
            RotaryEmbedding(Rotary(head_dim=width, layout="half")),
            PositionalEncoding(width),
            AttentionBias(T5Bias(num_heads=width)),
        ):
            model, compiled = Model(layer), paddle.jit.to_static(Model(layer), full_graph=False)
            for length in (5, 9, 7):
                shape = [2, width, length, length] if isinstance(layer, AttentionBias) else [2, 3, length, width]
                x = paddle.randn(shape)
                np.testing.assert_array_equal(compiled(x).numpy(), model(x).numpy())


def test_a_program_whose_width_only_the_layer_knows():
    layer = MultiHeadAttention(8, 2, position=Rotary(head_dim=4, layout="half"))
    layer.eval()
    static = paddle.jit.to_static(layer, [InputSpec([None, None, None]) for _ in range(3)], full_graph=True)
    x = paddle.randn([2, 6, 8])
    expected = MultiHeadAttention.forward(layer, x, x, x)
    np.testing.assert_allclose(static(x, x, x).numpy(), expected.numpy(), rtol=0, atol=1e-6)


def test_sot_compiles_at_most_two_programs_of_a_model():
    """One for the first length, one for all others."""
    CompileSIRCache().clear()

    class RotaryEncoding(Model):
        def forward(self, x):
            return self.layer(x * 3) + x

    compiled = paddle.jit.to_static(RotaryEncoding(RotaryEmbedding(ROTARY)), full_graph=False)
    for length in (53, 7, 16, 17, 33):
        compiled(paddle.randn([2, 3, length, 8]))
    assert len(CompileSIRCache().cache) in (1, 2)


@pytest.mark.parametrize("full_graph", [True, False], ids=["source", "bytecode"])
def test_a_length_past_the_table_is_rejected_at_trace_time(full_graph):
    class Refused(Model):
        def forward(self, x):
            return self.layer(x * 4) + x

    model = Refused(RotaryEmbedding(ROTARY, max_len=6))
    with pytest.raises(Exception, match="`max_len` is 6, but position 8 is asked for"):
        paddle.jit.to_static(model, full_graph=full_graph)(paddle.randn([1, 1, 9, 8]))


@pytest.mark.parametrize(
    ("layer", "spec", "message"),
    [
        (
            lambda: RotaryEmbedding(
                Rotary(head_dim=8, layout="half", scaling=DynamicNTK(factor=2.0, original_max_position_embeddings=16))
            ),
            [InputSpec([1, 1, None, 8]), None, 0, None, -2, 99],
            "`seq_len` asks for other tables than a traced layer holds",
        ),
        (
            lambda: PositionalEncoding(8, encoding=Learned(dim=8, length=9)),
            [InputSpec([1, None, 8]), 0, InputSpec([None])],
            "int32 or int64, got float32",
        ),
        (lambda: PositionalEncoding(8, encoding=Integer(dim=8)), [InputSpec([1, None, 7])], "`x` must be 8 wide"),
    ],
    ids=["another length", "real positions", "another width"],
)
def test_what_needs_an_eager_call_is_not_exported(tmp_path, layer, spec, message):
    with pytest.raises((TypeError, ValueError), match=message):
        paddle.jit.save(layer(), str(tmp_path / "layer"), input_spec=spec)


def test_a_program_that_does_not_use_its_keys_is_saved(tmp_path):
    """`ShawBias` takes `k` like all content-based encodings but does not use it; Paddle needs `skip_prune_program`."""
    layer = AttentionBias(ShawBias(num_heads=2, head_dim=4, max_distance=3))
    scores, q = InputSpec([1, 2, None, None]), [InputSpec([1, 2, None, 4]) for _ in range(2)]
    path = str(tmp_path / "layer")
    paddle.jit.save(layer, path, input_spec=[scores, 0, None, None, *q], skip_prune_program=True)
    arrays = paddle.randn([1, 2, 6, 6]), paddle.randn([1, 2, 6, 4]), paddle.randn([1, 2, 6, 4])
    expected = layer(arrays[0], q=arrays[1], k=arrays[2]).numpy()
    np.testing.assert_array_equal(paddle.jit.load(path)(*arrays).numpy(), expected)


def test_layers_are_created_in_dynamic_mode():
    paddle.enable_static()
    try:
        for make in (
            lambda: PositionalEncoding(8),
            lambda: RotaryEmbedding(ROTARY),
            lambda: AttentionBias(T5Bias(num_heads=2)),
        ):
            with pytest.raises(RuntimeError, match="must be made in dynamic mode"):
                make()
    finally:
        paddle.disable_static()


def test_autocast_around_a_program_does_not_reach_the_tables():
    class Autocasting(Model):
        def forward(self, x):
            with paddle.amp.auto_cast(level="O2", dtype="bfloat16"):
                return self.layer(x)

    model = Autocasting(RotaryEmbedding(ROTARY))
    model.eval()
    x = paddle.randn([2, 2, 7, 8])
    compiled = paddle.jit.to_static(model, [InputSpec([2, 2, None, 8])], full_graph=True)
    np.testing.assert_array_equal(compiled(x).numpy(), model.layer(x).numpy())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on a CPU, Paddle warns that it ignores autocast in eager code
        np.testing.assert_array_equal(Autocasting.forward(model, x).numpy(), model.layer(x).numpy())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize(("layout", "length"), [("interleaved", 9), ("half", 9), ("half", 2049)])
def test_bits_of_programs_are_those_of_eager_code(layout, length, dtype):
    numbers = np.random.default_rng(length).normal(size=(2, 3, length, 32)).astype(np.float32)
    numbers[..., ::7] = np.resize([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-42, 3e38], numbers[..., ::7].shape)
    layer, model = (RotaryEmbedding(Rotary(head_dim=32, layout=layout), max_len=length) for _ in range(2))
    weights, results = paddle.to_tensor(numbers[::-1].copy()).astype(dtype), []
    for function in (layer, paddle.jit.to_static(model, full_graph=True)):
        x = paddle.to_tensor(numbers).astype(dtype)
        x.stop_gradient = False
        rotated = function(x)
        (gradient,) = paddle.grad([rotated], [x], [weights])
        results.append([each.astype("float32").numpy() for each in (rotated, gradient)])
    (expected, expected_gradient), (found, gradient) = results
    np.testing.assert_array_equal(gradient, expected_gradient)
    np.testing.assert_array_equal(found, expected)
    known = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found[known]), np.signbit(expected[known]))


def test_interleaved_pairs_of_a_program_are_one_product():
    program = paddle.jit.to_static(RotaryEmbedding(Rotary(head_dim=8, layout="interleaved")), full_graph=True)
    program(paddle.ones([1, 2, 3, 8]))
    names = [operation.name() for operation in program.forward.concrete_program.main_program.global_block().ops]
    assert names.count("pd_op.multiply") == 1
    assert "pd_op.as_complex" in names
