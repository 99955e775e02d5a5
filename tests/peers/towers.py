"""Vision towers of transformers: small ones, built at random and watched at work on images of several grids."""

import importlib
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import CONFIG_MAPPING, PreTrainedModel

PATCH = 4
ROTATIONS = (  # of which the first that a module has is that of its tower
    "apply_multidimensional_rope",
    "apply_rotary_pos_emb_vision",
    "apply_rotary_pos_emb_2d",
    "apply_rotary_pos_emb_2d_self_attn",
    "vision_apply_rotary_emb",
    "apply_rotary_pos_emb",
)
SMALL = {"intermediate_size": 32, "depth": 1, "num_hidden_layers": 1, "out_hidden_size": 32, "patch_size": PATCH}
SIZES = ("hidden_size", "embed_dim")
COUNTS = ("num_attention_heads", "num_heads", "num_key_value_heads")
# The frames, height and width of images and videos, in patches: blocks of 2 × 2 divide them, windows do not.
VIDEOS = ([(1, 4, 6)], [(1, 6, 2), (1, 2, 10)], [(3, 10, 6), (1, 4, 4), (2, 2, 12)])
FRAMES = ([(1, 4, 6)], [(1, 6, 2), (1, 2, 10)], [(1, 10, 6), (1, 4, 4), (1, 2, 12)])
IMAGES = ([(1, 4, 6)], [(1, 5, 3)], [(1, 3, 7)])


class Seen(NamedTuple):
    """Queries or keys before and after the rotation, `(..., length, width)`."""

    before: np.ndarray
    after: np.ndarray


class Enough(Exception):  # noqa: N818  # the rest of the model has nothing to do with positions
    """The rotations that a test asks for have been seen."""


class Tower(NamedTuple):
    """A tower: how it takes grids, fields of its config, the grids, our options, and how many tokens to leave out.

    Fields may be functions of the width of a head and the number of heads.
    """

    model_type: str
    run: Callable[..., Any]
    fields: dict[str, Any] = {}  # noqa: RUF012  # never changed
    grids: tuple[list[tuple[int, int, int]], ...] = VIDEOS
    options: dict[str, Any] = {}  # noqa: RUF012
    left_out: int = 0

    def __str__(self):
        return "-".join([self.model_type, *map(str, self.options.values())])


def small(tower, head_dim, heads):
    """Return the config of a small tower with so many heads of that width."""
    config_class = CONFIG_MAPPING[tower.model_type]
    known = config_class().to_dict()
    sizes = dict.fromkeys(SIZES, head_dim * heads) | dict.fromkeys(COUNTS, heads) | SMALL
    made = {key: make(head_dim, heads) if callable(make) else make for key, make in tower.fields.items()}
    return config_class(**{key: size for key, size in sizes.items() if key in known} | made)


def watch(tower, config, grids, monkeypatch):
    """Run a random tower until it has rotated queries and keys, and return these."""
    module = importlib.import_module(type(config).__module__.replace("configuration_", "modeling_"))
    seen: list[Seen] = []
    name = next(name for name in ROTATIONS if hasattr(module, name))
    monkeypatch.setattr(module, name, _noting(getattr(module, name), seen))
    torch.manual_seed(0)
    try:
        with torch.no_grad():
            tower.run(module, config, grids)
    except Enough:
        return seen
    raise AssertionError(f"{tower} has rotated {len(seen)} tensors, not 2")


def _noting(rotation, seen):
    def noting(*args, **kwargs):
        before = [
            arg.clone() for name, arg in _named(rotation, args, kwargs) if name in ("q", "k", "x", "query", "key")
        ]
        out = rotation(*args, **kwargs)
        after = out if isinstance(out, tuple) else (out,)
        seen.extend(Seen(*map(_rows, pair)) for pair in zip(before, after, strict=True))
        if len(seen) >= 2:
            raise Enough
        return out

    return noting


def _named(function, args, kwargs):
    names = function.__code__.co_varnames
    return [*zip(names, args, strict=False), *kwargs.items()]


def _rows(x):
    """Return `(..., length, width)` of a tensor whose length is its longest axis."""
    return x.movedim(int(np.argmax(x.shape[:-1])), -2).numpy().copy()


def _model(module, config):
    for one in vars(module).values():
        is_model = isinstance(one, type) and issubclass(one, PreTrainedModel) and "forward" in vars(one)
        if is_model and one.__module__ == module.__name__ and one.config_class is type(config):
            model = one._from_config(config, attn_implementation="eager").eval()
            if any(re.search("Rotary|RopePosition", type(part).__name__) for part in model.modules()):
                return model
    raise AssertionError(f"no model for {type(config).__name__}")


def _channels(config):
    """Return the channels of a patch: colors, frames and pixels."""
    colors = getattr(config, "in_channels", None) or getattr(config, "num_channels", None) or 3
    frames = getattr(config, "temporal_patch_size", None) or getattr(config, "patch_temporal", None) or 1
    return colors * frames * PATCH**2


def _count(grids):
    return sum(int(np.prod(one)) for one in grids)


def packed(module, config, grids):
    """Patches of all images in one sequence, flat."""
    _model(module, config)(torch.randn(_count(grids), _channels(config)), torch.tensor(grids))


def square(module, config, grids):
    """The same, each patch as a small image."""
    _model(module, config)(torch.randn(_count(grids), 3, PATCH, PATCH), torch.tensor(grids))


def batched(module, config, grids):
    """The same, in a batch of one."""
    _model(module, config)(torch.randn(1, _count(grids), 3, PATCH, PATCH), grid_thw=torch.tensor(grids))


def with_merge_sizes(module, config, grids):
    """The same, flat, with the size of the blocks of each image: of the first one 2, of the others 1."""
    sizes = torch.tensor([2, 1, 1][: len(grids)])
    _model(module, config)(torch.randn(_count(grids), _channels(config)), torch.tensor(grids), sizes)


def in_blocks(module, config, grids):
    """Blocks of 2 × 2 patches, whose number `image_grid_thw` counts."""
    pixels = torch.randn(_count(grids), 2 * PATCH, 2 * PATCH, 3)
    _model(module, config)(pixels, torch.tensor(grids))


def pixels(module, config, grids):
    """One image."""
    ((_, height, width),) = grids
    _model(module, config)(torch.randn(1, 3, height * PATCH, width * PATCH))


def with_positions(module, config, grids):
    """Patches with their columns and rows, as the image processor of Gemma 4 makes them."""
    ((_, height, width),) = grids
    positions = torch.stack(torch.meshgrid(torch.arange(width), torch.arange(height), indexing="xy"), dim=-1)
    _model(module, config)(torch.randn(1, height * width, 3 * PATCH**2), positions.reshape(1, -1, 2))


def by_parts(module, config, grids):
    """Random queries and keys, with the tables of the model: EoMT's whole model needs SciPy."""
    ((_, height, width),) = grids
    tables = module.EomtDinov3RotaryEmbedding(config).eval()(torch.zeros(1, 3, height * PATCH, width * PATCH))
    heads = config.num_attention_heads
    queries = torch.randn(1, heads, height * width + 1 + config.num_register_tokens, config.hidden_size // heads)
    module.apply_rotary_pos_emb(queries, queries.flip(-1), *tables)


def memory(module, config, grids):
    """The attention of a video model to its memory, on the grid of the config."""
    (made,) = (one for name, one in vars(module).items() if name.endswith("VideoMemoryAttention"))
    config._attn_implementation = "eager"
    frames = torch.randn(_count(grids), 1, config.memory_attention_hidden_size)
    kept = torch.randn(_count(grids), 1, 64)
    made(config).eval()(frames, kept, memory_posision_embeddings=kept)


WINDOWS = {"window_size": 4 * PATCH}
COLUMNS_FIRST = {"pos_emb_height": 4, "pos_emb_width": 4}
SAM3 = {"window_size": 6, "image_size": 12 * PATCH, "pretrain_image_size": 6 * PATCH}
SAPIENS = {
    "num_key_value_heads_per_layer": lambda _, heads: [heads],
    "num_key_value_attention_heads": lambda _, heads: heads,
}
DOTS = {
    "mlp_layer_types": ["dense"],
    "pyramid_num_routed": [-1],
    "adapter_in_dim": lambda head_dim, heads: heads * head_dim,
    "adapter_out_dim": 32,
}
FULL, WINDOWED = ({"layer_type": name} for name in ("full_attention", "window_attention"))
MEMORY = {
    "memory_attention_hidden_size": lambda head_dim, heads: 2 * heads * head_dim,
    "memory_attention_num_attention_heads": lambda _, heads: heads,
    "memory_attention_downsample_rate": 2,
    "memory_attention_num_layers": 1,
    "memory_attention_rope_feat_sizes": [6, 4],
}
LLAMA = {"image_size": 5 * PATCH, "projector_input_dim": 32, "projector_output_dim": 32, "vision_output_dim": 32}

ELSEWHERE = {"interns1_pro_vision"}  # not in transformers: `tests/core/test_load_position.py` has its config
TOWERS = [
    Tower("cohere_compass_vision", packed),
    Tower("dinov3_vit", pixels, {"num_register_tokens": 2}, grids=IMAGES),
    Tower("dots3_note_vision_encoder", packed, DOTS),
    Tower("edgetam_video", memory, MEMORY, grids=([(1, 4, 6)],)),
    Tower("eomt_dinov3", by_parts, {"num_register_tokens": 3}, grids=IMAGES),
    Tower("ernie4_5_vl_moe_vision", packed),
    Tower("exaone4_5_vision", packed, WINDOWS),
    Tower("gemma4_vision", with_positions, {"head_dim": lambda head_dim, _: head_dim}, grids=IMAGES),
    Tower("glm4v_moe_vision", packed, grids=FRAMES),
    Tower("glm4v_vision", packed, grids=FRAMES),
    Tower("glm5_next_vision", packed),
    Tower("glm_ocr_vision", packed),
    Tower("inkling2_vision", in_blocks),
    Tower("kimi_k25_vision", square),
    Tower("lfm3_vl_vision", packed, {"layer_types": ["full_attention"]}),
    Tower("llama4_vision_model", pixels, LLAMA, grids=([(1, 5, 5)],)),
    Tower("minimax_m3_vl_vision", packed),
    Tower("mlcd_vision_model", pixels, grids=IMAGES, left_out=1),
    Tower("muse_glimmer_vision", packed, COLUMNS_FIRST),
    Tower("muse_spark_vision", packed, COLUMNS_FIRST),
    Tower("paddleocr_vl_vision", batched),
    Tower("pixtral", pixels, grids=IMAGES),
    Tower("qwen2_5_omni_vision_encoder", packed, WINDOWS),
    Tower("qwen2_5_vl_vision", packed, WINDOWS),
    Tower("qwen2_vl_vision", packed),
    Tower("qwen3_5_moe_vision", packed),
    Tower("qwen3_5_vision", packed),
    Tower("qwen3_omni_moe_vision_encoder", packed),
    Tower("qwen3_vl_moe_vision", packed),
    Tower("qwen3_vl_vision", packed),
    Tower("qwen4_exp_vision", packed),
    Tower("sam2_video", memory, MEMORY, grids=([(1, 4, 6)],)),
    Tower("sam3_tracker_video", memory, MEMORY | {"image_size": 6 * 14}, ([(1, 6, 6)],), {"part": None}),
    Tower("sam3_vit_model", pixels, SAM3 | {"global_attn_indexes": [0]}, ([(1, 12, 12)],), FULL),
    Tower("sam3_vit_model", pixels, SAM3 | {"global_attn_indexes": []}, ([(1, 6, 6)],), WINDOWED),
    Tower("sapiens2", pixels, SAPIENS, grids=IMAGES),
    Tower("step3p5_vision", pixels, grids=IMAGES),
    Tower("video_llama_3_vision", with_merge_sizes, options={"merge_sizes": [2, 1, 1]}),
]
