"""The measure itself: what is off has to be seen."""

import copy

import numpy as np
import pytest

from posenc_backends.conformance.cases import backend_under_test, golden
from posenc_backends.conformance.checks import additive as additive_checks
from posenc_backends.conformance.checks import attention as attention_checks
from posenc_backends.conformance.checks import scoring as scoring_checks
from posenc_backends.conformance.checks import tables as checks
from posenc_backends.conformance.checks.tables import Measurement, ulps

ON = backend_under_test("numpy")


def test_errors_are_counted_in_units_in_the_last_place():
    one = np.float32(1)
    assert ulps(one, one) == 0
    assert ulps(np.nextafter(one, np.float32(2)), one) == 1
    assert ulps(np.nextafter(one, np.float32(0)), one) == 0.5
    assert ulps([1.0, 1.0 + 2.0**-7], [1.0, 1.0], dtype="bfloat16") == 1
    assert ulps([1.0 + 2.0**-52], [1.0], dtype="float64") == 1
    assert ulps([2.0**-24], [0.0]) > 1e6
    assert ulps([1e-7], [0.0], scale=[1.0]) < 1


def test_what_is_no_number_or_of_another_shape_does_not_pass():
    assert not Measurement(ulps([np.nan], [1.0]), 8.0).passed
    assert not Measurement(1.5, 1.0).passed
    assert Measurement(1.0, 1.0).passed
    with pytest.raises(ValueError, match="Expected shape"):
        ulps([1.0], [[1.0]])


@pytest.mark.parametrize(
    ("check", "name", "key"),
    [
        (checks.additive_table, "sinusoidal", "table"),
        (checks.additive_table, "seeds", "table"),
        (additive_checks.table, "additive_tables", "table"),
        (checks.rotary_table, "rope_models", "cos_sin"),
        (checks.rotary_table, "rope_models", "frequencies"),
        (checks.forward, "addition", "result"),
        (checks.forward, "rotation", "result"),
        (checks.bias, "alibi", "bias"),
        (attention_checks.attention, "attention", "result"),
        (scoring_checks.scored, "scoring_constants", "bias"),
    ],
    ids=lambda given: getattr(given, "__name__", given),
)
def test_a_golden_number_that_is_changed_a_little_fails(check, name, key):
    golden_case = copy.deepcopy(
        next(golden_case for golden_case in golden(name) if golden_case.get("dtype", "float32") == "float32")
    )
    assert check(ON, golden_case).passed
    row = golden_case[key]
    while isinstance(row[-1], list):
        row = row[-1]
    row[-1] += 2e-6 * np.abs(golden_case[key]).max() + 1e-30
    assert not check(ON, golden_case).passed


def test_a_layout_swapped_or_a_position_off_by_one_fails():
    golden_case = next(golden_case for golden_case in golden("rotation") if golden_case["positions"][0] == 0)
    swapped = golden_case | {"encoding": golden_case["encoding"] | {"layout": "half"}}
    shifted = golden_case | {"positions": [position + 1 for position in golden_case["positions"]]}
    assert golden_case["encoding"]["layout"] == "interleaved"
    assert not checks.forward(ON, swapped).passed
    assert not checks.forward(ON, shifted).passed


def test_a_bias_of_learned_numbers_that_is_a_little_steeper_fails():
    for golden_case in golden("position_scoring"):
        if golden_case["dtype"] == "float32":
            assert scoring_checks.scored(ON, golden_case).passed
            steeper = golden_case | {"bias": (np.array(golden_case["bias"]) * (1 + 2e-6)).tolist()}
            assert not scoring_checks.scored(ON, steeper).passed
