"""Configs of all models with one thing wrong: right, warned of, or refused in one short sentence."""

import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from posenc_core.huggingface import layer_types, load_rope
from posenc_core.huggingface.config import is_rotary_key

from ...errors import is_one_sentence
from .config_strategies import NUMBERS, mutated, without

WIDEST = 1024  # channels whose frequencies are computed


def answer(config):
    """Return the encoding of each layer type, whether a warning came with them, or the error."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            return [load_rope(config, layer_type=name) for name in layer_types(config) or (None,)], bool(caught)
        except (TypeError, ValueError) as error:
            return error, False
        finally:
            assert all(is_short(str(one.message)) for one in caught)


def is_short(message):
    return len(message) <= 300 and is_one_sentence(message)


def check_usable(change):
    got, _ = answer(change.after)
    if isinstance(got, Exception):
        assert is_short(str(got)), str(got)
        return
    for encoding in got:
        if encoding is not None and encoding.head_dim <= WIDEST:
            assert np.all(np.isfinite([float(one) for one in encoding.frequencies()]))


def check_types(change):
    """A value of the wrong type is refused, or nothing depends on it."""
    got, _ = answer(change.after)
    if change.path[-1] in NUMBERS and not isinstance(got, Exception):
        assert got == answer(without(change.before, change.path))[0]


def check_not_lost(change):
    """A key that is misspelt, moved or doubled has its effect, or a sentence says that it has none."""
    got, warned = answer(change.after)
    before, _ = answer(change.before)
    if not (isinstance(got, Exception) or isinstance(before, Exception) or warned or is_nameless(change)):
        assert got == before


def is_nameless(change):
    """Return whether the key went to where nothing says that it concerns the text model's RoPE."""
    part = next(iter(change.after.keys() - change.before.keys()), None)
    return part == "vision_config" or (part is not None and not is_rotary_key(change.path[-1]))


CHECKS = [
    (check_usable, ("absurd", "deleted", "misspelt", "moved", "null", "retyped", "twice")),
    (check_types, ("retyped",)),
    (check_not_lost, ("misspelt", "moved", "twice")),
]


@pytest.mark.parametrize("examples", [100, pytest.param(5000, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("check", "kinds"), CHECKS, ids=[check.__name__ for check, _ in CHECKS])
def test_a_config_with_one_thing_wrong(check, kinds, examples):
    @settings(max_examples=examples, suppress_health_check=list(HealthCheck))
    @given(mutated(kinds=kinds))
    def all_pass(change):
        check(change)

    all_pass()
