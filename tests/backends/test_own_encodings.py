"""The cases that `posenc report --encoding` runs, in every backend."""

import pytest

from posenc_backends.conformance.own import cases_of_encoding
from posenc_core import Alibi, Cope, FoPE, MixedRotary, Rotary, Sinusoidal

ENCODINGS = [  # one of each layer, with content, parameters, rows that are mixed, and axes
    Sinusoidal(dim=8),
    Rotary(head_dim=8, layout="half"),
    FoPE(head_dim=8, layout="half", length=20, num_heads=2),
    MixedRotary(head_dim=8, layout="half", num_heads=2),
    Alibi(num_heads=2),
    Cope(num_heads=2, head_dim=8, max_position=3),
]
CASES = [
    case for encoding in ENCODINGS for case in cases_of_encoding(encoding)
    if case.check != "compiled" or case.encoding == "FoPE"
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_encoding_is_the_same_as_in_numpy(on, case):
    if case.check in on.known_failures:
        pytest.skip(on.known_failures[case.check])
    assert case.run(on).passed
