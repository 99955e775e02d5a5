"""Paddle's own tools with a model that contains our layers."""

import subprocess
import sys
import warnings

import numpy as np
import paddle
import pytest

from posenc_backends.paddle import AttentionBias, MultiHeadAttention, PositionalEncoding, RotaryEmbedding
from posenc_core import Learned, LearnedRotary, Rotary, ShawBias, Sinusoidal, T5Bias

TABLE = Sinusoidal(dim=8).table(range(1000))


class Classifier(paddle.nn.Layer):
    """Embedding, positions, attention, and a classifier of the last token."""

    def __init__(self, position=None):
        super().__init__()
        self.places = PositionalEncoding(8)
        self.attention = MultiHeadAttention(8, 2, position=position or Rotary(head_dim=4, layout="half"))
        self.head = paddle.nn.Linear(8, 2)

    def forward(self, x):
        x = self.places(x)
        return self.head(self.attention(x, x, x)[:, -1])


def batch(count=12):
    """Return tokens and labels: which of the first two tokens is larger."""
    x = np.random.default_rng(3).standard_normal((count, 5, 8)).astype(np.float32)
    return x, (x[:, 0, 0] > x[:, 1, 0]).astype(np.int64)[:, None]


def test_summary_counts_only_parameters():
    model = Classifier()
    counts = paddle.summary(model, (3, 5, 8))
    assert counts == {"total_params": 4 * 64 + 18, "trainable_params": 4 * 64 + 18}


@pytest.mark.xfail(
    raises=TypeError, strict=True, reason="On NumPy 2.4, Paddle 3.3 fails even for a `Sequential` of its own layers."
)
def test_flops():
    assert paddle.flops(Classifier(), [3, 5, 8]) > 0


@pytest.mark.filterwarnings("ignore:To copy construct from a tensor:UserWarning")  # as Paddle itself does
def test_model_fit_trains_and_does_not_change_tables():
    paddle.seed(1)
    x, y = batch()
    network = Classifier(T5Bias(num_heads=2))
    model = paddle.Model(network)
    adam = paddle.optimizer.Adam(0.05, parameters=model.parameters())
    model.prepare(adam, paddle.nn.CrossEntropyLoss())
    data = paddle.io.TensorDataset([paddle.to_tensor(x), paddle.to_tensor(y)])
    before = model.evaluate(data, batch_size=12, verbose=0)["loss"][0]
    learned = network.attention.scoring.table.numpy()
    model.fit(data, batch_size=12, epochs=30, shuffle=False, verbose=0)
    assert model.evaluate(data, batch_size=12, verbose=0)["loss"][0] < before / 2
    assert (network.attention.scoring.table.numpy() != learned).any()
    np.testing.assert_array_equal(network.places.P[0].numpy(), TABLE)


@pytest.mark.parametrize("level", ["O1", "O2"])
def test_mixed_precision_training_does_not_change_tables(level):
    """On a CPU, Paddle warns that it ignores mixed precision."""
    paddle.seed(1)
    x, y = (paddle.to_tensor(array) for array in batch())
    model = Classifier()
    sgd = paddle.optimizer.SGD(0.1, parameters=model.parameters())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, sgd = paddle.amp.decorate(model, sgd, level=level, dtype="bfloat16")
        scaler = paddle.amp.GradScaler(enable=True, init_loss_scaling=8.0)
        with paddle.amp.auto_cast(level=level, dtype="bfloat16"):
            loss = paddle.nn.functional.cross_entropy(model(x), y)
    before = model.head.weight.numpy()
    scaler.scale(loss).backward()
    scaler.step(sgd)
    scaler.update()
    assert (model.head.weight.numpy() != before).any()
    assert model.places.P.dtype == paddle.float32
    np.testing.assert_array_equal(model.places.P[0].numpy(), TABLE)


@pytest.mark.filterwarnings("ignore:The program will return to single-card operation:UserWarning")
def test_data_parallel_of_one_process():
    model = Classifier()
    x = paddle.to_tensor(batch()[0])
    np.testing.assert_array_equal(paddle.DataParallel(model)(x).numpy(), model(x).numpy())


def test_tables_move_and_are_listed_and_are_not_saved():
    model = Classifier().to("cpu")
    assert str(model.places.P.place) == "Place(cpu)"
    assert [name for name, _ in model.named_buffers()] == [
        "places.table",
        "attention.rotary.cos",
        "attention.rotary.sin",
    ]
    assert not any("table" in name or "rotary" in name for name in model.state_dict())


@pytest.mark.parametrize(
    ("make", "saved_encoding", "loaded_encoding"),
    [
        (lambda e: PositionalEncoding(4, encoding=e), Learned(dim=4, length=9), Learned(dim=4, length=7)),
        (AttentionBias, T5Bias(num_heads=2), T5Bias(num_heads=2, max_distance=99)),
        (lambda e: MultiHeadAttention(8, 2, position=e), T5Bias(num_heads=2), T5Bias(num_heads=2, sides="past")),
    ],
    ids=["another shape", "the same shape", "inside attention"],
)
def test_a_state_of_another_encoding_is_rejected(tmp_path, make, saved_encoding, loaded_encoding):
    paddle.save(make(saved_encoding).state_dict(), str(tmp_path / "state.pdparams"))
    state, layer = paddle.load(str(tmp_path / "state.pdparams")), make(loaded_encoding)
    before = {name: array.numpy() for name, array in layer.state_dict().items()}
    with pytest.raises(ValueError, match="`state_dict` must be of the layer's encoding") as raised:
        layer.set_state_dict(state)
    assert repr(loaded_encoding) in str(raised.value)
    assert repr(saved_encoding) in str(raised.value)
    for name, array in layer.state_dict().items():
        np.testing.assert_array_equal(array.numpy(), before[name])


def test_states_of_the_same_encoding_or_without_a_name_are_loaded(tmp_path):
    """Copies, other initial values, plain arrays, and nested layers."""
    source = AttentionBias(T5Bias(num_heads=2, std=0.5))
    for state in (
        source.state_dict(),
        {"table": source.table.numpy()},
        {"table": paddle.to_tensor(source.table.numpy())},
    ):
        layer = AttentionBias(T5Bias(num_heads=2))
        assert tuple(layer.set_state_dict(state)) == ([], [])
        np.testing.assert_array_equal(layer.table.numpy(), source.table.numpy())
    saved_encoding, loaded_encoding = (
        MultiHeadAttention(8, 2, position=ShawBias(num_heads=2, head_dim=4, max_distance=3)) for _ in "ab"
    )
    loaded_encoding.load_dict(saved_encoding.state_dict())
    np.testing.assert_array_equal(loaded_encoding.scoring.key_table.numpy(), saved_encoding.scoring.key_table.numpy())


def test_parameters_have_unique_names():
    layers = [RotaryEmbedding(LearnedRotary(head_dim=8, layout="half")) for _ in range(3)]
    assert len({layer.alpha.name for layer in layers}) == 3


@pytest.mark.parametrize(("first", "raises"), [("tensorflow", True), ("paddle", False)])
def test_paddle_comes_before_tensorflow(first, raises):
    """Importing TensorFlow first would end the process; a module of that name is enough for the check."""
    code = f"""
import sys, types
if {first!r} == "paddle":
    import paddle
sys.modules["tensorflow"] = types.ModuleType("tensorflow")
try:
    import posenc_backends.paddle
except ImportError as error:
    print(error)
else:
    print("imported")
"""
    completed = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert ("import `paddle` before `tensorflow`" in completed) is raises
    assert ("imported" in completed) is not raises
