"""The rope type `"posenc"`: models of transformers whose config contains one of our encodings as text."""

import json
import logging

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, LlamaConfig

from posenc_backends.torch.huggingface import register, replace_rotary
from posenc_core import DynamicNTK, Linear, Proportional, Rotary, YaRN
from posenc_core.huggingface import load_rope

from .models import TWO_KINDS
from .replaced import GEMMA4, TINY, Family, config_of, model_of, off, outputs

SCALED = YaRN(factor=4.0, original_max_position_embeddings=64)
ENCODING = Rotary(head_dim=8, layout="half", base=500, scaling=SCALED)
YARN = {"rope_type": "yarn", "rope_theta": 500, "factor": 4.0, "original_max_position_embeddings": 64}


def with_text(text):
    return {"rope_parameters": {"rope_type": "posenc", "encoding": text}}


@pytest.fixture(autouse=True, scope="module")
def registered():
    register()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # tiny models take longer with two
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("text", [repr(ENCODING), json.dumps(ENCODING.to_dict())], ids=["notation", "JSON"])
def test_a_model_has_the_frequencies_and_the_factor_of_the_encoding(text, tmp_path, caplog):
    config = config_of(Family("llama", with_text(text)))
    assert load_rope(config) == ENCODING
    model = model_of(config)
    assert torch.equal(model.model.rotary_emb.inv_freq, torch.from_numpy(ENCODING.frequencies()).float())
    assert model.model.rotary_emb.attention_scaling == ENCODING.attention_factor
    theirs = model_of(LlamaConfig(**TINY, rope_parameters=YARN))
    assert off(outputs(model), outputs(theirs)) < 1e-4
    model.save_pretrained(tmp_path)
    again = AutoModelForCausalLM.from_pretrained(tmp_path, attn_implementation="eager").eval()
    assert torch.equal(outputs(again), outputs(model))
    assert load_rope(tmp_path) == load_rope(AutoConfig.from_pretrained(tmp_path)) == ENCODING
    assert replace_rotary(again).replaced[0].encoding == ENCODING
    assert off(outputs(again), outputs(model)) < 1e-4
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING and "posenc" in one.getMessage()]


def test_without_a_text_it_is_the_encoding_without_scaling():
    config = config_of(Family("llama", {"rope_parameters": {"rope_type": "posenc", "rope_theta": 500.0}}))
    assert load_rope(config) == Rotary(head_dim=8, layout="half", base=500)
    assert model_of(config).model.rotary_emb.attention_scaling == 1


@pytest.mark.parametrize("model_type", ["gemma3_text", "gemma4_text", "olmo3"])
def test_layer_types_have_their_own(model_type):
    sliding = Rotary(head_dim=8, layout="half", scaling=Linear(factor=8.0))
    full = Rotary(head_dim=16, layout="half", base=1e6, scaling=Proportional(partial_rotary_factor=0.5))
    full = full if model_type == "gemma4_text" else ENCODING
    texts = {"sliding_attention": sliding, "full_attention": full}
    rope = {name: with_text(repr(one))["rope_parameters"] for name, one in texts.items()}
    widths = GEMMA4 if model_type == "gemma4_text" else {}
    config = config_of(Family(model_type, TWO_KINDS | widths | {"rope_parameters": rope}))
    model = model_of(config)
    found = {row.layer_type: row.encoding for row in replace_rotary(model).replaced}
    assert found == texts


@pytest.mark.parametrize(
    ("encoding", "message"),
    [
        ("Rotary(head_dim=16, layout='half')", "`encoding` must have head_dim 8, as the model does, got 16"),
        ("Rotary(head_dim=8, layout='interleaved')", "`encoding` must have layout 'half', as the model does"),
        ("Rotary(head_dim=8, layout='half', rotary_dim=4)", "`encoding` must have rotary_channels 8"),
        ("Alibi(num_heads=4)", "`encoding` must be a Rotary"),
        ("XPos(head_dim=8, layout='half')", "must rotate by fixed frequencies alone, got XPos"),
        ("LearnedRotary(head_dim=8, layout='half')", "must rotate by fixed frequencies alone, got Learned"),
        ("Rotary(", "`encoding` must be written like"),
        ('{"kind": ', "`encoding` must be JSON or like"),
        (repr(Rotary(head_dim=8, layout="half", scaling=DynamicNTK(factor=2.0, original_max_position_embeddings=64))),
         "`encoding` must have the same frequencies at each length"),
    ],
)  # fmt: skip
def test_what_does_not_fit_the_model_is_refused(encoding, message):
    with pytest.raises(ValueError, match=message):
        model_of(config_of(Family("llama", with_text(encoding))))
