"""Rotary layers for images, videos and several axes beside `AxialRotary` and `MultimodalRotary`."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import rotary_embedding_torch
import torch
from diffusers.models.transformers.transformer_flux import FluxPosEmbed
from diffusers.models.transformers.transformer_wan import WanRotaryPosEmbed
from transformers.models.dinov3_vit import modeling_dinov3_vit as dinov3
from transformers.models.ernie4_5_vl_moe import modeling_ernie4_5_vl_moe as ernie_vl
from transformers.models.gemma4 import modeling_gemma4 as gemma4
from transformers.models.llama4 import modeling_llama4 as llama4
from transformers.models.pixtral import modeling_pixtral as pixtral
from transformers.models.qwen2_vl import modeling_qwen2_vl as qwen2_vl

from posenc_core import AxialRotary, MultimodalRotary
from posenc_core.huggingface import load_rope

from .importing import lone
from .libraries import Answer
from .rounding import ENTRY, UNIT, angle_slack, pair_slack, rotated, ulps

timm = lone("timm.layers.pos_embed_sincos")
torchtune = lone("torchtune.modules.position_embeddings")

ROWS, COLUMNS = 5, 7
GRID = np.indices((ROWS, COLUMNS)).reshape(2, -1)
FAR = np.array([[0, 1, 2, 3, 4097, 131071, 7, 5], [131071, 4097, 3, 2, 1, 0, 9, 8]])
SQUARE = np.c_[np.indices((3, 3)).reshape(2, -1)[::-1] + 1, [0, 0]]  # columns, rows, and the class
ERNIE = ernie_vl.Ernie4_5_VLMoeTextConfig(
    hidden_size=96,
    num_attention_heads=2,
    rope_parameters={"rope_type": "default", "rope_theta": 5e5, "mrope_section": [9, 9, 6]},
)
CENTERED = timm.make_coords_dinov3(ROWS, COLUMNS).numpy().T  # from -1 to 1, in float32


def qwen(x, positions):
    config = qwen2_vl.Qwen2VLVisionConfig(embed_dim=96, num_heads=2)
    cos, sin = qwen2_vl.Qwen2VLVisionRotaryEmbedding(config)(x, positions.T)
    heads_last = x.transpose(1, 2)
    turn, _ = qwen2_vl.apply_rotary_pos_emb_vision(heads_last, heads_last, cos, sin)
    return Answer(turn.transpose(1, 2), cos[:, :24], sin[:, :24])


def mistral(x, positions):
    config = pixtral.PixtralVisionConfig(hidden_size=96, num_attention_heads=2)
    cos, sin = pixtral.PixtralVisionRotaryEmbedding(config)(x, positions.T)
    turn, _ = pixtral.apply_rotary_pos_emb(x, x, cos, sin, unsqueeze_dim=0)
    return Answer(turn, cos[:, :24], sin[:, :24])


def gemma(x, positions):
    """Its columns are height, height, width, width."""
    config = gemma4.Gemma4VisionConfig(hidden_size=96, num_attention_heads=2, head_dim=48)
    each = positions.T[None]
    cos, sin = gemma4.Gemma4VisionRotaryEmbedding(config)(x, each)
    turn = gemma4.apply_multidimensional_rope(x, cos, sin, each, unsqueeze_dim=1)
    return Answer(turn, *(table[0].unflatten(-1, (2, 2, 12))[:, :, 0].flatten(-2) for table in (cos, sin)))


def dino(x, positions):
    config = dinov3.DINOv3ViTConfig(hidden_size=96, num_attention_heads=2, patch_size=16, rope_theta=100.0)
    cos, sin = dinov3.DINOv3ViTRopePositionEmbedding(config).eval()(torch.zeros(1, 3, 16 * ROWS, 16 * COLUMNS))
    turn, _ = dinov3.apply_rotary_pos_emb(x, x, cos, sin)
    return Answer(turn, cos[:, :24], sin[:, :24])


def ernie(x, positions):
    cos, sin = ernie_vl.Ernie4_5_VLMoeTextRotaryEmbedding(ERNIE)(x, positions[:, None])
    turn, _ = ernie_vl.apply_rotary_pos_emb(x, x, cos, sin)
    return Answer(turn, cos[0, :, ::2], sin[0, :, ::2])


def llama(x, positions):
    """Its grid is square, counts from 1, has the column first, and a last row for the class, which does not turn."""
    config = llama4.Llama4VisionConfig(hidden_size=96, num_attention_heads=2, image_size=42, patch_size=14)
    table = llama4.Llama4VisionRotaryEmbedding(config)(x)
    heads_last = x.transpose(1, 2)
    turn, _ = llama4.vision_apply_rotary_emb(heads_last, heads_last, table)
    return Answer(turn.transpose(1, 2), table[:, 0].real, table[:, 0].imag)


def tuned(x, positions):
    rope = torchtune.VisionRotaryPositionalEmbeddings(patch_size=14, tile_size=42, max_num_tiles=1, dim=24)
    return Answer(rope(x.transpose(1, 2)).transpose(1, 2), *rope.cache.unbind(-1))


def timm_layer(rope, shape, layout):
    def ask(x, positions):
        table = rope.get_embed(shape)
        sin, cos = table.chunk(2, dim=-1)
        columns = slice(None, None, 2) if layout == "interleaved" else slice(x.shape[-1] // 2)
        turn = timm.apply_rot_embed_cat(x, table, half=layout == "half")
        return Answer(turn, cos[:, columns], sin[:, columns])

    return ask


def lucidrains(x, positions):
    rope = rotary_embedding_torch.RotaryEmbedding(dim=24)
    angles = rope.get_axial_freqs(ROWS, COLUMNS).flatten(0, 1)
    return Answer(rotary_embedding_torch.apply_rotary_emb(angles, x), angles.cos()[:, ::2], angles.sin()[:, ::2])


class Case(NamedTuple):
    name: str
    ask: Callable[[Any, Any], Answer]
    encoding: Any
    positions: Any = GRID


def of(layout, dims, **fields):
    return AxialRotary(head_dim=sum(dims), layout=layout, axes_dims=dims, **fields)


CASES = [
    Case("Qwen2-VL", qwen, of("half", (24, 24)), FAR),
    Case("Pixtral", mistral, of("half", (24, 24), series="dealt"), FAR),
    Case("Gemma 4", gemma, of("half", (24, 24), base=100.0, arrangement="blocks"), FAR),
    Case("Ernie 4.5 VL", ernie, load_rope(ERNIE), np.r_[[[3, 2, 1, 0, 4097, 9, 131071, 4]], FAR]),
    Case("Llama 4", llama, of("interleaved", (24, 24)), SQUARE),
    Case("DINOv3", dino, of("half", (24, 24), base=100.0, unit="turn"), CENTERED),
    Case(
        "timm: DINOv3",
        timm_layer(timm.RotaryEmbeddingDinoV3(48), (ROWS, COLUMNS), "half"),
        of("half", (24, 24), base=100.0, unit="turn"),
        CENTERED,
    ),
    Case(
        "timm: Cat",
        timm_layer(timm.RotaryEmbeddingCat(48, in_pixels=False), (ROWS, COLUMNS), "interleaved"),
        of("interleaved", (24, 24)),
    ),
    Case(
        "timm: MRope",
        timm_layer(timm.RotaryEmbeddingMRope(48, mrope_section=(10, 7, 7)), (ROWS, COLUMNS), "half"),
        MultimodalRotary(head_dim=48, layout="half", sections=(10, 7, 7), arrangement="interleaved"),
        np.r_[np.zeros((1, ROWS * COLUMNS), np.int64), GRID],
    ),
    Case("torchtune: Llama 3.2 vision", tuned, of("interleaved", (24, 24)), SQUARE),
    Case("rotary-embedding-torch: axial", lucidrains, of("interleaved", (24, 24))),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_as_near_as_float32_angles_allow(case):
    x = np.random.default_rng(0).standard_normal((1, 3, case.positions.shape[1], 48)).astype(np.float32)
    answer = case.ask(torch.from_numpy(x), torch.from_numpy(case.positions))
    table = case.encoding.cos_sin(case.positions)
    slack = angle_slack(case.encoding, case.positions)
    for ours, theirs in zip(table, (answer.cos, answer.sin), strict=True):
        np.testing.assert_array_less(np.abs(theirs.numpy() - ours), slack + ENTRY * UNIT)
    off = np.abs(answer.rotated.numpy() - rotated(x, table, case.encoding))
    assert np.all(off <= pair_slack(x, case.encoding, slack))


def test_flux():
    """The frequencies of diffusers are float64 here, and so are its angles."""
    positions = np.array([[0, 1, 2], [4097, 3, 131071], [5, 131071, 6]])
    cos, sin = FluxPosEmbed(theta=10000, axes_dim=[16, 56, 56])(torch.from_numpy(positions.T))
    ours = of("interleaved", (16, 56, 56)).cos_sin(positions)
    assert max(ulps(cos[:, ::2].numpy(), ours[0]), ulps(sin[:, ::2].numpy(), ours[1])) <= 1


def test_wan():
    """As Flux; heights and widths have a third of the channels each, times what the head is not divisible by."""
    rope = WanRotaryPosEmbed(attention_head_dim=128, patch_size=(1, 2, 2), max_seq_len=1024)
    cos, sin = rope(torch.zeros(1, 16, 3, 2 * ROWS, 2 * COLUMNS))
    ours = of("interleaved", (44, 42, 42)).cos_sin(np.indices((3, ROWS, COLUMNS)).reshape(3, -1))
    assert max(ulps(cos[0, :, 0, ::2].numpy(), ours[0]), ulps(sin[0, :, 0, ::2].numpy(), ours[1])) <= 1
