"""Scoring encodings as an attention implementation of transformers."""

import pytest
import torch
from transformers import AttentionInterface

from posenc_backends.torch import AttentionBias
from posenc_backends.torch.huggingface import register_attention
from posenc_core import Alibi, Kerple, ShawBias, T5Bias

from .replaced import LENGTH, Family, config_of, model_of, outputs

ALIBI = Alibi(num_heads=4)
FAMILY = Family("smollm3", {"no_rope_layers": [0, 0], "max_position_embeddings": 64})  # which does not rotate
IDS = torch.arange(3, 3 + LENGTH)[None]


@pytest.fixture
def model():
    register_attention("posenc_alibi", ALIBI)
    return model_of(config_of(FAMILY), attn_implementation="posenc_alibi")


def test_scores_have_the_bias_and_the_mask_before_the_softmax():
    register_attention("posenc_alibi", ALIBI)
    torch.manual_seed(0)
    q, k, v = torch.randn(2, 4, 3, 8), torch.randn(2, 2, 5, 8), torch.randn(2, 2, 5, 8)
    causal = torch.full((3, 5), torch.finfo(torch.float32).min).triu(3)[None, None]
    module = torch.nn.Identity()
    found, weights = AttentionInterface()["posenc_alibi"](module, q, k, v, causal, scaling=0.5)
    distances = (torch.arange(2, 5)[:, None] - torch.arange(5)).double()
    slopes = torch.tensor([2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8], dtype=torch.float64)
    wide = [one.double().repeat_interleave(2, dim=1) for one in (k, v)]
    scores = q.double() @ wide[0].mT * 0.5 - slopes[:, None, None] * distances + causal.double()
    wanted = scores.softmax(dim=-1)
    torch.testing.assert_close(weights.double(), wanted, rtol=0, atol=1e-6)
    torch.testing.assert_close(found.double(), (wanted @ wide[1]).transpose(1, 2), rtol=0, atol=1e-5)


def test_decoding_is_prefill(model):
    with torch.no_grad():
        whole = model(IDS).logits.double()
    torch.testing.assert_close(outputs(model), whole, rtol=0, atol=1e-5)
    without = model_of(config_of(FAMILY))
    assert (outputs(without) - whole).abs().max() > 0.1


@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_generation_with_a_cache_and_padding(model, cache):
    options = {"max_new_tokens": 5, "do_sample": False, "pad_token_id": 0, "eos_token_id": 0}
    wanted = model.generate(IDS, attention_mask=torch.ones_like(IDS), use_cache=False, **options)[:, LENGTH:]
    padded = torch.cat([torch.zeros(1, 3, dtype=torch.int64), IDS], dim=1)
    mask = (padded > 0).long()
    found = model.generate(padded, attention_mask=mask, cache_implementation=cache, **options)[:, LENGTH + 3 :]
    assert torch.equal(found, wanted)


@pytest.mark.parametrize("hidden", [0, 2])
def test_tokens_of_an_encoder_are_at_their_own_keys(hidden):
    register_attention("posenc_alibi", ALIBI)
    module, q = torch.nn.Identity(), torch.zeros(1, 4, 5, 8)
    module.is_causal = False
    mask = torch.zeros(1, 1, 5, 5)
    mask[..., 5 - hidden :] = torch.finfo(torch.float32).min
    _, weights = AttentionInterface()["posenc_alibi"](module, q, q, q, mask if hidden else None, scaling=1.0)
    distances = (torch.arange(5)[:, None] - torch.arange(5)).abs()
    wanted = (-(2.0**-2) * distances + mask[0, 0]).softmax(dim=-1)
    torch.testing.assert_close(weights[0, 0, : 5 - hidden], wanted[: 5 - hidden], rtol=0, atol=1e-6)
    with pytest.raises(ValueError, match="`posenc_alibi` is for attention within a sequence, got 5 and 3 tokens"):
        AttentionInterface()["posenc_alibi"](module, q, q[:, :, :3], q[:, :, :3], None, scaling=1.0)


def test_a_learned_bias_gets_a_gradient():
    bias = AttentionBias(T5Bias(num_heads=4))
    register_attention("posenc_t5", bias)
    model = model_of(config_of(FAMILY), attn_implementation="posenc_t5")
    model(IDS, labels=IDS).loss.backward()
    assert all(parameter.grad.abs().max() > 0 for parameter in bias.parameters())


@pytest.mark.parametrize(
    ("name", "bias", "error", "message"),
    [
        ("sdpa", ALIBI, ValueError, "`name` must be a new one, got 'sdpa'"),
        ("posenc_shaw", ShawBias(head_dim=8, num_heads=4, max_distance=4), TypeError, "positions alone"),
        ("posenc_kerple", Kerple(num_heads=4), ValueError, "`bias` must be the `AttentionBias` that holds"),
        ("posenc_number", 3, TypeError, "`bias` must be a scoring encoding"),
    ],
)
def test_what_cannot_be_registered_is_refused(name, bias, error, message):
    with pytest.raises(error, match=message):
        register_attention(name, bias)
