"""Interleaved pairs of half precision as words of 32 bits, in compiled code for CPUs.

With AVX2, Inductor computes with every second number one at a time, and with words of 32 bits many at a time. With
AVX-512 it is the other way round.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from .compiled import HAS_AVX512, is_exporting, is_transformed

HALF_PRECISION = (torch.bfloat16, torch.float16)


def are_words_best(x: Tensor, dtype: torch.dtype) -> bool:
    """Return whether interleaved pairs of a dtype are best read from `x`, or made of it, as words."""
    if not torch.compiler.is_compiling() or is_exporting() or x.device.type != "cpu":
        return False
    return dtype in HALF_PRECISION and not HAS_AVX512 and not is_transformed()


class SplitWords(Function):
    """The first and second channels of interleaved pairs, in float32."""

    @staticmethod
    def forward(context: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        context.dtype = x.dtype
        return _split(x)

    @staticmethod
    def backward(context: Any, first: Tensor, second: Tensor) -> Tensor:
        return _join(first, second, context.dtype)


class JoinWords(Function):
    """Interleaved pairs of float32, each number rounded once to half precision."""

    @staticmethod
    def forward(context: Any, first: Tensor, second: Tensor, dtype: torch.dtype) -> Tensor:
        return _join(first, second, dtype)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        return *_split(gradient), None


def _split(x: Tensor) -> tuple[Tensor, Tensor]:
    copy = x.contiguous() * 1.0  # Inductor keeps this product: a tensor may begin at any number, words may not
    words = copy.view(torch.int32)  # the first number is in the lower half
    if x.dtype == torch.bfloat16:
        return (words << 16).view(torch.float32), (words & ~0xFFFF).view(torch.float32)
    return _from_float16(words << 16), _from_float16(words)


def _join(first: Tensor, second: Tensor, dtype: torch.dtype) -> Tensor:
    low, high = (_rounded[dtype](number) for number in (first, second))
    return ((low >> 16 & 0xFFFF) | (high & ~0xFFFF)).view(dtype)


def _from_float16(words: Tensor) -> Tensor:
    """Return in float32 the float16 in the upper half of each word: a product by 2^112 moves its exponent, exactly."""
    moved = words >> 3 & -0x70002000  # sign, exponent and fraction where float32 has them
    number = moved.view(torch.float32) * 2.0**112
    is_special = (moved & 0x0F800000) == 0x0F800000  # infinite, or NaN
    return torch.where(is_special, moved | 0x7F800000, number.view(torch.int32)).view(torch.float32)


def _to_bfloat16(number: Tensor) -> Tensor:
    """Return words whose upper half is the number rounded to nearest even."""
    bits = number.view(torch.int32)
    is_nan = (bits & 0x7FFFFFFF) > 0x7F800000  # `isnan` is computed one number at a time
    return torch.where(is_nan, 0x7FC00000, bits + 0x7FFF + (bits >> 16 & 1))


def _to_float16(number: Tensor) -> Tensor:
    """Return words whose upper half is the number rounded to nearest even."""
    bits = number.view(torch.int32)
    magnitude = bits & 0x7FFFFFFF
    normal = (magnitude - 0x38000000 + 0xFFF + (magnitude >> 13 & 1)) >> 13
    tiny = (magnitude.view(torch.float32) + 0.5).view(torch.int32) - 0x3F000000
    finite = torch.where(magnitude < 0x38800000, tiny, normal)
    special = 0x7C00 + (magnitude > 0x7F800000).to(torch.int32) * 0x200
    return (torch.where(magnitude > 0x477FEFFF, special, finite) << 16) | (bits & ~0x7FFFFFFF)


_rounded = {torch.bfloat16: _to_bfloat16, torch.float16: _to_float16}
