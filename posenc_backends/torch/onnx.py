"""Rotations by the operator that ONNX has for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor

from posenc_core.rotation import Pairing, rotate_checked

_WANTED = ContextVar("rotary_operator", default=False)
_entered = [0]  # how many contexts are open, in any thread: a number that each call can read at once


@contextmanager
def rotary_operator() -> Iterator[None]:
    """Let `torch.onnx.export` write the operator `RotaryEmbedding` where it computes the same; opset 23 has it.

    It fits rotations of the first channels of `(batch, heads, length, head_dim)` or, with `seq_axis=1`,
    `(batch, length, heads, head_dim)`, in half or interleaved layout. Others, and exports outside, are written as plain
    operators, which every opset has. PyTorch does not tell a layer for which opset it writes: within, give
    `opset_version=23` or more, as a model of a lower one is written with the operator and does not run.

    >>> from posenc_backends.torch import RotaryEmbedding
    >>> from posenc_core import Rotary
    >>> rope, q = RotaryEmbedding(Rotary(head_dim=4, layout="half")).eval(), torch.ones(1, 2, 3, 4)
    >>> with rotary_operator():  # doctest: +SKIP
    ...     program = torch.onnx.export(rope, (q,), dynamo=True, opset_version=23)
    """
    token = _WANTED.set(True)
    _entered[0] += 1
    try:
        yield
    finally:
        _entered[0] -= 1
        _WANTED.reset(token)


def rotate(x: Tensor, cos: Tensor, sin: Tensor, pairing: Pairing) -> Any:
    """Rotate tokens by rows of tables: by ONNX's operator where it is wanted and fits, else as everywhere."""
    if not _entered[0] or not torch.onnx.is_in_onnx_export() or not _WANTED.get() or not _fits(x, pairing):
        return rotate_checked(x, cos, sin, pairing)
    heads_axis, pairs = _heads_axis(x, cos), cos.shape[-1]
    if heads_axis is None:
        return rotate_checked(x, cos, sin, pairing)
    batch, heads, length = x.shape[0], x.shape[heads_axis], x.shape[3 - heads_axis]
    rotated = torch.onnx.ops.rotary_embedding(
        x.float() if heads_axis == 1 else x.float().flatten(-2),  # `(batch, length, heads * head_dim)`
        *(table.reshape(-1, length, pairs).expand(batch, length, pairs) for table in (cos, sin)),
        interleaved=pairing.split == "interleaved",
        num_heads=0 if heads_axis == 1 else heads,
        rotary_embedding_dim=0 if 2 * pairs == x.shape[-1] else 2 * pairs,
    )
    return rotated.reshape(x.shape).to(x.dtype)


def _fits(x: Tensor, pairing: Pairing) -> bool:
    """Return whether the operator rotates such tokens in this way."""
    plain = pairing.split == pairing.join and pairing.placement == "lead" and pairing.blocks == 1
    return plain and x.ndim == 4 and x.dtype != torch.float64


def _heads_axis(x: Tensor, cos: Tensor) -> int | None:
    """Return the axis of the heads in `x`: 1, or 2 in `(batch, length, heads, head_dim)`; None where tables differ."""
    if cos.ndim == 2 or (cos.ndim == 4 and cos.shape[1] == 1 and cos.shape[2] == x.shape[2]):
        return 1
    return 2 if cos.shape[-2] == 1 and cos.shape[-3] == x.shape[1] else None
