"""The example of an ONNX model that `posenc check` judges; ONNX Runtime is installed beside PyTorch."""

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

from posenc_backends.cli.golden.onnx_models import write_onnx
from posenc_backends.cli.main import main


def test_the_operator_of_onnx_conforms(capsys):
    path = "docs/howto/programs/rope_onnx.py:rope"
    assert main(["check", path, "--longest", "4096"]) == 0, capsys.readouterr().out
    assert main(["check", path, "--longest", "4096", "--spec", "Rotary(head_dim=64, layout='interleaved')"]) == 1
    assert "layout swapped" in capsys.readouterr().out


def test_the_models_of_the_golden_vectors_run(tmp_path):
    assert write_onnx(tmp_path) == len(list(tmp_path.iterdir())) == 19
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
