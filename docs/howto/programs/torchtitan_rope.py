"""Exact tables for the rotary layer of torchtitan: an override.

Start a training with `--override.imports torchtitan_rope.exact_rope`.
"""

from dataclasses import dataclass

import torch
from torchtitan.config import derive, override
from torchtitan.models.common.rope import ComplexRoPE, RoPE

from posenc_core import Llama3, Rotary, Scaling, YaRN


class ExactRoPE(ComplexRoPE):
    """Rotates as `ComplexRoPE` does, by a table that is rounded once."""

    @dataclass(kw_only=True, slots=True)
    class Config(ComplexRoPE.Config):
        pass

    def _precompute_cache(self) -> torch.Tensor:
        config = self.config
        rotary = Rotary(
            head_dim=config.dim,
            layout="interleaved",
            base=config.theta,
            scaling=scaling_of(config),
        )
        cos, sin = rotary.cos_sin(range(config.max_seq_len))
        table = torch.complex(torch.from_numpy(cos), torch.from_numpy(sin))
        return table.to(torch.get_default_device())


def scaling_of(config: RoPE.Config) -> Scaling | None:
    """Return the scaling that a configuration names."""
    if config.scaling == "llama":
        return Llama3(
            factor=config.scaling_factor,
            low_freq_factor=config.low_freq_factor,
            high_freq_factor=config.high_freq_factor,
            original_max_position_embeddings=config.original_max_position_embeddings,
        )
    if config.scaling == "yarn" and config.rope_factor > 1:
        return YaRN(
            factor=config.rope_factor,
            original_max_position_embeddings=config.original_seq_len,
            beta_fast=config.beta_fast,
            beta_slow=config.beta_slow,
            truncate=config.truncate,
            attention_factor=1.0,  # torchtitan scales its softmax instead
        )
    return None


@override(target=ComplexRoPE.Config, exact=True)
def exact_rope(config: ComplexRoPE.Config) -> ExactRoPE.Config:
    """Return the configuration to build instead."""
    return derive(config, ExactRoPE.Config)
