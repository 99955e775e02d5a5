"""Compiled code on a GPU, with our operator and with the formula: alone, and in a step with its neighbours."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch

from posenc_core.rotation import pairing_of, rotate_reference

from .torch_gpu import Tokens, implementations


def rotations(given: Tokens) -> dict[str, Callable[..., Any]]:
    """Return both rotations of queries and keys `(batch, length, heads, width)`."""
    start, length = given.shape.start, given.shape.length
    cos, sin = (table[start : start + length, None] for table in (given.cos, given.sin))
    pairing = pairing_of(given.layout)

    def formula(q: Any, k: Any) -> Any:
        return rotate_reference(q, cos, sin, pairing), rotate_reference(k, cos, sin, pairing)

    return {"operator": implementations(given)["posenc.apply_rotary"].function, "formula": formula}


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Return a function compiled; it has code of its own, by which compiled code is kept."""
    copy = FunctionType(function.__code__.replace(), function.__globals__, closure=function.__closure__)
    return torch.compile(copy, fullgraph=True, **{"dynamic": False} | options)  # type: ignore[no-any-return]


def step(given: Tokens, rotate: Callable[..., Any]) -> Callable[..., Any]:
    """Return a rotation with its neighbours: queries and keys are normalized, rotated, and keys written to a cache."""
    shape = given.shape
    weights = torch.ones(shape.width, dtype=given.q.dtype, device=given.q.device)
    sizes = shape.batch, shape.key_heads, shape.start + shape.length, shape.width
    cache = torch.zeros(sizes, dtype=given.k.dtype, device=given.k.device)
    start, width = shape.start, shape.width

    def rotate_and_keep(q: Any, k: Any) -> Any:
        q, k = rotate(*(torch.nn.functional.rms_norm(x, (width,), weights, 1e-6) for x in (q, k)))
        cache[:, :, start:] = k.transpose(1, 2)
        return q.transpose(1, 2), cache

    return rotate_and_keep
