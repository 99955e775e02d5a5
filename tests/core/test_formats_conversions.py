"""Conversions that went wrong: the right one is the same rotation, the wrong one is another, or is refused by name."""

import numpy as np
import pytest

from posenc_core.huggingface import load_rope

from ..errors import rejects
from .conversions import CONVERSIONS


def load(config, layer_type):
    """Load one type of layers where the config has several."""
    typed = isinstance(config, dict) and any("sliding_window" in key or "local" in key for key in config)
    return load_rope(config, layer_type=layer_type if typed else None)


@pytest.mark.parametrize("name", CONVERSIONS)
def test_the_right_conversion_is_the_same_rotation_and_the_wrong_one_is_not(name):
    case = CONVERSIONS[name]
    source, right = (load(config, case.layer_type) for config in (case.source, case.right))
    assert (right.head_dim, right.rotary_channels, right.layout) == (
        source.head_dim, source.rotary_channels, source.layout)  # fmt: skip
    np.testing.assert_array_equal(right.frequencies(), source.frequencies())
    assert right.attention_factor == source.attention_factor
    if case.refused:
        with rejects(ValueError, case.keys[0]):
            load(case.wrong, case.layer_type)
        return
    wrong = load(case.wrong, case.layer_type)
    assert not np.array_equal(wrong.frequencies(), source.frequencies()) or (
        wrong.attention_factor != source.attention_factor
    )
