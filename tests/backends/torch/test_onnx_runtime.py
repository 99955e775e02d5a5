"""The example of an ONNX model that `posenc check` judges; ONNX Runtime is installed beside PyTorch."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from posenc_backends.cli.golden.onnx_models import write_onnx
from posenc_backends.cli.main import main
from posenc_core import Proportional, Rotary, YaRN, rotate

VECTORS = Path(__file__).parents[3] / "vectors" / "onnx"


def test_the_operator_of_onnx_conforms(capsys):
    path = "docs/howto/programs/rope_onnx.py:rope"
    assert main(["check", path, "--longest", "4096"]) == 0, capsys.readouterr().out
    assert main(["check", path, "--longest", "4096", "--spec", "Rotary(head_dim=64, layout='interleaved')"]) == 1
    assert "layout swapped" in capsys.readouterr().out


def test_the_models_of_the_golden_vectors_run(tmp_path):
    assert write_onnx(tmp_path) == len(list(tmp_path.iterdir())) == 23
    ours = {path.relative_to(VECTORS): path.read_bytes() for path in VECTORS.rglob("*.*")}
    assert ours == {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*.*")}, "run vectors.py"
    for folder in tmp_path.iterdir():
        data = folder / "test_data_set_0"
        inputs = [numpy_helper.to_array(onnx.load_tensor(data / f"input_{number}.pb")) for number in range(3)]
        wanted = numpy_helper.to_array(onnx.load_tensor(data / "output_0.pb"))
        session = onnxruntime.InferenceSession(folder / "model.onnx")
        names = [given.name for given in session.get_inputs()]
        (result,) = session.run(None, dict(zip(names, inputs, strict=True)))
        lengths = np.linalg.norm(wanted, axis=-1, keepdims=True)
        assert np.abs(result - wanted).max() < 4 * np.spacing(lengths.max()), folder.name
        assert np.abs(inputs[0] - wanted).max() > 1e-3, folder.name


ENCODINGS = (
    Rotary(head_dim=8, layout="half"),
    Rotary(head_dim=8, layout="interleaved", rotary_dim=4),
    Rotary(head_dim=8, layout="half", scaling=YaRN(factor=4.0, original_max_position_embeddings=64)),
    Rotary(head_dim=8, layout="half", scaling=Proportional(partial_rotary_factor=0.5)),
)


@pytest.mark.parametrize("encoding", ENCODINGS, ids=repr)
def test_the_operator_rotates_by_our_caches(encoding):
    """`as_cache("onnx", …)` as constants of a model, at positions that are an input."""
    x = np.random.default_rng(0).normal(size=(2, 3, 5, 8)).astype(np.float32)
    positions = np.array([[0, 1, 2, 3, 4], [4095, 7, 100, 2048, 3]])
    cache = encoding.as_cache("onnx", 4096)
    tables = [numpy_helper.from_array(cache.pop(name), name) for name in ("cos_cache", "sin_cache")]
    node = helper.make_node("RotaryEmbedding", ["x", "cos_cache", "sin_cache", "positions"], ["y"], **cache)
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape),
        helper.make_tensor_value_info("positions", TensorProto.INT64, positions.shape),
    ]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, x.shape)
    graph = helper.make_graph([node], "rope", inputs, [output], tables)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    (result,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x, "positions": positions})
    rows = encoding.rows(positions)
    placement = encoding.pairing.placement
    wanted = rotate(x, rows["cos"][:, None], rows["sin"][:, None], layout=encoding.layout, placement=placement)
    np.testing.assert_allclose(result, wanted, rtol=0, atol=5e-7)
