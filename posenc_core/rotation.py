"""Rotary position embedding (RoPE): rotate each channel pair of queries and keys by the angle of its position."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ._array_api import numpy_kernel
from ._array_api.checks import (
    check_alike,
    check_floating,
    check_integer,
    check_known,
    check_libraries,
    check_sized,
    check_sizes_broadcast,
    is_static,
    shown,
    write,
)
from ._array_api.kernels import kernel_for
from ._array_api.lazy import map_blocks
from ._array_api.namespace import A, Array, Namespace, dtype_name, namespace_of, shape_of

Layout: TypeAlias = Literal["interleaved", "half", "interleaved_to_half"]
Placement: TypeAlias = Literal["lead", "trail", "spread"]
LAYOUTS = ("interleaved", "half", "interleaved_to_half")
PLACEMENTS = ("lead", "trail", "spread")
Sizes: TypeAlias = tuple[Any, ...]  # a size that a tracer does not know is not an integer


class Pairing(NamedTuple):
    """Which channels form a pair.

    Attributes:
        split: the layout of the input.
        join: the layout of the output.
        placement: where the rotated channels are.
        blocks: the number of blocks of rotated channels; pairs lie within a block.
    """

    split: str
    join: str
    placement: str = "lead"
    blocks: int = 1

    @property
    def inverse(self) -> Pairing:
        """The pairing from the output's layout back to the input's."""
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
    """Rotate each channel pair of `x`; channels that are in no pair stay unchanged.

    Args:
        x: queries or keys, shape `(..., length, width)`.
        cos, sin: one column per pair, shape `(..., length, pairs)`, `2 * pairs <= width`.
        layout: which channels form a pair: `"interleaved"` (0, 1), (2, 3), … or `"half"` (i, i + pairs);
            `"interleaved_to_half"` reads pairs of the first layout and writes them in the second (DeepSeek).
        placement: which channels rotate if the table is narrower than `x`: the first (`"lead"`), the last (`"trail"`),
            or the first pairs of the whole width (`"spread"`: in half layout, (i, i + width / 2)).
        blocks: the number of equal blocks of rotated channels; pairs are formed within each block.
        out: an array for the result, of the shape and dtype of `x`; pass `x` itself to rotate in place.
    Returns:
        Array of the shape and dtype of `x`, or `out`; half precision is rotated in float32 and rounded once.
    Raises:
        TypeError: if `x` is not floating-point, a table is not, or is of a library that cannot meet that of `x`, or if
            `out` is of another library or dtype, or cannot be written to.
        ValueError: if the table is wider than `x` or does not broadcast to it, if the tables differ in their columns,
            if `layout` or `placement` is unknown, if layout, placement and blocks cannot be combined, or if `out` has
            another shape.
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
    """Undo `rotate`: rotate by the opposite angle, back to the input's layout; arguments and errors are the same.

    If the table contains an attention factor, the result is multiplied by its square.

    >>> quarter = np.zeros((1, 1)), np.ones((1, 1))
    >>> unrotate(np.array([[-2.0, 1.0]]), *quarter, layout="interleaved")
    array([[1., 2.]])
    """
    pairing = pairing_of(layout, placement, blocks)
    check_floating("sin", sin)
    return rotate_pairs(x, cos, -sin, pairing=pairing.inverse, out=out)


def pairing_of(layout: str, placement: str = "lead", blocks: int = 1) -> Pairing:
    """Return the pairing of these arguments of `rotate`, which raises the same errors."""
    if type(blocks) is int and type(layout) is str and type(placement) is str:
        known = _PAIRINGS.get((layout, placement, blocks))
        if known is not None:
            return known
    check_known("layout", layout, LAYOUTS)
    check_known("placement", placement, PLACEMENTS)
    blocks = check_integer("blocks", blocks)
    if placement == "spread" and (blocks > 1 or layout == "interleaved_to_half"):
        raise ValueError(
            f"`placement` 'spread' goes with one block of one layout, got {shown(layout)} in {blocks} blocks."
        )
    split, _, join = layout.partition("_to_")
    return Pairing(split, join or split, placement, blocks)


_PAIRINGS: dict[tuple[str, str, int], Pairing] = {}  # made before: making one takes a tenth of rotating one token
for _layout, _placement in product(LAYOUTS, PLACEMENTS):
    if (_layout, _placement) != ("interleaved_to_half", "spread"):
        _PAIRINGS[_layout, _placement, 1] = pairing_of(_layout, _placement)


def rotate_pairs(x: A, cos: Array, sin: Array, *, pairing: Pairing, out: A | None = None) -> A:
    """Rotate by a `Pairing`; arguments, result and errors as in `rotate`.

    The kernel of the backend is tried first, because it remembers the shapes that it has checked.
    """
    kernel = kernel_for(x)
    rotated = None if kernel is None else kernel.rotate(x, cos, sin, pairing, out)
    if rotated is not None:
        return rotated
    check_floating("x", x)
    check_sized("x", x)
    for name, table in (("cos", cos), ("sin", sin)):
        check_floating(name, table)
        check_sized(name, table)
    check_sizes(tuple(x.shape), tuple(cos.shape), tuple(sin.shape), pairing)
    if out is not None:
        check_alike("out", out, x)
    try:
        return _rotate_by_operators(x, cos, sin, pairing, out)
    except Exception:
        check_libraries(x, cos=cos, sin=sin)  # only now, as some libraries take arrays of others
        raise


def check_sizes(x: Sizes, cos: Sizes, sin: Sizes, pairing: Pairing) -> None:
    """Raise unless tables of these shapes rotate tokens of the shape `x`."""
    for name, sizes in (("x", x), ("cos", cos), ("sin", sin)):
        if not sizes:
            raise ValueError(f"`{name}` must have at least one axis, got none.")
    pairs = cos[-1]
    if x[-1] is not None and 2 * pairs > x[-1]:
        raise ValueError(
            f"`x` is {x[-1]} wide, but its table rotates {2 * pairs} channels; "
            "the encoding's `rotary_dim` must not exceed the width."
        )
    if pairs % pairing.blocks:
        raise ValueError(f"`blocks` must divide the {pairs} pairs, got {pairing.blocks}.")
    check_sizes_broadcast("cos", cos, (*x[:-1], pairs))
    check_sizes_broadcast("sin", sin, cos)
    if is_static(pairs) and is_static(sin[-1]) and sin[-1] != pairs:
        raise ValueError(f"`sin` must have a column for each of the {pairs} pairs, as `cos` has, got {sin[-1]}.")


def rotate_checked(x: A, cos: Array, sin: Array, pairing: Pairing, out: A | None = None) -> A:
    """Rotate without checks: by a kernel if one supports this call, else by operators; the bits are the same.

    Args:
        x: queries or keys, shape `(..., length, width)`.
        cos, sin: tables that broadcast to `x`, but for the last axis: one column per pair.
        pairing: which channels are pairs.
        out: an array for the result, of the shape and dtype of `x`.
    """
    kernel = kernel_for(x)
    rotated = None if kernel is None else kernel.rotate(x, cos, sin, pairing, out)
    return _rotate_by_operators(x, cos, sin, pairing, out) if rotated is None else rotated


def _rotate_by_operators(x: A, cos: Array, sin: Array, pairing: Pairing, out: A | None) -> Any:
    """Rotate by operators; large NumPy arrays part by part."""
    if type(x) is np.ndarray and numpy_kernel.supports(x, out):
        rotated = numpy_kernel.rotate(x, cos, sin, *pair_slices(x.shape[-1], cos.shape[-1], pairing), out)
        if rotated is not None:
            return rotated
    result = rotate_reference(x, cos, sin, pairing)
    return result if out is None else write("out", out, result)


def rotate_reference(x: A, cos: Array, sin: Array, pairing: Pairing) -> Any:
    """Return `x` rotated by the operators of its library: the reference that every kernel equals bit for bit."""
    xp = namespace_of(x)
    if hasattr(xp, "apply_gufunc"):  # an array in blocks, as of dask
        return map_blocks(partial(rotate_reference, pairing=pairing), x, cos, sin)
    dtype, wide = x.dtype, xp.float32
    if dtype != wide and dtype_name(x) == "float64":
        wide = dtype
    cos = cos if cos.dtype == wide else xp.astype(cos, wide)
    sin = sin if sin.dtype == wide else xp.astype(sin, wide)
    if dtype == wide or _rounds_parts(xp, x, pairing):
        return _rotate_channels(xp, x, cos, sin, pairing)
    return xp.astype(_rotate_channels(xp, xp.astype(x, wide), cos, sin, pairing), dtype)


def _rounds_parts(xp: Namespace, x: Any, pairing: Pairing) -> bool:
    """Return whether the library's compiler does best if each part of a result is rounded before they are joined."""
    rounds_parts = getattr(xp, "rounds_parts", None)
    return rounds_parts is not None and rounds_parts(x, pairing.split, pairing.join)


def _rotate_channels(xp: Namespace, x: Any, cos: Any, sin: Any, pairing: Pairing) -> Any:
    width, pairs = x.shape[-1], cos.shape[-1]
    if pairing.blocks == 1 and 2 * pairs == width:
        return _rotate_block(xp, x, cos, sin, pairing)
    blocks, unrotated = pair_slices(width, pairs, pairing)
    before, after = ([x[..., part]] if part.start < part.stop else [] for part in unrotated)
    if blocks and blocks[0].channels is None:  # one block, whose halves have channels between them
        rotated = _rotate_pair(xp, x[..., blocks[0].first], x[..., blocks[0].second], cos, sin)
        first, second = (part if part.dtype == x.dtype else xp.astype(part, x.dtype) for part in rotated)
        return xp.concat([first, *before, second, *after], axis=-1)
    parts = []
    for block in blocks:
        c, s = (cos, sin) if len(blocks) == 1 else (cos[..., block.columns], sin[..., block.columns])
        parts.append(_rotate_block(xp, x[..., block.channels], c, s, pairing))
    return xp.concat([*before, *parts, *after], axis=-1)


def _rotate_block(xp: Namespace, x: Any, cos: Any, sin: Any, pairing: Pairing) -> Any:
    """Rotate one block of channels, in whole rows if the library's compiler does best with these, else in halves."""
    swap = getattr(xp, "partners", None)
    others = swap(x, pairing.join) if swap is not None and pairing.split == pairing.join else None
    if others is not None and x.dtype == cos.dtype:
        cos, sin = _join_pairs(xp, cos, cos, pairing.join), _join_pairs(xp, -sin, sin, pairing.join)
        return x * cos + others * sin
    split = getattr(xp, "split_pairs", None)  # for libraries where the gradient of a slice is costly
    if split is not None:
        first, second = split(x, pairing.split)
    elif pairing.split == "interleaved":
        first, second = x[..., ::2], x[..., 1::2]
    else:
        middle = x.shape[-1] // 2
        first, second = x[..., :middle], x[..., middle:]
    first, second = _rotate_pair(xp, first, second, cos, sin)
    join = getattr(xp, "join_pairs", None) if pairing.join == "interleaved" else None
    joined = join(first, second, x.dtype) if join is not None else None
    if joined is not None:
        return joined
    if first.dtype != x.dtype:
        first, second = xp.astype(first, x.dtype), xp.astype(second, x.dtype)
    return _join_pairs(xp, first, second, pairing.join)


def _rotate_pair(xp: Namespace, first: Any, second: Any, cos: Any, sin: Any) -> tuple[Any, Any]:
    """Rotate in the dtype of the tables."""
    if first.dtype != cos.dtype:
        first, second = xp.astype(first, cos.dtype), xp.astype(second, cos.dtype)
    return first * cos - second * sin, second * cos + first * sin


def _join_pairs(xp: Namespace, first: Any, second: Any, layout: str) -> Any:
    if layout == "half":
        return xp.concat([first, second], axis=-1)
    *outer, pairs = shape_of(first)
    return xp.reshape(xp.stack([first, second], axis=-1), (*outer, 2 * pairs))


def per_channel(table: A, pairing: Pairing, width: int, still: float) -> Any:
    """Return a table with the column of each pair at both of its channels, in the order of the output.

    Args:
        table: one column per pair, `(..., length, pairs)`.
        pairing: which channels are pairs.
        width: that of the tokens.
        still: the number at channels that are in no pair, where these lie between pairs (placement `"spread"`).
    Returns:
        `(..., length, 2 * pairs)`, only the channels that rotate; `(..., length, width)` for the placement `"spread"`.
    """
    xp = namespace_of(table)
    *outer, pairs = shape_of(table)
    if pairing.placement == "spread" and 2 * pairs < width:
        rest = xp.broadcast_to(xp.full_like(table[..., :1], still), (*outer, width // 2 - pairs))
        table = xp.concat([table, rest], axis=-1)
    if pairing.blocks == 1:
        return _join_pairs(xp, table, table, pairing.join)
    columns = table.shape[-1]
    size = columns // pairing.blocks
    blocks = [table[..., start : start + size] for start in range(0, columns, size)]
    return xp.concat([_join_pairs(xp, block, block, pairing.join) for block in blocks], axis=-1)


class PairSlices(NamedTuple):
    """Slices of the channels of one block of pairs.

    Attributes:
        first, second: the first and the second channels of the pairs in the input.
        to_first, to_second: the same in the output.
        columns: the columns of the table that rotate them.
        channels: all channels of the block, the same in input and output; None if they are not contiguous.
    """

    first: slice
    second: slice
    to_first: slice
    to_second: slice
    columns: slice
    channels: slice | None


def pair_slices(width: int, pairs: int, pairing: Pairing) -> tuple[list[PairSlices], tuple[slice, slice]]:
    """Return the pairs of each block, and the two ranges of channels that stay unchanged.

    All code that depends on the pairs uses this function, so a new placement is added only here.

    >>> blocks, unrotated = pair_slices(6, 2, pairing_of("half", "trail"))
    >>> blocks[0].first, blocks[0].second, unrotated
    (slice(2, 4, None), slice(4, 6, None), (slice(0, 2, None), slice(6, 6, None)))
    """
    size = pairs // pairing.blocks
    if pairing.placement == "spread" and pairing.split == "half":
        middle = width // 2
        first, second = slice(0, pairs), slice(middle, middle + pairs)
        block = PairSlices(first, second, first, second, slice(0, pairs), None)
        return [block], (slice(pairs, middle), slice(middle + pairs, width))
    begin = width - 2 * pairs if pairing.placement == "trail" else 0
    blocks = []
    for start in range(0, pairs, size) if size else ():
        channels = slice(begin + 2 * start, begin + 2 * (start + size))
        ends = (*_halves(channels, pairing.split), *_halves(channels, pairing.join))
        blocks.append(PairSlices(*ends, slice(start, start + size), channels))
    return blocks, (slice(0, begin), slice(begin + 2 * pairs, width))


def _halves(channels: slice, layout: str) -> tuple[slice, slice]:
    """Return the first and the second channels of a block."""
    start, stop = channels.start, channels.stop
    if layout == "interleaved":
        return slice(start, stop, 2), slice(start + 1, stop, 2)
    return slice(start, (start + stop) // 2), slice((start + stop) // 2, stop)


def channel_pairs(width: int, pairs: int, pairing: Pairing, layout: str) -> npt.NDArray[np.int64]:
    """Return the first and the second channel of each pair in this layout, shape `(2, pairs)`.

    >>> channel_pairs(6, 2, pairing_of("half", "trail"), "half")
    array([[2, 3],
           [4, 5]])
    """
    channels, (blocks, _) = np.arange(width), pair_slices(width, pairs, pairing._replace(split=layout, join=layout))
    ends = zip(*((channels[block.first], channels[block.second]) for block in blocks), strict=True)
    return np.stack([np.concatenate(end) for end in ends])
