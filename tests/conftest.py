import os
import warnings

import numpy as np
import pytest

from posenc_backends import load
from posenc_backends.conformance.cases import backend_under_test
from posenc_backends.conformance.errors import BackendUnderTest


def pytest_addoption(parser):
    parser.addoption(
        "--backend", default="numpy", help="the room to test: numpy, strict, torch, keras, paddle, mxnet or jax"
    )
    parser.addoption(
        "--share",
        default="1/1",
        help="which part of the tests that all rooms have, like 2/3; the others count as slow",
    )


def pytest_configure(config):
    """Let pass the warnings that the framework under test itself emits: on import, and as its room names them."""
    if config.getoption("--backend") == "jax":  # read when JAX looks for its devices
        os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        testing = backend_under_test(config.getoption("--backend")).testing
    for line in testing.WARNINGS:
        config.addinivalue_line("filterwarnings", line)


def pytest_ignore_collect(collection_path, config):
    """What one framework alone can do is tested in that framework's environment."""
    folder = config.rootpath / "tests" / "backends"
    if collection_path.parent == folder and collection_path.is_dir():
        return collection_path.name != config.getoption("--backend")
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Leave out what is slow, before pytest selects by marks: of tests that all rooms have, those whose turn it is not."""
    backends, (part, parts) = config.rootpath / "tests" / "backends", map(int, config.getoption("--share").split("/"))
    shared = [item for item in items if item.path.parent == backends and not {"slow", "whole"} & {*item.keywords}]
    for number, item in enumerate(shared, start=1):
        if number % parts != part % parts:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def on(request) -> BackendUnderTest:
    """The room under test and what it tells about its framework."""
    return backend_under_test(request.config.getoption("--backend"))


@pytest.fixture(scope="session")
def backend(on):
    return on.backend


@pytest.fixture
def to_backend(backend):
    """Makes an array of the room from numbers; float32 unless they are whole."""

    def make(numbers, dtype=None):
        array = np.asarray(numbers)
        kind = dtype or (np.float32 if array.dtype.kind == "f" else np.int32)
        return backend.from_numpy(array.astype(kind))

    return make


@pytest.fixture(params=["numpy", "strict"])
def xp(request):
    """An array library of the standard: NumPy, and the strict one that has nothing else."""
    return load(request.param).namespace
