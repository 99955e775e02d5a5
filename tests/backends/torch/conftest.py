"""A fixture that starts processes of PyTorch once per test file."""

import pytest

from ...processes import faults_of


@pytest.fixture(scope="module")
def faults(request, tmp_path_factory):
    """The error of each check in the module's `CHECKS`, run in `PROCESSES` processes, or two; "" if it passed."""
    module = request.module
    count = getattr(module, "PROCESSES", 2)
    return faults_of(request.path, module.CHECKS, count, tmp_path_factory.mktemp("processes"))
