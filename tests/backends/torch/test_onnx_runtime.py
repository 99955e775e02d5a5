"""The example of an ONNX model that `posenc check` judges; ONNX Runtime is installed beside PyTorch."""

from posenc_backends.cli.main import main


def test_the_operator_of_onnx_conforms(capsys):
    path = "docs/howto/programs/rope_onnx.py:rope"
    assert main(["check", path, "--longest", "4096"]) == 0, capsys.readouterr().out
    assert main(["check", path, "--longest", "4096", "--spec", "Rotary(head_dim=64, layout='interleaved')"]) == 1
    assert "layout swapped" in capsys.readouterr().out
