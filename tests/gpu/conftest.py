"""Count the launches of the kernel."""

import pytest

from posenc_backends.torch.rotation import gpu


@pytest.fixture
def launches(monkeypatch):
    """A list with the number of tensors of each launch so far, 1 or 2."""
    if not gpu.HAS_TRITON:
        pytest.fail("These tests need Triton: run `nox -s gpu`.")
    from posenc_backends.torch.rotation import triton_launch

    launch, counted = triton_launch.Plan.launch, []

    def counting(plan, *given):
        counted.append(1 if given[1] is given[3] else 2)
        launch(plan, *given)

    monkeypatch.setattr(triton_launch.Plan, "launch", counting)
    return counted
