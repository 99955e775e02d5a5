import pytest

from posenc_backends.conformance.frameworks.torch import MODES


@pytest.mark.mode
def test_what_modes_ask_for_is_installed():
    assert "onnx" in MODES
