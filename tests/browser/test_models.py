"""The configs of well-known models, and one that is pasted."""

import json

import pytest

from posenc_backends.cli.explorer import models
from posenc_backends.cli.explorer.links import link_to, read, texts_of, view_of
from posenc_backends.cli.explorer.models import LONGEST, MOST_TRIED, presets, read_config
from posenc_core import AxialRotary, Llama3, LongRoPE, Rotary


def encodings(model):
    return [view_of(read(texts_of(link))[0]).encoding for _, link in presets()[model]]


def test_every_model_has_an_encoding():
    assert all(presets().values())
    assert len(presets()) >= 15


def test_models_have_the_encodings_of_their_configs():
    (llama,) = encodings("Llama 3.1 8B")
    assert llama == Rotary(
        head_dim=128,
        layout="half",
        base=500000,
        scaling=Llama3(factor=8, low_freq_factor=1, high_freq_factor=4, original_max_position_embeddings=8192),
    )
    assert [encoding.base for encoding in encodings("Gemma 3 1B")] == [10**6, 10**4]
    assert isinstance(encodings("Phi-3.5 mini")[0].scaling, LongRoPE)
    assert isinstance(encodings("DINOv3 ViT-S/16")[0], AxialRotary)
    assert [encoding.sides for encoding in encodings("T5 small")] == ["both", "past"]


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "{", "3", "[]", "null", "[" * 50_000, "1" * 5_000, "{}", '{"model_type": 3}', '{"model_type": "x"}',
        " " * (LONGEST + 1), '{"model_type": "llama", "head_dim": 1e400}', '{"model_type": "llama", "head_dim": -2}',
        '{"model_type": "llama", "hidden_size": NaN, "num_attention_heads": 1}', '"/etc/passwd"',
        json.dumps({"model_type": "llama", "head_dim": 64, "rope_scaling": {"rope_type": "no"}}),
    ],
    ids=lambda text: repr(text[:30]),
)  # fmt: skip
def test_what_is_no_config_is_refused_in_a_sentence(text):
    with pytest.raises((TypeError, ValueError), match="`") as error:
        read_config(text)
    assert len(str(error.value)) <= 300


def test_what_is_too_large_to_draw_is_said():
    found, (note,) = read_config(
        json.dumps({"model_type": "bert", "hidden_size": 10**4, "max_position_embeddings": 512})
    )
    assert found == []
    assert "`dim` must be a whole number from 1 to 1536" in note


def test_few_encodings_of_a_config_of_many_parts_are_tried(monkeypatch):
    part = {"model_type": "llama", "head_dim": 65536}
    text = json.dumps({"model_type": "llava"} | {f"p{number}": part for number in range(1000)})
    assert len(text) < LONGEST
    tried = []
    monkeypatch.setattr(models, "link_to", lambda encoding: tried.append(encoding) or link_to(encoding))
    found, notes = read_config(text)
    assert 0 < len(tried) <= MOST_TRIED < 1000
    assert len(found) <= 24
    assert len(notes) <= 24
