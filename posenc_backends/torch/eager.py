"""The rotation by few operators, part by part, for eager CPU tensors where the compiled kernel is missing."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from ctypes import string_at
from functools import cache, lru_cache
from itertools import repeat
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from posenc_backends._kernels.adapter import FEW
from posenc_core.rotation import Pairing, Sizes, check_sizes, pair_slices

PART = 1 << 19  # numbers in a part, for each thread: its intermediate results stay in the caches
SERIAL = 1 << 15  # an operator on fewer numbers runs in one thread
STEP = 16  # complex numbers in one step of a vectorized loop, at most
CAST = {  # faster than `Tensor.to`
    torch.float64: Tensor.double,
    torch.float32: Tensor.float,
    torch.bfloat16: Tensor.bfloat16,
    torch.float16: Tensor.half,
}
Factors: TypeAlias = dict[Callable[[Tensor, Tensor], Any], Any]  # of tokens, by the function that makes them of tables


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
    made = _made(cos, sin)
    results = [_rotate(x, cos, sin, pairing, made) for x in tokens]
    return None if any(result is None for result in results) else results


def rotate_few(q: Tensor, k: Tensor, cos: bytes, sin: bytes, pairing: Pairing) -> Any:
    """Return queries and keys rotated together, where calls take longer than numbers; None for what `rotate` does.

    Factors are kept by the bytes of their tables, for the next layers that rotate tokens of the same positions.

    Args:
        q, k: tensors of float32 or half precision, as `rotate` has them.
        cos, sin: the float32 numbers of the rows, one for each position.
        pairing: which channels are pairs.
    """
    few = _few(q.shape, k.shape, cos, sin, pairing)
    if few is None or q.dtype is not k.dtype:
        return None
    x = torch.cat((q, k), -3)
    rotated = _rotate_part(x, few.cos, few.sin, pairing.split, few.channels, few.made, True)
    return _cast(rotated, x.dtype).unsafe_split_with_sizes(few.heads, -3)


class _Few(NamedTuple):
    """The tables of few queries and keys, and the factors made of these."""

    heads: tuple[int, int]
    channels: slice
    cos: Tensor
    sin: Tensor
    made: Factors


@lru_cache(maxsize=64)
def _few(q: Sizes, k: Sizes, cos: bytes, sin: bytes, pairing: Pairing) -> _Few | None:
    if len(q) < 3 or math.prod(q[:-3]) != 1 or k[:-3] != q[:-3] or k[-2:] != q[-2:]:
        return None
    if not q[-2] or math.prod(q) + math.prod(k) >= SERIAL:
        return None
    shape = q[-2], len(cos) // (4 * q[-2])
    tables = _tables(cos, sin, shape, shape)
    channels = _channels(q, tables[0].shape, tables[1].shape, pairing)
    return None if channels is None else _Few((q[-3], k[-3]), channels, *tables)


def _made(cos: Tensor, sin: Tensor) -> Factors:
    """Return the factors that are kept for tables of few rows; for others none."""
    size = cos.nbytes
    if size > FEW or sin.nbytes > FEW or not cos.dtype is sin.dtype is torch.float32 or not size:
        return {}
    if not (cos.is_contiguous() and sin.is_contiguous()):
        return {}
    numbers = string_at(cos.data_ptr(), size), string_at(sin.data_ptr(), sin.nbytes)
    return _tables(*numbers, cos.shape, sin.shape)[2]


@lru_cache(maxsize=64)
def _tables(cos: bytes, sin: bytes, cos_sizes: Sizes, sin_sizes: Sizes) -> tuple[Tensor, Tensor, Factors]:
    """Return tables with these numbers, and what tokens are multiplied by."""
    with torch.inference_mode(False):  # they may meet tokens that have a gradient
        first, second = (
            torch.frombuffer(bytearray(numbers), dtype=torch.float32).view(sizes)
            for numbers, sizes in ((cos, cos_sizes), (sin, sin_sizes))
        )
        return first, second, {make: make(first, second) for make in (_of_halves, _of_neighbours, torch.complex)}


def _rotate(x: Tensor, cos: Tensor, sin: Tensor, pairing: Pairing, made: Factors) -> Tensor | None:
    """Rotate one tensor; `made` keeps factors for other tokens that the same tables rotate."""
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


def _rotate_part(
    x: Tensor, cos: Tensor, sin: Tensor, layout: str, channels: slice, made: Factors, is_copy: bool = False
) -> Tensor:
    """Return `x` rotated, in the dtype of the tables if all channels are; a copy may be written to."""
    is_whole, is_copy = 2 * cos.shape[-1] == x.shape[-1], is_copy or x.dtype is not cos.dtype
    rotated = _rotate_wide(_cast(x if is_whole else x[..., channels], cos.dtype), cos, sin, layout, made, is_copy)
    if is_whole:
        return rotated
    return torch.cat([x[..., : channels.start], _cast(rotated, x.dtype), x[..., channels.stop :]], -1)


def _cast(x: Tensor, dtype: torch.dtype) -> Tensor:
    return x if x.dtype is dtype else CAST[dtype](x)


def _rotate_wide(x: Tensor, cos: Tensor, sin: Tensor, layout: str, made: Factors, is_copy: bool) -> Tensor:
    """Rotate all channels of float32 or float64; write to a copy."""
    if layout == "half":
        cosines, sines = _factors(_of_halves, cos, sin, made)
        swapped = x.roll(cos.shape[-1], -1)
        return (x.mul_(cosines) if is_copy else x * cosines).add_(swapped.mul_(sines))
    if x.stride(-1) != 1 or x.storage_offset() % 2 or any(stride % 2 for stride in x.stride()[:-1]):
        x = x.clone(memory_format=torch.contiguous_format)  # neighbours, to be viewed as one number
    if _rounds_products(x, cos.shape[-1], x.dtype):
        return (x.view(x.dtype.to_complex()) * _factors(torch.complex, cos, sin, made)).view(x.dtype)
    both = x.view(torch.int64)
    swapped = (both << 32).bitwise_or_((both >> 32).bitwise_and_(0xFFFFFFFF)).view(x.dtype)
    cosines, sines = _factors(_of_neighbours, cos, sin, made)
    return (x * cosines).add_(swapped.mul_(sines))


def _factors(make: Callable[[Tensor, Tensor], Any], cos: Tensor, sin: Tensor, made: Factors) -> Any:
    if make not in made:
        made[make] = make(cos, sin)
    return made[make]


def _of_halves(cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """Return the factors of tokens, and of tokens with their halves swapped."""
    return torch.cat((cos, cos), -1), torch.cat((-sin, sin), -1)


def _of_neighbours(cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """Return the factors of tokens, and of tokens with neighbours swapped."""
    return torch.complex(cos, cos).view(cos.dtype), torch.complex(-sin, sin).view(sin.dtype)


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
