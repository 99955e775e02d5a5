"""Inputs that the fuzz session found with arrays of some framework stay mended in all."""

import pytest

from ..fuzz.found import OF_BACKENDS
from ..fuzz.names import wrong


@pytest.mark.parametrize("text", OF_BACKENDS)
def test_it_ends_in_a_result_or_one_sentence(request, text):
    assert wrong(text, request.config.getoption("--backend")) is None
