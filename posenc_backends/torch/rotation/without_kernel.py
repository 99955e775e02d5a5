"""The rotation by few operators, part by part, for eager CPU tensors where the compiled kernel is missing."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from ctypes import Array, c_char
from functools import cache, lru_cache
from itertools import repeat
from typing import Any, TypeAlias

import torch
from torch import Tensor

from posenc_core.rotation import Pairing, Sizes, check_sizes, pair_slices

from ..distributed import PLAIN

FEW = 1 << 12  # bytes of the rows of a table: those of one token, or of few
PART = 1 << 17  # numbers in a part, for each thread: its intermediate results stay in the L2 cache of a core
SERIAL = 1 << 15  # an operator on fewer numbers runs in one thread
STEP = 16  # complex numbers in one step of a vectorized loop, at most
CAST = {  # faster than `Tensor.to`
    torch.float64: Tensor.double,
    torch.float32: Tensor.float,
    torch.bfloat16: Tensor.bfloat16,
    torch.float16: Tensor.half,
}
Factors: TypeAlias = dict[Callable[[Tensor, Tensor], Any], Any]  # of tokens, by the function that makes them of tables
Rows: TypeAlias = tuple[int, int]  # the first, and how many
Kind: TypeAlias = tuple[torch.dtype, Sizes]  # of tokens
Rotation: TypeAlias = Callable[[Tensor, bool], Tensor]  # `(x, is_copy)` -> rotated `x`; a copy may be written to


def address(x: Any) -> int:
    """Return where the numbers of a plain tensor lie in CPU memory; 0 for other tensors, and for empty ones."""
    if type(x) not in PLAIN or not x.is_cpu or x.is_neg():
        return 0
    try:  # `vmap` and derivatives wrap tensors in others, of the same class, that have no storage; nor have sparse ones
        return x.data_ptr()  # those of `functionalize` have 0
    except RuntimeError:
        return 0


def rotate(x: Tensor, cos: Tensor, sin: Tensor, at: tuple[int, int], pairing: Pairing) -> Tensor | None:
    """Return `x` rotated, with the bits of `rotate_reference`; None for what is left to it.

    That is: several blocks, channels between the halves, another layout of the output, and float64 that is
    interleaved, unless complex products round as the formula does.

    Args:
        x: tokens, `(..., length, width)`: a plain tensor on the CPU, of which no gradient is recorded.
        cos, sin: tables that broadcast to `x`, but for the last axis; the same kind of tensor.
        at: the addresses of the tables.
        pairing: which channels are pairs.
    """
    size, sizes = cos.nbytes, cos.shape
    rotate_x = None
    if size <= FEW and sin.shape == sizes and _lie_alike(cos, sin):
        memory = _memory_of(size)
        numbers = memory.from_address(at[0]).raw, memory.from_address(at[1]).raw
        rotate_x = _rotation((x.dtype, x.shape), *numbers, sizes, pairing)
    return _rotate(x, cos, sin, pairing) if rotate_x is None else rotate_x(x, False)


def rotate_rows(
    tokens: tuple[Tensor, ...], cos: Tensor, sin: Tensor, at: tuple[int, int], rows: Rows, pairing: Pairing
) -> Any:
    """Return queries, or queries and keys, rotated by rows of tables `(positions, pairs)`; None as `rotate` does.

    Few queries and keys are rotated together, because calls take longer than their numbers. Tokens of float64 have
    other tables.
    """
    q, k, (start, length), pairs = tokens[0], tokens[-1], rows, cos.shape[1]
    if not cos.dtype is sin.dtype is torch.float32 or torch.float64 in (q.dtype, k.dtype):
        return None
    size = 4 * length * pairs
    if size <= FEW and sin.shape == cos.shape and _lie_alike(cos, sin):
        memory, first = _memory_of(size), 4 * start * pairs
        numbers = memory.from_address(at[0] + first).raw, memory.from_address(at[1] + first).raw
        given = *numbers, (length, pairs), pairing
        if len(tokens) == 1:
            rotate_x = _rotation((q.dtype, q.shape), *given)
            if rotate_x is not None:
                return (rotate_x(q, False),)
        else:
            rotate_both = _rotation_of_both((q.dtype, q.shape), (k.dtype, k.shape), *given)
            if rotate_both is not None:
                return rotate_both(q, k)
    cos, sin = cos[start : start + length], sin[start : start + length]
    rotated = [_rotate(x, cos, sin, pairing) for x in tokens]
    return None if any(x is None for x in rotated) else rotated


def _lie_alike(cos: Tensor, sin: Tensor) -> bool:
    """Return whether the numbers of both tables are float32 and lie one after the other."""
    return cos.dtype is sin.dtype is torch.float32 and cos.is_contiguous() and sin.is_contiguous()


@cache
def _memory_of(size: int) -> type[Array[c_char]]:
    """Return the class of this many bytes, at most `FEW`; it reads them in half the time of `ctypes.string_at`."""
    return c_char * size


@lru_cache(maxsize=64)
def _rotation_of_both(
    of_q: Kind, of_k: Kind, cos: bytes, sin: bytes, sizes: Sizes, pairing: Pairing
) -> Callable[[Tensor, Tensor], Any] | None:
    """Return what rotates queries and keys of these kinds: together, if they are few and of one batch."""
    rotate_x, rotate_k = _rotation(of_q, cos, sin, sizes, pairing), _rotation(of_k, cos, sin, sizes, pairing)
    if rotate_x is None or rotate_k is None:
        return None
    (dtype, q), (other, k) = of_q, of_k
    is_one = other is dtype and len(q) > 2 and math.prod(q[:-3]) == 1 and k[:-3] == q[:-3] and k[-2:] == q[-2:]
    if not is_one or math.prod(q) + math.prod(k) >= SERIAL:
        return lambda q, k: (rotate_x(q, False), rotate_k(k, False))
    heads = q[-3], k[-3]
    rotate_joined: Any = _rotation((dtype, (*q[:-3], sum(heads), *q[-2:])), cos, sin, sizes, pairing)
    return lambda q, k: rotate_joined(torch.cat((q, k), -3), True).unsafe_split_with_sizes(heads, -3)


@lru_cache(maxsize=64)
def _rotation(kind: Kind, cos: bytes, sin: bytes, sizes: Sizes, pairing: Pairing) -> Rotation | None:
    """Return what rotates tokens of this kind by tables of these float32 numbers; None for many, and for the formula.

    It is kept by the numbers, for the next layers that rotate tokens of the same positions.
    """
    dtype, x = kind
    if dtype not in CAST or math.prod(x) > PART:
        return None
    channels = _channels(x, sizes, sizes, pairing)
    layout, pairs, wide = pairing.split, sizes[-1], torch.float64 if dtype is torch.float64 else torch.float32
    if channels is None or (layout != "half" and dtype is torch.float64):
        return None
    with torch.inference_mode(False):  # factors may meet tokens that have a gradient
        first, second = (
            torch.frombuffer(bytearray(numbers), dtype=torch.float32).view(sizes).to(wide) for numbers in (cos, sin)
        )
        made: Factors = {make: make(first, second) for make in (_of_halves, _of_neighbours, torch.complex)}

    def rotate_part(x: Tensor, is_copy: bool) -> Tensor:
        return _cast(_rotate_part(x, first, second, layout, channels, made, is_copy), dtype).contiguous()

    if layout != "half" or 2 * pairs != x[-1]:
        return rotate_part
    (cosines, sines), narrow = made[_of_halves], CAST[dtype]

    def rotate_x(x: Tensor, is_copy: bool) -> Tensor:
        if dtype is wide:
            return _rotate_halves(x, cosines, sines, pairs, is_copy).contiguous()
        x = x.float()
        swapped = x.roll(pairs, -1)
        return narrow(x.mul_(cosines).add_(swapped.mul_(sines))).contiguous()

    return rotate_x


def _rotate(x: Tensor, cos: Tensor, sin: Tensor, pairing: Pairing) -> Tensor | None:
    """Rotate any number of tokens; many part by part."""
    if not {x.dtype, cos.dtype, sin.dtype} <= CAST.keys():
        return None
    channels = _channels(x.shape, cos.shape, sin.shape, pairing)
    layout, pairs = pairing.split, cos.shape[-1]
    wide = torch.float64 if x.dtype is torch.float64 else torch.float32
    if channels is None or (layout != "half" and wide is torch.float64 and not _rounds_products(x, pairs, wide)):
        return None
    cos, sin = _cast(cos, wide), _cast(sin, wide)
    if x.numel() <= PART:
        return _cast(_rotate_part(x, cos, sin, layout, channels, {}), x.dtype).contiguous()
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
    wide = _cast(x if is_whole else x[..., channels], cos.dtype)
    if layout == "half":
        cosines, sines = _factors(_of_halves, cos, sin, made)
        rotated = _rotate_halves(wide, cosines, sines, cos.shape[-1], is_copy)
    else:
        rotated = _rotate_neighbours(wide, cos, sin, made)
    if is_whole:
        return rotated
    return torch.cat([x[..., : channels.start], _cast(rotated, x.dtype), x[..., channels.stop :]], -1)


def _cast(x: Tensor, dtype: torch.dtype) -> Tensor:
    return x if x.dtype is dtype else CAST[dtype](x)


def _rotate_halves(x: Tensor, cosines: Tensor, sines: Tensor, pairs: int, is_copy: bool) -> Tensor:
    """Rotate all channels of float32 or float64; write to a copy."""
    swapped = x.roll(pairs, -1)
    return (x.mul_(cosines) if is_copy else x * cosines).add_(swapped.mul_(sines))


def _rotate_neighbours(x: Tensor, cos: Tensor, sin: Tensor, made: Factors) -> Tensor:
    """Rotate all channels of float32, or of float64 where complex products round as the formula does."""
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
