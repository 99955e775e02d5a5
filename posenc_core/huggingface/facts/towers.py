"""Vision towers: the facts about their RoPE that are in a model's code and not in its config, by `model_type`.

Source: the code of the models in transformers 5.23.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ...encodings.rotary.axial import Arrangement, Series, Unit
from ...rotation import Layout
from .records import by_model_type


class Tower(NamedTuple):
    """The facts about a tower.

    Attributes:
        defaults: the values of keys that a config leaves out.
        layout, arrangement, series, unit: as in `AxialRotary`.
        axes: the axes that rotate, in the order of the frequencies: letters of `"thw"`.
        base: the base of the frequencies, for configs without one.
        size, heads, divisor: the keys of the size, the number of heads and another divisor of the size.
        own_width: whether the key `head_dim` is the width of a head; else it is the size divided by the others.
        only_grid: the key of the width and height of the only grid, if it is in the config.
        merge: the key of the size of the blocks in which patches are ordered; `"merge_sizes"` if each image has its
            own; None if patches are in row-major order.
        window: the key of the size of the windows in which patches are ordered: `"window_size"` in pixels, else in
            patches.
        start: the position of the first row and column.
        prefix, suffix: the number of tokens before and after the patches of each image that do not rotate.
        registers: the key of the number of further tokens before the patches.
        whole: whether `grid_thw` counts blocks, not patches.
        frames: whether a grid may have more than one frame.
        scaled: whether some layers have windows, and others scale their positions to the span of a window.
        permuted: whether transformers permutes the weights while it loads them, as in `Model`.
        note: a rotation of the tower that the encoding is not.
    """

    defaults: Mapping[str, int]
    layout: Layout = "half"
    arrangement: Arrangement = "concat"
    series: Series = "own"
    unit: Unit = "radian"
    axes: str = "hw"
    base: float = 10000
    size: str = "hidden_size"
    heads: tuple[str, ...] = ("num_attention_heads", "num_heads")
    divisor: str | None = None
    own_width: bool = False
    only_grid: str | None = None
    merge: str | None = None
    window: str | None = None
    start: int = 0
    prefix: int = 0
    suffix: int = 0
    registers: str | None = None
    whole: bool = False
    frames: bool = True
    scaled: bool = False
    permuted: bool = False
    note: str | None = None

    def fill_in(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return the config with the keys that it leaves out."""
        given = {key: value for key, value in config.items() if value is not None}
        counted = any(key in given for key in self.heads)
        return {key: value for key, value in self.defaults.items() if not (counted and key in self.heads)} | given


_MERGE = "spatial_merge_size"


def _tower(width: int, heads: int, patch: int, **facts: Any) -> Tower:
    defaults = {facts.get("size", "hidden_size"): width, "num_attention_heads": heads, "patch_size": patch, _MERGE: 2}
    return Tower(defaults=defaults | facts.pop("more", {}), **facts)


def _blocks(width: int, heads: int, patch: int, **facts: Any) -> Tower:
    return _tower(width, heads, patch, merge=_MERGE, **facts)


def _normalized(width: int, heads: int, registers: int) -> Tower:
    facts = {"unit": "turn", "base": 100, "prefix": 1, "registers": "num_register_tokens", "frames": False}
    return _tower(width, heads, 16, **facts, more={"num_register_tokens": registers})


_MEMORY = Tower(  # the attention to the memory; the tower itself has no RoPE, but that of SAM 3
    {
        "memory_attention_hidden_size": 256,
        "memory_attention_num_attention_heads": 1,
        "memory_attention_downsample_rate": 1,
    },
    layout="interleaved",
    axes="wh",
    size="memory_attention_hidden_size",
    heads=("memory_attention_num_attention_heads",),
    divisor="memory_attention_downsample_rate",
    only_grid="memory_attention_rope_feat_sizes",
    frames=False,
)
_LEARNED = "the class token rotates by learned angles, `class_pos_emb`: leave it out here and rotate it by those."

_TABLE = {
    "cohere_compass_vision interns1_pro_vision qwen3_5_moe_vision qwen3_5_vision": _blocks(1152, 16, 16),
    "qwen3_omni_moe_vision_encoder qwen3_vl_moe_vision qwen3_vl_vision qwen4_exp_vision": _blocks(1152, 16, 16),
    "dinov3_vit": _normalized(384, 6, 0),
    "dots3_note_vision_encoder": _blocks(1536, 24, 14),
    "edgetam_video sam2_video sam3_tracker_video": _MEMORY,
    "eomt_dinov3": _normalized(1024, 16, 4),
    "ernie4_5_vl_moe_vision": _blocks(1280, 16, 14),
    "exaone4_5_vision qwen2_5_omni_vision_encoder qwen2_5_vl_vision": _blocks(
        3584, 16, 14, window="window_size", more={"window_size": 112}
    ),
    "gemma4_vision": _tower(
        768, 12, 16, arrangement="blocks", axes="wh", base=100, own_width=True, frames=False, more={"head_dim": 64}
    ),
    "glm4v_moe_vision glm4v_vision": _blocks(1536, 12, 14),
    "glm5_next_vision glm_ocr_vision": _blocks(1024, 16, 14),
    "inkling2_vision": _blocks(1024, 16, 20, layout="interleaved", axes="wh", start=1, prefix=1, whole=True),
    "kimi_k25_vision": _tower(1152, 16, 14, arrangement="alternating", axes="wh", permuted=True),
    "lfm3_vl_vision": _blocks(1024, 16, 16, base=1_000_000),
    "llama4_vision_model": _tower(768, 16, 14, layout="interleaved", axes="wh", start=1, suffix=1, frames=False),
    "minimax_m3_vl_vision": _blocks(1280, 16, 14, axes="thw"),
    "mlcd_vision_model": _tower(1664, 16, 14, frames=False, note=_LEARNED),
    "muse_glimmer_vision muse_spark_vision": _tower(
        1536, 16, 14, axes="wh", start=1, window="pos_emb_height", more={"pos_emb_height": 32}
    ),
    "paddleocr_vl_vision": _tower(1152, 16, 14),
    "pixtral": _tower(1024, 16, 16, series="dealt", frames=False),
    "qwen2_vl_vision": _blocks(1280, 16, 14, size="embed_dim"),
    "sam3_vit_model": _tower(
        1024, 16, 14, layout="interleaved", axes="wh", frames=False, scaled=True, more={"window_size": 24}
    ),
    "sapiens2": _normalized(1024, 16, 8),
    "step3p5_vision": _tower(1536, 16, 14, axes="wh", frames=False, permuted=True),
    "video_llama_3_vision": _tower(768, 12, 16, merge="merge_sizes"),
}
TOWERS = by_model_type(_TABLE)
SUFFIXES = ("_vision", "_vision_encoder", "_vision_model")  # that older configs leave out
WITHOUT_ROPE = {
    *("clip_vision_model", "dinov2", "glm_image_vision", "idefics3_vision", "sam2_hiera_det_model"),
    *("sam2_vision_model", "siglip2_vision_model", "siglip_vision_model", "smolvlm_vision", "vit"),
}
REFUSED = {
    "efficientloftr": "it rotates queries and keys before they are split into heads",
    "vjepa2": "it multiplies the two channels of a pair by different angles, which is not a rotation",
}
HARMLESS = {*("memory_attention_rope_dropout", "memory_attention_rope_feat_sizes", "memory_attention_rope_k_sizes")}
