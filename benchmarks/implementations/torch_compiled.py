"""Compiled code on a GPU by each way to rotate in it: alone, and in a step with its neighbours in a model."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch

from posenc_backends.torch import apply_rotary
from posenc_backends.torch.rotation import gpu

WAYS = ("operator", "triton", "formula", "flip")


def compiled(way: str, function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Return a function compiled with one way to rotate; each has code of its own, as compiled code is kept by that."""
    copy = FunctionType(function.__code__.replace(), function.__globals__, closure=function.__closure__)
    copy.__kwdefaults__ = function.__kwdefaults__
    run = torch.compile(copy, fullgraph=True, **{"dynamic": False} | options)

    def call(*arguments: Any) -> Any:
        gpu.COMPILED = way  # which compiled code has a guard for
        return run(*arguments)

    return call


def step(given: Any) -> Callable[..., Any]:
    """Return the neighbours of a rotation in a model: `(q, k)` as projections leave them, normalized, rotated, kept.

    The keys are written to a cache. The yardstick is a copy of queries and keys.
    """
    shape = given.shape
    weights = torch.ones(shape.width, dtype=given.q.dtype, device=given.q.device)
    cache = torch.zeros(shape.batch, shape.key_heads, shape.start + shape.length, shape.width, dtype=given.k.dtype,
                        device=given.k.device)  # fmt: skip
    cos, sin, layout, positions = given.cos, given.sin, given.layout, given.positions
    start, stop, width = shape.start, shape.start + shape.length, shape.width

    def rotate_and_keep(q: Any, k: Any) -> Any:
        q, k = (torch.nn.functional.rms_norm(x, (width,), weights, 1e-6).transpose(1, 2) for x in (q, k))
        q, k = apply_rotary(q, k, cos, sin, layout=layout, positions=positions)
        cache[:, :, start:stop] = k
        return q, cache

    return rotate_and_keep
