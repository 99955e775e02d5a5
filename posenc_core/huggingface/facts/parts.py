"""Facts about models that consist of others, by `model_type`: the configs inside of theirs, and encodings of their own.

Source: the configs and the code of the models in transformers 5.23.
"""

from __future__ import annotations

import json
from pathlib import Path

from .images import RANDOM, SCALED
from .kinds import Axial, Facts, If, Lack, Note, Part, Rope, Rows, SineGrid, Sines, Table, size
from .records import by_model_type

_VIDEO = Rows("num_image_with_embedding", "vision_config.hidden_size", name="frames of a video")
_MEMORY = (
    Lack(
        "learned rows of the frames of the memory, and projected sinusoids of the distance of objects in time",
        "ProjectedSinusoid",
    ),
    Axial(),
)

# The encodings of such models beside those of their parts.
_TABLE: dict[str, Facts] = {
    "blt": (),
    "clvp": Rows("decoder_config.max_text_tokens", "decoder_config.hidden_size", name="text"),
    "cohere_asr": Part("decoder", Rows()),
    "edgetam sam sam2 sam_hq": RANDOM,
    "edgetam_video sam2_video": (RANDOM, *_MEMORY),
    "edgetam_vision_model": (SineGrid("tatp22", "fpn_hidden_size"), SCALED),
    "esmfold2": Lack(
        "pairs of residues by learned vectors of their offsets, and RoPE by windows of atoms", "ResiduePairs"
    ),
    "florence2": (
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
    "git": (Rows(), If("num_image_with_embedding", (None,), (), _VIDEO)),
    "granite_docling": SineGrid("timm_interleaved", "text_config.hidden_size"),
    "lightglue": Lack("a rotary encoding of keypoints, by a learned projection of their coordinates", "KeypointRotary"),
    "moonshine_streaming": (Rope(), Rows(dim="encoder_config.hidden_size", name="frames that the decoder reads")),
    "musicflamingo": Lack("a rotation of sounds by their times, before the text model", "TimeRotary"),
    "omdet-turbo": (
        SineGrid("timm_interleaved", "d_model", "positional_encoding_temperature"),
        Note("cells are numbered column by column, but flattened row by row: exact for square features alone"),
    ),
    "pi0": Lack("sinusoids of the steps of a diffusion, between `min_period` and `max_period`", "Timestep.min_period"),
    "sam2_vision_model": (SineGrid("tatp22", "fpn_hidden_size"), SCALED),
    "sam3_tracker": RANDOM,
    "sam3_tracker_video": (RANDOM, *_MEMORY),
    "sam3_vision_model": (SineGrid("tatp22", "fpn_hidden_size"), SCALED),
    "superglue": Lack("positions of keypoints, through a perceptron", "KeypointEncoding"),
    "tvp": (
        Rows(),
        Rows("max_grid_row_position_embeddings", name="rows of cells"),
        Rows("max_grid_col_position_embeddings", name="columns of cells"),
    ),
    "xclip": Rows("vision_config.num_frames", "vision_config.mit_hidden_size", name="frames"),
    "zoedepth": Lack("sinusoids of patches in the head for depth", "DepthSinusoid"),
}


def _types(name: str, keys: dict[str, str | None]) -> dict[str, str]:
    """Return the type of the part below each key of a model."""
    return {key: (own or f"@_{key.removesuffix('_config')}").replace("@", name) for key, own in keys.items()}


WHOLES = by_model_type(_TABLE)
# The keys of the configs inside, each with the type of a model whose config leaves it out; `@` stands for the type of
# the whole, and null for `@_key` with the key `key_config`.
_KEYS = json.loads(Path(__file__).with_name("parts.json").read_text(encoding="utf-8"))
PARTS = {name: _types(name, keys) for name, keys in by_model_type(_KEYS).items()}
