"""How the transformers of diffusers are asked for their tables, and where they differ from what `load_rope` makes."""

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import torch
from diffusers.models import embeddings
from diffusers.models.transformers import (
    transformer_bria,
    transformer_cogview4,
    transformer_cosmos,
    transformer_flux,
    transformer_flux2,
    transformer_hunyuan_video,
    transformer_hunyuan_video15,
    transformer_hunyuanimage,
    transformer_kandinsky,
    transformer_lumina2,
    transformer_qwenimage,
    transformer_skyreels_v2,
    transformer_wan,
    transformer_z_image,
)
from diffusers.pipelines.allegro.pipeline_allegro import AllegroPipeline
from diffusers.pipelines.cogvideo.pipeline_cogvideox import CogVideoXPipeline
from diffusers.pipelines.flux.pipeline_flux import FluxPipeline
from diffusers.pipelines.flux2.pipeline_flux2 import Flux2Pipeline
from diffusers.pipelines.hunyuandit.pipeline_hunyuandit import get_resize_crop_region_for_grid

from posenc_core.huggingface.diffusers import diffusers_positions

from .rounding import ENTRY, UNIT, angle_slack, pair_slack, rotated

FRAMES, ROWS, COLUMNS, TEXT = 3, 4, 6, 5


class Answer(NamedTuple):
    """One column per pair, and the function that rotates `(batch, heads, length, width)` by the library's own table."""

    cos: Any
    sin: Any
    rotate: Callable[[Any], Any]


def interleaved(cos, sin):
    """The table of most classes: each column twice, side by side."""
    return Answer(cos[:, ::2], sin[:, ::2], lambda x: embeddings.apply_rotary_emb(x, (cos, sin)))


def halves(cos, sin):
    """The table of Cosmos and CogView 4: the columns twice, one set after the other."""
    count = cos.shape[-1] // 2
    turn = embeddings.apply_rotary_emb
    return Answer(cos[:, :count], sin[:, :count], lambda x: turn(x, (cos, sin), use_real_unbind_dim=-2))


def complex_numbers(table, turn):
    """The table of Lumina, Qwen-Image and Z-Image; their functions have the heads after the length."""
    return Answer(table.real, table.imag, lambda x: turn(x.transpose(1, 2), table).transpose(1, 2))


def latents(config, *, frames=FRAMES, patch=2):
    return torch.zeros(1, 16, frames, patch * ROWS, patch * COLUMNS)


def flux(module):
    def ask(config):
        ids = FluxPipeline._prepare_latent_image_ids(1, ROWS, COLUMNS, "cpu", torch.float32)
        text = torch.zeros(TEXT, 3)
        theta = config.get("rope_theta", 10000)
        return interleaved(*module(theta=theta, axes_dim=config["axes_dims_rope"])(torch.cat([text, ids])))

    return ask


def flux2(config):
    ids = [
        Flux2Pipeline._prepare_text_ids(torch.zeros(1, TEXT, 8)),
        Flux2Pipeline._prepare_latent_ids(torch.zeros(1, 8, ROWS, COLUMNS)),
    ]
    embed = transformer_flux2.Flux2PosEmbed(theta=config["rope_theta"], axes_dim=config["axes_dims_rope"])
    return interleaved(*embed(torch.cat([part[0] for part in ids])))


def wan(module):
    def ask(config):
        rope = module(config["attention_head_dim"], config["patch_size"], config["rope_max_seq_len"])
        cos, sin = (table[0, :, 0] for table in rope(latents(config)))
        return interleaved(cos, sin)

    return ask


def hunyuan(module):
    def ask(config):
        rope = module(config["patch_size"], config["patch_size_t"], config["rope_axes_dim"], config["rope_theta"])
        return interleaved(*rope(latents(config, patch=config["patch_size"])))

    return ask


def hunyuan_image(config):
    rope = transformer_hunyuanimage.HunyuanImageRotaryPosEmbed(
        config["patch_size"], config["rope_axes_dim"], config["rope_theta"]
    )
    return interleaved(*rope(torch.zeros(1, 16, ROWS, COLUMNS)))


def hunyuan_dit(config):
    crop = get_resize_crop_region_for_grid((ROWS, COLUMNS), 512 // 8 // config["patch_size"])
    return interleaved(*embeddings.get_2d_rotary_pos_embed(config["attention_head_dim"], crop, (ROWS, COLUMNS)))


def qwen(config):
    rope = transformer_qwenimage.QwenEmbedRope(theta=10000, axes_dim=config["axes_dims_rope"], scale_rope=True)
    image, text = rope([(FRAMES, ROWS, COLUMNS)], device="cpu", max_txt_seq_len=TEXT)
    turn = transformer_qwenimage.apply_rotary_emb_qwen
    return complex_numbers(torch.cat([text, image]), lambda x, table: turn(x, table, use_real=False))


def lumina(config):
    rope = transformer_lumina2.Lumina2RotaryPosEmbed(10000, config["axes_dim_rope"], config["axes_lens"])
    _, _, _, table, _, _ = rope(torch.zeros(1, 16, 2 * ROWS, 2 * COLUMNS), torch.ones(1, TEXT, dtype=torch.long))
    turn = embeddings.apply_rotary_emb
    return complex_numbers(table[0], lambda x, table: turn(x, table[None], use_real=False))


def z_image(config):
    text = 32
    grids = transformer_z_image.ZImageTransformer2DModel.create_coordinate_grid
    ids = [grids((text, 1, 1), (1, 0, 0)), grids((1, ROWS, COLUMNS), (text + 1, 0, 0))]
    embed = transformer_z_image.RopeEmbedder(config["rope_theta"], config["axes_dims"], config["axes_lens"])
    table = embed(torch.cat([part.flatten(0, 2) for part in ids]))
    return complex_numbers(table, lambda x, table: embeddings.apply_rotary_emb(x, table[None], use_real=False))


def cogview(config):
    rope = transformer_cogview4.CogView4RotaryPosEmbed(config["attention_head_dim"], 2, config["rope_axes_dim"])
    return halves(*rope(torch.zeros(1, 16, 2 * ROWS, 2 * COLUMNS)))


def cosmos(config):
    rope = transformer_cosmos.CosmosRotaryPosEmbed(config["attention_head_dim"], rope_scale=config["rope_scale"])
    return halves(*rope(latents(config), fps=config.get("fps")))


def kandinsky(config):
    rope = transformer_kandinsky.Kandinsky5RoPE3D(config["axes_dims"])
    places = [torch.arange(size) for size in (FRAMES, ROWS, COLUMNS)]
    table = rope((1, FRAMES, ROWS, COLUMNS), places).reshape(FRAMES * ROWS * COLUMNS, -1, 2, 2)
    cos, sin = table[..., 0, 0], table[..., 1, 0]
    return Answer(cos, sin, lambda x: (table * x.unflatten(-1, (-1, 1, 2))).sum(-1).flatten(-2))


def pipeline_of(folder, name):
    """Return the class of a pipeline."""
    return getattr(import_module(f"diffusers.pipelines.{folder}.pipeline_{folder}"), name)


class Holder:
    """What the pipelines ask of themselves where they make positions."""

    vae_scale_factor_spatial = 8

    def __init__(self, config):
        self.transformer = type("Transformer", (), {"config": type("Config", (), config)})


def cog_video(config):
    frames = FRAMES if config["patch_size_t"] is None else FRAMES * config["patch_size_t"]
    size = 8 * config["patch_size"]
    make = CogVideoXPipeline._prepare_rotary_positional_embeddings
    return interleaved(*make(Holder(config), ROWS * size, COLUMNS * size, frames, "cpu"))


def allegro(config):
    size = 8 * config["patch_size"]
    make = AllegroPipeline._prepare_rotary_positional_embeddings
    tables, places = make(Holder(config), 1, ROWS * size, COLUMNS * size, FRAMES, "cpu")
    picked = [
        [table[place[0]][:, : table.shape[-1] // 2] for table in pair]
        for pair, place in zip(tables, places, strict=True)
    ]
    cos, sin = (torch.cat(parts, dim=-1) for parts in zip(*picked, strict=True))
    return Answer(cos, sin, lambda x: embeddings.apply_rotary_emb_allegro(x, tables, places))


class Case(NamedTuple):
    """A class, a config, and how both are asked.

    Attributes:
        ask: returns the answer of the class.
        tokens: the arguments of `diffusers_positions`, or a function that returns the positions of the pipeline.
        scaled: roundings of a position, where the class computes it in float32.
    """

    name: str
    config: dict[str, Any]
    ask: Callable[[Any], Answer]
    tokens: dict[str, Any] | Callable[[Any], Any]
    scaled: int = 0


IMAGE = {"height": ROWS, "width": COLUMNS}
VIDEO = IMAGE | {"frames": FRAMES}
HEAD = {"attention_head_dim": 128}
FLUX = HEAD | {"axes_dims_rope": [16, 56, 56]}
WAN = HEAD | {"patch_size": [1, 2, 2], "rope_max_seq_len": 1024}
HUNYUAN = HEAD | {"patch_size": 2, "patch_size_t": 1, "rope_axes_dim": [16, 56, 56], "rope_theta": 256.0}
COG = {"attention_head_dim": 64, "patch_size": 2, "patch_size_t": None, "sample_width": 90, "sample_height": 60,
       "use_rotary_positional_embeddings": True}  # fmt: skip
ALLEGRO = {"attention_head_dim": 96, "patch_size": 2, "interpolation_scale_t": 2.2, "interpolation_scale_h": 2.0,
           "interpolation_scale_w": 1.5}  # fmt: skip
Z = {"dim": 3840, "n_heads": 30, "axes_dims": [32, 48, 48], "axes_lens": [1024, 512, 512], "rope_theta": 256.0}
LUMINA = {"hidden_size": 2304, "num_attention_heads": 24, "axes_dim_rope": [32, 32, 32], "axes_lens": [300, 512, 512]}

CASES = [  # the last one of a class also asks its default config
    Case("FluxTransformer2DModel", FLUX, flux(transformer_flux.FluxPosEmbed), IMAGE | {"text": TEXT}),
    Case("ChromaTransformer2DModel", FLUX, flux(transformer_flux.FluxPosEmbed), IMAGE | {"text": TEXT}),
    Case(
        "BriaTransformer2DModel",
        FLUX | {"rope_theta": 500.0, "time_theta": 10000},
        flux(transformer_bria.BriaEmbedND),
        IMAGE | {"text": TEXT},
    ),
    Case(
        "Flux2Transformer2DModel",
        HEAD | {"axes_dims_rope": [32] * 4, "rope_theta": 2000},
        flux2,
        IMAGE | {"text": TEXT},
    ),
    Case("WanTransformer3DModel", WAN, wan(transformer_wan.WanRotaryPosEmbed), VIDEO),
    Case("WanVACETransformer3DModel", WAN, wan(transformer_wan.WanRotaryPosEmbed), VIDEO),
    Case("SkyReelsV2Transformer3DModel", WAN, wan(transformer_skyreels_v2.SkyReelsV2RotaryPosEmbed), VIDEO),
    Case(
        "HunyuanVideoTransformer3DModel", HUNYUAN, hunyuan(transformer_hunyuan_video.HunyuanVideoRotaryPosEmbed), VIDEO
    ),
    Case(
        "HunyuanVideo15Transformer3DModel",
        HUNYUAN,
        hunyuan(transformer_hunyuan_video15.HunyuanVideo15RotaryPosEmbed),
        VIDEO,
    ),
    Case(
        "HunyuanImageTransformer2DModel",
        HUNYUAN | {"patch_size": [1, 1], "rope_axes_dim": [64, 64]},
        hunyuan_image,
        IMAGE,
    ),
    Case("HunyuanDiT2DModel", {"attention_head_dim": 88, "patch_size": 2}, hunyuan_dit, IMAGE, 4),
    Case("QwenImageTransformer2DModel", FLUX, qwen, VIDEO | {"text": TEXT}),
    Case("Lumina2Transformer2DModel", LUMINA, lumina, IMAGE | {"text": TEXT}),
    Case("ZImageTransformer2DModel", Z, z_image, IMAGE | {"text": 32}),
    Case("CogView4Transformer2DModel", HEAD | {"rope_axes_dim": [256, 256]}, cogview, IMAGE),
    Case("CosmosTransformer3DModel", HEAD | {"rope_scale": [2.0, 1.0, 1.5], "fps": 16}, cosmos, VIDEO | {"fps": 16}, 2),
    Case("CosmosTransformer3DModel", HEAD | {"rope_scale": [1.0, 3.0, 3.0], "fps": None}, cosmos, VIDEO),
    Case("Kandinsky5Transformer3DModel", {"axes_dims": [16, 24, 24]}, kandinsky, VIDEO),
    Case(
        "CogVideoXTransformer3DModel",
        COG | {"patch_size_t": 2, "sample_width": 170, "sample_height": 96},
        cog_video,
        VIDEO,
    ),
    Case("CogVideoXTransformer3DModel", COG, cog_video, VIDEO, 4),
    Case("AllegroTransformer3DModel", ALLEGRO, allegro, VIDEO, 1),
]


def difference(encoding, config, case):
    """Return in which of tables and rotated queries the class of a case and the encoding differ; empty if in none."""
    answer = case.ask(config)
    positions = case.tokens(config) if callable(case.tokens) else diffusers_positions(config, **case.tokens)
    table = encoding.cos_sin(positions)
    slack = angle_slack(encoding, positions)
    if case.scaled:
        slack = slack + case.scaled * UNIT * np.abs(positions.T[:, list(encoding.axes)]) * encoding.frequencies()
    for ours, theirs in zip(table, (answer.cos, answer.sin), strict=True):
        if theirs.shape != ours.shape or np.any(np.abs(theirs.numpy() - ours) >= slack + ENTRY * UNIT):
            return "tables"
    x = np.random.default_rng(0).standard_normal((1, 2, positions.shape[-1], encoding.head_dim)).astype(np.float32)
    off = np.abs(answer.rotate(torch.from_numpy(x)).numpy() - rotated(x, table, encoding))
    return "" if np.all(off <= pair_slack(x, encoding, slack)) else "rotated queries"
