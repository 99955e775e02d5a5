"""How to ask each library for its rotation: what it makes of queries at positions, by which table.

Queries are `(batch, heads, length, width)`, positions `(length,)`.
"""

from typing import Any, NamedTuple

import diffusers.models.embeddings as diffusers
import rotary_embedding_torch
import torch
from keras_hub.src.models.phi3.phi3_rotary_embedding import Phi3SuScaledRotaryEmbedding
from x_transformers import x_transformers


class Answer(NamedTuple):
    """Rotated queries in their own layout; the table, one column per pair; the frequencies behind its angles.

    Where a library divides positions or angles by a factor, or shows no frequencies, these are None.
    """

    rotated: Any
    cos: Any
    sin: Any
    frequencies: Any = None


def lucidrains(start=0, **fields):
    """rotary-embedding-torch."""

    def ask(x, positions):
        rope = rotary_embedding_torch.RotaryEmbedding(**fields)
        angles = rope(positions / rope.interpolate_factor)
        rotated = rotary_embedding_torch.apply_rotary_emb(angles, x, start_index=start)
        frequencies = rope.freqs if rope.interpolate_factor == 1 else None
        return Answer(rotated, angles.cos()[:, ::2], angles.sin()[:, ::2], frequencies)

    return ask


def x_transformer(**fields):
    """x-transformers."""

    def ask(x, positions):
        rope = x_transformers.RotaryEmbedding(**fields)
        angles, _ = rope(positions)
        rotated = x_transformers.apply_rotary_pos_emb(x, angles)
        frequencies = rope.inv_freq if rope.interpolation_factor == 1 else None
        return Answer(rotated, angles[0].cos()[:, ::2], angles[0].sin()[:, ::2], frequencies)

    return ask


def torchtune(cls, **fields):
    """A rotary module of torchtune; in half layout its tables are [cos, cos, sin, sin]."""

    def ask(x, positions):
        rope = cls(dim=x.shape[-1], max_seq_len=2**17, **fields)
        rotated = rope(x.transpose(1, 2), input_pos=positions.expand(len(x), -1)).transpose(1, 2)
        table = rope.cache[positions]
        cos, sin = table.unbind(-1) if table.ndim == 3 else table.chunk(4, dim=-1)[::2]
        return Answer(rotated, cos, sin, rope.theta)

    return ask


def keras(cls, **fields):
    """A rotary layer of keras-hub; that of Phi 3 fails where positions are given, but turns by its own table."""

    def ask(x, positions):
        rope = cls(sequence_axis=2, **fields)
        fails = cls is Phi3SuScaledRotaryEmbedding
        table = rope._compute_cos_sin_embedding(x[:, 0], positions=positions)
        rotated = rope._apply_rotary_pos_emb(x, *table) if fails else rope(x, positions=positions)
        cos, sin = (one.reshape(len(positions), -1)[:, : x.shape[-1] // 2] for one in table)
        divisors = torch.tensor(rope.inverese_freq_long_factor if fails else 1.0)
        return Answer(rotated, cos, sin, rope._get_inverse_freq(x.shape[-1]) / divisors)

    return ask


def diffuser(layout, **fields):
    """diffusers, in the layout of Flux or that of Cosmos."""
    interleaved = layout == "interleaved"

    def ask(x, positions):
        table = diffusers.get_1d_rotary_pos_embed(
            x.shape[-1], positions.float(), use_real=True, repeat_interleave_real=interleaved, **fields
        )
        rotated = diffusers.apply_rotary_emb(x, table, use_real_unbind_dim=-1 if interleaved else -2)
        cos, sin = (one[:, ::2] if interleaved else one[:, : x.shape[-1] // 2] for one in table)
        return Answer(rotated, cos, sin)

    return ask
