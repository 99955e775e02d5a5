"""Convert what a trained model has stored: projection weights, cached keys, and the matrices of FoPE."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from .._array_api.checks import check_even, check_floating, check_integer, check_known, check_rank, check_width, shown
from .._array_api.namespace import A, Array, Namespace, aligned, beside, dtype_name, namespace_of, shape_of
from ..encodings import FoPE, RotaryEncoding
from ..layers.inputs import batch_size, check_positions, sequence_axis
from ..positions.sequences import LIMIT, from_array
from ..rotation import LAYOUTS, PLACEMENTS, Layout, Placement, pair_slices, pairing_of, rotate_pairs
from ..tables.sincos import Table

Positions = npt.NDArray[Any]


def relayout(
    weight: A,
    *,
    head_dim: int,
    source: Layout = "interleaved",
    target: Layout = "half",
    rotary_dim: int | None = None,
    placement: Placement = "lead",
    axis: int = 0,
) -> A:
    """Reorder the output channels of a query or key projection, so that `target` does with them what `source` did.

    A model that rotates in layout `target` then gives the attention scores of one that rotates in layout `source`.
    Queries and keys both need it; each has as many heads as its size says. It serves for weights and biases, for the
    weights of a norm of queries or keys, and for the B of a LoRA; its A stays as it is. Exchange `source` and `target`
    for the way back.

    Args:
        weight: what is stored along the output channels of `heads * head_dim`: `(heads * head_dim, in)` or
            `(heads * head_dim,)`, or `(head_dim,)` for a norm of each head.
        head_dim: width of one head.
        source: the layout that the model was trained with; `"interleaved_to_half"` takes weights as `"interleaved"`
            does.
        target: the layout to rotate in from now on.
        rotary_dim: how many channels of each head turn; all of them by default.
        placement: which of them turn. Only these are reordered, but for `"spread"`: there all pairs of the head are.
        axis: the axis of the output channels; the first by default, the last where weights are stored as `(in, out)`.
    Returns:
        Array of the shape and dtype of `weight`.
    Raises:
        TypeError: if `weight` is not an array.
        ValueError: if the size of `axis` is not a multiple of `head_dim`, if `rotary_dim` is odd or exceeds
            `head_dim`, or if a word is unknown.
    Source: Su et al. 2021, equation 34 (arXiv:2104.09864): scores are sums over pairs, wherever a pair stands.

    >>> relayout(np.array([0, 1, 2, 3, 10, 11, 12, 13]), head_dim=4)
    array([ 0,  2,  1,  3, 10, 12, 11, 13])
    """
    for name, layout in (("source", source), ("target", target)):
        check_known(name, layout, LAYOUTS)
    head_dim = check_integer("head_dim", head_dim)
    rotary = _rotary_channels(head_dim, rotary_dim, placement)
    sizes, axis = _checked_sizes(weight, head_dim, axis)
    before, after = (layout.partition("_to_")[0] for layout in (source, target))
    if before == after:
        return weight
    xp = namespace_of(weight)
    heads = xp.reshape(weight, (prod(sizes[: axis + 1]) // head_dim, head_dim, prod(sizes[axis + 1 :])))
    exchanged = _exchanged(heads[:, rotary, :], xp, inner=2 if before == "interleaved" else _count(rotary) // 2)
    ends = (slice(0, rotary.start), slice(rotary.stop, head_dim))
    first, last = ([heads[:, end, :]] if _count(end) else [] for end in ends)
    return xp.reshape(xp.concat([*first, exchanged, *last], axis=1), sizes)


def _rotary_channels(head_dim: int, rotary_dim: int | None, placement: str) -> slice:
    """Return the channels of a head that are reordered."""
    check_known("placement", placement, PLACEMENTS)
    if rotary_dim is not None:
        rotary_dim = check_even("rotary_dim", rotary_dim)
        if rotary_dim > head_dim:
            raise ValueError(f"`rotary_dim` must not exceed `head_dim` {head_dim}, got {rotary_dim}.")
    width = head_dim if rotary_dim is None or placement == "spread" else rotary_dim
    if width == head_dim:
        check_even("head_dim", head_dim)
    (block,), _ = pair_slices(head_dim, width // 2, pairing_of("half", placement))
    return slice(block.first.start, block.second.stop)


def _checked_sizes(weight: Array, head_dim: int, axis: int) -> tuple[tuple[int, ...], int]:
    check_rank("weight", weight, minimum=1, axes="(heads * head_dim, ...)")
    sizes, rank = shape_of(weight), len(weight.shape)
    axis = check_integer("axis", axis, minimum=-rank)
    if axis >= rank:
        raise ValueError(f"`axis` must be an axis of `weight`, got {axis} for {rank} axes.")
    if sizes[axis] % head_dim:
        raise ValueError(f"`weight` must have a multiple of `head_dim` {head_dim} channels, got shape {sizes}.")
    return sizes, axis % rank


def _count(channels: slice) -> int:
    return channels.stop - channels.start


def _exchanged(channels: Array, xp: Namespace, *, inner: int) -> Array:
    """Channels as rows of `inner` ones, read by columns: `(heads, channels, rest)`."""
    heads, count, rest = shape_of(channels)
    rows = xp.reshape(channels, (heads, count // inner, inner, rest))
    return xp.reshape(xp.permute_dims(rows, (0, 2, 1, 3)), (heads, count, rest))


def rerotate(
    keys: A,
    from_positions: Any,
    to_positions: Any,
    *,
    rotary: RotaryEncoding,
    to_rotary: RotaryEncoding | None = None,
    seq_axis: int = -2,
) -> A:
    """Move cached keys to other positions, or from one encoding to another, by the difference of the angles alone.

    This shifts a cache whose oldest tokens were dropped. It also converts a cache at the length where LongRoPE or
    dynamic NTK change their frequencies: `rotary.at(4096)` and `rotary.at(4097)` are the two encodings.

    Args:
        keys: rotated keys, `(batch, heads, length, head_dim)` or any other shape that `seq_axis` describes.
        from_positions: their positions, `(length,)` or `(batch, length)`: numbers that NumPy can read; for an encoding
            of several axes `(axes, length)` or `(axes, batch, length)`.
        to_positions: their new positions.
        rotary: the encoding that rotated them.
        to_rotary: the encoding to rotate them by; the same by default.
        seq_axis: the axis of the sequence.
    Returns:
        Array of the shape and dtype of `keys`; half precision is rotated in float32 and rounded once.
    Raises:
        TypeError: if an encoding is not rotary, or `keys` are not floating-point.
        ValueError: if positions do not fit the keys, or the two encodings do not rotate the same pairs in one
            direction.
    Source: Su et al. 2021, equation 34 (arXiv:2104.09864): rotations by two angles are one by their sum.

    >>> from posenc_core import Rotary
    >>> rotary = Rotary(head_dim=2, layout="half")
    >>> rerotate(np.array([[0.0, 1.0]]), [7], [6], rotary=rotary).round(6)
    array([[0.841471, 0.540302]])
    """
    to_rotary = rotary if to_rotary is None else to_rotary
    _check_encodings(rotary, to_rotary)
    _check_keys(keys, rotary.head_dim, seq_axis)
    old = _checked_positions("from_positions", from_positions, rotary, keys, seq_axis)
    new = _checked_positions("to_positions", to_positions, to_rotary, keys, seq_axis)
    xp = namespace_of(keys)
    tables = (xp.asarray(table, **beside(keys)) for table in _between(rotary, old, to_rotary, new))
    cos, sin = (aligned(table, keys, seq_axis=seq_axis) for table in tables)
    pairing = rotary.pairing
    return rotate_pairs(keys, cos, sin, pairing=pairing._replace(split=pairing.join))


def _check_encodings(rotary: RotaryEncoding, to_rotary: RotaryEncoding) -> None:
    for name, encoding in (("rotary", rotary), ("to_rotary", to_rotary)):
        if not isinstance(encoding, RotaryEncoding):
            raise TypeError(f"`{name}` must be a rotary encoding, got {shown(encoding)}.")
        if encoding.computes_rows or encoding.mixes_rows:
            raise TypeError(
                f"`{name}` must have frequencies of its own, but only a layer has what {shown(encoding)} learned."
            )
    old, new = ((e.head_dim, e.rotary_channels, e.pairs, e.pairing, e.direction) for e in (rotary, to_rotary))
    if old != new:
        raise ValueError(
            "`to_rotary` must turn the same pairs of channels the same way round as `rotary` (head_dim, rotary_dim, "
            f"layout, placement, direction), got {shown(to_rotary)} and {shown(rotary)}."
        )


def _check_keys(keys: Array, head_dim: int, seq_axis: int) -> None:
    check_rank("keys", keys, minimum=2, axes="(..., length, head_dim)")
    check_width("keys", keys, head_dim)
    check_floating("keys", keys)
    check_integer("seq_axis", seq_axis, minimum=-len(keys.shape))
    sequence_axis(keys, seq_axis, name="keys")


def _checked_positions(name: str, given: Any, rotary: RotaryEncoding, keys: Array, seq_axis: int) -> Positions:
    positions = from_array(given)
    by_axis = rotary.num_axes > 1 and positions.ndim > 1
    batch = batch_size(keys, seq_axis % len(keys.shape))
    check_positions(name, positions[0] if by_axis else positions, (keys.shape[seq_axis],), batch)
    return positions


def _between(rotary: RotaryEncoding, old: Positions, to_rotary: RotaryEncoding, new: Positions) -> list[Table]:
    """Return cosine and sine that rotate keys of one encoding and positions into those of the other."""
    if rotary == to_rotary and rotary.precision == "exact" and not rotary.keys_differ:
        tables = [table / rotary.attention_factors for table in _key_tables(rotary, _difference(new, old))]
    else:
        (cos, sin), (to_cos, to_sin) = _key_tables(rotary, old), _key_tables(to_rotary, new)
        size = cos * cos + sin * sin  # keys were rotated by these rounded tables, so these are inverted
        tables = [(to_cos * cos + to_sin * sin) / size, (to_sin * cos - to_cos * sin) / size]
    return [table.astype(np.float32) for table in tables]


def _difference(new: Positions, old: Positions) -> Positions:
    """Return by how much each token moves; positions without a batch are the same for all its rows."""
    if new.ndim != old.ndim and min(new.ndim, old.ndim) == 2:  # on several axes, which come first
        new, old = (positions[:, None] if positions.ndim == 2 else positions for positions in (new, old))
    distance = new - old
    if distance.size and np.abs(distance).max() >= LIMIT:
        raise ValueError(f"`to_positions` must be less than 2**31 from `from_positions`, got {np.abs(distance).max()}.")
    return distance


def _key_tables(rotary: RotaryEncoding, positions: Positions) -> list[npt.NDArray[np.float64]]:
    """Return the tables for keys: the last ones of `rows`, where queries have others."""
    tables = rotary.cos_sin(positions) if rotary.num_axes > 1 else list(rotary.rows(positions).values())[-2:]
    return [table.astype(np.float64) for table in tables]


def fope_mixing(coefficients: A, *, encoding: FoPE) -> A:
    """Return the matrix that a layer with `FoPE` learns, of the one that a checkpoint has: less the identity.

    `cos_mixing` of a layer is that of `cos_coef`, `sin_mixing` that of `sin_coef`.

    Args:
        coefficients: `cos_coef` or `sin_coef`, `(terms, terms)`, or `(heads, terms, terms)` with `num_heads`.
        encoding: the encoding of the layer, as `load_rope` reads it from the config of the checkpoint.
    Returns:
        Array of the shape of `coefficients`: float64 of float64, float32 of all other dtypes.
    Raises:
        TypeError: if `coefficients` is not a floating-point array, or `encoding` is not `FoPE`.
        ValueError: if the shape is not that of the encoding.
    Source: the program of Intern-S1-Pro and that of Hua et al. 2024 (arXiv:2412.17739), where matrices start at the
        identity, and row i says how much of frequency i each pair has.

    >>> from posenc_core import FoPE
    >>> fope_mixing(np.array([[1.0, 0.5], [0.0, 0.75]]), encoding=FoPE(head_dim=8, layout="half", num_terms=2))
    array([[ 0.  ,  0.5 ],
           [ 0.  , -0.25]])
    """
    if not isinstance(encoding, FoPE):
        raise TypeError(f"`encoding` must be FoPE, got {shown(encoding)}.")
    check_floating("coefficients", coefficients)
    shape = encoding.parameters()["cos_mixing"].shape
    if shape_of(coefficients) != shape:
        raise ValueError(f"`coefficients` must have shape {shape} for {shown(encoding)}, got {shape_of(coefficients)}.")
    xp = namespace_of(coefficients)
    wide = coefficients if dtype_name(coefficients) == "float64" else xp.astype(coefficients, xp.float32)
    identity = xp.asarray(np.eye(encoding.terms), **beside(coefficients))
    return wide - xp.astype(identity, wide.dtype)
