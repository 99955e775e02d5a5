"""Exported models, functional and subclassed, loaded without Keras."""

import subprocess
import sys

import keras
import numpy as np
import pytest

from posenc_backends.keras import MultiHeadAttention, PositionalEncoding, RotaryEmbedding, to_numpy
from posenc_core import Learned, Rotary, T5Bias

BACKEND = keras.backend.backend()
X = np.random.default_rng(0).normal(size=(2, 5, 8)).astype(np.float32)
OPEN = [keras.InputSpec(shape=(None, None, 8), dtype="float32")]
LAYERS = {
    "addition": lambda: PositionalEncoding(8, encoding=Learned(dim=8, length=9)),
    "rotary": lambda: MultiHeadAttention(8, 2, position=Rotary(head_dim=4, layout="half")),
    "scoring": lambda: MultiHeadAttention(8, 2, position=T5Bias(num_heads=2, std=1.0)),
}


@keras.saving.register_keras_serializable(package="tests")
class Holding(keras.Model):
    """A subclassed model whose configuration contains its layer."""

    def __init__(self, layer, **options):
        super().__init__(**options)
        self.layer = layer

    def call(self, x):
        return called(self.layer, x)

    def get_config(self):
        return {**super().get_config(), "layer": keras.saving.serialize_keras_object(self.layer)}

    @classmethod
    def from_config(cls, config):
        return cls(**{**config, "layer": keras.saving.deserialize_keras_object(config["layer"])})


def called(layer, x):
    return layer(x, x, x) if isinstance(layer, MultiHeadAttention) else layer(x)


def functional(layer):
    tokens = keras.Input((None, 8))
    return keras.Model(tokens, called(layer, tokens))


def subclassed(layer):
    model = Holding(layer)
    model(X)  # Keras on PyTorch finds the weights at the first call
    return model


KINDS = [functional, subclassed]


@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)
def test_a_subclassed_model_is_saved_and_loaded(make, tmp_path):
    model = subclassed(make())
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert isinstance(again, Holding)
    for length in (5, 3):
        np.testing.assert_array_equal(again.predict_on_batch(X[:, :length]), model.predict_on_batch(X[:, :length]))


SERVED = """
import sys
import numpy as np
import tensorflow as tf
given = np.load(sys.argv[1] + "/given.npz")
for kind in ("functional", "subclassed"):
    program = tf.saved_model.load(sys.argv[1] + "/" + kind)
    for length in (5, 3):
        got = program.serve(tf.constant(given["x"][:, :length]))
        assert abs(got.numpy() - given[kind + str(length)]).max() < 1e-5, (kind, length)
assert not [name for name in sys.modules if name.startswith("posenc")]
"""


@pytest.mark.filterwarnings("ignore:The `native_serialization` parameter:DeprecationWarning")  # that Keras gives JAX
@pytest.mark.skipif(BACKEND == "torch", reason="Keras on PyTorch writes a SavedModel only with torch_xla")
def test_saved_models_are_served_at_any_length_without_posenc(tmp_path):
    wanted = {}
    for kind, name in zip(KINDS, ("rotary", "scoring"), strict=True):
        model = kind(LAYERS[name]())
        model.export(tmp_path / kind.__name__, verbose=False, input_signature=OPEN)
        wanted |= {f"{kind.__name__}{length}": model.predict_on_batch(X[:, :length]) for length in (5, 3)}
    np.savez(tmp_path / "given.npz", x=X, **wanted)
    subprocess.run([sys.executable, "-W", "ignore", "-c", SERVED, str(tmp_path)], check=True)


@pytest.mark.skipif(BACKEND != "torch", reason="a program of PyTorch's")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)
def test_a_program_of_pytorch_runs_at_any_length(make, kind, tmp_path):
    import torch

    model = kind(make())
    sizes = {axis: torch.export.Dim(name, min=1, max=9) for axis, name in enumerate(("batch", "length"))}
    path = tmp_path / "model.pt2"
    model.export(path, "torch", verbose=False, input_signature=OPEN, dynamic_shapes={"args": (sizes,)})
    program = torch.export.load(path).module()
    for length in (5, 3):
        got = program(torch.tensor(X[:, :length]))
        np.testing.assert_allclose(to_numpy(got), to_numpy(model(X[:, :length])), rtol=0, atol=1e-6)


@pytest.mark.skipif(BACKEND != "torch", reason="a known failure")
@pytest.mark.filterwarnings("ignore")  # of the exporter; their text changes with each version
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)
def test_onnx_runs_at_any_length(make, kind, tmp_path):
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    model = kind(make())
    model.export(tmp_path / "model.onnx", format="onnx", verbose=False, input_signature=OPEN)
    session = runtime.InferenceSession(tmp_path / "model.onnx")
    (name,) = (argument.name for argument in session.get_inputs())
    for length in (5, 3):
        (got,) = session.run(None, {name: X[:, :length]})
        np.testing.assert_allclose(got, to_numpy(model(X[:, :length])), rtol=0, atol=2e-6)


@pytest.mark.skipif(BACKEND != "tensorflow", reason="TensorFlow alone converts to TF-Lite")
@pytest.mark.filterwarnings("ignore:.*tf.lite.Interpreter is deprecated")
def test_halves_run_in_tf_lite(tmp_path):
    import tensorflow as tf

    layer, inputs = RotaryEmbedding(Rotary(head_dim=8, layout="half")), keras.Input((5, 8), batch_size=2)
    model = tf.lite.TFLiteConverter.from_keras_model(keras.Model(inputs, layer(inputs))).convert()
    run = tf.lite.Interpreter(model_content=model).get_signature_runner()
    (name,) = run.get_input_details()
    (result,) = run(**{name: X}).values()
    np.testing.assert_array_equal(result, to_numpy(layer(X)))
