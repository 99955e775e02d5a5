"""The rope type `"posenc"`, whose parameters contain an encoding as text."""

import json

import pytest

from posenc_core import MultimodalRotary, Rotary, YaRN
from posenc_core.huggingface import load_rope

ENCODING = Rotary(head_dim=64, layout="half", scaling=YaRN(factor=4.0, original_max_position_embeddings=2048))


def config(text, **more):
    return {"model_type": "llama", "head_dim": 64, "rope_parameters": {"rope_type": "posenc", "encoding": text}} | more


@pytest.mark.parametrize("text", [repr(ENCODING), json.dumps(ENCODING.to_dict()), f" {ENCODING!r}\n"])
def test_the_text_is_the_encoding(text):
    assert load_rope(config(text)) == ENCODING


def test_the_length_is_that_of_the_config_unless_the_text_has_one():
    assert load_rope(config(repr(ENCODING), max_position_embeddings=8192)).max_len == 8192
    own = "Rotary(head_dim=64, layout='half', max_len=100)"
    assert load_rope(config(own, max_position_embeddings=8192)).max_len == 100


def test_without_a_text_it_is_the_encoding_of_the_other_keys():
    rope = {"rope_type": "posenc", "rope_theta": 500.0}
    assert load_rope(config("") | {"rope_parameters": rope}) == Rotary(head_dim=64, layout="half", base=500.0)


def test_the_other_rope_types_have_no_such_key():
    rope = {"rope_type": "default", "rope_theta": 500.0, "encoding": repr(ENCODING)}
    with pytest.raises(ValueError, match="`encoding` is not a key of `rope_type` 'default'"):
        load_rope(config("") | {"rope_parameters": rope})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (repr(Rotary(head_dim=32, layout="half")), "`encoding` must have head_dim 64, as the model does, got 32"),
        (repr(Rotary(head_dim=64, layout="interleaved")), "`encoding` must have layout 'half'"),
        (repr(Rotary(head_dim=64, layout="half", rotary_dim=32)), "`encoding` must have rotary_channels 64"),
        (repr(Rotary(head_dim=64, layout="half", direction="inverse")), "`encoding` must have direction 'forward'"),
        (repr(MultimodalRotary(head_dim=64, layout="half", sections=(16, 8, 8))), "`encoding` must have axes"),
        ("Alibi(num_heads=2)", "`encoding` must be a Rotary"),
        ("Rotary(", "`encoding` must be written like"),
        ('{"kind": ', "`encoding` must be JSON or like"),
        ('{"kind": "Nothing"}', "Nothing"),
        (3, "`encoding` must be a text like"),
    ],
)
def test_what_the_model_cannot_have_is_refused(text, message):
    with pytest.raises((TypeError, ValueError), match=message):
        load_rope(config(text))
