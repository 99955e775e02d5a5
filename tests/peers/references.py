"""Reference images: what the pipelines of diffusers that edit images make of them."""

from importlib import import_module
from types import SimpleNamespace

import torch
from diffusers.models.transformers import transformer_flux, transformer_flux2, transformer_qwenimage

from .newer_pictures import by_complex, by_ids, by_pairs, flux3_ids, longcat_ids, model_of, still
from .pictures import COLUMNS, FLUX, HEAD, ROWS, TEXT, Case, complex_numbers, interleaved

SIZES = [(3, 2), (2, 5)]
TOKENS = {"height": ROWS, "width": COLUMNS, "text": TEXT, "images": SIZES}
ONE, ALIKE = TOKENS | {"images": SIZES[:1]}, TOKENS | {"images": [(ROWS, COLUMNS)]}
FIBO_2 = {
    "dim": 3584, "n_heads": 28, "axes_dims": [32, 48, 48], "axes_lens": [2048, 512, 512], "rope_theta": 256.0,
    "max_num_gist_tokens": 512,
}  # fmt: skip
JOY = {"hidden_size": 3072, "num_attention_heads": 24, "rope_dim_list": [16, 56, 56], "rope_type": "rope", "theta": 256}


def pipeline(path):
    """Return a class or a function of a module of pipelines."""
    module, _, name = path.rpartition(".")
    return getattr(import_module(f"diffusers.{module}"), name)


def kontext(config):
    cls = pipeline("pipelines.flux.pipeline_flux_kontext.FluxKontextPipeline")
    makers = {name: getattr(cls, name) for name in ("_pack_latents", "_prepare_latent_image_ids")}
    owner = SimpleNamespace(vae_scale_factor=8, latent_channels=16, **makers)
    ((rows, columns),) = ONE["images"]
    image, sizes = torch.zeros(1, 16, 2 * rows, 2 * columns), (16 * ROWS, 16 * COLUMNS)
    _, _, ids, more = cls.prepare_latents(owner, image, 1, 16, *sizes, torch.float32, "cpu")
    embed = transformer_flux.FluxPosEmbed(theta=10000, axes_dim=config["axes_dims_rope"])
    return interleaved(*embed(torch.cat([torch.zeros(TEXT, 3), ids, more])))


def flux2(config):
    cls = pipeline("pipelines.flux2.pipeline_flux2.Flux2Pipeline")
    ids = [
        cls._prepare_text_ids(torch.zeros(1, TEXT, 8)),
        cls._prepare_latent_ids(torch.zeros(1, 8, ROWS, COLUMNS)),
        cls._prepare_image_ids([torch.zeros(1, 8, *size) for size in SIZES]),
    ]
    embed = transformer_flux2.Flux2PosEmbed(theta=config["rope_theta"], axes_dim=config["axes_dims_rope"])
    return interleaved(*embed(torch.cat([part[0] for part in ids])))


def flux3(config):
    make = pipeline("modular_pipelines.flux3.before_denoise._prepare_image_ids")
    more = [make(*size, 0.5, l_coord=-(1 + index)) for index, size in enumerate(SIZES)]
    return torch.cat([flux3_ids(config), *more])


def longcat(config):
    make = pipeline("pipelines.longcat_image.pipeline_longcat_image_edit.prepare_pos_ids")
    more = make(modality_id=2, type="image", start=(TEXT, TEXT), height=ROWS, width=COLUMNS)
    return torch.cat([longcat_ids(config), more])


def bria_fibo(config):
    make = pipeline("pipelines.bria_fibo.pipeline_bria_fibo_edit.BriaFiboEditPipeline")._prepare_latent_image_ids
    images = [make(1, *size, "cpu", torch.float32) for size in ((ROWS, COLUMNS), *SIZES)]
    for index, ids in enumerate(images):
        ids[..., 0] = index
    return torch.cat([torch.zeros(TEXT, 3), *images])


def bria_fibo2(config):
    module = model_of("transformer_bria_fibo2")
    places = module.BriaFibo2Transformer2DModel.create_coordinate_grid
    planes = range(config["max_num_gist_tokens"] + 1, 10**6)
    images = [places((1, *size), (plane, 0, 0)) for plane, size in zip(planes, [(ROWS, COLUMNS), *SIZES], strict=False)]
    ids = torch.cat([part.flatten(0, 2) for part in (places((TEXT, 1, 1), (1, 0, 0)), *images)])
    return by_complex(module.RopeEmbedder(config["rope_theta"], config["axes_dims"], config["axes_lens"])(ids))


def qwen(config):
    rope = transformer_qwenimage.QwenEmbedRope(theta=10000, axes_dim=config["axes_dims_rope"], scale_rope=True)
    image, text = rope([[(1, ROWS, COLUMNS), *((1, *size) for size in SIZES)]], "cpu", TEXT)
    turn = transformer_qwenimage.apply_rotary_emb_qwen
    return complex_numbers(torch.cat([text, image]), lambda x, table: turn(x, table, use_real=False))


def joy_image(config):
    module = model_of("transformer_joyimage_edit_plus")
    make, owner = module.JoyImageEditPlusTransformer3DModel._get_rotary_pos_embed_for_range, SimpleNamespace()
    owner.config = SimpleNamespace(**config)
    tables = [make(owner, (frame, 0, 0), (frame + 1, *size)) for frame, size in enumerate([(ROWS, COLUMNS), *SIZES])]
    cos, sin = (torch.cat([still(one[0], k), *one]) for k, one in enumerate(zip(*tables, strict=True)))
    return by_pairs(cos, sin, lambda x: module._apply_rotary_emb_batched(x, x, (cos[None], sin[None]))[0])


FLUX_4 = HEAD | {"axes_dims_rope": [32] * 4}
CASES = [
    Case("FluxTransformer2DModel", FLUX, kontext, ONE),
    Case("Flux2Transformer2DModel", FLUX_4 | {"rope_theta": 2000}, flux2, TOKENS),
    Case(
        "Flux3Transformer2DModel",
        FLUX_4 | {"rope_theta": 10000},
        by_ids("transformer_flux3", "Flux3PosEmbed", flux3),
        TOKENS,
    ),
    Case(
        "LongCatImageTransformer2DModel",
        FLUX,
        by_ids("transformer_longcat_image", "LongCatImagePosEmbed", longcat),
        ALIKE,
    ),
    Case(
        "BriaFiboTransformer2DModel",
        FLUX | {"rope_theta": 10000},
        by_ids("transformer_bria_fibo", "BriaFiboEmbedND", bria_fibo),
        TOKENS,
    ),
    Case("BriaFibo2Transformer2DModel", FIBO_2, bria_fibo2, TOKENS),
    Case("QwenImageTransformer2DModel", FLUX, qwen, TOKENS),
    Case("JoyImageEditPlusTransformer3DModel", JOY, joy_image, TOKENS),
]
