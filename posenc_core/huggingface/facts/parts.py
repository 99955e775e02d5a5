"""Facts about models that consist of others, by `model_type`: the configs inside of theirs, and encodings of their own.

Source: the configs and the code of the models in transformers 5.23.
"""

from __future__ import annotations

import json
from pathlib import Path

from .images import RANDOM, SCALED
from .kinds import Axial, Facts, If, Lack, Note, Part, Periods, Rope, Rows, SineGrid, Sines, Table, size
from .records import by_model_type
from .rotations import Keypoints, Times

_VIDEO = Rows("num_image_with_embedding", "vision_config.hidden_size", name="frames of a video")
_MEMORY = (
    Rows(("num_maskmem", 7), ("memory_encoder_output_channels", 64), name="frames of the memory"),
    Note("objects have sinusoids of their distance in time, sines and cosines with each frequency twice, projected"),
    Axial(),
)

# For the models in `parts.json`, the keys of the configs inside, each with the type of a model whose config leaves it
# out; `@` stands for the type of the whole, and a key alone for `key_config=@_key`.
_TABLE = json.loads(Path(__file__).with_name("parts.json").read_text(encoding="utf-8"))
# Likewise of models that have encodings beside those of their parts.
_WITH_FACTS: dict[str, tuple[str, Facts]] = {
    "blt": (
        (
            "decoder_config=@_local_decoder encoder_config=@_local_encoder global_config=@_global_transformer "
            "patcher_config"
        ),
        (),
    ),
    "clvp": (
        "decoder_config speech_config=@_encoder text_config=@_encoder",
        Rows("decoder_config.max_text_tokens", "decoder_config.hidden_size", name="text"),
    ),
    "cohere_asr": ("encoder_config=parakeet_encoder", Part("decoder", Rows())),
    "edgetam sam sam2 sam_hq": ("mask_decoder_config prompt_encoder_config vision_config=@_vision_model", RANDOM),
    "edgetam_video sam2_video": (
        "mask_decoder_config prompt_encoder_config vision_config=sam2_vision_model",
        (RANDOM, *_MEMORY),
    ),
    "edgetam_vision_model": ("backbone_config=timm_wrapper", (SineGrid("tatp22", "fpn_hidden_size"), SCALED)),
    "esmfold2": (
        "esmc_config=esmc",
        Lack("pairs of residues by learned vectors of their offsets, and RoPE by windows of atoms", "ResiduePairs"),
    ),
    "florence2": (
        "text_config=bart vision_config=florence_vision",
        (
            *(
                Table(
                    f"{what} of features",
                    lambda c: size(c, "vision_config.max_position_embeddings"),
                    "vision_config.embed_dim.-1",
                    parts=2,
                )
                for what in ("rows", "columns")
            ),
            Sines("interleaved", "vision_config.embed_dim.-1", name="frames"),
        ),
    ),
    "git": ("vision_config=@_vision_model", (Rows(), If("num_image_with_embedding", (None,), (), _VIDEO))),
    "granite_docling": ("text_config vision_config", SineGrid("timm_interleaved", "text_config.hidden_size")),
    "lightglue": (
        "keypoint_detector_config=superpoint",
        Keypoints(),
    ),
    "moonshine_streaming": (
        "encoder_config",
        (Rope(), Rows(dim="encoder_config.hidden_size", name="frames that the decoder reads")),
    ),
    "musicflamingo": (
        "audio_config=audioflamingo3_encoder text_config=qwen2",
        Part("sounds", Times()),
    ),
    "omdet-turbo": (
        "backbone_config=timm_backbone text_config=clip_text_model",
        (
            SineGrid("timm_interleaved", "d_model", "positional_encoding_temperature"),
            Note("cells are numbered column by column, but flattened row by row: exact for square features alone"),
        ),
    ),
    "pi0": (
        "dit_config=gemma vlm_config=paligemma",
        Periods(("min_period", 4e-3), ("max_period", 4.0), "dit_config.hidden_size", "steps of the diffusion"),
    ),
    "sam2_vision_model": ("backbone_config=sam2_hiera_det_model", (SineGrid("tatp22", "fpn_hidden_size"), SCALED)),
    "sam3_tracker": ("mask_decoder_config prompt_encoder_config vision_config=sam3_vision_model", RANDOM),
    "sam3_tracker_video": (
        "mask_decoder_config prompt_encoder_config vision_config=sam3_vision_model",
        (RANDOM, *_MEMORY),
    ),
    "sam3_vision_model": ("backbone_config=sam3_vit_model", (SineGrid("tatp22", "fpn_hidden_size"), SCALED)),
    "superglue": (
        "keypoint_detector_config=superpoint",
        Lack("positions of keypoints, through a perceptron", "KeypointEncoding"),
    ),
    "tvp": (
        "backbone_config=resnet",
        (
            Rows(),
            Rows("max_grid_row_position_embeddings", name="rows of cells"),
            Rows("max_grid_col_position_embeddings", name="columns of cells"),
        ),
    ),
    "xclip": (
        "text_config=@_text_model vision_config=@_vision_model",
        Rows("vision_config.num_frames", "vision_config.mit_hidden_size", name="frames"),
    ),
    "zoedepth": (
        "backbone_config=beit",
        If(
            "patch_transformer_hidden_size",
            (None,),
            (),
            Sines("concatenated", "patch_transformer_hidden_size", name="patches in the head for depth"),
        ),
    ),
}


def _types(name: str, keys: str) -> dict[str, str]:
    """Return the type of the part below each key of a model."""
    pairs = (key.partition("=") for key in keys.replace("@", name).split())
    return {key: own or f"{name}_{key.removesuffix('_config')}" for key, _, own in pairs}


WHOLES = by_model_type({names: facts for names, (_, facts) in _WITH_FACTS.items()})
_KEYS = by_model_type(_TABLE | {names: keys for names, (keys, _) in _WITH_FACTS.items()})
PARTS = {name: _types(name, keys) for name, keys in _KEYS.items()}
