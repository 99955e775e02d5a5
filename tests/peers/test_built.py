"""Encodings of models that have no class of their own here, beside what `load_position` builds them of."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import CONFIG_MAPPING

from posenc_core import RelativeLogits, T5Bias, rotate
from posenc_core.attention.attend import AttentionInputs
from posenc_core.huggingface import load_position

from .positions import module_of, parts_of
from .rounding import assert_within

torch.manual_seed(0)
RANDOM = np.random.default_rng(0)


def only(config, field="additive", name=None):
    """Return the one encoding of a field, or that of a name, in all parts."""
    parts = [part for _, part in parts_of(load_position(config))]
    found = {encoding for part in parts for key, encoding in getattr(part, field) if name in (None, key)}
    (encoding,) = found
    return encoding


def normal(*shape):
    return torch.from_numpy(RANDOM.standard_normal(shape, np.float32))


def assert_close(ours, theirs, **options):
    torch.testing.assert_close(torch.as_tensor(ours), theirs.detach(), **{"rtol": 1e-5, "atol": 1e-5} | options)


def test_steps_of_a_diffusion():
    config = CONFIG_MAPPING["pi0"](min_period=0.01, max_period=3.0)
    times = torch.tensor([0.0, 0.01, 0.5])
    theirs = module_of("pi0").PI0TimestepEmbeddings(config)(times)
    encoding = only(config, name="steps of the diffusion")
    assert_close(encoding.table(times.numpy().astype(float)), theirs, atol=2e-4)  # of angles in float32


@pytest.mark.parametrize("shortest", [1, 3])
def test_timescales(shortest):
    config = CONFIG_MAPPING["timesfm"](use_positional_embedding=True, min_timescale=shortest, hidden_size=16)
    assert_within(module_of("timesfm").TimesFmPositionalEmbedding(config)(9)[0], only(config), range(9), roundings=6)


def test_patches_in_the_head_for_depth():
    config = {"model_type": "zoedepth", "patch_transformer_hidden_size": 16}
    theirs = module_of("zoedepth").ZoeDepthPatchTransformerEncoder.positional_encoding_1d(None, 1, 9, 16)
    assert_within(theirs[0], only(config), range(9), roundings=6)


def test_rows_times_a_factor():
    encoding = dict(load_position(CONFIG_MAPPING["speecht5"]()).parts)["text encoder"].additive[0][1]
    theirs = module_of("speecht5").SpeechT5ScaledPositionalEncoding(0.0, encoding.dim, 9).pe[0]
    assert_within(theirs, encoding, range(9), roundings=6)


@pytest.mark.parametrize("name", ["dab-detr", "lw_detr", "rf_detr"])
def test_boxes_that_are_positions_of_queries(name):
    config, boxes = CONFIG_MAPPING[name](), torch.rand(1, 3, 4)
    encoding = only(config, name="boxes")
    theirs = module_of(name).encode_sinusoidal_position_embedding(boxes, num_pos_feats=encoding.dim // 2)[0]
    pairs = (boxes[0].numpy().astype(float) * 2 * np.pi).T
    assert_close(np.concatenate([encoding.table(pairs[[1, 0]]), encoding.table(pairs[2:])], axis=1), theirs)


def test_boxes_of_sam_3():
    encoding = only({"model_type": "sam3_detr_decoder", "hidden_size": 16}, name="boxes")
    boxes = torch.rand(1, 3, 4)
    theirs = module_of("sam3").Sam3SinePositionEmbedding(8).encode_boxes(boxes)[0]
    pairs = (boxes[0].numpy().astype(float) * 2 * np.pi).T
    assert_close(np.concatenate([encoding.table(pairs[[1, 0]]), encoding.table(pairs[2:])], axis=1), theirs)


def scores_of(encoding, weights, q, queries, keys):
    """What an encoding adds to the scores of queries of width `head_dim`, less the terms of the keys."""
    constants = {name: torch.from_numpy(one) for name, one in encoding.constants(0).items()}
    zeros = torch.zeros(*q.shape[:-2], len(keys), q.shape[-1])
    content = AttentionInputs(q, zeros, q @ zeros.mT)
    return encoding.scores(constants | weights, torch.tensor(queries), torch.tensor(keys), content)


def test_funnel_is_transformer_xl_at_the_positions_of_pooled_tokens():
    config = CONFIG_MAPPING["funnel"](d_model=16, n_head=2, d_head=4, separate_cls=False)
    encoding, code = only(config, "scoring"), module_of("funnel")
    attention = code.FunnelRelMultiheadAttention(config, block_index=1)
    for parameter in (attention.r_kernel, attention.r_r_bias):
        torch.nn.init.normal_(parameter)
    embeds = code.FunnelAttentionStructure(config).eval().get_position_embeds(8, torch.float32, "cpu")
    q = normal(1, 4, 2, 4)
    weights = {"u": torch.zeros(2, 4), "v": attention.r_r_bias, "W_r": attention.r_kernel.reshape(16, 8)}
    for queries, keys in ((range(0, 8, 2), range(8)), (range(0, 8, 2), range(0, 8, 2))):
        theirs = attention.relative_positional_attention(embeds, q * attention.scale, len(keys))
        ours = scores_of(encoding, weights, q.transpose(1, 2), queries, keys)
        assert_close(ours.detach(), theirs, rtol=1e-4, atol=1e-4)


def test_offsets_that_are_clipped():
    config = CONFIG_MAPPING["phi4_multimodal_audio"](bias_max_distance=5, num_attention_heads=2, hidden_size=8)
    module, encoding = module_of("phi4_multimodal").Phi4MultimodalAudioRelativeAttentionBias(config), None
    encoding = only(config, "scoring")
    offsets = np.arange(-20, 21)
    clipped = torch.from_numpy(np.clip(offsets, -5, 4) + 5)
    table = torch.zeros(encoding.num_buckets, 2)
    table[torch.from_numpy(encoding.bucket_of(offsets)).long()] = module.bias_values(clipped).detach()
    ours = encoding.score(encoding.constants(0) | {"table": table.numpy()}, np.arange(20), np.arange(20))
    assert_close(ours, module(torch.zeros(1, 20, 1))[0])


def test_absolute_offsets_of_levit():
    config = CONFIG_MAPPING["levit"](image_size=96)
    code, named = module_of("levit"), dict(load_position(config).scoring)
    same, down = named["stage 1"], named["stage 1 to 2"]
    side = same.window[0]
    modules = (
        code.LevitAttention(8, 4, same.num_heads, 2, side),
        code.LevitAttentionSubsample(8, 8, 4, down.num_heads, 2, 2, side, (side + 1) // 2),
    )
    cells = np.arange(side**2)
    halved = cells.reshape(side, side)[::2, ::2].ravel()
    rows = np.abs(np.arange(1 - side, side))
    for module, encoding, queries in zip(modules, (same, down), (cells, halved), strict=True):
        torch.nn.init.normal_(module.attention_biases)
        by_offset = {}  # the number of each absolute offset, from the first cell on
        for cell, index in zip(cells, module.attention_bias_idxs[0].tolist(), strict=True):
            by_offset[divmod(int(cell), side)] = module.attention_biases[:, index].detach().numpy()
        table = np.array([by_offset[i, j] for i in rows for j in rows])
        ours = encoding.score(encoding.constants(0) | {"table": table}, queries, cells)
        assert_close(ours, module.get_attention_biases("cpu"))


@pytest.mark.parametrize("name", ["inkling_text", "inkling2_text"])
def test_curves_of_inkling(name):
    fields = {"hidden_size": 16, "rel_extent": 3, "d_rel": 2}
    fields |= dict.fromkeys(("num_attention_heads", "swa_num_attention_heads"), 4)
    encoding = only(CONFIG_MAPPING[name](**fields), "scoring", "layers of type 'hybrid'")
    prefix = {"inkling_text": "Inkling", "inkling2_text": "Inkling2"}[name]
    logits = getattr(module_of(name), f"{prefix}RelativeLogits")(2, 3)
    torch.nn.init.normal_(logits.proj)
    hidden, projection = normal(1, 6, 16), torch.nn.Linear(16, 8, bias=False)
    positions = torch.arange(6)
    theirs = logits(projection(hidden).view(1, 6, 4, 2), positions, positions)
    weights = {"W_r": projection.weight.T.reshape(4, 4, 8), "curves": logits.proj}
    tokens = hidden.view(1, 6, 4, 4).transpose(1, 2)
    assert_close(scores_of(encoding, weights, tokens, range(6), range(6)).detach(), theirs)


def test_buckets_of_prophetnet():
    config = CONFIG_MAPPING["prophetnet"](
        hidden_size=16, num_decoder_attention_heads=4, num_buckets=8, relative_max_distance=20
    )
    found = [one for _, one in dict(load_position(config).parts)["decoder"].scoring]
    (curves,) = [one for one in found if isinstance(one, RelativeLogits)]
    (bias,) = [one for one in found if isinstance(one, T5Bias)]
    linear, code, positions = torch.nn.Linear(16, 32), module_of("prophetnet"), torch.arange(40)[None]
    own = SimpleNamespace(num_buckets=8, relative_max_distance=20, num_attn_heads=4, relative_pos_embeddings=linear)
    buckets, _ = code.compute_all_stream_relative_buckets(8, 20, positions)
    hidden = normal(1, 40, 16)
    theirs = code.ProphetNetNgramSelfAttention.get_main_relative_pos_embeddings(
        own, hidden, torch.zeros(1, 4, 40, 40), positions, buckets
    )
    by_head = linear.weight.detach().view(8, 4, 16).permute(1, 0, 2).reshape(32, 16)  # rows of a head together
    distances = bias.bucket_of(-np.arange(curves.max_distance))
    weights = {"W_r": by_head.T.reshape(4, 4, 32), "curves": torch.eye(8)[torch.from_numpy(distances).long()].T}
    tokens = hidden.view(1, 40, 4, 4).transpose(1, 2)
    ours = scores_of(curves, weights, tokens, range(40), range(40)).numpy()
    table = {"table": linear.bias.detach().view(8, 4).numpy()}
    ours = ours + bias.score(bias.constants(0) | table, np.arange(40), np.arange(40))
    seen = np.tril(np.ones((40, 40), bool))  # attention is causal
    assert_close(ours[..., seen], theirs[..., torch.from_numpy(seen)])


@pytest.mark.parametrize(("name", "sides"), [("Horizontal", [0, 2]), ("Vertical", [1, 3])])
def test_distances_of_boxes(name, sides):
    config = CONFIG_MAPPING["udop"](num_heads=2)
    encoding = dict(dict(load_position(config).parts)["encoder"].scoring)[f"{name.lower()} distances of boxes"]
    module, boxes = getattr(module_of("udop"), f"RelativePositionBias{name}")(num_heads=2), torch.rand(1, 9, 4)
    centers = boxes[0][:, sides].mean(dim=-1)
    offsets = ((centers[None] - centers[:, None]) * 100).to(torch.long)
    weights = encoding.constants(0) | {"table": module.relative_attention_bias.weight.detach().numpy()}
    assert_close(encoding.bias_by_offset(offsets.numpy(), weights), module(torch.ones(1, 9), boxes)[0])


def test_rotation_by_keypoints():
    config, code = CONFIG_MAPPING["lightglue"](), module_of("lightglue")
    rotary, encoder = only(config, "rotary"), code.LightGluePositionalEncoder(config)
    points, x = torch.rand(5, 2), normal(3, 5, rotary.head_dim)
    with torch.no_grad():
        ((cos, sin),) = encoder(points[None])
        theirs, _ = code.apply_rotary_pos_emb(x[None], x[None], cos, sin)
        tables = rotary.rows_of({"frequencies": encoder.projector.weight.T[:, None]}, points.T)
    assert_close(rotate(x, *tables, layout=rotary.layout), theirs[0])


def test_rotation_by_the_times_of_sounds():
    config, code = CONFIG_MAPPING["musicflamingo"](), module_of("musicflamingo")
    times, ((_, rotary),) = torch.tensor([[0.5, 31.0, 62.0]]), dict(load_position(config).parts)["sounds"].rotary
    cos, sin = code.MusicFlamingoRotaryEmbedding(config)(times, 3)
    window = round(0.5 / (config.audio_frame_step * 4 * 3))
    seconds, base = times[0].numpy().astype(float), rotary.base
    positions = [-2 * math.pi * seconds * window / base, -4 * math.pi**2 * seconds * np.arange(3) / base]
    x = normal(3, rotary.head_dim)
    theirs = code.apply_rotary_time_emb(x[None], cos, sin)[0]
    ours = rotate(x, *(torch.from_numpy(one) for one in rotary.cos_sin(positions)), layout=rotary.layout)
    assert_close(ours, theirs, atol=2e-5)


@pytest.mark.parametrize("left", [3, 5])
def test_projected_sinusoids_of_blocks(left):
    config = CONFIG_MAPPING["gemma3n_audio"](
        hidden_size=16, conf_num_attention_heads=2, conf_attention_chunk_size=4, conf_attention_context_left=left
    )
    encoding = only(config, "scoring")
    module = module_of("gemma3n_audio").Gemma3nAudioRelativePositionEmbedding(config)
    q, keys = normal(1, 1, 4, 2, 8), torch.zeros(1, 1, 3 + left, 2, 8)
    offsets = torch.arange(-encoding.max_distance, encoding.max_distance + 1)
    rows = module._get_timing_signal_1d_pos(-offsets[None], torch.float32)[0]
    table = module.pos_proj(rows).view(-1, 2, 8).transpose(0, 1)
    theirs = module(q, keys)[0, :, 0]
    ours = scores_of(
        encoding, {"key_table": table}, q[0, 0].transpose(0, 1)[None], range(left - 1, left + 3), range(left + 3)
    )
    ours = ours[0] * 8**0.5  # queries are scaled before
    seen = np.array([[0 <= i + left - 1 - j < left for j in range(left + 3)] for i in range(4)])
    assert_close(ours.detach()[:, seen], theirs[:, torch.from_numpy(seen)], rtol=1e-4, atol=1e-4)
