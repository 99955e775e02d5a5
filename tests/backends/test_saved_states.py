"""States that an earlier commit saved load into today's layers, which then give the golden numbers.

`python -m tests.backends.test_saved_states NAME` writes the states of a framework. Write them again only if no released
version wrote the format they have.
"""

import sys
from pathlib import Path

import pytest

from posenc_backends.conformance.cases import backend_under_test, golden
from posenc_backends.conformance.tooling import LENGTHS, LayerCase

FOLDER = Path(__file__).with_name("saved_states")
CASES = {  # the folder of a state, and the golden case that has the parameters and the results of its layer
    "learned": "Learned, dim 3, length 60, float32",
    "rotary": "Rotary, head_dim 8, layout half, float32",
    "t5": "T5Bias, num_buckets 8, max_distance 6, float32",
    "kerple": "Kerple, variant logarithmic, float32",
    "attention_rotary": "MultiHeadAttention, Rotary, head_dim 4, layout half, float32",
    "attention_t5": "MultiHeadAttention, T5Bias, num_buckets 8, max_distance 6, float32",
}


def layer_case(on, name):
    """Return the golden case of a state."""
    return LayerCase(on, next(case for case in golden("modes") if case["name"] == CASES[name]))


@pytest.mark.parametrize("name", CASES)
def test_a_saved_state_gives_the_golden_numbers(name, on, request):
    if not hasattr(on.testing, "load_layer"):
        pytest.skip("The layers of this backend have no file format.")
    case, length = layer_case(on, name), LENGTHS[0]
    layer = on.testing.load_layer(case.make, FOLDER / request.config.getoption("--backend") / name)
    got = case.call(on.testing.eval_mode(layer), *case.arrays(length))
    found = case.measure(got, length, "result", case.dtype, contracts=False)
    assert found.passed, found


if __name__ == "__main__":
    tested = backend_under_test(sys.argv[1])
    for name in CASES:
        folder = FOLDER / sys.argv[1] / name
        folder.mkdir(parents=True, exist_ok=True)
        tested.testing.save_layer(layer_case(tested, name).layer(), folder)
