"""Inputs that the fuzz session found with arrays of some framework stay mended in all."""

import numpy as np
import pytest

from posenc_core import counted_from

from ..fuzz.found import OF_BACKENDS
from ..fuzz.names import wrong


@pytest.mark.parametrize("text", OF_BACKENDS)
def test_it_ends_in_a_result_or_one_sentence(request, text):
    assert wrong(text, request.config.getoption("--backend")) is None


@pytest.mark.parametrize("length", [None, np.float32(3.5), np.float32(3), np.bool_(True)], ids=repr)
def test_only_integers_are_lengths(backend, length):
    """MXNet counted to no length, and most libraries to a real number."""
    given = None if length is None else backend.from_numpy(np.asarray(length))
    with pytest.raises(TypeError, match=r"`length` must be (an integer|integers), got"):
        counted_from(backend.from_numpy(np.array([0, 5], np.int32)), given)


def test_scalars_of_the_framework_are_lengths_from_zero(backend):
    """Four frameworks counted no positions for negative ones; two others refused all scalars."""
    starts = backend.from_numpy(np.array([0, 5], np.int32))
    of = {length: backend.from_numpy(np.asarray(length, np.int32)) for length in (-3, 0, 3)}
    with pytest.raises(ValueError, match=r"`length` must be at least 0, got .*-3"):
        counted_from(starts, of[-3])
    assert backend.to_numpy(counted_from(starts, of[3])).tolist() == [[0, 1, 2], [5, 6, 7]]
    assert tuple(counted_from(starts, of[0]).shape) == (2, 0)
