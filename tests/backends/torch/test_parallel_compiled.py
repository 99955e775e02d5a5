"""Tensor-parallel attention, compiled, with every rotary and every scoring encoding, in pairs."""

import pytest

from tests.backends.torch.test_parallel import PAIRS, assert_compiled_in_parallel
from tests.many_devices import many_devices

CHECKS = {}
pytestmark = pytest.mark.slow  # one pair of each kind is in `test_parallel.py`


def check(function):
    CHECKS[function.__name__] = function
    return function


@many_devices(
    "PyTorch",
    "tensor parallel `MultiHeadAttention` under `torch.compile`, forward and backward: every rotary and every scoring "
    "encoding, one pair with Inductor and all others with `aot_eager`",
)
@check
def every_encoding_compiled(mesh):
    (first, *others) = PAIRS
    assert_compiled_in_parallel([first], mesh, backend="inductor")
    assert_compiled_in_parallel(others, mesh)


@pytest.mark.parametrize("name", CHECKS)
def test_two_processes(faults, name):
    assert not faults[name], faults[name]
