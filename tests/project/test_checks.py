"""The measurement itself: wrong numbers must fail."""

import copy

import numpy as np
import pytest

from posenc_backends.conformance.cases import backend_under_test, golden
from posenc_backends.conformance.checks import attention, scoring, tables
from posenc_backends.conformance.errors import Measurement, ulps

ON = backend_under_test("numpy")


def test_errors_are_in_ulp():
    one = np.float32(1)
    assert ulps(one, one) == 0
    assert ulps(np.nextafter(one, np.float32(2)), one) == 1
    assert ulps(np.nextafter(one, np.float32(0)), one) == 0.5
    assert ulps([1.0, 1.0 + 2.0**-7], [1.0, 1.0], dtype="bfloat16") == 1
    assert ulps([1.0 + 2.0**-52], [1.0], dtype="float64") == 1
    assert ulps([2.0**-24], [0.0]) > 1e6
    assert ulps([1e-7], [0.0], scale=[1.0]) < 1


def test_nan_and_other_shapes_do_not_pass():
    assert not Measurement(ulps([np.nan], [1.0]), 8.0).passed
    assert not Measurement(1.5, 1.0).passed
    assert Measurement(1.0, 1.0).passed
    with pytest.raises(ValueError, match="Expected shape"):
        ulps([1.0], [[1.0]])


@pytest.mark.parametrize(
    ("check", "name", "key"),
    [
        (tables.additive_table, "sinusoidal", "table"),
        (tables.additive_table, "seeds", "table"),
        (tables.additive_table, "additive_tables", "table"),
        (tables.rotary_table, "rope_models", "cos_sin"),
        (tables.rotary_table, "rope_models", "frequencies"),
        (tables.forward, "addition", "result"),
        (tables.forward, "rotation", "result"),
        (tables.bias, "alibi", "bias"),
        (attention.attention, "attention", "result"),
        (scoring.scored, "scoring_constants", "bias"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_a_slightly_changed_golden_number_fails(check, name, key):
    golden_case = copy.deepcopy(next(each for each in golden(name) if each.get("dtype", "float32") == "float32"))
    assert check(ON, golden_case).passed
    row = golden_case[key]
    while isinstance(row[-1], list):
        row = row[-1]
    row[-1] += 2e-6 * np.abs(golden_case[key]).max() + 1e-30
    assert not check(ON, golden_case).passed


def test_a_swapped_layout_or_a_position_off_by_one_fails():
    golden_case = next(each for each in golden("rotation") if each["positions"][0] == 0)
    swapped = golden_case | {"encoding": golden_case["encoding"] | {"layout": "half"}}
    shifted = golden_case | {"positions": [position + 1 for position in golden_case["positions"]]}
    assert golden_case["encoding"]["layout"] == "interleaved"
    assert not tables.forward(ON, swapped).passed
    assert not tables.forward(ON, shifted).passed


def test_a_slightly_steeper_learned_bias_fails():
    for golden_case in golden("position_scoring"):
        if golden_case["dtype"] == "float32":
            assert scoring.scored(ON, golden_case).passed
            steeper = golden_case | {"bias": (np.array(golden_case["bias"]) * (1 + 2e-6)).tolist()}
            assert not scoring.scored(ON, steeper).passed
