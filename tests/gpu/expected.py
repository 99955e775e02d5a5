"""Rotations to compare with: by the reference, of rows that NumPy looks up token by token."""

from itertools import pairwise

import numpy as np
import torch

from posenc_core._array_api.namespace import aligned
from posenc_core.rotation import pairing_of, rotate_reference

LENGTH, ROWS, AXES = 5, 9, (0, 2, 1, 0, 2, 1)
DTYPES = {name: getattr(torch, name) for name in ("float32", "bfloat16", "float16", "float64")}
PAIRINGS = [
    (layout, placement, blocks)
    for layout in ("half", "interleaved", "interleaved_to_half")
    for placement, blocks in (("lead", 1), ("lead", 3), ("trail", 1), ("spread", 1))
    if (layout, placement) != ("interleaved_to_half", "spread")
]
FORMS = ("rows", "rows of each batch row", "start", "start of each", "positions", "positions of each", "axes",
         "axes of each", "axes all alike", "packed")  # fmt: skip


def tables(pairs=6, rows=ROWS, seed=0):
    """Return cosines and sines that no angle has: mistakes show."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, pairs, generator=generator), torch.randn(rows, pairs, generator=generator)


def taken(table, rows):
    """Return the rows of these indices, one for each token or for each token and pair; NaN where there is none."""
    rows = np.broadcast_to(np.asarray(rows)[..., None], (*np.shape(rows), table.shape[-1]))
    return by_pair(table, rows)


def by_pair(table, rows):
    found, numbers = np.full(rows.shape, np.nan), table.double().numpy()
    for index, row in np.ndenumerate(rows):
        if 0 <= row < len(numbers):
            found[index] = numbers[row, index[-1]]
    return torch.from_numpy(found).to(table.dtype)


def arguments_of(form, cos, sin, batch=2, length=LENGTH, seed=0, integer=torch.int64):
    """Return the tables and arguments of a call of this form, and the rows that its tokens have."""
    rng, rows = np.random.default_rng(seed), len(cos)

    def drawn(*shape):
        return torch.from_numpy(rng.integers(-2, rows + 2, shape)).to(integer)

    if form == "rows":
        return (cos[:length], sin[:length]), {}, (cos[:length], sin[:length])
    if form == "rows of each batch row":
        by_row = tuple(taken(table, rng.integers(0, rows, (batch, length))) for table in (cos, sin))
        return by_row, {}, by_row
    if form == "start":
        return (cos, sin), {"start": rows - length}, (cos[rows - length :], sin[rows - length :])
    if form == "start of each":
        start = drawn(batch)
        at, given = start[:, None].numpy() + np.arange(length), {"start": start}
    elif form == "positions":
        given = {"positions": drawn(length)}
        at = given["positions"].numpy()
    elif form == "positions of each":
        given = {"positions": drawn(length, batch).T}
        at = given["positions"].numpy()
    elif form == "packed":
        bounds = sorted(rng.integers(0, length + 1, 3))
        cu_seqlens = [0, *bounds]
        at = np.zeros(length, np.int64)
        for begin, end in pairwise(cu_seqlens):
            at[begin:end] = np.arange(end - begin)
        given = {"cu_seqlens": torch.tensor(cu_seqlens, dtype=integer)}
    else:
        axes = tuple((AXES * cos.shape[-1])[: cos.shape[-1]])
        positions = (
            drawn(length) if form == "axes all alike" else drawn(3, *((batch,) if "each" in form else ()), length)
        )
        chosen = np.broadcast_to(positions, (3, length)) if positions.ndim == 1 else positions.numpy()
        at = np.moveaxis(chosen[list(axes)], 0, -1)
        return (cos, sin), {"positions": positions, "axes": axes}, (by_pair(cos, at), by_pair(sin, at))
    return (cos, sin), given, (taken(cos, at), taken(sin, at))


def rotated(x, rows, layout, placement="lead", blocks=1, inverse=False, seq_axis=-2):
    """Return tokens rotated by the reference."""
    pairing, (cos, sin) = pairing_of(layout, placement, blocks), rows
    if inverse:
        pairing, sin = pairing.inverse, -sin
    cos, sin = (aligned(table, x, seq_axis=seq_axis) for table in (cos, sin))
    return rotate_reference(x, cos, sin, pairing)


def same(one, other):
    """Assert that two tensors have the same bits, but for those of NaN."""
    assert one.dtype == other.dtype
    assert one.shape == other.shape
    integers = {2: torch.int16, 4: torch.int32, 8: torch.int64}[one.element_size()]
    nan = one.isnan() & other.isnan()
    different = (one.contiguous().view(integers) != other.contiguous().view(integers)) & ~nan
    assert not different.any(), f"{int(different.sum())} of {one.numel()} differ"


def tokens(name, heads, dtype, batch=2, length=LENGTH, width=15, seed=0):
    """Return tokens of these strides, and the axis of their sequence."""
    numbers = torch.randn(batch, heads, length, 2 * width + 3, generator=torch.Generator().manual_seed(seed + heads))
    numbers = numbers.to(dtype)
    if name == "BHSD":
        return numbers[..., :width].contiguous(), -2
    if name == "BSHD seen as BHSD":
        return numbers.transpose(1, 2).contiguous().transpose(1, 2)[..., 2 : 2 + width], -2
    if name == "BSHD":
        return numbers.transpose(1, 2)[..., 1 : 1 + width], -3
    if name == "THD":
        return numbers[0].transpose(0, 1)[..., :width], -3
    if name == "channels first":
        return numbers[..., :width].transpose(-1, -2).contiguous().transpose(-1, -2), -2
    return numbers[:1, ..., : 2 * width : 2].expand(batch, -1, -1, -1), -2  # "step 2, expanded"


STRIDES = ("BHSD", "BSHD seen as BHSD", "BSHD", "THD", "channels first", "step 2, expanded")
