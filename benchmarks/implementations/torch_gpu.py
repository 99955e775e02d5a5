"""PyTorch on a GPU: ours, eager and compiled, and the peers that can be imported; all read the same memory.

Queries and keys lie as projections leave them, `(batch, length, heads, width)`, or packed `(tokens, heads, width)`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch

from posenc_backends.torch import RotaryEmbedding, apply_rotary, apply_rotary_transformers
from posenc_core import Rotary

from .imports import import_without_init, installed

BASE = {"rope_type": "default", "rope_theta": 10000.0}


class Shape(NamedTuple):
    """The sizes of queries and keys.

    Attributes:
        batch: sequences of equal length, or packed in one row.
        length: tokens of each of them.
        heads, key_heads: heads of queries, and of keys.
        width: channels of a head.
        start: the position of the first token.
        packed: whether the sequences lie behind each other, without a batch.
    """

    batch: int
    length: int
    heads: int
    key_heads: int
    width: int = 128
    start: int = 0
    packed: bool = False

    @property
    def numbers(self) -> int:
        """How many numbers queries and keys have."""
        return self.batch * self.length * (self.heads + self.key_heads) * self.width


class Tokens(NamedTuple):
    """Queries and keys, and tables for them.

    Attributes:
        shape: their sizes.
        layout: which channels are pairs.
        q, k: `(batch, length, heads, width)` or `(tokens, heads, width)`.
        cos, sin: of all positions, float32, `(positions, pairs)`.
        positions: of the tokens, `(batch, length)` or `(tokens,)`.
        bounds: the cumulative lengths, int32.
    """

    shape: Shape
    layout: Any
    q: Any
    k: Any
    cos: Any
    sin: Any
    positions: Any
    bounds: Any


class Peer(NamedTuple):
    """One implementation.

    Attributes:
        function: takes `q` and `k` as `Tokens` has them, and returns both rotated.
        compiled: whether it is also measured compiled.
        gradients: whether it is also measured with a backward pass.
    """

    function: Callable[[Any, Any], Any]
    compiled: bool = False
    gradients: bool = True


Peers = Iterator[tuple[str, Peer]]


def tokens_of(shape: Shape, dtype: str, layout: Any, device: str) -> Tokens:
    """Return random queries and keys on the device, and tables."""
    generator = torch.Generator().manual_seed(0)
    sizes = (shape.batch * shape.length,) if shape.packed else (shape.batch, shape.length)
    q, k = (
        torch.randn(*sizes, heads, shape.width, generator=generator).to(device, getattr(torch, dtype))
        for heads in (shape.heads, shape.key_heads)
    )
    stop = shape.start + shape.length
    tables = Rotary(head_dim=shape.width, layout=layout).cos_sin(np.arange(stop))
    cos, sin = (torch.from_numpy(np.asarray(table)).to(device) for table in tables)
    positions = torch.arange(shape.start, stop, device=device).repeat(shape.batch, 1)
    bounds = shape.length * torch.arange(shape.batch + 1, device=device, dtype=torch.int32)
    return Tokens(shape, layout, q, k, cos, sin, positions.flatten() if shape.packed else positions, bounds)


def ours(given: Tokens) -> Peers:
    """Yield our layer and functions."""
    shape, axis = given.shape, -3
    options: dict[str, Any] = {"layout": given.layout, "seq_axis": axis}
    options |= {"cu_seqlens": given.bounds} if shape.packed else {"start": shape.start}

    def function(q: Any, k: Any) -> Any:
        return apply_rotary(q, k, given.cos, given.sin, **options)

    yield "posenc.apply_rotary", Peer(function, compiled=True)
    yield "posenc.apply_rotary, in place", Peer(_in_place(given, function, options), gradients=False)
    layer = RotaryEmbedding(Rotary(head_dim=shape.width, layout=given.layout), max_len=len(given.cos))
    layer = layer.to(given.q.device)
    if not shape.packed:
        yield "posenc", Peer(lambda q, k: layer(q, k, start=shape.start, seq_axis=axis), compiled=True)
    cos, sin = _doubled(given, "half")
    yield (
        "posenc.apply_rotary_transformers",
        Peer(lambda q, k: _by_heads(q, k, lambda q, k: apply_rotary_transformers(q, k, cos, sin, layout=given.layout))),
    )


def _in_place(given: Tokens, function: Any, options: dict[str, Any]) -> Callable[[Any, Any], Any]:
    """Return the rotation in place of the result of the call before: the first is that of `q` and `k`."""
    kept: list[Any] = []

    def call(q: Any, k: Any) -> Any:
        kept[:] = kept or (q.clone(), k.clone())
        return apply_rotary(*kept, given.cos, given.sin, **options, out=tuple(kept))

    return call


def _doubled(given: Tokens, columns: str) -> tuple[Any, Any]:
    """Return the rows of the tokens as models of transformers have them: doubled, in the dtype of the tokens."""
    positions = given.positions[None] if given.shape.packed else given.positions
    found = []
    for table in (given.cos, given.sin):
        rows = table[positions].to(given.q.dtype)
        found.append(torch.cat([rows, rows], dim=-1) if columns == "half" else rows.repeat_interleave(2, dim=-1))
    return found[0], found[1]


def _by_heads(q: Any, k: Any, function: Callable[[Any, Any], Any]) -> Any:
    """Call a function of `(batch, heads, length, width)`; nothing is copied."""
    if q.ndim == 3:
        return [x.transpose(1, 2)[0] for x in function(q[None].transpose(1, 2), k[None].transpose(1, 2))]
    return [x.transpose(1, 2) for x in function(q.transpose(1, 2), k.transpose(1, 2))]


def transformers(given: Tokens) -> Peers:
    """Yield the function of Llama's file or of Cohere's."""
    family, columns = ("llama", "half") if given.layout == "half" else ("cohere", "interleaved")
    modeling = importlib.import_module(f"transformers.models.{family}.modeling_{family}")
    cos, sin = _doubled(given, columns)
    rotate = getattr(modeling.apply_rotary_pos_emb, "__wrapped__", modeling.apply_rotary_pos_emb)
    yield "transformers", Peer(lambda q, k: _by_heads(q, k, lambda q, k: rotate(q, k, cos, sin)), compiled=True)


def liger(given: Tokens) -> Peers:
    """Yield Liger's Triton kernel, which rotates in place and has one layout."""
    if given.layout == "half":
        rope = importlib.import_module("liger_kernel.transformers.rope")
        cos, sin = _doubled(given, "half")
        yield "Liger", Peer(lambda q, k: _by_heads(q, k, lambda q, k: rope.liger_rotary_pos_emb(q, k, cos, sin)))


def flash_attn(given: Tokens) -> Peers:
    """Yield flash-attn's Triton kernel, one launch for queries and one for keys, out of place."""
    rotary = import_without_init("flash_attn.layers.rotary")
    dtype = given.q.dtype  # of the tables that it wants
    cos, sin, shape = given.cos.to(dtype), given.sin.to(dtype), given.shape
    options: dict[str, Any] = {"interleaved": given.layout == "interleaved"}
    if shape.packed:
        options |= {"cu_seqlens": given.bounds, "max_seqlen": shape.length}
    else:
        options |= {"seqlen_offsets": shape.start}
    yield "flash-attn", Peer(lambda q, k: [rotary.apply_rotary_emb(x, cos, sin, **options) for x in (q, k)])


def flashinfer(given: Tokens) -> Peers:
    """Yield FlashInfer's kernel, for inference."""
    rope = importlib.import_module("flashinfer.rope")
    table, positions = torch.cat([given.cos, given.sin], dim=-1), given.positions.flatten()

    def function(q: Any, k: Any) -> Any:
        flat = [x.reshape(len(positions), -1) for x in (q, k)]
        rotated = rope.apply_rope_with_cos_sin_cache(positions, *flat, given.shape.width, table, given.layout == "half")
        return [one.reshape(x.shape) for one, x in zip(rotated, (q, k), strict=True)]

    yield "FlashInfer", Peer(function, gradients=False)


PEERS: dict[str, Callable[[Tokens], Peers]] = {
    "transformers": transformers,
    "liger_kernel": liger,
    "flash_attn": flash_attn,
    "flashinfer": flashinfer,
}


def missing() -> dict[str, str]:
    """Return the peers that are left out, with the reason."""
    return {name: "is not installed" for name in PEERS if not installed(name)}


def implementations(given: Tokens) -> dict[str, Peer]:
    """Return ours, and the peers that are installed; one that cannot be imported fails when it is called."""
    found = dict(ours(given))
    for name, peers in PEERS.items():
        if installed(name):
            try:
                found |= dict(peers(given))
            except Exception as error:  # noqa: BLE001 - whatever a peer raises on import is in the result
                found[name] = Peer(_failing(error))
    return found


def _failing(error: Exception) -> Callable[[Any, Any], Any]:
    def call(q: Any, k: Any) -> Any:
        raise error

    return call


WITHIN = {"float32": 6e-3, "float16": 2e-2, "bfloat16": 1.5e-1}  # tables and sums of peers in half precision
