"""Encodings are values: comparable, hashable, and reproduced by `repr` and JSON."""

import json
import pickle
import re
from dataclasses import FrozenInstanceError, dataclass, replace
from decimal import Decimal, FloatOperation, localcontext

import numpy as np
import pytest

from posenc_core import (
    Alibi,
    AttentionFactor,
    AxialRotary,
    Cope,
    Integer,
    LongRoPE,
    MultimodalRotary,
    RandomFourierFeatures,
    Rotary,
    Scaling,
    Sine,
    SwinV2Bias,
    YaRN,
)
from posenc_core.encodings import Encoding
from posenc_core.encodings.examples import examples
from posenc_core.encodings.notation import parse
from posenc_core.layers.encoding_bytes import from_bytes

from ..catalogue import VALUES
from ..errors import rejects


@dataclass(frozen=True, kw_only=True)
class Halved(Scaling):
    """A scaling for these tests: divides every frequency by 2, or by 4 past 100 tokens."""

    seq_len: int = 0

    def at(self, seq_len):
        return replace(self, seq_len=seq_len)

    def scaled_frequencies(self, frequencies, *, base):
        return tuple(frequency / (4 if self.seq_len > 100 else 2) for frequency in frequencies)

    def exact_attention_factor(self):
        return Decimal("1.25")


ENCODINGS = [  # any fields are drawn in `properties/test_value_properties.py`
    *examples(std=0.5),
    Sine(dim=2, frequencies=(1.0, 0.1)),
    Sine(dim=2, frequencies="endpoint", base=500.5),
    RandomFourierFeatures(dim=6, scale=0.5, seed=2**32 - 1, num_axes=3, order="sin_first"),
    Rotary(head_dim=8, layout="half", rotary_dim=4, scaling=Halved(seq_len=7)),
    Rotary(head_dim=8, layout="half", placement="trail", direction="inverse", precision="float32"),
    Rotary(head_dim=8, layout="half", frequencies=[1.0, 0.5, 0.25, 0.1], scaling=AttentionFactor(attention_factor=1.5)),
    Rotary(head_dim=4, layout="half", scaling=YaRN(factor=4.0, original_max_position_embeddings=4096, truncate=False)),
    Rotary(
        head_dim=4,
        layout="half",
        scaling=LongRoPE(
            short_factor=[1.0, 1.5], long_factor=(2.0, 4.0), original_max_position_embeddings=4096, factor=2
        ),
    ),
    MultimodalRotary(head_dim=8, layout="half", sections=[2, 1, 1], frequencies=(1.0, 0.5, 0.25, 0.1)),
    AxialRotary(head_dim=8, layout="interleaved", axes_dims=[4, 4], base=[100, 1000]),
    SwinV2Bias(num_heads=3, window=[8, 6], trained_window=[4, 4], hidden=16, std=0.5),
    Cope(num_heads=2, head_dim=4, max_position=np.int64(64)),
]


@pytest.mark.parametrize("encoding", ENCODINGS, ids=str)
def test_json_keeps_an_encoding(encoding):
    again = Encoding.from_dict(json.loads(json.dumps(encoding.to_dict())))
    assert again == encoding
    assert hash(again) == hash(encoding)


@pytest.mark.parametrize("encoding", ENCODINGS, ids=str)
def test_repr_evaluates(encoding):
    assert eval(repr(encoding), VALUES | {"Halved": Halved}) == encoding
    assert parse(repr(encoding)) == encoding


def test_numpy_scalars_become_numbers():
    given = Rotary(head_dim=np.int64(8), layout="half", base=np.float32(500000))
    assert given == Rotary(head_dim=8, layout="half", base=500000.0)
    assert json.loads(json.dumps(given.to_dict())) == given.to_dict()
    assert Alibi(num_heads=np.int8(4)).bias([1], [0]).shape == (4, 1, 1)


def test_the_length_that_a_model_is_for_changes_no_number():
    """It is kept, but two encodings that differ in it alone are equal."""
    plain = Rotary(head_dim=8, layout="half")
    loaded = replace(plain, max_len=np.int32(4096))
    assert loaded == plain
    assert hash(loaded) == hash(plain)
    for again in (
        eval(repr(loaded)),
        parse(repr(loaded)),
        Encoding.from_dict(json.loads(json.dumps(loaded.to_dict()))),
        pickle.loads(pickle.dumps(loaded)),
        replace(loaded, scaling=YaRN(factor=4.0, original_max_position_embeddings=1024)).at(9),
    ):
        assert again.max_len == again.longest == 4096
    assert "max_len" not in repr(plain)
    assert "max_len" not in plain.to_dict()  # as those of before the field


def test_a_replaced_head_dim_rotates_all_channels():
    assert replace(Rotary(head_dim=64, layout="half"), head_dim=128).frequencies().shape == (64,)


def test_arrays_and_lists_become_tuples_of_numbers():
    given = AxialRotary(head_dim=8, layout="half", axes_dims=np.array([4, 4]), base=np.float32(100))
    assert given == AxialRotary(head_dim=8, layout="half", axes_dims=(4, 4), base=100)
    assert json.loads(json.dumps(given.to_dict())) == given.to_dict()
    sections = MultimodalRotary(head_dim=8, layout="half", sections=[np.int64(2), 1, 1])
    assert repr(sections) == "MultimodalRotary(head_dim=8, layout='half', sections=(2, 1, 1))"
    assert hash(Sine(dim=2, frequencies=[1.0, 0.5])) == hash(Sine(dim=2, frequencies=(1.0, 0.5)))


def test_no_dict_is_refused():
    with rejects(TypeError, "data", "None"):
        Encoding.from_dict(None)


def test_the_decimal_context_of_the_caller_does_not_matter():
    with localcontext() as context:
        context.prec, context.traps[FloatOperation] = 3, True
        scaled = Rotary(head_dim=8, layout="half", scaling=YaRN(factor=4.5, original_max_position_embeddings=4096))
        inside = [
            scaled.cos_sin([12345])[0].tobytes(),
            Rotary(head_dim=2, layout="half", frequencies=[0.3]).frequencies(),
        ]
    assert inside == [scaled.cos_sin([12345])[0].tobytes(), [0.3]]


def test_a_copy_keeps_custom_frequencies():
    given = Rotary(head_dim=4, layout="half", frequencies=np.array([1.0, 0.3], np.float32))
    assert given.own == (1.0, np.float32(0.3).item())
    assert replace(given, layout="interleaved").own == given.own
    assert replace(given, frequencies=None).own is None
    assert given != Rotary(head_dim=4, layout="half", frequencies=(1.0, 0.3))


def test_encodings_may_be_subclassed():
    @dataclass(frozen=True, kw_only=True)
    class Narrow(Rotary):
        """A subclass by a user."""

    assert Rotary.from_dict(Rotary(head_dim=8, layout="half").to_dict()) == Rotary(head_dim=8, layout="half")


def test_abstract_classes_cannot_be_instantiated():
    with pytest.raises(TypeError, match="abstract"):
        Scaling()


def test_encodings_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        Integer(dim=2).dim = 3
    with pytest.raises(TypeError, match="takes its arguments by name"):
        Integer(2)


def nested(depth):
    """Return data whose scalings have scalings."""
    data = {"kind": "Integer", "dim": 1}
    for _ in range(depth):
        data = {"kind": "Rotary", "scaling": data}
    return data


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"kind": "Sinusodial"}, "`kind` must be a class of posenc, like Sinusoidal, "),
        ({}, "got None."),
        ({"kind": "a" * 10**6}, " …."),
        ({"kind": "Integer", "dim": 2, "base": 3}, "`base` is not a field of Integer; its fields are dim."),
        ({"kind": "Integer"}, "`dim` must be given to Integer, got {'kind': 'Integer'}."),
        ({"kind": []}, "`kind` must be a class of posenc, like "),
        (nested(100_000), "`data` must be nested at most 16 deep"),
        ({"kind": "Integer", "dim": [nested(900)]}, "`data` must be nested at most 16 deep"),
    ],
)
def test_invalid_data_is_rejected(data, message):
    with pytest.raises(ValueError, match=re.escape(message)) as raised:
        Encoding.from_dict(data)
    assert len(str(raised.value)) <= 300


@pytest.mark.parametrize("text", ["Integer", "Integer(2)", "f()()", "Integer(dim=open('x'))", "Integer(dim=2"])
def test_invalid_texts_are_rejected(text):
    with pytest.raises(ValueError, match=r"`encoding` must be written like 'Sinusoidal\(dim=32\)'"):
        parse(text)


@pytest.mark.parametrize(("text", "name"), [("Integer", "Integer"), ("Rotary(head_dim=64, layout=half)", "half")])
def test_a_name_without_quotes_or_parentheses_is_named(text, name):
    with pytest.raises(ValueError, match=f": `{name}` needs quotes as a text, or parentheses as a class\\.$"):
        parse(text)


NO_JSON = (b"", b"{", b"[" * 100_000, b"\xff", b"9" * 5000, b'{"dim": 3}', b'{"kind": []}', b'{"kind": "Integer"}')


@pytest.mark.parametrize("content", NO_JSON, ids=lambda content: repr(content[:9]))
def test_bytes_of_no_encoding_in_a_file_of_weights_are_rejected(content):
    with pytest.raises(ValueError, match=r"`(layer\.encoding|data|kind|dim)` must be ") as raised:
        from_bytes("layer.encoding", np.frombuffer(content, np.uint8))
    assert len(str(raised.value)) <= 300


@pytest.mark.parametrize("array", [np.full(3, np.nan), np.array("a"), None, np.ones((2, 2), np.uint8)], ids=repr)
def test_arrays_of_no_bytes_in_a_file_of_weights_are_rejected(array):
    with pytest.raises(ValueError, match=r"`layer\.encoding` must be an encoding as it is saved"):
        from_bytes("layer.encoding", array)


def test_a_keyword_that_is_given_twice_is_rejected():
    with pytest.raises(ValueError, match="`dim` is given twice"):
        parse("Integer(dim=4, dim=8)")


@pytest.mark.parametrize("text", ["+".join("1" * 10_000), "(" * 5000, "Rotary(scaling=" * 2000 + ")" * 2000])
def test_deeply_nested_texts_are_rejected(text):
    with pytest.raises(ValueError, match="`encoding` must be written like"):
        parse(text)


def test_a_scaling_lowers_frequencies_and_multiplies_the_table():
    plain = Rotary(head_dim=8, layout="half")
    scaled = replace(plain, scaling=Halved())
    assert scaled.attention_factor == 1.25
    for got, wanted in zip(scaled.cos_sin([0, 6, 2000]), plain.cos_sin([0, 3, 1000]), strict=True):
        np.testing.assert_allclose(got, wanted.astype(float) * 1.25, rtol=2.0**-23)
    np.testing.assert_array_equal(scaled.frequencies(seq_len=101), plain.frequencies() / 4)
    assert scaled != plain


def test_three_classes_of_a_name_like_the_one_that_is_unknown_are_named():
    with pytest.raises(ValueError, match=r"`kind` must be a class of posenc, like Rotary, \w+, \w+, got 'Rotari'\."):
        Encoding.from_dict({"kind": "Rotari"})


def test_a_text_that_holds_more_than_numbers_is_refused_without_the_name_of_a_node():
    with pytest.raises(ValueError, match=r"got 'Integer\(dim=x\.y\)': malformed node or string on line 1\.$"):
        parse("Integer(dim=x.y)")
