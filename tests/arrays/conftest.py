"""Arrays of other libraries. Run by name, `pytest tests/arrays` or `nox -s arrays`, in an environment of their own."""

from pathlib import Path

import numpy as np
import pytest


def pytest_ignore_collect(collection_path, config):
    """Leave these tests to those who ask for them: without its libraries, each fails."""
    here = Path(__file__).parent
    asked = [(config.invocation_params.dir / arg.split("::")[0]).resolve() for arg in config.args]
    return None if any(path == here or here in path.parents for path in asked) else True


@pytest.fixture
def rng():
    return np.random.default_rng(20)
