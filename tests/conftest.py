import builtins
import gc
import os
import warnings
from importlib.util import find_spec

import numpy as np
import pytest

from posenc_backends import HOST_NAMES, NAMES, load
from posenc_backends.conformance.cases import backend_under_test
from posenc_backends.conformance.errors import BackendUnderTest


def pytest_addoption(parser):
    parser.addoption("--backend", default="numpy", help=f"the backend to test: {', '.join([*HOST_NAMES, *NAMES])}")
    parser.addoption(
        "--share", default="1/1", help="the part of the common suite to run, like 2/3; the other tests are marked slow"
    )
    parser.addoption(
        "--device",
        help="the device of all arrays, such as cuda; tests of one framework, which name theirs, are left out",
    )


def split_cpu(framework):
    """Make two devices of the CPU, before the framework of Keras looks for its devices."""
    if framework == "jax":
        os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count=2 {os.environ.get('XLA_FLAGS', '')}"
    elif framework == "tensorflow" and find_spec("tensorflow"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from tensorflow import config

        halves = [config.LogicalDeviceConfiguration() for _ in range(2)]
        config.set_logical_device_configuration(config.list_physical_devices("CPU")[0], halves)


def pytest_configure(config):
    """Ignore the warnings of the framework under test: on import, and those that its test module lists."""
    if config.getoption("--backend") == "jax":  # read when JAX looks for its devices
        os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count=8 {os.environ.get('XLA_FLAGS', '')}"
    if config.getoption("--backend") == "keras":
        split_cpu(os.environ.get("KERAS_BACKEND", "tensorflow"))
    if config.getoption("dist", "no") != "no" and not hasattr(config, "workerinput"):
        return  # the processes that xdist starts import the framework; this one runs no test
    gc.disable()  # until tests are collected: modules and tests are no garbage
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            testing = backend_under_test(config.getoption("--backend"), config.getoption("--device")).testing
        except ValueError as error:
            raise pytest.UsageError(str(error)) from error
    for line in testing.WARNINGS:
        config.addinivalue_line("filterwarnings", line)


ON_CPU = {"test_benchmarks.py", "test_book.py", "test_compiled_kernel.py", "test_kernels.py"}


def pytest_ignore_collect(collection_path, config):
    """Ignore the native tests of other frameworks, and on a given device those of all, and of what is of the CPU."""
    folder, device = config.rootpath / "tests" / "backends", config.getoption("--device")
    if collection_path.parent == folder and collection_path.is_dir():
        return collection_path.name != config.getoption("--backend") or device is not None
    return True if device not in (None, "cpu") and collection_path.name in ON_CPU else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Mark the tests of the common suite outside of `--share` as slow, before pytest selects by marks."""
    backends, (part, parts) = config.rootpath / "tests" / "backends", map(int, config.getoption("--share").split("/"))
    shared = [item for item in items if item.path.parent == backends and not {"slow", "whole"} & {*item.keywords}]
    for number, item in enumerate(shared, start=1):
        if number % parts != part % parts:
            item.add_marker(pytest.mark.slow)


def pytest_collection_finish():
    """Look less often for garbage, and not among modules and tests: a tenth of the time of compilers goes into that."""
    gc.freeze()
    gc.set_threshold(10_000)
    gc.enable()


def pytest_runtest_setup():
    """Forget the last result of an example, which doctest leaves in `builtins`: Paddle's compiler compares those."""
    vars(builtins).pop("_", None)


@pytest.fixture(scope="session")
def on(request) -> BackendUnderTest:
    """The backend under test, with the module that tests it."""
    return backend_under_test(request.config.getoption("--backend"))


@pytest.fixture(scope="session")
def backend(on):
    """The module of the backend under test."""
    return on.backend


@pytest.fixture
def traced(on):
    """A compiler for tests of what is traced; of PyTorch, it generates no machine code, which golden cases run."""
    return getattr(on.testing, "traced_graph", None) or getattr(on.testing, "compiled", None)


@pytest.fixture
def to_backend(backend):
    """A function that makes an array of the framework: float32, or int32 from integers and booleans."""

    def make(numbers, dtype=None):
        array = np.asarray(numbers)
        dtype = dtype or (np.float32 if array.dtype.kind == "f" else np.int32)
        return backend.from_numpy(array.astype(dtype))

    return make


@pytest.fixture(params=["numpy", "strict"])
def xp(request):
    """A namespace of the array API standard: NumPy, and array-api-strict, which has nothing else."""
    return load(request.param).namespace
