"""The implementations of the scoreboard that are written in JAX."""

import equinox
import jax
from jax import numpy as jnp

from posenc_core import Rotary

from .boards import Peer

FRAMEWORK = "jax"
END = 2**16  # all tokens before a position are made


def of_equinox(width, theta):
    """Return the rotation of Equinox, which takes consecutive tokens from position 0: others are zeros before them."""
    rope = jax.jit(jax.vmap(jax.vmap(equinox.nn.RotaryPositionalEmbedding(width, theta=theta))))

    def turn(x, positions):
        if positions.ndim > 1 or (len(positions) > 1 and (positions[1:] - positions[:-1] != 1).any()):
            raise ValueError("only consecutive positions are taken")
        first = int(positions[0])
        return rope(jnp.pad(x, ((0, 0), (0, 0), (first, 0), (0, 0))))[:, :, first:]

    return turn


def second_of_equinox():
    """Return the rotation of Equinox after a layer of another `theta` was called."""
    equinox.nn.RotaryPositionalEmbedding(16)(jnp.zeros((END, 16)))
    return of_equinox(16, 500000.0)


def peers():
    """Return all implementations in JAX."""
    first, second = Rotary(head_dim=32, layout="half"), Rotary(head_dim=16, layout="half", base=500000.0)
    options, name = {"framework": "jax", "longest": END}, "RotaryPositionalEmbedding"
    return [
        Peer("equinox", name, lambda: of_equinox(32, 10000.0), first, options),
        Peer("equinox", f"{name}, after one of theta 10000", second_of_equinox, second, options),
    ]
