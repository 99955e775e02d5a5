"""Scores that depend on queries and keys: those of other libraries and ours."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers.models.wav2vec2_bert.modeling_wav2vec2_bert import _apply_relative_key_position_encoding
from transformers.models.xlnet.modeling_xlnet import XLNetModel, XLNetRelativeAttention
from x_transformers.x_transformers import CoPE, DataDependentAlibi

from posenc_core import Cope, ForgettingBias, ShawBias, TransformerXLBias, attend, causal
from posenc_core.attention.attend import AttentionInputs
from posenc_core.encodings import Placed

HEADS, WIDTH = 2, 4
LENGTHS = [(1, 9), (5, 9), (9, 9)]
APART = 2.0**-19  # of numbers of a size to 4, which both sides round some twenty times, theirs to float32
GENERATOR = torch.Generator().manual_seed(4)


def drawn(*shape):
    return torch.randn(shape, generator=GENERATOR)


def tokens(queries, keys):
    return (drawn(2, HEADS, length, WIDTH) for length in (queries, keys, keys))


@pytest.mark.parametrize(("queries", "keys"), LENGTHS)
def test_wav2vec2_bert_looks_up_shaws_keys(queries, keys):
    q, k, _ = tokens(queries, keys)
    table = drawn(7, WIDTH)
    module = SimpleNamespace(
        left_max_position_embeddings=3,
        right_max_position_embeddings=3,
        distance_embedding=torch.nn.Embedding.from_pretrained(table),
        scaling=WIDTH**-0.5,
    )
    _, theirs = _apply_relative_key_position_encoding(module, q, k)
    encoding = ShawBias(num_heads=HEADS, head_dim=WIDTH, max_distance=3, applies_to="keys")
    placed = Placed(encoding, range(queries), range(keys), {"key_table": table})
    ours = placed.scores(AttentionInputs(q, k, q @ k.transpose(-1, -2)))
    torch.testing.assert_close(ours, theirs, atol=APART, rtol=0)


@pytest.mark.parametrize(("queries", "keys"), LENGTHS)
def test_xlnet_is_transformer_xl_without_segments(queries, keys):
    q, k, v = tokens(queries, keys)
    config = SimpleNamespace(
        d_model=HEADS * WIDTH, n_head=HEADS, d_head=WIDTH, dropout=0.0, layer_norm_eps=1e-12, initializer_range=0.02
    )
    layer = XLNetRelativeAttention(config)
    weights = {"u": drawn(HEADS, WIDTH), "v": drawn(HEADS, WIDTH), "W_r": drawn(HEADS * WIDTH, HEADS * WIDTH) / 4}
    layer.r_w_bias.data, layer.r_r_bias.data = weights["u"], weights["v"]
    model = SimpleNamespace(
        d_model=HEADS * WIDTH, attn_type="bi", bi_data=False, clamp_len=6,
        positional_embedding=XLNetModel.positional_embedding,
    )  # fmt: skip
    sinusoids = XLNetModel.relative_positional_encoding(model, queries, keys, bsz=2)
    r = (sinusoids @ weights["W_r"]).reshape(*sinusoids.shape[:2], HEADS, WIDTH)
    theirs = layer.rel_attn_core(*(x.permute(2, 0, 1, 3) for x in (q, k, v)), r)
    encoding = TransformerXLBias(num_heads=HEADS, head_dim=WIDTH, max_distance=6)
    placed = Placed(encoding, range(keys - queries, keys), range(keys), weights)
    ours = attend(q, k, v, position=placed).permute(2, 0, 1, 3)
    torch.testing.assert_close(ours, theirs, atol=APART, rtol=0)


@pytest.mark.parametrize("max_position", [2, 4, 64])
@pytest.mark.parametrize(("queries", "keys"), LENGTHS)
def test_x_transformers_counts_the_same_gates(queries, keys, max_position):
    q, k, _ = tokens(queries, keys)
    table = drawn(max_position, WIDTH)
    theirs = CoPE(WIDTH, HEADS, max_position)
    theirs.pos_emb.data = table
    mask = torch.from_numpy(causal(np.arange(keys - queries, keys), np.arange(keys)))
    scores = q @ k.transpose(-1, -2) / WIDTH**0.5
    encoding = Cope(num_heads=HEADS, head_dim=WIDTH, max_position=max_position)
    placed = Placed(encoding, range(keys - queries, keys), range(keys), {"table": table})
    ours = placed.scores(AttentionInputs(q, k, scores.masked_fill(~mask, -torch.inf)))
    hidden = scores.masked_fill(~mask, -torch.finfo(torch.float32).max)
    torch.testing.assert_close(ours[..., mask], theirs(q, hidden)[..., mask].detach(), atol=APART, rtol=0)


@pytest.mark.parametrize(("queries", "keys"), LENGTHS)
def test_x_transformers_forgets_alike(queries, keys):
    """Its gates are computed from tokens: here the tokens are the keys of all heads, side by side."""
    q, k, _ = tokens(queries, keys)
    theirs = DataDependentAlibi(HEADS * WIDTH, HEADS)
    linear = theirs.to_forget_gates[0]
    linear.bias.data = drawn(HEADS)
    expected = theirs(k.transpose(1, 2).flatten(2))[:, :, keys - queries :].detach()
    mask = torch.from_numpy(causal(np.arange(keys - queries, keys), np.arange(keys)))
    encoding = ForgettingBias(num_heads=HEADS, head_dim=WIDTH)
    weights = {"w": linear.weight.T.reshape(HEADS, WIDTH, HEADS).detach(), "b": linear.bias.detach()}
    placed = Placed(encoding, range(keys - queries, keys), range(keys), weights)
    scores = (q @ k.transpose(-1, -2)).masked_fill(~mask, -torch.inf)
    ours = placed.scores(AttentionInputs(q, k, scores))
    torch.testing.assert_close(ours[..., mask], expected[..., mask], atol=4 * APART, rtol=0)
