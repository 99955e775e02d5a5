import pytest

from posenc_backends.conformance.frameworks.torch import MODES


@pytest.mark.mode
def test_packages_of_optional_modes_are_installed():
    assert "onnx" in MODES
