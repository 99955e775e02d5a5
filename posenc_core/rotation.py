"""Rotation: turning each channel pair of queries and keys by the angle of its position."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ._array_api import numpy_kernel as _blocked
from ._array_api.checks import (
    check_alike,
    check_broadcasts,
    check_floating,
    check_integer,
    check_known,
    check_sized,
    write,
)
from ._array_api.kernels import Kernel, kernel_for, register_kernel
from ._array_api.lazy import map_blocks
from ._array_api.namespace import A, Array, in_float32, join_pairs, namespace_of, partners, rounds_parts, split_pairs

Layout: TypeAlias = Literal["interleaved", "half", "interleaved_to_half"]
Placement: TypeAlias = Literal["lead", "trail", "spread"]
LAYOUTS = ("interleaved", "half", "interleaved_to_half")
PLACEMENTS = ("lead", "trail", "spread")
_Pair: TypeAlias = Callable[..., tuple[Any, Any]]


class Pairing(NamedTuple):
    """Which channels form a pair.

    Attributes:
        split: the layout of what comes in.
        join: the layout of what goes out.
        placement: where the channels are that turn.
        blocks: into how many blocks of channels they fall, each paired by itself.
    """

    split: str
    join: str
    placement: str = "lead"
    blocks: int = 1

    @property
    def inverse(self) -> Pairing:
        """The pairing that puts channels back where they were."""
        return self._replace(split=self.join, join=self.split)


def rotate(
    x: A,
    cos: Array,
    sin: Array,
    *,
    layout: Layout,
    placement: Placement = "lead",
    blocks: int = 1,
    out: A | None = None,
) -> A:
    """Rotate each channel pair of `x`; the channels that the table has no column for pass through as they are.

    Args:
        x: queries or keys, shape `(..., length, width)`.
        cos, sin: one column per pair, shape `(..., length, pairs)`, `2 * pairs <= width`.
        layout: which channels form a pair: `"interleaved"` (0, 1), (2, 3), … or `"half"` (i, i + pairs);
            `"interleaved_to_half"` takes the pairs of the first and puts them where the second has them (DeepSeek).
        placement: which channels turn where the table is narrower than `x`: the first (`"lead"`), the last (`"trail"`), or
            the first pairs of the whole width (`"spread"`: in half layout, (i, i + width / 2)).
        blocks: into how many equal blocks the turning channels fall, each with pairs of its own.
        out: an array to write the result to, of the shape and dtype of `x`; `x` itself turns in place.
    Returns:
        Array of the shape and dtype of `x`, or `out`; half precision is rotated in float32 and rounded once.
    Raises:
        TypeError: if `x` is not floating-point, or `out` is of another library or dtype, or cannot be written to.
        ValueError: if the table is wider than `x` or does not broadcast to it, if a word is unknown, if layout,
            placement and blocks do not go together, or if `out` has another shape.
    Source: Su et al. 2021, equation 34 (arXiv:2104.09864). Angles in radians.

    >>> quarter = np.zeros((1, 1)), np.ones((1, 1))
    >>> rotate(np.array([[1.0, 2.0]]), *quarter, layout="interleaved")
    array([[-2.,  1.]])
    """
    return rotate_pairs(x, cos, sin, pairing=pairing_of(layout, placement, blocks), out=out)


def unrotate(
    x: A,
    cos: Array,
    sin: Array,
    *,
    layout: Layout,
    placement: Placement = "lead",
    blocks: int = 1,
    out: A | None = None,
) -> A:
    """Undo `rotate`, by the opposite angle and to the layout before; arguments, result and errors as there.

    Where an attention factor multiplies the table, lengths come back multiplied by its square.

    >>> quarter = np.zeros((1, 1)), np.ones((1, 1))
    >>> unrotate(np.array([[-2.0, 1.0]]), *quarter, layout="interleaved")
    array([[1., 2.]])
    """
    there = pairing_of(layout, placement, blocks)
    return rotate_pairs(x, cos, -sin, pairing=there.inverse, out=out)


def pairing_of(layout: str, placement: str = "lead", blocks: int = 1) -> Pairing:
    """The pairing that these words describe; errors as in `rotate`."""
    check_known("layout", layout, LAYOUTS)
    check_known("placement", placement, PLACEMENTS)
    check_integer("blocks", blocks)
    if placement == "spread" and (blocks > 1 or layout == "interleaved_to_half"):
        raise ValueError(f"`placement` 'spread' goes with one block of one layout, got {layout!r} in {blocks} blocks.")
    split, _, join = layout.partition("_to_")
    return Pairing(split, join or split, placement, blocks)


def rotate_pairs(x: A, cos: Array, sin: Array, *, pairing: Pairing, out: A | None = None) -> A:
    """`rotate`, by a pairing that was checked before."""
    check_floating("x", x)
    if 2 * cos.shape[-1] > x.shape[-1]:
        raise ValueError(
            f"`x` is {x.shape[-1]} wide, but its table turns {2 * cos.shape[-1]} channels; "
            "the encoding's `rotary_dim` must not exceed the width."
        )
    if cos.shape[-1] % pairing.blocks:
        raise ValueError(f"`blocks` must divide the {cos.shape[-1]} pairs, got {pairing.blocks}.")
    for name, array in (("x", x), ("cos", cos), ("sin", sin)):
        check_sized(name, array)
    shape = (*x.shape[:-1], cos.shape[-1])
    check_broadcasts("cos", cos, shape)
    check_broadcasts("sin", sin, cos.shape)
    if out is not None:
        check_alike("out", out, x)
    return turned(x, cos, sin, pairing, out)


def turned(x: A, cos: Array, sin: Array, pairing: Pairing, out: A | None = None) -> A:
    """`rotate_pairs` of what was checked before: by the kernel of its library, if it has one for this, or by the formula."""
    kernel = kernel_for(x)
    by_kernel = None if kernel is None else kernel.rotate(x, cos, sin, pairing, out)
    if by_kernel is not None:
        return by_kernel
    if out is not None:  # where the kernel does not write, or the formula
        return write("out", out, turned(x, cos, sin, pairing))
    return rotate_reference(x, cos, sin, pairing)


rotate_checked = turned


def rotate_reference(x: A, cos: Array, sin: Array, pairing: Pairing) -> A:
    """`turned` by the operators of its library."""
    if rounds_parts(x, pairing.split, pairing.join):
        by_rows = partial(_turned, pairing=pairing, pair=partial(in_float32, _turned_pair))
    else:
        by_rows = partial(in_float32, partial(_turned, pairing=pairing, pair=_turned_pair))
    return map_blocks(by_rows, x, cos, sin)


def _turned(x: Any, cos: Array, sin: Array, *, pairing: Pairing, pair: _Pair) -> Any:
    width, pairs = x.shape[-1], cos.shape[-1]
    if pairing.placement == "spread" and pairing.split == "half":
        middle = width // 2
        first, second = pair(x[..., :pairs], x[..., middle : middle + pairs], cos, sin)
        return _concatenated([first, x[..., pairs:middle], second, x[..., middle + pairs :]])
    start = width - 2 * pairs if pairing.placement == "trail" else 0
    end = start + 2 * pairs
    turned = _turned_blocks(x if 2 * pairs == width else x[..., start:end], cos, sin, pairing, pair)
    before = [x[..., :start]] if start > 0 else []
    after = [x[..., end:]] if end < width else []
    return _concatenated([*before, turned, *after])


def _turned_blocks(x: Array, cos: Array, sin: Array, pairing: Pairing, pair: _Pair) -> Array:
    """Channels that all turn, block by block."""
    if pairing.blocks == 1:
        return _turned_block(x, cos, sin, pairing, pair)
    size = cos.shape[-1] // pairing.blocks
    blocks = []
    for block in range(pairing.blocks):
        columns, channels = slice(block * size, (block + 1) * size), slice(2 * block * size, 2 * (block + 1) * size)
        parts = (x[..., channels], cos[..., columns], sin[..., columns])
        blocks.append(_turned_blocks(*parts, pairing._replace(blocks=1), pair))
    return _concatenated(blocks)


def _turned_block(x: Array, cos: Array, sin: Array, pairing: Pairing, pair: _Pair) -> Array:
    """One block, at once, `x * cos + partners * ±sin`, or its first and its second channels; the products are the same."""
    layout = pairing.join
    others = partners(x, layout) if pairing.split == layout and pair is _turned_pair else None
    if others is not None:
        return x * join_pairs(cos, cos, layout) + others * join_pairs(-sin, sin, layout)
    return join_pairs(*pair(*split_pairs(x, pairing.split), cos, sin), layout)


def _turned_pair(first: Array, second: Array, cos: Array, sin: Array) -> tuple[Array, Array]:
    return first * cos - second * sin, second * cos + first * sin


def _concatenated(parts: list[Array]) -> Array:
    return parts[0] if len(parts) == 1 else namespace_of(parts[0]).concat(parts, axis=-1)


register_kernel(np.ndarray, Kernel(_blocked.supports, _blocked.turned))


class ChannelMap(NamedTuple):
    """What each turned channel is made of, one number per channel, in the order of the channels.

    Attributes:
        width: the number of channels.
        channels: those that turn, ascending.
        source: the channel that each comes from.
        partner: the other channel of its pair.
        column: the column of the table that it turns by.
        sign: of its partner's share: -1 for the first of a pair, 1 for the second.
    """

    width: int
    channels: npt.NDArray[np.int64]
    source: npt.NDArray[np.int64]
    partner: npt.NDArray[np.int64]
    column: npt.NDArray[np.int64]
    sign: npt.NDArray[np.float32]


def channel_map(width: int, pairs: int, pairing: Pairing) -> ChannelMap:
    """A rotation channel by channel: `x[source] * cos[column] + x[partner] * sign * sin[column]`.

    >>> channel_map(6, 2, pairing_of("half")).partner
    array([2, 3, 0, 1])
    """
    first, second = channel_pairs(width, pairs, pairing, pairing.split)
    turned = channel_pairs(width, pairs, pairing, pairing.join).ravel()
    order = np.argsort(turned)
    sign = np.repeat(np.array([-1, 1], np.float32), pairs)
    source, partner = np.r_[first, second][order], np.r_[second, first][order]
    return ChannelMap(width, turned[order], source, partner, order % pairs, sign[order])


def channel_pairs(width: int, pairs: int, pairing: Pairing, layout: str) -> npt.NDArray[np.int64]:
    """The first and the second channel of each pair where they lie in this layout, `(2, pairs)`.

    >>> channel_pairs(6, 2, pairing_of("half", "trail"), "half")
    array([[2, 3],
           [4, 5]])
    """
    size = pairs // pairing.blocks
    block, i = np.divmod(np.arange(pairs), max(size, 1))
    first, second = (2 * i, 2 * i + 1) if layout == "interleaved" else (i, i + size)
    if pairing.placement == "spread" and layout == "half":
        second = i + width // 2
    start = width - 2 * pairs if pairing.placement == "trail" else 0
    return np.stack([first, second]) + start + 2 * size * block
