"""The layers of d2l and gluon-nlp, run from their own source beside ours, each in its framework.

Run by name, `pytest tests/d2l --backend torch`, or as a part of `nox -s "backend(torch)"`: they need d2l installed.
"""

import os
from pathlib import Path

import pytest

from .originals import ORIGINALS


def pytest_ignore_collect(collection_path, config):
    """Leave these tests to those who ask for them: without d2l, each fails. gluon-nlp is there for MXNet alone."""
    here = Path(__file__).parent
    asked = [(config.invocation_params.dir / arg.split("::")[0]).resolve() for arg in config.args]
    wanted = any(path == here or here in path.parents for path in asked)
    elsewhere = collection_path.stem == "test_gluon_nlp" and config.getoption("--backend") != "mxnet"
    return True if elsewhere or not wanted else None


@pytest.fixture(scope="session")
def original(on, request):
    """d2l's layers on the framework of the backend under test."""
    name = request.config.getoption("--backend")
    backend = os.environ.get("KERAS_BACKEND", "tensorflow") if name == "keras" else name
    framework = "tensorflow" if (name, backend) == ("keras", "tensorflow") else name
    if framework not in ORIGINALS:
        known = "torch, keras (on TensorFlow), paddle, mxnet or jax"
        raise pytest.UsageError(f"`--backend` must be {known}, for which d2l has layers, got {name} on {backend}.")
    return ORIGINALS[framework](on)


@pytest.fixture(params=["theirs", "ours"])
def whose(request, original):
    """Return whose layers d2l uses under its names, theirs or ours."""
    if request.param == "theirs":
        yield request.param
    else:
        with original.replace_layers():
            yield request.param
