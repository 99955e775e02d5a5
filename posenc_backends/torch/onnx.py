"""Rotations by the operator that ONNX has for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch

from posenc_core.rotation import Pairing

_WANTED = ContextVar("rotary_operator", default=False)


@contextmanager
def rotary_operator() -> Iterator[None]:
    """Within, `torch.onnx.export` writes the operator `RotaryEmbedding` where it computes the same; opset 23 brings it.

    It fits rotations of the first channels of `(batch, heads, length, head_dim)`, in half or interleaved layout. Others, and
    exports outside, are written as plain operators, which every opset has. PyTorch tells no layer for which opset it
    writes: within, give `opset_version=23` or more, as models of a lower one are written with the operator, and do not run.

    >>> from posenc_backends.torch import RotaryEmbedding
    >>> from posenc_core import Rotary
    >>> rope, q = RotaryEmbedding(Rotary(head_dim=4, layout="half")).eval(), torch.ones(1, 2, 3, 4)
    >>> with rotary_operator():  # doctest: +SKIP
    ...     program = torch.onnx.export(rope, (q,), dynamo=True, opset_version=23)
    """
    token = _WANTED.set(True)
    try:
        yield
    finally:
        _WANTED.reset(token)


def fits(x: torch.Tensor, pairing: Pairing, seq_axis: int) -> bool:
    """Whether the operator is wanted, and turns `x` by a table in this way."""
    if not torch.onnx.is_in_onnx_export() or not _WANTED.get():
        return False
    plain = pairing.split == pairing.join and pairing.placement == "lead" and pairing.blocks == 1
    return plain and x.ndim == 4 and seq_axis in (-2, 2) and x.dtype != torch.float64


def turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, pairing: Pairing) -> torch.Tensor:
    """`x`, `(batch, heads, length, head_dim)`, turned by rows of a table, in float32, rounded once."""
    rows, pairs = (x.shape[0], *cos.shape[-2:]), cos.shape[-1]
    wide = torch.onnx.ops.rotary_embedding(
        x.float(),
        cos.expand(rows),
        sin.expand(rows),
        interleaved=pairing.split == "interleaved",
        rotary_embedding_dim=0 if 2 * pairs == x.shape[-1] else 2 * pairs,
    )
    return wide.to(x.dtype)
