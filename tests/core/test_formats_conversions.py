"""Public conversions that went wrong, reduced to the keys of RoPE: what was lost is named, the right one is the same.

`cases/conversions.json` has the thread of each. A converted side is written as the config that it amounts to.
"""

import numpy as np
import pytest

from posenc_core.analysis import compare_rope
from posenc_core.huggingface import load_rope

from ..errors import rejects
from .load_cases import load_cases

CASES = load_cases("conversions")


def load(config, layer_type):
    """Load one type of layers where the config has several."""
    typed = isinstance(config, dict) and any("sliding_window" in key or "local" in key for key in config)
    return load_rope(config, layer_type=layer_type if typed else None)


@pytest.mark.parametrize("name", CASES["other_formats"])
def test_the_right_conversion_is_the_same_rotation_and_the_wrong_one_is_not(name):
    case = CASES["other_formats"][name]
    source, right = (load(case[config], case["layer_type"]) for config in ("source", "right"))
    sizes = [(one.head_dim, one.rotary_channels, one.layout) for one in (right, source)]
    assert sizes[0] == sizes[1]
    np.testing.assert_array_equal(right.frequencies(), source.frequencies())
    assert right.attention_factor == source.attention_factor
    if case["refused"]:
        with rejects(ValueError, case["refused"]):
            load(case["wrong"], case["layer_type"])
        return
    wrong = load(case["wrong"], case["layer_type"])
    assert not np.array_equal(wrong.frequencies(), source.frequencies()) or (
        wrong.attention_factor != source.attention_factor
    )


@pytest.mark.filterwarnings("ignore:`factor` 40 is used")
@pytest.mark.parametrize(("a", "b", "keys"), CASES["lost_keys"].values(), ids=CASES["lost_keys"])
def test_the_key_that_went_wrong_is_named(a, b, keys):
    for one, other in ((a, b), (b, a)):
        found = compare_rope(one, other)
        assert not found.same
        named = [cause.key for layers in found.layers for cause in layers.causes]
        assert list(dict.fromkeys(named)) == keys
        assert compare_rope(one, one).same
