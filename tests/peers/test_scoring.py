"""Scoring encodings beside those of other libraries: slopes, buckets, windows."""

import warnings

import keras_hub
import numpy as np
import pytest
import torch
from keras_hub.src.models.t5.t5_multi_head_attention import T5MultiHeadAttention
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor
from transformers.models.t5.modeling_t5 import T5Attention, T5Config

from posenc_backends.torch import AttentionBias
from posenc_core import Alibi, SwinBias, T5Bias, from_mask

from .importing import lone

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from x_transformers.x_transformers import AlibiPositionalBias

HEADS = (*range(1, 34), 48, 63, 64, 65, 71, 96, 127, 128)
DOUBLE = 2**-22  # theirs: powers of float32, or powers of a ratio in float64, rounded
gen_relative_position_index = lone("timm.layers.pos_embed_rel").gen_relative_position_index
OFFSETS = torch.arange(-3000, 3001)
CONFIGS = [
    (buckets, farthest, sides)
    for buckets in (4, 8, 16, 32, 64, 128, 256)
    for farthest in (100, 128, 200, 256, 400, 800, 1000)
    for sides in ("both", "past")
    if farthest > buckets // 2
]


def slopes_of(heads, **settings):
    return Alibi(num_heads=heads, **settings).constants(0)["slopes"]


@pytest.mark.parametrize("most", [8, 16, 5.5])
def test_the_slopes_and_their_order_are_those_of_mpt_for_any_number_of_heads(most):
    for heads in HEADS:
        theirs = -build_mpt_alibi_tensor(heads, 2, alibi_bias_max=most)[:, 0, 0]
        np.testing.assert_allclose(slopes_of(heads, max_bias=most), theirs, rtol=DOUBLE)


def test_the_slopes_and_their_order_are_those_of_bloom_x_transformers_and_keras_hub():
    hub = keras_hub.layers.AlibiBias()
    for heads in HEADS:
        bloom = build_alibi_tensor(torch.ones(1, 2, dtype=torch.long), heads, torch.float32)[:, 0, 1]
        theirs = [bloom, AlibiPositionalBias(heads).slopes[:, 0, 0], hub._get_slopes(heads)]
        for slopes in theirs:
            np.testing.assert_allclose(slopes_of(heads), slopes, rtol=2e-5)  # Bloom raises a float32 base to powers


def test_x_transformers_has_the_same_biases_on_both_sides():
    np.testing.assert_allclose(
        Alibi(num_heads=12).bias(range(3, 7), range(7)), AlibiPositionalBias(12)(4, 7), rtol=DOUBLE
    )


def test_padded_rows_have_the_biases_of_bloom_but_for_a_number_for_each_query():
    """Bloom's are those of the last query; softmax does not see a number that all keys of a query have."""
    mask = torch.tensor([[0, 0, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1]])
    theirs = build_alibi_tensor(mask, 12, torch.float32).reshape(2, 12, 1, 6)
    positions = from_mask(mask)
    ours = AttentionBias(Alibi(num_heads=12))(torch.zeros(2, 12, 6, 6), 0, positions, positions)
    seen = mask[:, None, None, :].bool() & (positions[:, None, None, :] <= positions[:, None, :, None])
    apart = torch.where(seen, ours - theirs, 0)
    flat = apart - torch.where(seen, ours - theirs, -torch.inf).amax(-1, keepdim=True)
    assert torch.where(seen, flat, 0)[:, :, 2:].abs().max() < 1e-5


@pytest.mark.parametrize(("buckets", "farthest", "sides"), CONFIGS)
def test_buckets_are_those_of_transformers(buckets, farthest, sides):
    theirs = T5Attention._relative_position_bucket(
        OFFSETS, bidirectional=sides == "both", num_buckets=buckets, max_distance=farthest
    )
    np.testing.assert_array_equal(bucket_of(buckets, farthest, sides), theirs)


def bucket_of(num_buckets, max_distance, sides):
    encoding = T5Bias(num_heads=1, num_buckets=num_buckets, max_distance=max_distance, sides=sides)
    buckets = encoding.constants(0)["buckets"]
    return buckets[np.clip(OFFSETS.numpy(), -max_distance, max_distance) + max_distance]


def test_buckets_are_those_of_keras_hub():
    for buckets, farthest, sides in CONFIGS:
        theirs = T5MultiHeadAttention._relative_position_bucket(OFFSETS.int(), sides == "both", buckets, farthest)
        np.testing.assert_array_equal(bucket_of(buckets, farthest, sides), theirs.numpy())


@pytest.mark.parametrize("decoder", [False, True])
def test_a_table_of_t5_gives_the_same_biases(decoder):
    config = T5Config(num_heads=3, d_model=6, d_kv=2, is_decoder=decoder)
    theirs = T5Attention(config, has_relative_attention_bias=True, layer_idx=0)
    layer = AttentionBias(T5Bias(num_heads=3, sides="past" if decoder else "both"))
    with torch.no_grad():
        layer.table.copy_(theirs.relative_attention_bias.weight)
    expected = theirs.compute_bias(5, 200, past_seen_tokens=195)
    torch.testing.assert_close(layer(torch.zeros(1, 3, 5, 200), start=195), expected, rtol=0, atol=0)


@pytest.mark.parametrize("window", [(7, 7), (3, 5), (1, 4), (14, 14)])
@pytest.mark.parametrize("prefix", [0, 1], ids=["Swin", "BEiT"])
def test_a_table_of_swin_or_beit_gives_the_same_biases(window, prefix):
    index = gen_relative_position_index(window, class_token=bool(prefix))
    layer = AttentionBias(SwinBias(num_heads=2, window=window, prefix_tokens=prefix))
    expected = layer.table[index.reshape(-1)].view(*index.shape, -1).permute(2, 0, 1)
    assert layer.table.shape[0] == index.max() + 1
    torch.testing.assert_close(layer(torch.zeros(1, 2, *index.shape))[0], expected, rtol=0, atol=0)
