"""Encodings and scalings are values: JSON and `repr` reproduce them with any fields."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc_core import DualChunk, LeakyReRoPE, QueryScale, ReRoPE, SelfExtend
from posenc_core._values import Value
from posenc_core.encodings import Encoding
from posenc_core.encodings.notation import parse

from ...catalogue import VALUES
from .rotary_strategies import FLOAT32, SCALINGS
from .strategies import ADDITIVE, IN_ATTENTION, drawn, each

COUNTS = st.integers(1, 2**20)
REMAPPED = {
    "SelfExtend": st.builds(SelfExtend, rotary=FLOAT32, window=COUNTS, group_size=COUNTS),
    "ReRoPE": st.builds(ReRoPE, rotary=FLOAT32, window=COUNTS),
    "LeakyReRoPE": st.builds(LeakyReRoPE, rotary=FLOAT32, window=COUNTS, factor=st.floats(1, 2**10)),
    "DualChunk": st.builds(DualChunk, rotary=FLOAT32, chunk_size=COUNTS.map(lambda n: n + 2**20), local_size=COUNTS),
}
FACTORS = drawn(QueryScale, length=st.integers(2, 2**20), scale=st.floats(2.0**-10, 0.5), start=st.sampled_from([0, 1]))
KINDS = each(Encoding) | ADDITIVE | IN_ATTENTION | SCALINGS | REMAPPED | {"QueryScale": FACTORS}
KINDS["Rotary of float32"] = FLOAT32


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=15)
@given(st.data())
def test_json_and_repr_keep_a_value(kind, data):
    value = data.draw(KINDS[kind])
    for again in (Value.from_dict(json.loads(json.dumps(value.to_dict()))), eval(repr(value), dict(VALUES))):
        assert again == value
        assert type(again) is type(value)
        assert (hash(again), repr(again), again.to_dict()) == (hash(value), repr(value), value.to_dict())
    if isinstance(value, Encoding):
        assert parse(repr(value)) == value


def test_every_class_is_tested():
    assert VALUES.keys() == KINDS.keys() - {"Rotary of float32"}
