"""Facts about rotary encodings beside those of text and of images: of keypoints, and of the times of sounds."""

from __future__ import annotations

from typing import NamedTuple

from ...encodings import AxialRotary, MixedRotary
from ...formats.values import number
from ..config import find_value
from .kinds import Config, Found, size
from .scores import split_heads


class Keypoints(NamedTuple):
    """LightGlue's rotation by the coordinates of keypoints, whose projection all heads share."""

    def read(self, config: Config) -> Found:
        _, width = split_heads(config, ("num_attention_heads", 4), ("descriptor_dim", 256))
        rotary = MixedRotary(head_dim=width, layout="interleaved", num_heads=1)
        note = "the frequencies are `projector`, transposed; positions are the coordinates (x, y) of keypoints"
        return {"parts": (("keypoints", {"rotary": ((None, rotary),), "notes": (note,)}),)}


class Times(NamedTuple):
    """Music Flamingo's rotation of hidden states by two axes, times the time in seconds."""

    def read(self, config: Config) -> Found:
        width, rope = size(config, "audio_config.hidden_size"), config.get("rope_parameters") or {}
        base = number({"rope_theta": find_value(config, "rope_parameters.rope_theta")}, "rope_theta", above=1)
        if base is None:
            raise ValueError("`rope_parameters.rope_theta` is missing: add it to the config.")
        channels = int(width * number(rope, "partial_rotary_factor", 0.2, minimum=0))
        rotary = AxialRotary(head_dim=width, layout="interleaved", axes_dims=(channels, channels), base=base)
        note = (
            "it rotates the hidden states of a sound at t seconds, frame i of window w, before they are projected: its "
            f"positions are -2π t w / {base} and -4π² t i / {base}"
        )
        return {"rotary": ((None, rotary),), "notes": (note,)}
