"""The rotation by few operators, part by part, for eager CPU tensors where the compiled kernel is missing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import repeat
from typing import Any, NamedTuple

import torch
from torch import Tensor

from posenc_core.rotation import Pairing, Sizes, check_sizes, pair_slices

PART = 1 << 19  # numbers in a part, for each thread: its intermediate results stay in the caches
FEW = 1 << 15  # numbers of queries and keys that are rotated together
SERIAL = 1 << 15  # an operator on fewer numbers runs in one thread
STEP = 16  # complex numbers in one step of a vectorized loop, at most
CAST = {  # faster than `Tensor.to`
    torch.float64: Tensor.double,
    torch.float32: Tensor.float,
    torch.bfloat16: Tensor.bfloat16,
    torch.float16: Tensor.half,
}


def rotate(tokens: Sequence[Tensor], cos: Tensor, sin: Tensor, pairing: Pairing) -> Any:
    """Return a list of the tokens rotated, with the bits of `rotate_reference`; None for what is left to it.

    That is: several blocks, channels between the halves, another layout of the output, and float64 that is
    interleaved, unless complex products round as the formula does.

    Args:
        tokens: queries, or queries and keys, each `(..., length, width)`: plain tensors on the CPU, of which no
            gradient is recorded.
        cos, sin: tables that broadcast to `tokens`, but for the last axis; the same kind of tensor.
        pairing: which channels are pairs.
    """
    if len(tokens) == 2 and tokens[0].dtype is tokens[1].dtype:
        few = _few(tokens[0].shape, tokens[1].shape, cos.shape, sin.shape, pairing)
        if few is not None:
            x = torch.cat(tokens, -3)
            rotated = _rotate_part(x, cos, sin, pairing.split, few.channels, {})
            return _cast(rotated, x.dtype).unsafe_split_with_sizes(few.heads, -3)
    made: dict[str, Tensor] = {}
    results = [_rotate(x, cos, sin, pairing, made) for x in tokens]
    return None if any(result is None for result in results) else results


class _Few(NamedTuple):
    """How queries and keys of few numbers are rotated together, where calls take longer than numbers."""

    heads: tuple[int, int]
    channels: slice


@lru_cache(maxsize=256)
def _few(q: Sizes, k: Sizes, cos: Sizes, sin: Sizes, pairing: Pairing) -> _Few | None:
    if len(q) != len(k) or len(q) < 3 or math.prod(q[:-3]) != 1 or math.prod(q) + math.prod(k) > FEW:
        return None
    channels = _channels(q, cos, sin, pairing)
    fits = k[:-3] == q[:-3] and k[-2:] == q[-2:] and len(cos) == len(sin) == 2
    return _Few((q[-3], k[-3]), channels) if fits and channels is not None else None


def _rotate(x: Tensor, cos: Tensor, sin: Tensor, pairing: Pairing, made: dict[str, Tensor]) -> Tensor | None:
    """Rotate one tensor; `made` keeps the factors of half layout, for other tokens that the same tables rotate."""
    channels = _channels(x.shape, cos.shape, sin.shape, pairing)
    layout, pairs = pairing.split, cos.shape[-1]
    wide = torch.float64 if x.dtype is torch.float64 else torch.float32
    if channels is None or (layout != "half" and wide is torch.float64 and not _rounds_products(x, pairs, wide)):
        return None
    cos, sin = _cast(cos, wide), _cast(sin, wide)
    if x.numel() <= PART:
        return _cast(_rotate_part(x, cos, sin, layout, channels, made), x.dtype).contiguous()
    result = torch.empty_like(x, memory_format=torch.contiguous_format)
    for part, c, s, to in _parts(x, cos, sin, result):
        to.copy_(_rotate_part(part, c, s, layout, channels, {}))
    return result


@lru_cache(maxsize=256)
def _channels(x: Sizes, cos: Sizes, sin: Sizes, pairing: Pairing) -> slice | None:
    """Return the channels that are rotated; None if they are none, or not all together, or change their places.

    Raises:
        ValueError: if the tables do not fit x.
    """
    check_sizes(x, cos, sin, pairing)
    blocks, _ = pair_slices(x[-1], cos[-1], pairing)
    return blocks[0].channels if len(blocks) == 1 and pairing.split == pairing.join else None


def _parts(x: Tensor, cos: Tensor, sin: Tensor, result: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Yield parts of the tensors along the longest axis of `x` but the last."""
    axis = max(range(-x.ndim, -1), key=lambda axis: x.shape[axis], default=0)
    if not axis:
        yield x, cos, sin, result
        return
    count = max(1, PART * torch.get_num_threads() * x.shape[axis] // x.numel())

    def split(table: Tensor) -> Iterable[Tensor]:
        return table.split(count, axis) if table.ndim >= -axis and table.shape[axis] > 1 else repeat(table)

    yield from zip(x.split(count, axis), split(cos), split(sin), result.split(count, axis), strict=False)


def _rotate_part(x: Tensor, cos: Tensor, sin: Tensor, layout: str, channels: slice, made: dict[str, Tensor]) -> Tensor:
    """Return `x` rotated, in the dtype of the tables if all channels are."""
    if 2 * cos.shape[-1] == x.shape[-1]:
        return _rotate_wide(_cast(x, cos.dtype), cos, sin, layout, made)
    rotated = _rotate_wide(_cast(x[..., channels], cos.dtype), cos, sin, layout, made)
    return torch.cat([x[..., : channels.start], _cast(rotated, x.dtype), x[..., channels.stop :]], -1)


def _cast(x: Tensor, dtype: torch.dtype) -> Tensor:
    return x if x.dtype is dtype else CAST[dtype](x)


def _rotate_wide(x: Tensor, cos: Tensor, sin: Tensor, layout: str, made: dict[str, Tensor]) -> Tensor:
    """Rotate all channels of float32 or float64."""
    if layout == "half":
        if not made:  # the factors of `x`, and of `x` with its halves swapped
            made.update(cosines=torch.cat((cos, cos), -1), sines=torch.cat((-sin, sin), -1))
        cosines, sines = made["cosines"], made["sines"]
        return (x * cosines).add_(x.roll(cos.shape[-1], -1).mul_(sines))
    if x.stride(-1) != 1 or x.storage_offset() % 2 or any(stride % 2 for stride in x.stride()[:-1]):
        x = x.clone(memory_format=torch.contiguous_format)  # neighbours, to be viewed as one number
    if _rounds_products(x, cos.shape[-1], x.dtype):
        return (x.view(x.dtype.to_complex()) * torch.complex(cos, sin)).view(x.dtype)
    both = x.view(torch.int64)
    swapped = (both << 32).bitwise_or_((both >> 32).bitwise_and_(0xFFFFFFFF)).view(x.dtype)
    cosines, sines = torch.complex(cos, cos).view(x.dtype), torch.complex(-sin, sin).view(x.dtype)
    return (x * cosines).add_(swapped.mul_(sines))


def _rounds_products(x: Tensor, pairs: int, dtype: torch.dtype) -> bool:
    """Return whether complex products with `x` round each product and sum, as the formula does.

    Vectorized loops of PyTorch do. The rest of a row does not, where its length is not a multiple of the step of the
    loop, or where several threads share it.
    """
    return pairs % STEP == 0 and (x.numel() < SERIAL or torch.get_num_threads() == 1) and _vectors_round_products(dtype)


@cache
def _vectors_round_products(dtype: torch.dtype) -> bool:
    """Return whether they do on this machine."""
    numbers = torch.arange(64 * 2 * STEP, dtype=dtype, device="cpu").sin().view(64, STEP, 2)
    (a, b), (c, d) = numbers.unbind(-1), numbers[:1].flip(1).unbind(-1)
    product = torch.view_as_real(torch.complex(a, b) * torch.complex(c, d))
    same: bool = torch.equal(product, torch.stack((a * c - b * d, a * d + b * c), -1))
    return same
