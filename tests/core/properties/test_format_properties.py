"""Encodings written in another format are read as the same encoding, or refused in one short sentence."""

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posenc_core import Rotary
from posenc_core.huggingface import load_rope

from ..format_writers import WRITERS, assert_same, written_or_refused
from .numbers import BASES
from .rotary_strategies import layout_fields, scalings

PLAIN = {  # numbers that every format can write, so that not only refusals are tested
    "factor": st.sampled_from([1, 1.5, 2, 8, 40.0]),
    "beta_fast": st.sampled_from([32, 48]),
    "beta_slow": st.sampled_from([1, 2]),
    "low_freq_factor": st.just(1),
    "high_freq_factor": st.sampled_from([1, 4]),
    "original_max_position_embeddings": st.sampled_from([4096, 8192]),
}
LOSSES = {"gguf": 1e-5, "megatron": 1e-12, "params": 1e-12}  # float32 rounds divisors, and frequencies are their powers


@st.composite
def encodings(draw):
    pairs, layout = draw(layout_fields())
    scaling = draw(st.none() | st.one_of(list(scalings(pairs).values())))
    if scaling is not None and draw(st.booleans()):
        names = {field.name for field in fields(scaling)} & PLAIN.keys()
        scaling = replace(scaling, **{name: draw(PLAIN[name]) for name in sorted(names)})
    base = draw(BASES | st.sampled_from([10000, 500000.0, 1e6]))
    return Rotary(**layout, base=base, scaling=scaling)


@pytest.mark.parametrize("target", WRITERS)
@given(encoding=encodings())
def test_encodings_return_the_same_or_are_refused(target, encoding):
    written = written_or_refused(target, encoding)
    if written is not None:
        assert_same(load_rope(written), encoding, error=LOSSES[target])
