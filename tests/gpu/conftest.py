"""Count the launches of the kernel."""

import pytest

from posenc_backends.torch.rotation import gpu


@pytest.fixture
def launches(monkeypatch):
    """A list with the number of tensors of each launch so far, 1 or 2."""
    if not gpu.HAS_TRITON:
        pytest.fail("These tests need Triton: run `nox -s gpu`.")
    from posenc_backends.torch.rotation import triton_kernel

    launch, counted = triton_kernel.launch, []

    def counting(tokens, *arguments):
        launched = launch(tokens, *arguments)
        counted.extend([len(tokens)] * launched)
        return launched

    monkeypatch.setattr(triton_kernel, "launch", counting)
    return counted
