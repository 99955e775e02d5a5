"""More transformers of diffusers, those of 2025 and 2026, and how they are asked for their tables."""

from importlib import import_module
from types import SimpleNamespace

import torch
from diffusers.models import embeddings

from .pictures import (
    COLUMNS,
    FRAMES,
    ROWS,
    TEXT,
    Answer,
    Holder,
    complex_numbers,
    halves,
    interleaved,
    latents,
    pipeline_of,
    wan,
)


def model_of(name, folder="transformers"):
    """Return a module of models."""
    return import_module(f"diffusers.models.{folder}.{name}")


def by_matrices(table, turn):
    """Return the answer of a table of 2 × 2 matrices, one for each pair; `turn` takes the heads after the length."""
    return Answer(table[..., 0, 0], table[..., 1, 0], lambda x: turn(x.transpose(1, 2)).transpose(1, 2))


def by_halves(cos, sin, turn):
    """Return the answer of a table for the layout "half"; `turn` takes the heads after the length."""
    half = cos.shape[-1] // 2
    return Answer(cos[:, :half], sin[:, :half], lambda x: turn(x.transpose(1, 2)).transpose(1, 2))


def grid_ids(config=None, text=None):
    """Return the positions that most pipelines make: text at 0, or as given, and rows and columns."""
    image = pipeline_of("ovis_image", "OvisImagePipeline")._prepare_latent_image_ids(1, ROWS, COLUMNS, "cpu", None)
    return torch.cat([torch.zeros(TEXT, 3) if text is None else text, image])


def krea_ids(config):
    return pipeline_of("krea2", "Krea2Pipeline").prepare_position_ids(TEXT, ROWS, COLUMNS, "cpu")


def ovis_ids(config):
    return grid_ids(text=torch.arange(TEXT)[:, None] * torch.tensor([0.0, 1, 1]))


def longcat_ids(config):
    make = import_module("diffusers.pipelines.longcat_image.pipeline_longcat_image_edit").prepare_pos_ids
    image = {"type": "image", "start": (TEXT, TEXT), "height": ROWS, "width": COLUMNS}
    return torch.cat([make(num_token=TEXT), make(modality_id=1, **image)])


def flux3_ids(config):
    steps = import_module("diffusers.modular_pipelines.flux3.before_denoise")
    text = steps.Flux3TextRoPEInputsStep._prepare_text_ids(torch.zeros(1, TEXT, 8))
    return torch.cat([text, steps._prepare_image_ids(ROWS, COLUMNS, 0.5)])


def hidream(config):
    module = model_of("transformer_hidream_image")
    table = module.HiDreamImageEmbedND(theta=10000, axes_dim=config["axes_dims_rope"])(grid_ids()[None])
    return by_matrices(table[0, :, 0], lambda x: module.apply_rope(x, x, table)[0])


def prx(config):
    module = model_of("transformer_prx")
    ids = module.get_image_ids(1, 2 * ROWS, 2 * COLUMNS, 2, "cpu")
    head_dim = config["hidden_size"] // config["num_heads"]
    table = module.PRXEmbedND(dim=head_dim, theta=config["theta"], axes_dim=config["axes_dim"])(ids)
    return Answer(table[0, 0, ..., 0, 0], table[0, 0, ..., 1, 0], lambda x: module.apply_rope(x, table))


def bria_fibo2(config):
    module = model_of("transformer_bria_fibo2")
    places = module.BriaFibo2Transformer2DModel.create_coordinate_grid
    image = places((1, ROWS, COLUMNS), (config["max_num_gist_tokens"] + 1, 0, 0))
    ids = [part.flatten(0, 2) for part in (places((TEXT, 1, 1), (1, 0, 0)), image)]
    arguments = {
        name: config[key] for name, key in [("theta", "rope_theta"), *[(k, k) for k in ("axes_dims", "axes_lens")]]
    }
    return by_complex(module.RopeEmbedder(**arguments)(torch.cat(ids)))


def by_complex(table):
    return complex_numbers(table, lambda x, table: embeddings.apply_rotary_emb(x, table[None], use_real=False))


def ideogram(config):
    module = model_of("transformer_ideogram4")
    ids, _, _ = pipeline_of("ideogram4", "Ideogram4Pipeline")._prepare_ids([TEXT], ROWS, COLUMNS, TEXT, "cpu")
    cos, sin = module.Ideogram4MRoPE(
        head_dim=config["attention_head_dim"], base=config["rope_theta"], mrope_section=config["mrope_section"]
    )(ids)
    return by_halves(cos[0], sin[0], lambda x: x * cos[:, :, None] + module._rotate_half(x) * sin[:, :, None])


def cosmos3_ids(config):
    """Return the positions of text and of a video, as its pipeline makes them."""
    pipeline = import_module("diffusers.pipelines.cosmos.pipeline_cosmos3_omni")
    text, offset = pipeline.get_3d_mrope_ids_text_tokens(TEXT, 0)
    video, _ = pipeline.get_3d_mrope_ids_vae_tokens(FRAMES, ROWS, COLUMNS, offset + 15000)
    return torch.cat([text, video], dim=1).numpy()


def cosmos3(config):
    module = model_of("transformer_cosmos3")
    arguments = {"head_dim": config["head_dim"], "rope_theta": config["rope_theta"]}
    embed = module.Cosmos3VLTextRotaryEmbedding(**arguments, rope_axes_dim=config["rope_axes_dim"])
    cos, sin = embed(torch.as_tensor(cosmos3_ids(config))[:, None], "cpu", torch.float32)
    return halves(cos[0], sin[0])


def minimax_ids(config):
    steps = import_module("diffusers.modular_pipelines.minimax_h3.before_denoise")
    places, _ = steps._frame_position_grid(2 * ROWS, 2 * COLUMNS, 2, 2)
    times = steps._temporal_position_grid(FRAMES, TEXT).repeat_interleave(ROWS * COLUMNS)[:, None]
    text = torch.arange(TEXT)[:, None] * torch.tensor([1.0, 0, 0])
    return torch.cat([text, torch.cat([times, places.repeat(FRAMES, 1)], dim=1)])


def minimax(config):
    module = model_of("transformer_minimax_h3")
    names = {"rope_freq_dim": config["rope_freq_dim"], "rope_theta": config["rope_theta"]}
    cos, sin = module.MiniMaxH3RotaryPosEmbed(**names)(minimax_ids(config))
    return by_halves(cos, sin, lambda x: module._apply_rotary_emb(x, cos, sin))


def minimax_decoder(config):
    module = model_of("autoencoder_kl_minimax_h3", "autoencoders")
    share = int(config["decoder_attention_head_dim"] * config["decoder_rope_dim_ratio"])
    centers = [2 * (torch.arange(0.5, size) / size) - 1 for size in (FRAMES, ROWS, COLUMNS)]
    ids = torch.stack(torch.meshgrid(*centers, indexing="ij"), dim=-1).flatten(0, 2)[None]
    cos, sin = (
        one[0, :, 0] for one in module.MiniMaxH3VideoRotaryPosEmbed(share, theta=config["decoder_rope_theta"])(ids)
    )
    return by_halves(cos, sin, lambda x: model_of("transformer_minimax_h3")._apply_rotary_emb(x, cos, sin))


def wan_of(name, cls="WanRotaryPosEmbed"):
    return wan(getattr(model_of(f"transformer_{name}"), cls))


def chronoedit(frames):
    """Return the way to ask for so many frames; the second of two is one of those that are skipped."""

    def ask(config):
        embed = model_of("transformer_chronoedit").ChronoEditRotaryPosEmbed
        names = [config[name] for name in ("attention_head_dim", "patch_size", "rope_max_seq_len")]
        rope = embed(*names, temporal_skip_len=config["rope_temporal_skip_len"])
        return interleaved(*(table[0, :, 0] for table in rope(latents(config, frames=frames))))

    return ask


def anyflow(name, cls, *patches):
    def ask(config):
        module = model_of(name)
        sizes = (config["patch_size"], *(config[key] for key in patches))
        rope = getattr(module, cls)(config["attention_head_dim"], *sizes, config["rope_max_seq_len"])
        table = rope._forward_full_frame(FRAMES, ROWS, COLUMNS, torch.device("cpu")).flatten(0, 2)
        return Answer(table.real, table.imag, lambda x: module.apply_rotary_emb(x, table))

    return ask


def wan_animate_2(config):
    module = model_of("transformer_wan_animate_2")
    owner = SimpleNamespace(
        rope_freqs_cache={}, config=SimpleNamespace(dim=config["dim"], num_heads=config["num_heads"])
    )
    freqs = module.WanAnimate2Transformer3DModel._rope_freqs(owner, (0, 0, 0), torch.device("cpu"))
    sizes = torch.tensor([[FRAMES, ROWS, COLUMNS]])
    pairs = freqs.shape[1]
    ones = torch.complex(torch.ones(1, FRAMES * ROWS * COLUMNS, 1, pairs), torch.zeros(1))
    table = torch.view_as_complex(
        module.rope_apply(torch.view_as_real(ones).flatten(3), sizes, freqs).reshape(-1, pairs, 2)
    )
    turn = module.rope_apply
    return Answer(table.real, table.imag, lambda x: turn(x.transpose(1, 2), sizes, freqs).transpose(1, 2))


def sana_wm(config):
    module = model_of("transformer_sana_wm")
    rope = module.SanaWMRotaryPosEmbed(
        attention_head_dim=config["linear_head_dim"], patch_size=tuple(config["patch_size"]), max_seq_len=1024
    )
    table = rope((FRAMES, ROWS, COLUMNS))
    turn = module._apply_rotary_emb
    return Answer(table[0, 0].real, table[0, 0].imag, lambda x: turn(x.transpose(2, 3), table).transpose(2, 3))


def helios(config):
    module = model_of("transformer_helios")
    rope = module.HeliosRotaryPosEmbed(rope_dim=config["rope_dim"], theta=config["rope_theta"])
    table = rope(torch.arange(FRAMES)[None], ROWS, COLUMNS, "cpu").flatten(2).transpose(1, 2)
    cos, sin = table[0].chunk(2, dim=-1)
    turn = module.apply_rotary_emb_transposed
    return Answer(cos[:, ::2], sin[:, 1::2], lambda x: turn(x.transpose(1, 2), table).transpose(1, 2))


def framepack(config):
    embed = model_of("transformer_hunyuan_video_framepack").HunyuanVideoFramepackRotaryPosEmbed
    patch = config["patch_size"]
    rope = embed(patch, config["patch_size_t"], config["rope_axes_dim"], config["rope_theta"])
    return interleaved(*rope(torch.arange(FRAMES), patch * ROWS, patch * COLUMNS, "cpu"))


def easy_animate(config):
    rope = model_of("transformer_easyanimate").EasyAnimateRotaryPosEmbed(
        config["patch_size"], config["attention_head_dim"]
    )
    return interleaved(*rope(latents(config, patch=config["patch_size"])))


def consis_id(config):
    make = pipeline_of("consisid", "ConsisIDPipeline")._prepare_rotary_positional_embeddings
    size = 8 * config["patch_size"]
    return interleaved(*make(Holder(config), ROWS * size, COLUMNS * size, FRAMES, "cpu"))


def lumina_next(config):
    head_dim = config["hidden_size"] // config["num_attention_heads"]
    table = embeddings.get_2d_rotary_pos_embed_lumina(head_dim, 384, 384)
    return by_complex(table[:ROWS, :COLUMNS].flatten(0, 1))


def glm_image(config):
    embed = model_of("transformer_glm_image").GlmImageRotaryPosEmbed
    rope = embed(config["attention_head_dim"], config["patch_size"], theta=10000.0)
    return halves(*rope(torch.zeros(1, 16, config["patch_size"] * ROWS, config["patch_size"] * COLUMNS)))


def qwen21(config):
    module = model_of("transformer_qwenimage21")
    rope = module.QwenImage21Rope(theta=10000, axes_dim=list(config["axes_dims_rope"]))
    is_image = torch.arange(TEXT + ROWS * COLUMNS) >= TEXT
    table = rope([(1, ROWS, COLUMNS)], is_image, "cpu")
    return complex_numbers(table, lambda x, table: module.apply_rotary_emb_qwen(x, table, use_real=False))


def nucleus(config):
    module = model_of("transformer_nucleusmoe_image")
    rope = module.NucleusMoEEmbedRope(theta=10000, axes_dim=list(config["axes_dims_rope"]), scale_rope=True)
    image, text = rope([(FRAMES, ROWS, COLUMNS)], "cpu", TEXT)
    turn = module._apply_rotary_emb_nucleus
    return complex_numbers(torch.cat([text, image]), lambda x, table: turn(x, table, use_real=False))


def joy_image(config):
    module = model_of("transformer_joyimage")
    owner = SimpleNamespace(**{"patch_size": [1, 2, 2]} | config)
    text = TEXT if config["rope_type"] == "mrope" else None
    image, text = module.JoyImageEditTransformer3DModel.get_rotary_pos_embed(owner, [FRAMES, ROWS, COLUMNS], text)
    cos, sin = (torch.cat([still(one, k) if text is None else text[k], one]) for k, one in enumerate(image))
    return by_pairs(cos, sin, lambda x: module._apply_rotary_emb(x, x, (cos, sin))[0])


def joy_image_plus(config):
    module = model_of("transformer_joyimage_edit_plus")
    make = module.JoyImageEditPlusTransformer3DModel._get_rotary_pos_embed_for_range
    image = make(SimpleNamespace(config=SimpleNamespace(**config)), (0, 0, 0), (FRAMES, ROWS, COLUMNS))
    cos, sin = (torch.cat([still(one, k), one]) for k, one in enumerate(image))
    return by_pairs(cos, sin, lambda x: module._apply_rotary_emb_batched(x, x, (cos[None], sin[None]))[0])


def still(table, is_sine=0):
    """Return the rows of a table for text that does not rotate."""
    return torch.full((TEXT, table.shape[1]), 1.0 - is_sine)


def by_pairs(cos, sin, turn):
    return Answer(cos[:, ::2], sin[:, ::2], lambda x: turn(x.transpose(1, 2)).transpose(1, 2))


def kandinsky6(name, cls):
    def ask(config):
        module = model_of(name)
        rope = getattr(module, cls)(config["axes_dims"])
        places = tuple(torch.arange(size) for size in (FRAMES, ROWS, COLUMNS))
        table = rope(places, config["scale_factor"]).flatten(0, 2)
        return by_matrices(table[:, 0], lambda x: module.apply_rotary(x, table))

    return ask


def ltx_decoder(config):
    rope = model_of("ltx2_diffusion_decoder", "autoencoders").LTX2VideoVaeRotaryPosEmbed3D(config["decoder_head_dim"])
    sizes = (FRAMES, ROWS, COLUMNS)

    def turn(x):
        return rope(x.transpose(1, 2).unflatten(1, sizes)).flatten(1, 3).transpose(1, 2)

    ones = torch.tensor([1.0, 0.0]).repeat(config["decoder_head_dim"] // 2).expand(1, 1, FRAMES * ROWS * COLUMNS, -1)
    return Answer(turn(ones)[0, 0, :, ::2], turn(ones)[0, 0, :, 1::2], turn)


def ltx(config):
    module = model_of("transformer_ltx")
    rope = module.LTXVideoRotaryPosEmbed(
        dim=config["num_attention_heads"] * config["attention_head_dim"], patch_size=config["patch_size"],
        patch_size_t=config["patch_size_t"],
    )  # fmt: skip
    return by_width(rope(torch.zeros(1, 1), FRAMES, ROWS, COLUMNS, (8 / 25, 32, 32)), module.apply_rotary_emb)


def ltx2(name, cls):
    def ask(config):
        module = model_of(name)
        rope = getattr(module, cls)(
            dim=config["num_attention_heads"] * config["attention_head_dim"], patch_size=config["patch_size"],
            patch_size_t=config["patch_size_t"], base_num_frames=config["pos_embed_max_pos"],
            base_height=config["base_height"], base_width=config["base_width"],
            scale_factors=tuple(config["vae_scale_factors"]), theta=config["rope_theta"],
            causal_offset=config["causal_offset"], modality="video", double_precision=config["rope_double_precision"],
            rope_type=config["rope_type"], num_attention_heads=config["num_attention_heads"],
        )  # fmt: skip
        coordinates = rope.prepare_video_coords(1, FRAMES, ROWS, COLUMNS, "cpu", fps=24.0)
        return by_width(rope(coordinates), module.apply_interleaved_rotary_emb)

    return ask


def by_width(tables, turn):
    """Return the answer of a table as wide as all heads; some channels at its start do not turn."""
    still = tables[0].shape[-1] % 6
    cos, sin = (table[0, :, still::2] for table in tables)
    return Answer(cos, sin, lambda x: turn(x[0], tables)[None])


def by_ids(module, name, ids):
    """Return the way to ask a module like that of Flux, given the positions."""

    def ask(config):
        embed = getattr(model_of(module), name)
        return interleaved(*embed(config.get("rope_theta", 10000), config["axes_dims_rope"])(ids(config)))

    return ask
